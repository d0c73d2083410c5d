# SPDX-License-Identifier: Apache-2.0
"""Small cards with every width of the hard block, for quick builds."""

from dataclasses import replace

from hw.ace import config as ace
from hw.card.config import CardConfig
from hw.endpoint.config import EndpointConfig
from sim.pcie.dma_card import small_dma

__all__ = ["small", "small_dma"]


def small(data_width, *, two_clocks=False):
    """A card with small tables and the smallest accelerator of a data width."""
    engine, _ = small_dma(data_width)
    collectives = replace(
        ace.TINY, data_width=data_width, lanes=1, fsms=2, slots=2, dimensions=1, prod=False, fp8=False, avg=False,
        widen=False, varying=False, counters=False, link_channels=2, packet_bytes=256)
    config = CardConfig.of(EndpointConfig(dma=engine, ace=collectives, exports=2, puts=4), tags=64, reorder_slots=8,
                           vectors=8)
    return config.with_two_clocks() if two_clocks else config
