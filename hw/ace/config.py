# SPDX-License-Identifier: Apache-2.0
"""Sizes of a collectives accelerator, validated once, and the named presets.

Every width that a component needs is a property here, so that hardware, model, driver and tests agree.
"""

from dataclasses import dataclass, field, replace

from hw.common.sizes import ADDR_WIDTH, is_integer, is_power_of_two

from .collectives import DIRECTORY_WIDTH
from .timing import AceTimingOptions

__all__ = [
    "AHEAD_BEATS", "BASE", "COLUMN_BYTES", "COUNT_WIDTH", "DIMENSIONS", "LINK_CREDIT_WIDTH", "LINK_HIGH_WIDTH",
    "LINK_REPORT_CYCLES", "LINK_REPORT_PACKETS", "LINK_SEQUENCE_WIDTH", "LINK_SESSION_WIDTH", "MAX_RANKS",
    "MOST_FSMS", "MOST_LINK_BEATS", "MOST_SLOTS", "OFFSET_WIDTH", "ONE_SHOT_BYTES", "ONE_SHOT_WIDTH", "PHASES",
    "PIPES", "POSITION_WIDTH", "PRESETS", "ROOT_WIDTH", "SEQUENCE_WIDTH", "SRAM_PATIENCE", "SRAM_RUN_BEATS",
    "STEP_WIDTH", "TINY", "ULTRA", "WIDE", "WIRE_HEADER_BYTES", "AceConfig",
]

DIMENSIONS = 3
"""Dimensions of the largest torus; an accelerator has two ports for each of its own dimensions."""

PHASES = 4
"""Maximum ring passes of one program."""

MAX_RANKS = 128

MOST_FSMS, MOST_SLOTS, MOST_LINK_BEATS = 32, 64, 4096

_MOST_CHUNK_BYTES, _MOST_CHUNK_BEATS = 65536, 4096

AHEAD_BEATS = 16
"""Beats that wait at a port to be sent, besides a packet: they cover a link of a beat per cycle while the next packet
is chosen and read."""

PIPES = (1, 2, 4)
"""Numbers of pipes between links and SRAM that an accelerator can have."""

COLUMN_BYTES = 64
"""Shards, halves and pieces are cut at multiples of this number of bytes at every data width, so that the order of
additions does not depend on the width."""

COUNT_WIDTH = 28
OFFSET_WIDTH = 28
ROOT_WIDTH = 8
"""Bits of a command's count and offsets, which are in elements."""

SEQUENCE_WIDTH = 16
"""Bits of a chunk's number within its communicator; the number wraps."""

POSITION_WIDTH = 9
"""Bits of a position in a slot, counted in pieces: 3 * MAX_RANKS fit."""

ONE_SHOT_WIDTH = 20
"""Bits of the most bytes of a one-shot all-reduce."""

ONE_SHOT_BYTES = 512
"""Bytes of the longest one-shot all-reduce, unless software sets another threshold: faster on all measured shapes, over
slow and fast links."""

EXTENT_ALIGNMENT = 16
"""A command gives the first row of its extents in units of this number of rows."""

STEP_WIDTH = 12
"""Bits of the number of sends, and of receives, in a phase."""

LENGTH_WIDTH = 38
"""Bits of a length in bytes: 2 ** 28 elements of 4 bytes for each of 128 ranks, and one bit more."""

WIRE_HEADER_BYTES = 16
"""Bytes of a packet on a link beside its payload: header, sequence number, credits and CRC."""

LINK_SEQUENCE_WIDTH = 9
"""Bits of a packet's number that travel on a link; up to half of the range may be unacknowledged."""

LINK_HIGH_WIDTH = 8
"""Bits of the number above those: covered by the CRC but not sent; the whole number wraps."""

LINK_SESSION_WIDTH = 8
"""Bits of the number of a link's session (the time between two handshakes), which wraps."""

LINK_CREDIT_WIDTH = 13
"""Bits of the count of beats that left a receive buffer, modulo twice the longest buffer."""

SRAM_RUN_BEATS = 64
"""Beats of the SRAM of which consecutive ones are in consecutive banks."""

SRAM_PATIENCE = 8
"""Cycles for which a request to the SRAM is stalled by others of earlier users before it has precedence."""

LINK_REPORT_CYCLES = 32
"""Cycles after which any received packet or freed beat is reported to the peer if nothing else is sent on the link."""

LINK_REPORT_PACKETS = 4
"""Received packets that are reported at once."""


@dataclass(frozen=True, kw_only=True)
class AceConfig:
    """Sizes of one collectives accelerator.

    Parameters
    ----------
    data_width : int
        Bits of a beat: of ``m_axi``, of a word of the SRAM and of a link in one cycle; a power of two from 64
        to 1024.
    lanes : int
        32-bit ALU lanes; as many as a beat has words, or fewer by a power of two. With fewer, reducing a beat takes
        several cycles.
    prod : bool
        Products, as in NCCL: four multipliers of 16 by 16 bits in each lane, and half as many LUTs again. Without them,
        commands with PROD are malformed.
    fp8 : bool
        All FP8 types: two more narrow adders in each lane. Without them, commands of these types are malformed.
    avg : bool
        Averages: a divider of 20 stages for each word of a beat. Without them, commands with AVG are malformed.
    widen : bool
        16-bit floats and FP8 as FP32 in the SRAM and on the links: converters in both directions for each word of a
        beat. Without them, commands with ``widen`` are malformed.
    varying : bool
        The v-variants, whose parts differ in length, and the extents table. Without them, VARYING commands are
        malformed.
    counters : bool
        Event counters of the accelerator and its links. Without them, they read as 0.
    dimensions : int
        Dimensions of the torus with ports: 1 (a ring) to 3.
    address_width : int
        Bits of addresses on ``m_axi``, 32 to 64. Higher bits of a region's base and of a completion word's address are
        ignored.
    fsms : int
        Chunks on the links at a time; power of two, 2 to 32.
    slots : int
        Chunks in the SRAM: those on the links, being filled and being drained; power of two, from ``fsms`` to 64.
    chunk_bytes : int
        Longest chunk, and so the length of a slot; power of two, 1 KiB to 64 KiB, and at most 4,096 beats, whose
        numbers the packet header has.
    message_bytes : int
        Bytes that one chunk may send before an older one gets the ports; power of two, from a packet to a chunk.
    packet_bytes : int
        Longest payload of a packet; power of two, from 64, and a beat, to 1024.
    link_beats : int
        Beats of a link's receive buffer, in each channel; power of two, two packets at least.
    replay_beats : int
        Beats of a link's replay buffer, in each channel: those waiting to be sent or acknowledged; power of two, four
        packets at least.
    pipes : int
        Pipelines between links and SRAM, each with a share of the ports and with lanes of its own: 1, 2 (one for the
        ports of each direction) or 4 (the ports of dimension 0 have their own). Each receives and sends a beat per
        cycle. At most two for each dimension.
    link_channels : int
        Channels of a link: 1, or 2 with puts beside the collectives.
    queues : int
        Command queues, each with one 4 KiB doorbell page; power of two, 2 to 16.
    queue_depth : int
        Commands waiting per queue; power of two, 2 to 16.
    regions : int
        Entries of the region table; power of two, 2 to 256.
    communicators : int
        Entries of the communicator table; power of two, 2 to 16.
    program_words : int
        Words of the programs' memory; power of two, 256 to 4096.
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
    pipes: int = 1
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

        need("data_width", 64, 1024)
        need("lanes", 1, self.data_width // 32)
        for name in ("prod", "fp8", "avg", "widen", "varying", "counters"):
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {value!r}")
        for name, low, high in (("dimensions", 1, DIMENSIONS), ("address_width", 32, ADDR_WIDTH)):
            if not is_integer(value := getattr(self, name), low, high):
                raise ValueError(f"{name} must be from {low} to {high}, not {value!r}")
        need("fsms", 2, MOST_FSMS)
        need("slots", self.fsms, MOST_SLOTS)
        need("chunk_bytes", 1024, self.most_chunk_bytes)
        need("packet_bytes", max(64, self.beat_bytes), 1024)
        need("message_bytes", self.packet_bytes, self.chunk_bytes)
        need("link_beats", 2 * self.packet_beats, MOST_LINK_BEATS)
        need("replay_beats", 4 * self.packet_beats, MOST_LINK_BEATS)
        need("pipes", 1, 4)
        if self.pipes > 2 * self.dimensions:
            raise ValueError(f"pipes must be at most two for each dimension, not {self.pipes!r} for {self.dimensions}")
        need("link_channels", 1, 2)
        need("queues", 2, 16)
        need("queue_depth", 2, 16)
        need("regions", 2, 256)
        need("communicators", 2, 16)
        need("program_words", 256, 4096)
        need("extent_rows", EXTENT_ALIGNMENT, 4096)
        if not isinstance(self.timing, AceTimingOptions):
            raise ValueError(f"timing must be AceTimingOptions, not {self.timing!r}")

    def for_sums(self) -> "AceConfig":
        """The same sizes without what sums of FP32 and INT32 in parts of equal length do not need: products, FP8,
        averages, widening and v-variants."""
        return replace(self, prod=False, fp8=False, avg=False, widen=False, varying=False)

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def most_chunk_bytes(self) -> int:
        """Upper limit of ``chunk_bytes``."""
        return min(_MOST_CHUNK_BYTES, _MOST_CHUNK_BEATS * self.beat_bytes)

    @property
    def chunk_beats(self) -> int:
        return self.chunk_bytes // self.beat_bytes

    @property
    def sram_latency(self) -> int:
        """Cycles from a read of the SRAM to its data."""
        return 1 + self.timing.sram_output_register + self.timing.sram_word_register

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
        """Maximum number of unacknowledged packets on a link."""
        return min(self.replay_beats, 1 << LINK_SEQUENCE_WIDTH - 1)

    @property
    def ports(self) -> int:
        """Links: port ``2 * d`` is on the side of rising coordinates of dimension ``d``, ``2 * d + 1`` on the other."""
        return 2 * self.dimensions

    @property
    def port_bits(self) -> int:
        return (self.ports - 1).bit_length()

    @property
    def local_port(self) -> int:
        """Number of the loopback: what an endpoint sends there arrives at its own last pipe."""
        return self.ports

    @property
    def local_beats(self) -> int:
        """Beats that wait in the loopback: two packets."""
        return 2 * self.packet_beats

    @property
    def pipe_ports(self) -> tuple[tuple[int, ...], ...]:
        """Ports of each pipe; the last pipe has the loopback, too."""
        ports, local = range(self.ports), (self.local_port,)
        if self.pipes == 1:
            return (tuple(ports) + local,)
        up, down = tuple(ports[::2]), tuple(ports[1::2])
        return (up, down + local) if self.pipes == 2 else (up[:1], down[:1], up[1:], down[1:] + local)

    @property
    def sram_banks(self) -> int:
        """Banks of the SRAM, each with a read and a write port."""
        return 4 if self.pipes == 1 else 8

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

    # Required by the doorbell port and the region table, which are shared with the DMA engine.

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

WIDE = AceConfig(pipes=4)
"""4 MiB of SRAM, 16 FSMs, and lanes for 4 x 64 bytes per cycle, as ACE's authors chose (ISCA'21)."""

ULTRA = AceConfig(data_width=1024, lanes=32, fsms=32, slots=32, packet_bytes=512, link_beats=256, replay_beats=512,
                  pipes=4)
"""2 MiB of SRAM, and a beat of 128 bytes per cycle on memory port, links and pipes: at 1.245 GHz, the least that,
as simulated, keeps busy the links of the ACE paper with 128 GB/s of memory (docs/training.md), and links of a beat per
cycle on a torus."""

PRESETS = {"tiny": TINY, "base": BASE, "wide": WIDE, "ultra": ULTRA}
