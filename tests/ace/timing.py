# SPDX-License-Identifier: Apache-2.0
"""Timing options for tests: all cuts, and each alone."""

from dataclasses import replace

from hw.ace.config import TINY
from hw.ace.timing import AceTimingOptions

__all__ = ["ECP5", "each_alone", "ecp5"]


def ecp5(config):
    """``config`` with all cuts."""
    return replace(config, timing=AceTimingOptions.all())


def each_alone(config, *names):
    """For each named option, ``config`` with that cut and no other."""
    return {name: replace(config, timing=AceTimingOptions(**{name: True})) for name in names}


ECP5 = ecp5(TINY)
