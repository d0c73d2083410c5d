# SPDX-License-Identifier: Apache-2.0
"""The fast harness of an engine, described and looked for once per process."""

from functools import cache

from sim.cpp import build_harness

__all__ = ["fast"]

fast = cache(build_harness)
