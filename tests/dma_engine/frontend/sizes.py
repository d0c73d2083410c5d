# SPDX-License-Identifier: Apache-2.0
"""The smallest engine, for tests of single stages."""

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.timing import DmaTimingOptions

__all__ = ["SMALL", "SMALL_REGISTERED"]

SIZES = {"data_width": 64, "queues": 4, "queue_depth": 4, "entries": 32, "window": 4, "regions": 4, "pages": 8,
         "tags": 8, "buffer_beats": 16, "segment_bytes": 32, "extended": 2, "ring_depth": 4, "connections": 2}
SMALL = DmaConfig(**SIZES)
SMALL_REGISTERED = DmaConfig(**SIZES, timing=DmaTimingOptions.all())
