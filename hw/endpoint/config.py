# SPDX-License-Identifier: Apache-2.0
"""Sizes of an endpoint, validated once, and the three named presets."""

from dataclasses import dataclass, replace

from hw.ace import config as ace
from hw.dma_engine import config as dma
from hw.rdma.config import RdmaConfig
from hw.triggers.config import TriggerConfig

__all__ = ["BASE", "PRESETS", "TINY", "WIDE", "EndpointConfig", "remote_address"]

ADDR_WIDTH = 64

MANAGERS = ("dma", "ace", "put", "rdma")
"""Managers of the memory port; a manager's number is the prefix of its IDs on ``m_axi``. The last one is optional."""

READERS = ("dma", "ace", "rdma")
"""Those that read."""

MANAGER_BITS = (len(MANAGERS) - 1).bit_length()

WEIGHT_WIDTH = 4

EXPORT_WIDTH = 5
"""Bits of an exported span's number in a packet."""

REMOTE_OFFSET_WIDTH = 32
"""Bits of a byte offset in an exported span."""


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """Sizes of one endpoint: a DMA engine and a collectives accelerator on one memory port.

    Parameters
    ----------
    dma : DmaConfig
    ace : AceConfig
        Same data width as the DMA engine; two channels per link, of which the second carries puts.
    exports : int
        Spans of local memory that neighbours may write; power of two, 2 to 32.
    puts : int
        Maximum of writes to a neighbour in flight at a port; power of two, 2 to 512, equal on both ends of a link.
        Choose the number of the DMA engine's segments that are sent within one round trip.
    trigger_blocks : int
        Blocks of 64 trigger counters; power of two, 2 to 8. As many as tenants that use triggers.
    pipelined : bool
        More registers, for slow FPGAs: ``pipelined`` of :class:`TriggerConfig`; and a cycle more for ticks of requests
        of this endpoint, and for puts that are written to memory.
    rdma : RdmaConfig or None
        RoCEv2 unit with an Ethernet port; its data width is that of the engines, and its IDs have ``source_id_width``
        bits.
    """

    dma: dma.DmaConfig
    ace: ace.AceConfig
    exports: int = 16
    puts: int = 64
    trigger_blocks: int = 4
    pipelined: bool = False
    rdma: RdmaConfig | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.dma, dma.DmaConfig) or not isinstance(self.ace, ace.AceConfig):
            raise TypeError(f"An endpoint needs a DmaConfig and an AceConfig, not {self.dma!r} and {self.ace!r}")
        if self.dma.data_width != self.ace.data_width:
            raise ValueError("DMA engine and accelerator share a memory port and must have one data width, "
                             f"not {self.dma.data_width} and {self.ace.data_width}")
        if self.ace.address_width != ADDR_WIDTH:
            raise ValueError(f"The accelerator's addresses must have the {ADDR_WIDTH} bits of the DMA engine's, "
                             f"not {self.ace.address_width}")
        if self.ace.link_channels != 2:
            raise ValueError("The accelerator's links must have 2 channels, one of them for puts, "
                             f"not {self.ace.link_channels}")
        for name, high in (("exports", 1 << EXPORT_WIDTH), ("puts", 512)):
            value = getattr(self, name)
            if type(value) is not int or not 2 <= value <= high or value & (value - 1):
                raise ValueError(f"{name} must be a power of two from 2 to {high}, not {value!r}")
        _ = self.triggers   # refuses sizes out of range
        if self.rdma is None:
            return
        if not isinstance(self.rdma, RdmaConfig):
            raise TypeError(f"rdma must be an RdmaConfig or None, not {self.rdma!r}")
        for name, value in (("data_width", self.data_width), ("id_width", self.source_id_width)):
            if getattr(self.rdma, name) != value:
                raise ValueError(f"{name} of the RoCEv2 unit must be {value}, as in the other engines, "
                                 f"not {getattr(self.rdma, name)}")

    @property
    def triggers(self) -> TriggerConfig:
        return TriggerConfig(blocks=self.trigger_blocks, dma_pages=self.dma.queues, ace_pages=self.ace.queues,
                             doorbell_id_width=self.doorbell_id_width, pipelined=self.pipelined)

    @property
    def data_width(self) -> int:
        return self.dma.data_width

    @property
    def beat_bytes(self) -> int:
        return self.dma.beat_bytes

    @property
    def lane_bits(self) -> int:
        """Bits of a byte position inside a beat."""
        return self.dma.lane_bits

    @property
    def export_bits(self) -> int:
        return (self.exports - 1).bit_length()

    @property
    def packet_beats(self) -> int:
        """Payload beats of the longest put packet, which is as long as the accelerator's longest."""
        return self.ace.packet_beats

    @property
    def ports(self) -> int:
        return self.ace.ports

    @property
    def managers(self) -> tuple[str, ...]:
        """Managers of the memory port, by number."""
        return MANAGERS if self.rdma else MANAGERS[:-1]

    @property
    def readers(self) -> tuple[str, ...]:
        """Those of them that read."""
        return READERS if self.rdma else READERS[:-1]

    def with_rdma(self, sizes: RdmaConfig) -> "EndpointConfig":
        """This configuration with a RoCEv2 unit of these sizes, whose widths become those of the endpoint."""
        return replace(self, rdma=replace(sizes, data_width=self.data_width, id_width=self.source_id_width))

    @property
    def source_id_width(self) -> int:
        """Bits of the longest ID of a manager."""
        return max(self.dma.axi_id_width, (self.ports - 1).bit_length())

    @property
    def axi_id_width(self) -> int:
        """``m_axi`` ID bits: the manager's number as a prefix, then the manager's own ID."""
        return MANAGER_BITS + self.source_id_width

    @property
    def doorbell_id_width(self) -> int:
        return min(self.dma.doorbell_id_width, self.ace.doorbell_id_width)

    @property
    def doorbell_addr_width(self) -> int:
        """Bits of ``s_axi_db`` addresses: pages of the DMA engine, of the accelerator, and of the trigger counters."""
        return 12 + (self.triggers.pages + 2 * self.trigger_blocks - 1).bit_length()


REMOTE_PORT_LSB, REMOTE_EXPORT_LSB, REMOTE_BIT = 60, 52, 63
"""Fields of an address in a neighbour's memory: lowest bit of the port, lowest bit of the exported span's number, and
the bit that is 1 in remote addresses only."""


def remote_address(port: int, export: int, offset: int = 0) -> int:
    """Address of a byte of span ``export`` of the neighbour at ``port``, in the form of region and queue tables."""
    if not 0 <= offset < 1 << REMOTE_OFFSET_WIDTH:
        raise ValueError(f"An offset in an exported span must be less than 2 ** {REMOTE_OFFSET_WIDTH}, not {offset:#x}")
    return 1 << REMOTE_BIT | port << REMOTE_PORT_LSB | export << REMOTE_EXPORT_LSB | offset


TINY = EndpointConfig(dma=dma.TINY, ace=replace(ace.TINY, link_channels=2), exports=4, puts=32,
                      trigger_blocks=2)
BASE = EndpointConfig(dma=dma.BASE, ace=replace(ace.BASE, link_channels=2))
WIDE = EndpointConfig(dma=dma.WIDE, ace=replace(ace.WIDE, link_channels=2), exports=32, puts=256,
                      trigger_blocks=8)

PRESETS = {"tiny": TINY, "base": BASE, "wide": WIDE}
