# SPDX-License-Identifier: Apache-2.0
"""Sizes of a card, validated once, and its presets: an endpoint and the PCIe adapter in front of it."""

from dataclasses import dataclass, replace

from hw.ace import config as ace
from hw.ace.timing import AceTimingOptions
from hw.dma_engine import config as dma
from hw.dma_engine.timing import DmaTimingOptions
from hw.endpoint.config import EndpointConfig
from hw.pcie.config import PcieConfig

__all__ = ["BASE", "CARD", "PRESETS", "TINY", "WIDE", "WORD_INTERVAL", "CardConfig"]


@dataclass(frozen=True, kw_only=True)
class CardConfig:
    """Sizes of one card.

    Parameters
    ----------
    endpoint : EndpointConfig
        Segments of the DMA engine should not be longer than ``read_bytes`` of the adapter: each is one read request
        then, and its data passes without being stored.
    pcie : PcieConfig
        Same data width, widths of IDs and doorbell addresses, and number of queues as the endpoint; :meth:`of` derives
        them.

    Raises
    ------
    ValueError
        If a width or the number of queues differs.
    """

    endpoint: EndpointConfig
    pcie: PcieConfig

    def __post_init__(self) -> None:
        if not isinstance(self.endpoint, EndpointConfig) or not isinstance(self.pcie, PcieConfig):
            raise TypeError(f"A card needs an EndpointConfig and a PcieConfig, not {self.endpoint!r} and {self.pcie!r}")
        for name in ("data_width", "axi_id_width", "doorbell_addr_width", "doorbell_id_width", "queues"):
            theirs = self.endpoint.dma.queues if name == "queues" else getattr(self.endpoint, name)
            ours = getattr(self.pcie, name)
            if ours != theirs:
                raise ValueError(f"{name} of the adapter must be the endpoint's, {theirs}, not {ours}")

    @classmethod
    def of(cls, endpoint: EndpointConfig, *, tags: int = 256, reorder_slots: int = 64,
           vectors: int = 32) -> "CardConfig":
        """A card with an adapter that fits the endpoint."""
        return cls(endpoint=endpoint, pcie=PcieConfig(
            data_width=endpoint.data_width, axi_id_width=endpoint.axi_id_width,
            doorbell_addr_width=endpoint.doorbell_addr_width, doorbell_id_width=endpoint.doorbell_id_width,
            tags=tags, reorder_slots=reorder_slots, vectors=vectors, queues=endpoint.dma.queues))

    def with_two_clocks(self) -> "CardConfig":
        """The same card with a clock of its own for the endpoint."""
        return replace(self, pcie=replace(self.pcie, two_clocks=True))


WORD_INTERVAL = 8
"""Cycles per completion word of the DMA engine. With 512 bits a word takes half a beat of RQ, or a whole one behind a
write that ends in a second half: all together take at most an eighth."""

_TINY_DMA = replace(dma.TINY, data_width=128, segment_bytes=512, word_interval=WORD_INTERVAL)
_TINY_ACE = replace(ace.TINY, data_width=128, lanes=2, link_channels=2)

TINY = CardConfig.of(EndpointConfig(dma=_TINY_DMA, ace=_TINY_ACE, exports=4, puts=32), tags=32, reorder_slots=8,
                     vectors=8)
"""128 bits: Gen3 x4."""

BASE = CardConfig.of(EndpointConfig(dma=replace(dma.BASE, segment_bytes=512, word_interval=WORD_INTERVAL),
                                    ace=replace(ace.BASE, link_channels=2)), tags=128, reorder_slots=32, vectors=16)
"""256 bits: Gen3 x8."""

WIDE = CardConfig.of(EndpointConfig(dma=replace(dma.WIDE, segment_bytes=512, word_interval=WORD_INTERVAL),
                                    ace=replace(ace.WIDE, link_channels=2), exports=32, puts=256))
"""512 bits: Gen3 x16 or Gen4 x8."""

CARD = replace(WIDE, endpoint=replace(WIDE.endpoint, dma=replace(WIDE.endpoint.dma, timing=DmaTimingOptions.all()),
                                      ace=replace(WIDE.endpoint.ace, timing=AceTimingOptions.all())))
"""WIDE with all timing options, for a clock of 250 MHz."""

PRESETS = {"tiny": TINY, "base": BASE, "wide": WIDE, "card": CARD}
