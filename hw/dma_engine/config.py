# SPDX-License-Identifier: Apache-2.0
"""Sizes of the DMA engine, validated once, and the three named presets.

Every width that a component needs is a property here, so that hardware, model and tests agree.
"""

from dataclasses import dataclass, field

from hw.common.sizes import PAGE_BYTES, PAGE_ID_WIDTH, is_integer, is_power_of_two

from .timing import DmaTimingOptions

__all__ = ["BASE", "PRESETS", "TINY", "WIDE", "DmaConfig"]

DESCRIPTOR_BYTES = 64
"""Size of a descriptor ring entry; equal to the longest beat."""

LENGTH_WIDTH = 28
"""Size of a native word."""
REQUEST_LENGTH_WIDTH = 34
"""Length field of any request, as wide as an ARK word's."""
SID_WIDTH = 8
"""Bits of an ARK segment ID, by which a word names its source and its destination."""
CONNECTION_WIDTH = 7
BYTES_WIDTH = 48
HISTOGRAM_BINS = 16
MODERATION_WIDTH = 16
BLOCK_ENTRIES = 2
"""Window entries in a block: a queue that is idle keeps one block."""
TARGETS = 4
"""Distinct memories behind ``m_axi``."""

CLASSES = 4
"""Priority classes of queues: the highest is served first."""

@dataclass(frozen=True, kw_only=True)
class DmaConfig:
    """Sizes of one DMA engine.

    Parameters
    ----------
    data_width : int
        Bits of ``m_axi`` data; 64, 128, 256 or 512.
    queues : int
        Queues, each with one 4 KiB doorbell page; power of two, 2 to 64.
    queue_depth : int
        Words that a queue holds behind the one being scheduled; power of two, 4 to 256. As many as
        one tenant's GPU threads may post between two reads of SC.
    entries : int
        Window entries, which all queues share: segments between issue and retirement; power of two, at least twice
        ``queues * window`` and at most 4096. Twice the tags, as segments that wait for an older one have none.
    window : int
        Entries that are guaranteed to each queue, in use or not; power of two, 4 to 128. Two less may be in flight.
    regions : int
        Entries of the region table; power of two, 4 to 256.
    pages : int
        Entries of the page table, for all paged regions together; power of two, 4 to 1024.
    tags : int
        Segments in flight between AR and B, all queues together; power of two, 4 to 1024. One
        request per cycle needs the read plus the write latency.
    buffer_beats : int
        Beats of read data reserved or held; power of two, 16 to 4096. Full rate needs the read latency.
    segment_bytes : int
        A request is split where its destination crosses a multiple of this; power of two, at least
        four beats, at most 4096 bytes and at most 128 beats. Long segments need fewer bursts, short ones
        let other queues in sooner.
    extended : int
        The number of *extended* queues, from queue 0: a descriptor ring or ARK words may drive them; power of two,
        2 to 16, at most ``queues``.
    ring_depth : int
        Prefetched descriptors of one ring; power of two, 4 to 512. As many as are consumed in the latency of
        a read.
    connections : int
        Entries of the connection table, with which ARK words select their destination; power of two, 2 to 128.
    doorbell_id_width : int
        Bits of ``s_axi_db`` transaction IDs, 1 to 16.
    word_interval : int
        Cycles per completion word on average, 1 to 64; after a break, a few may follow each other. More than 1 where
        words take a link's time from data: words that wait are replaced by newer ones.
    timing : DmaTimingOptions
        The critical paths to cut.
    """

    data_width: int
    queues: int
    queue_depth: int
    entries: int
    window: int
    regions: int
    pages: int
    tags: int
    buffer_beats: int
    segment_bytes: int
    extended: int
    ring_depth: int
    connections: int
    doorbell_id_width: int = 4
    word_interval: int = 1
    timing: DmaTimingOptions = field(default_factory=DmaTimingOptions)

    def __post_init__(self) -> None:
        if not is_power_of_two(self.data_width, 64, 512):
            raise ValueError(f"Data width must be 64, 128, 256 or 512 bits, not {self.data_width!r}")

        def need(name: str, low: int, high: int) -> None:
            if not is_power_of_two(value := getattr(self, name), low, high):
                label = name.replace("_", " ").capitalize()
                raise ValueError(f"{label} must be a power of two from {low} to {high}, not {value!r}")

        for name, low, high in (
            ("queues", 2, 64), ("queue_depth", 4, 256), ("window", 4, 128), ("regions", 4, 256),
            ("pages", 4, 1 << PAGE_ID_WIDTH), ("tags", 4, 1024), ("buffer_beats", 16, 4096), ("ring_depth", 4, 512),
            ("connections", 2, 1 << CONNECTION_WIDTH),
        ):
            need(name, low, high)
        need("extended", 2, min(16, self.queues))
        need("entries", 2 * self.queues * self.window, 4096)
        low, high = 4 * self.beat_bytes, min(PAGE_BYTES, 128 * self.beat_bytes)
        if not is_power_of_two(self.segment_bytes, low, high):
            raise ValueError(f"Segment bytes must be a power of two from {low} to {high}, "
                             f"not {self.segment_bytes!r}")
        if self.buffer_beats < 2 * self.segment_beats:
            raise ValueError(f"Buffer beats must hold two segments of {self.segment_beats} beats, "
                             f"not {self.buffer_beats!r}")
        if not is_integer(self.doorbell_id_width, 1, 16):
            raise ValueError(f"Doorbell ID width must be 1 to 16 bits, not {self.doorbell_id_width!r}")
        if not is_integer(self.word_interval, 1, 64):
            raise ValueError(f"Word interval must be 1 to 64 cycles, not {self.word_interval!r}")
        if not isinstance(self.timing, DmaTimingOptions):
            raise ValueError(f"Timing must be DmaTimingOptions, not {self.timing!r}")

    @property
    def sweep_rows(self) -> int:
        """Rows of the longest table that the sweep after reset clears."""
        return max(self.entries, self.tags, self.buffer_beats, self.regions, self.pages, self.connections)

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def lane_bits(self) -> int:
        """Bits of a byte position inside a beat."""
        return (self.beat_bytes - 1).bit_length()

    @property
    def segment_bits(self) -> int:
        """Bits of a byte position inside a segment."""
        return (self.segment_bytes - 1).bit_length()

    @property
    def segment_beats(self) -> int:
        return self.segment_bytes // self.beat_bytes

    @property
    def segment_count_width(self) -> int:
        """Bits of the number of a segment inside its request."""
        return REQUEST_LENGTH_WIDTH + 1 - self.segment_bits

    @property
    def load_width(self) -> int:
        """Bits that count the destination beats of all segments in flight."""
        return (self.tags * self.segment_beats).bit_length() + 1

    @property
    def beat_count_width(self) -> int:
        """Bits that count the source beats of a segment, one more than its destination beats."""
        return (self.segment_beats + 1).bit_length()

    @property
    def queue_bits(self) -> int:
        return (self.queues - 1).bit_length()

    @property
    def window_bits(self) -> int:
        return (self.window - 1).bit_length()

    @property
    def blocks(self) -> int:
        """Blocks of :data:`BLOCK_ENTRIES` window entries, the unit in which queues take entries."""
        return self.entries // BLOCK_ENTRIES

    @property
    def block_bits(self) -> int:
        return (self.blocks - 1).bit_length()

    @property
    def longest_window(self) -> int:
        """Most segments of one queue between issue and retirement, if its limit allows it."""
        return self.entries // 2

    @property
    def limit_bits(self) -> int:
        return (self.longest_window - 1).bit_length()

    @property
    def default_limit(self) -> int:
        """Most segments in flight of a queue without a limit: the longest window, or all but a sixteenth of the tags if
        that is at least a guaranteed part, which is then left to others.
        """
        left = self.tags // 16
        return min(self.longest_window, self.tags - left) if left >= self.window else self.longest_window

    @property
    def flight_width(self) -> int:
        """Bits that count a queue's segments in flight; also the width of the segments' numbers."""
        return self.limit_bits + 1

    @property
    def extended_bits(self) -> int:
        return (self.extended - 1).bit_length()

    @property
    def fetch_burst(self) -> int:
        """Most descriptors in one burst."""
        return min(8, self.ring_depth // 2)

    @property
    def descriptor_beats(self) -> int:
        return DESCRIPTOR_BYTES // self.beat_bytes

    @property
    def entry_bits(self) -> int:
        """Width of a window entry's number: its block, and its place in the block."""
        return (self.entries - 1).bit_length()

    @property
    def index_width(self) -> int:
        """Width of a segment's index: its window entry, and above it the generation bit."""
        return self.entry_bits + 1

    @property
    def connection_bits(self) -> int:
        return (self.connections - 1).bit_length()

    @property
    def region_bits(self) -> int:
        return (self.regions - 1).bit_length()

    @property
    def page_bits(self) -> int:
        return (self.pages - 1).bit_length()

    @property
    def tag_bits(self) -> int:
        return (self.tags - 1).bit_length()

    @property
    def slot_bits(self) -> int:
        return (self.buffer_beats - 1).bit_length()

    @property
    def axi_id_width(self) -> int:
        """``m_axi`` ID bits: a data segment's tag, or with the top bit set, the writer of a word."""
        return max(self.tag_bits, self.queue_bits + 2) + 1

    @property
    def doorbell_addr_width(self) -> int:
        """Bits of ``s_axi_db`` addresses: one 4 KiB page per queue."""
        return 12 + self.queue_bits


TINY = DmaConfig(data_width=64, queues=4, queue_depth=8, entries=64, window=8, regions=16, pages=32, tags=16,
                 buffer_beats=128, segment_bytes=256, extended=2, ring_depth=8, connections=4,
                 timing=DmaTimingOptions.all())
BASE = DmaConfig(data_width=256, queues=16, queue_depth=32, entries=512, window=16, regions=64, pages=256, tags=128,
                 buffer_beats=256, segment_bytes=1024, extended=4, ring_depth=64, connections=16)
WIDE = DmaConfig(data_width=512, queues=64, queue_depth=32, entries=2048, window=16, regions=256, pages=1024, tags=1024,
                 buffer_beats=1024, segment_bytes=4096, extended=4, ring_depth=128, connections=128)

PRESETS = {"tiny": TINY, "base": BASE, "wide": WIDE}
