# SPDX-License-Identifier: Apache-2.0
"""Payloads between the engine's stages, sized by the configuration.

Word -> Request -> Scheduled -> Segment -> Launch -> Done, in the order of the pipeline.
"""

from amaranth import Cat
from amaranth.lib import data, enum

from hw.axi import Resp
from hw.common.layouts import Attributes
from hw.common.sizes import (
    ADDR_WIDTH,
    COUNT_WIDTH,
    DOMAIN_WIDTH,
    FRAME_WIDTH,
    OFFSET_WIDTH,
    REGION_ID_WIDTH,
)

from .config import BLOCK_ENTRIES, CONNECTION_WIDTH, LENGTH_WIDTH, REQUEST_LENGTH_WIDTH, SID_WIDTH, TARGETS
from .queue_settings import QUEUE_SETTINGS
from .words import ARK_FIELDS, NATIVE_FIELDS, QueueMode, Status

__all__ = [
    "EPOCH_WIDTH",
    "PLACE_BITS",
    "STATUS_WIDTH",
    "ArkExtra",
    "ArkLayout",
    "ArkSettings",
    "Check",
    "Connection",
    "EndFlags",
    "InfoLayout",
    "NativeLayout",
    "NoteLayout",
    "OpKind",
    "PageEntry",
    "RingSettings",
    "address_layout",
    "arrival_layout",
    "block_layout",
    "completion_write_layout",
    "done_layout",
    "event_layout",
    "fetch_layout",
    "launch_layout",
    "log_layout",
    "notice_layout",
    "op_layout",
    "origin_fields",
    "queue_settings_layout",
    "read_beat_layout",
    "request_layout",
    "ring_word_layout",
    "scheduled_layout",
    "segment_layout",
    "window_end_layout",
    "window_index",
    "word_id_layout",
    "write_beat_layout",
    "write_response_layout",
]

STATUS_WIDTH = max(Status).bit_length()

EPOCH_WIDTH = 2
"""Width of the number that distinguishes a queue's segments from those that a reset has abandoned."""

PLACE_BITS = (BLOCK_ENTRIES - 1).bit_length()
"""Low bits of a window entry's number: its place in its block."""

NativeLayout = data.StructLayout(dict(NATIVE_FIELDS))
ArkLayout = data.StructLayout(dict(ARK_FIELDS))


QueueModeShape = (max(QueueMode)).bit_length()


class Check(enum.Enum, shape=3):
    """Format errors of a word."""

    OK = 0
    MALFORMED = 1
    ZERO_LENGTH = 2
    FETCH_ERROR = 3
    """The word's descriptor could not be read."""
    CONNECTION = 4
    """The word's queue may not use its connection."""


class EndFlags(data.Struct):
    """Actions of a request on completion."""

    sc: 1
    rc: 1
    irq: 1


class PageEntry(data.Struct):
    """One entry of the page table: the frame of a 64 KiB page, or of a 2 MiB page, whose lowest 5 bits are ignored."""

    frame: FRAME_WIDTH
    present: 1


def queue_settings_layout(config):
    """A queue's row of settings: those of :data:`~.queue_settings.QUEUE_SETTINGS` that are looked up for segments."""
    return data.StructLayout({setting.row_field: setting.bits(config) for setting in QUEUE_SETTINGS if setting.in_row})


class RingSettings(data.Struct):
    """Location of one descriptor ring; pages are 4 KiB."""

    page: ADDR_WIDTH - 12
    record_page: ADDR_WIDTH - 12
    size: 5
    """Log2 of descriptors and of records."""
    records: 1
    """The ring has records."""
    pair: 1
    """The ring has the prefetched descriptors of both queues of its pair."""


class ArkSettings(data.Struct):
    """Settings of an extended queue for ARK words."""

    active: 1
    base: REGION_ID_WIDTH
    domain: DOMAIN_WIDTH


class Connection(data.Struct):
    """One entry of the connection table, as used by ARK words."""

    base: REGION_ID_WIDTH
    domain: DOMAIN_WIDTH
    valid: 1


class OpKind(enum.Enum, shape=2):
    """Operations on a queue other than the retirement of its segments."""

    EVENT = 0
    """A status without a request: OVERFLOW, DISABLED, TIMEOUT, COMPLETION_ERROR."""
    CLEAR = 1
    RESET = 2


def arrival_layout(config):
    """A word in flight to its queue; ``note`` is for its completion, if a descriptor gave one.

    An ``ark`` word has no offsets; it has its :data:`ArkExtra` in ``word.src_offset``.
    """
    return data.StructLayout({
        "queue": config.queue_bits, "check": Check, "ark": 1, "word": NativeLayout, "note": NoteLayout})


NoteLayout = data.UnionLayout({
    "ring": data.StructLayout({"tag": 16, "end": 1, "closes": 1}),
    "ark": data.StructLayout({"src": SID_WIDTH, "dst": SID_WIDTH, "connection": CONNECTION_WIDTH}),
})
"""Completion note of a word of an extended queue: the tag of its descriptor, whether a record is due, and whether it is
the descriptor's last word; or the flags to set."""


ArkExtra = data.StructLayout({
    "length_high": REQUEST_LENGTH_WIDTH - LENGTH_WIDTH,
    "src_beyond": 1, "dst_beyond": 1,       # the region's number is too large for any table
    "note": NoteLayout,
})
"""Contents of an ARK word that do not fit a native word's fields."""


InfoLayout = data.StructLayout({"length": LENGTH_WIDTH, "note": NoteLayout})
"""Data of a request of an extended queue that is kept until it completes."""


def notice_layout(config):
    """The completion of a request of an extended queue that is not in native mode; ``irq``: with an interrupt."""
    return data.StructLayout({
        "queue": config.extended_bits, "mode": QueueModeShape, "status": STATUS_WIDTH, "irq": 1, "info": InfoLayout})


def request_layout(config):
    """The decoded request at the head of a queue."""
    return data.StructLayout({
        "check": Check, "signal": 1, "fence": 1, "end": EndFlags, "note": NoteLayout,
        "src_region": REGION_ID_WIDTH + 1, "dst_region": REGION_ID_WIDTH + 1,
        "src_offset": OFFSET_WIDTH, "dst_offset": OFFSET_WIDTH, "length": REQUEST_LENGTH_WIDTH,
        "last_segment": config.segment_count_width,     # number of the last segment
        "single": 1,                                    # which is the first, if nothing is wrong
        "end_position": config.segment_bits,            # of the last byte inside the last segment
    })


def block_layout(config):
    """A block of window entries, and the generation bit of its next use."""
    return data.StructLayout({"number": config.block_bits, "generation": 1})


def window_end_layout(config):
    """One end of a queue's window: its next segment, or its oldest one. ``number`` counts the queue's segments; its low
    bits are the segment's place in ``block``.
    """
    return data.StructLayout({"number": config.flight_width, "block": block_layout(config)})


def window_index(end):
    """Index of the segment at one end of a window."""
    return Cat(end.number[:PLACE_BITS], end.block)


def scheduled_layout(config):
    """One segment of the request at the head of ``queue``; ``next`` has the entry of the queue's next segment."""
    return data.StructLayout({
        "queue": config.queue_bits, "index": config.index_width, "next": block_layout(config), "generation": 1,
        "request": request_layout(config), "number": config.segment_count_width,
        "first": 1, "last": 1, "aborted": 1, "epoch": EPOCH_WIDTH, "phase": 1,
    })


def segment_layout(config):
    """A segment with checked addresses: one write burst, one or two read bursts."""
    return data.StructLayout({
        "queue": config.queue_bits, "index": config.index_width, "last": 1, "end": EndFlags,
        "status": STATUS_WIDTH, "bad": 1, "epoch": EPOCH_WIDTH, "phase": 1,
        "src_addr": ADDR_WIDTH, "dst_addr": ADDR_WIDTH,
        "src_attributes": Attributes, "dst_attributes": Attributes,
        "size": config.segment_bits,                    # bytes less one
        "src_beats": config.beat_count_width,
        "first_beats": config.beat_count_width,         # up to the source's 4 KiB boundary, if it crosses one
        "crosses": 1,
        "jumps": 1, "next_frame": FRAME_WIDTH,          # the bytes after that boundary are in another page frame
        "signal": 1,                                    # nothing is read: ``src_addr`` is the value to write
        "target": range(TARGETS),
    })


def launch_layout(config):
    """A segment that has a tag and whose read is in flight."""
    return data.StructLayout({"tag": config.tag_bits, "segment": segment_layout(config)})


def done_layout(config):
    """The end of one segment."""
    return data.StructLayout(origin_fields(config) | {"status": STATUS_WIDTH})


def origin_fields(config):
    """Data of a segment that its end needs; ``size`` is bytes less one."""
    return {"queue": config.queue_bits, "index": config.index_width, "last": 1, "end": EndFlags,
            "size": config.segment_bits, "target": range(TARGETS), "epoch": EPOCH_WIDTH,
            "phase": 1}


def fetch_layout(config):
    """A burst of descriptors to read."""
    return data.StructLayout({"ring": config.extended_bits, "addr": ADDR_WIDTH, "len": 8})


def ring_word_layout(config):
    """A word made from a descriptor."""
    return data.StructLayout({
        "ring": config.extended_bits, "check": Check, "word": NativeLayout, "note": NoteLayout})


def event_layout(config):
    """A status that belongs to a queue, not to a request."""
    return data.StructLayout({"queue": config.queue_bits, "status": STATUS_WIDTH})


def op_layout(config):
    """An operation on a queue, ordered with the retirement of its segments."""
    return data.StructLayout({"kind": OpKind, "queue": config.queue_bits, "status": STATUS_WIDTH})


def completion_write_layout(config):
    """A word in flight to memory, 8 bytes or, if ``half``, the same 4 bytes twice; ``id`` is its AXI ID.

    The sender of a word that belongs to an epoch sets ``queue`` and ``epoch``; :class:`.notices.Notices` does so for
    words made from notices.
    """
    return data.StructLayout({
        "addr": ADDR_WIDTH, "word": 64, "half": 1, "id": config.axi_id_width, "attributes": Attributes,
        "queue": config.queue_bits, "epoch": EPOCH_WIDTH})


def word_id_layout(config):
    """AXI ID of a word's write: ``top`` is set, and ``notice`` if it reports one request of an extended queue."""
    unused = config.axi_id_width - config.queue_bits - 3
    return data.StructLayout({
        "is_rc": 1, "queue": config.queue_bits, "notice": 1, **({"unused": unused} if unused else {}), "top": 1})



def address_layout(config):
    """One burst on AR or AW; ``len`` is its beats less one, as on the bus."""
    return data.StructLayout({"id": config.axi_id_width, "addr": ADDR_WIDTH, "len": 8, "attributes": Attributes})


def read_beat_layout(config):
    """One beat of R."""
    return data.StructLayout({"id": config.axi_id_width, "data": config.data_width, "resp": Resp, "last": 1})


def write_beat_layout(config):
    """One beat of W."""
    return data.StructLayout({"data": config.data_width, "strb": config.beat_bytes, "last": 1})


def write_response_layout(config):
    """One response on B."""
    return data.StructLayout({"id": config.axi_id_width, "resp": Resp})


def log_layout(config):
    """One entry of the error log; ``count`` is the number of completed requests."""
    return data.StructLayout({"queue": config.queue_bits, "status": STATUS_WIDTH, "count": COUNT_WIDTH})
