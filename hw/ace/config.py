# SPDX-License-Identifier: Apache-2.0
"""Sizes of a collectives accelerator, validated once, and the three named presets.

Every width that a component needs is a property here, so that hardware, model, driver and tests agree.
"""

from dataclasses import dataclass, field

from hw.common.sizes import ADDR_WIDTH, is_integer, is_power_of_two

from .collectives import DIRECTORY_WIDTH
from .timing import AceTimingOptions

__all__ = [
    "BASE", "COLUMN_BYTES", "COUNT_WIDTH", "DIMENSIONS", "LINK_CREDIT_WIDTH", "LINK_HIGH_WIDTH", "LINK_SEQUENCE_WIDTH",
    "LINK_SESSION_WIDTH", "MAX_RANKS", "OFFSET_WIDTH", "PHASES", "POSITION_WIDTH", "PRESETS", "ROOT_WIDTH",
    "SEQUENCE_WIDTH", "STEP_WIDTH", "TINY", "WIDE", "WIRE_HEADER_BYTES", "AceConfig",
]

DIMENSIONS = 3
"""Of the largest torus; an accelerator has a port to each side of each of its own."""

PHASES = 4
"""Ring passes of one program at most."""

MAX_RANKS = 128

COLUMN_BYTES = 64
"""Shards, halves and pieces are cut at multiples of this many bytes, whatever the width of the engine: else the order
of additions would depend on it."""

COUNT_WIDTH = 28
OFFSET_WIDTH = 28
ROOT_WIDTH = 8
"""Of a command's fields; counts and offsets are in elements."""

SEQUENCE_WIDTH = 16
"""Of a chunk's number within its communicator, which wraps."""

POSITION_WIDTH = 9
"""Of a piece's place in a slot, counted in pieces: 3 * MAX_RANKS fit."""

EXTENT_ALIGNMENT = 16
"""A command names the first row of its extents as a multiple of this."""

STEP_WIDTH = 12
"""Of the number of a phase's sends and receives."""

LENGTH_WIDTH = 38
"""Of a number of bytes that a command names: 2 ** 28 elements of 4 bytes for each of 128 ranks, and one bit more."""

WIRE_HEADER_BYTES = 16
"""What a packet takes on a link besides its payload: header, sequence number, credits and CRC."""

LINK_SEQUENCE_WIDTH = 9
"""Of the part of a packet's number that travels on a link; half as many may wait for their acknowledgement."""

LINK_HIGH_WIDTH = 8
"""Of the part above it, which does not travel but counts in the CRC; the whole number wraps."""

LINK_SESSION_WIDTH = 8
"""Of the number of a link's session, that is of the time from one handshake to the next, which wraps."""

LINK_CREDIT_WIDTH = 13
"""Of beats that were taken out of a receive buffer, modulo twice the longest one."""


@dataclass(frozen=True, kw_only=True)
class AceConfig:
    """Sizes of one collectives accelerator.

    Parameters
    ----------
    data_width : int
        Bits of a beat: of ``m_axi``, of a word of the SRAM and of a link in one cycle; 64, 128, 256 or 512.
    lanes : int
        32-bit ALU lanes; as many as a beat has words, or fewer by a power of two. With fewer, a beat that is reduced
        takes longer.
    prod : bool
        Products, as NCCL has them: four multipliers of 16 by 16 bits in each lane, and half as many LUTs more. Without,
        commands that ask for them are malformed.
    fp8 : bool
        FP8 of all kinds: two narrow adders more in each lane. Without, commands of these types are malformed.
    avg : bool
        Averages: a divider of 20 stages for each word of a beat. Without, commands that ask for them are malformed.
    widen : bool
        16-bit floats and FP8 that are FP32 in the SRAM and on the links: a converter each way for each word of a beat.
        Without, commands with ``widen`` are malformed.
    varying : bool
        The v-variants, whose parts differ in length, and the extents table. Without, commands that are VARYING are
        malformed.
    counters : bool
        Of events, in the accelerator and its links. Without, they read as 0.
    dimensions : int
        Of the torus that it has ports for: 1, a ring, to 3.
    address_width : int
        Bits of addresses on ``m_axi``, 32 to 64. Of a region's base and of a completion word's address the bits above
        do not count.
    fsms : int
        Chunks that are under way on the links at a time; power of two, 2 to 32.
    slots : int
        Chunks that the SRAM holds: those under way, being read and being written; power of two, from ``fsms`` to 64.
    chunk_bytes : int
        Longest chunk, and so the length of a slot; power of two, 1 KiB to 64 KiB.
    message_bytes : int
        Bytes that one chunk may send before an older one has its turn on the ports; power of two, from a packet to a
        chunk.
    packet_bytes : int
        Longest payload of a packet; power of two, 64 to 1024, and a multiple of a beat.
    link_beats : int
        Beats that the receiver of a link has room for, in each channel; power of two, two packets at least.
    replay_beats : int
        Beats that a link's sender keeps in each channel until they are acknowledged, those that wait to be sent among
        them; power of two, four packets at least.
    link_channels : int
        Channels of a link: 1, or 2 where puts go beside the collectives.
    queues : int
        Command queues, each with one 4 KiB doorbell page; power of two, 2 to 16.
    queue_depth : int
        Commands waiting per queue; power of two, 2 to 16.
    regions : int
        Entries of the region table; power of two, 2 to 256.
    communicators : int
        Entries of the communicator table; power of two, 2 to 16.
    program_words : int
        Words of the step tables' memory; power of two, 256 to 4096.
    extent_rows : int
        Rows of the extents table, one for each rank of a VARYING collective; power of two, 16 to 4096.
    timing : AceTimingOptions
        Which critical paths are cut.
    """

    data_width: int = 512
    lanes: int = 16
    prod: bool = True
    fp8: bool = True
    avg: bool = True
    widen: bool = True
    varying: bool = True
    counters: bool = True
    dimensions: int = DIMENSIONS
    address_width: int = ADDR_WIDTH
    fsms: int = 16
    slots: int = 64
    chunk_bytes: int = 65536
    message_bytes: int = 8192
    packet_bytes: int = 256
    link_beats: int = 128
    replay_beats: int = 256
    link_channels: int = 1
    queues: int = 8
    queue_depth: int = 8
    regions: int = 64
    communicators: int = 8
    program_words: int = 2048
    extent_rows: int = 512
    timing: AceTimingOptions = field(default_factory=AceTimingOptions)

    def __post_init__(self) -> None:
        def need(name: str, low: int, high: int) -> None:
            if not is_power_of_two(value := getattr(self, name), low, high):
                raise ValueError(f"{name} must be a power of two from {low} to {high}, not {value!r}")

        need("data_width", 64, 512)
        need("lanes", 1, self.data_width // 32)
        for name in ("prod", "fp8", "avg", "widen", "varying", "counters"):
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {value!r}")
        for name, low, high in (("dimensions", 1, DIMENSIONS), ("address_width", 32, ADDR_WIDTH)):
            if not is_integer(value := getattr(self, name), low, high):
                raise ValueError(f"{name} must be from {low} to {high}, not {value!r}")
        need("fsms", 2, 32)
        need("slots", self.fsms, 64)
        need("chunk_bytes", 1024, 65536)
        need("packet_bytes", 64, 1024)
        need("message_bytes", self.packet_bytes, self.chunk_bytes)
        need("link_beats", 2 * self.packet_beats, 4096)
        need("replay_beats", 4 * self.packet_beats, 4096)
        need("link_channels", 1, 2)
        need("queues", 2, 16)
        need("queue_depth", 2, 16)
        need("regions", 2, 256)
        need("communicators", 2, 16)
        need("program_words", 256, 4096)
        need("extent_rows", EXTENT_ALIGNMENT, 4096)
        if not isinstance(self.timing, AceTimingOptions):
            raise ValueError(f"timing must be AceTimingOptions, not {self.timing!r}")

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def chunk_beats(self) -> int:
        return self.chunk_bytes // self.beat_bytes

    @property
    def sram_latency(self) -> int:
        """Cycles from a read of the SRAM to its data."""
        return 3 if self.timing.sram_output_register else 2

    @property
    def packet_beats(self) -> int:
        return self.packet_bytes // self.beat_bytes

    @property
    def message_packets(self) -> int:
        return self.message_bytes // self.packet_bytes

    @property
    def sram_beats(self) -> int:
        return self.slots * self.chunk_beats

    @property
    def sram_bits(self) -> int:
        """Bits of the address of a beat in the SRAM."""
        return (self.sram_beats - 1).bit_length()

    @property
    def chunk_beat_bits(self) -> int:
        """Bits of the number of a beat in a slot."""
        return (self.chunk_beats - 1).bit_length()

    @property
    def link_window(self) -> int:
        """Packets that may wait for their acknowledgement on a link."""
        return min(self.replay_beats, 1 << LINK_SEQUENCE_WIDTH - 1)

    @property
    def ports(self) -> int:
        """Links: port ``2 * d`` is on the side of rising coordinates of dimension ``d``, ``2 * d + 1`` on the other."""
        return 2 * self.dimensions

    @property
    def port_bits(self) -> int:
        return (self.ports - 1).bit_length()

    @property
    def fsm_bits(self) -> int:
        return (self.fsms - 1).bit_length()

    @property
    def slot_bits(self) -> int:
        return (self.slots - 1).bit_length()

    @property
    def queue_bits(self) -> int:
        return (self.queues - 1).bit_length()

    @property
    def region_bits(self) -> int:
        return (self.regions - 1).bit_length()

    @property
    def communicator_bits(self) -> int:
        return (self.communicators - 1).bit_length()

    @property
    def program_bits(self) -> int:
        return (self.program_words - 1).bit_length()

    @property
    def extent_bits(self) -> int:
        return (self.extent_rows - 1).bit_length()

    # What the doorbell port and the region table, which are the DMA engine's, ask of a configuration.

    extended, extended_bits = 1, 0
    """No queue is driven by a descriptor ring."""

    @property
    def sweep_rows(self) -> int:
        """Rows of the longest table that the sweep after reset clears."""
        return max(self.fsms << self.port_bits, self.communicators << DIRECTORY_WIDTH, self.slots, self.regions,
                   self.queues)

    @property
    def doorbell_addr_width(self) -> int:
        """Bits of the doorbell port's address: one page per queue."""
        return 12 + self.queue_bits

    @property
    def doorbell_id_width(self) -> int:
        return 8


TINY = AceConfig(data_width=64, lanes=2, fsms=4, slots=8, chunk_bytes=4096, message_bytes=1024, link_beats=256,
                 replay_beats=512, queues=2, queue_depth=4, regions=16, communicators=4, program_words=1024,
                 extent_rows=64)
"""Fits a small ECP5: 32 KiB of SRAM."""

BASE = AceConfig(data_width=256, lanes=8, fsms=8, slots=16, chunk_bytes=16384, message_bytes=4096,
                 queues=4, regions=32, extent_rows=256)
"""256 KiB of SRAM."""

WIDE = AceConfig()
"""4 MiB of SRAM and 16 FSMs, as ACE's authors chose (ISCA'21)."""

PRESETS = {"tiny": TINY, "base": BASE, "wide": WIDE}
