# SPDX-License-Identifier: Apache-2.0
"""``sim.dma.compare`` on `tiny` with one timing option alone; run inside the simulator.

A preset ``tiny+NAME`` is added for each option.
"""

import os
from dataclasses import replace

from hw.dma_engine.config import PRESETS, TINY
from hw.dma_engine.timing import DmaTimingOptions
from sim.dma.compare import compare

__all__ = ["compare", "each_alone"]


def each_alone():
    """``tiny+NAME`` for each option: that cut and no other."""
    return {f"tiny+{name}": replace(TINY, timing=DmaTimingOptions(**{name: True}))
            for name in DmaTimingOptions.names()}


if "DMACE_RUN" in os.environ:
    PRESETS.update(each_alone())
