# SPDX-License-Identifier: Apache-2.0
"""The engine's register map (``s_axil``), the source of gateware, C header, Markdown and SystemRDL.

Tables (regions, queues) are written through a window: fill the staging registers, then write the
entry's number to the COMMIT register; the whole entry changes in one cycle.
"""

from collections.abc import Sequence

from hw.common.sizes import (
    ADDR_WIDTH,
    COUNT_WIDTH,
    DOMAIN_WIDTH,
    FAILED_WIDTH,
    OFFSET_WIDTH,
    PAGE_ID_WIDTH,
    REGION_BEYOND,
    REGION_ID_WIDTH,
)
from hw.regs import (
    REGISTER_WIDTH,
    Access,
    Field,
    Register,
    RegisterMap,
    constant_field,
    number_field,
    refusal_registers,
    register_pair,
)

from .config import BYTES_WIDTH, HISTOGRAM_BINS, MODERATION_WIDTH, TARGETS, DmaConfig
from .queue_settings import QUEUE_REGISTERS, setting_fields
from .words import Command, Status

__all__ = ["ID_VALUE", "VERSION", "register_map"]

ID_VALUE = 0x444D_4145
"""ASCII ``DMAE``."""

VERSION = 1

_MAP_WIDTH = 12

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE


def _identity(config: DmaConfig) -> Sequence[Register]:
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII DMAE.")], doc="Identifies this block."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="A new version requires a change of software."),
        Register("SIZES", [
            constant_field("queue_bits", 4, config.queue_bits, "Log2 of the number of queues."),
            constant_field("region_bits", 4, config.region_bits, "Log2 of the number of regions."),
            constant_field("depth_bits", 4, (config.queue_depth - 1).bit_length(), "Log2 of words waiting per queue."),
            constant_field("window_bits", 4, config.window_bits, "Log2 of window entries guaranteed to a queue."),
            constant_field("tag_bits", 4, config.tag_bits, "Log2 of segments in flight."),
            constant_field("lane_bits", 4, config.lane_bits, "Log2 of bytes per beat."),
            constant_field("segment_bits", 4, config.segment_bits, "Log2 of bytes per segment."),
            constant_field("extended_bits", 4, config.extended_bits,
                           "Log2 of extended queues, which a ring can drive."),
        ], doc="Sizes of this engine."),
        Register("SIZES_2", [
            constant_field("page_bits", 4, config.page_bits, "Log2 of entries of the page table."),
            Field("entry_bits", 4, RO, reset=config.entry_bits, constant=True, lsb=8,
                  doc="Log2 of window entries, of all queues together."),
            constant_field("ring_bits", 4, (config.ring_depth - 1).bit_length(),
                           "Log2 of prefetched descriptors per ring."),
            constant_field("connection_bits", 4, config.connection_bits, "Log2 of the number of connections."),
        ], doc="Further sizes."),
    )


def _interrupts() -> Sequence[Register]:
    sources = (
        ("error", "A request failed, or a word was refused; see the error log."),
        ("completion", "A request with the IRQ flag completed."),
        ("register", "A register write was refused; see REFUSED_WRITE."),
    )
    return (
        Register("IRQ_STATUS", [Field(name, 1, W1C, doc=doc) for name, doc in sources], doc="Interrupt sources."),
        Register("IRQ_ENABLE", [Field(name, 1, RW, doc=f"Let {name} drive irq.") for name, _ in sources],
                 doc="The irq output is high while an enabled source is set."),
        Register("IRQ_MODERATION", [
            Field("count", MODERATION_WIDTH, RW, doc="Number of requests; 0 disables this criterion."),
            Field("cycles", MODERATION_WIDTH, RW, doc="Number of cycles; 0 disables this criterion."),
        ], doc="Sets completion after count requests with the IRQ flag have completed, or cycles after the first of "
           "them, whichever comes first; with both 0 at once."),
    )


def _regions(config: DmaConfig) -> Sequence[Register]:
    return (
        *register_pair("REGION_BASE", ADDR_WIDTH, RW,
                       doc="First byte of the region; a multiple of 4096, lower bits are ignored"),
        *register_pair("REGION_LENGTH", OFFSET_WIDTH + 1, RW, doc="Bytes in the region"),
        Register("REGION_ACCESS", [
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain whose queues may use the region."),
            Field("readable", 1, RW, doc="Requests may read the region."),
            Field("writable", 1, RW, doc="Requests may write the region."),
            Field("valid", 1, RW, doc="The entry is valid."),
        ], doc="Domain and rights of the region."),
        Register("REGION_ATTRIBUTES", [
            Field("cache", 4, RW, doc="AxCACHE; bits 3:2 are used only if bit 1 (Modifiable) is set."),
            Field("prot", 3, RW, doc="AxPROT."),
            Field("qos", 4, RW, doc="AxQOS."),
        ], doc="Attributes of the bursts that read or write the region."),
        Register("REGION_PAGES", [
            Field("paged", 1, RW, doc="The region consists of pages; REGION_BASE is ignored."),
            Field("large", 1, RW, doc="Page size: 0 for 64 KiB, 1 for 2 MiB."),
            Field("first", PAGE_ID_WIDTH, RW, lsb=16,
                  doc="Entry of the page table with the region's first page; its other pages follow."),
        ], doc="Pages of a region that is not contiguous."),
        Register("REGION_COMMIT", [number_field("region", config.regions, PULSE, doc="Entry to write.")],
                 doc="Writes the staged region to the table. It applies to segments scheduled later. "
                     "Refused if the region is valid, not paged, and ends beyond the last address.",
                 guard=REGION_BEYOND),
    )


def _pages(config: DmaConfig) -> Sequence[Register]:
    return (
        *register_pair("PAGE_FRAME", ADDR_WIDTH, RW,
                       doc="Address of a page; its lower 16 bits, or 21 for a large page, are ignored"),
        Register("PAGE_COMMIT", [
            number_field("page", config.pages, PULSE, doc="Entry to write."),
            Field("present", 1, PULSE, lsb=31,
                  doc="The page is present; otherwise accesses fail with SRC_PAGE or DST_PAGE."),
        ], doc="Writes an entry of the page table. It applies to segments scheduled later."),
        Register("QUIESCE", [
            Field("start", 1, PULSE, doc="Write 1 after changing entries of the region or page table."),
            Field("busy", 1, RO, lsb=31, doc="Responses are outstanding: of segments scheduled before the latest "
                  "start, or of words and descriptors of an abandoned queue."),
        ], doc="Shows when nothing uses the old entries or the memory of abandoned queues any more."),
    )


def _connections(config: DmaConfig) -> Sequence[Register]:
    return (
        *register_pair("CONNECTION_RC", ADDR_WIDTH, RW, doc="Address of the receiver's RC array; a multiple of 8"),
        Register("CONNECTION_CONFIG", [
            Field("base", REGION_ID_WIDTH, RW, doc="Region that is the receiver's segment 0."),
            Field("domain", DOMAIN_WIDTH, RW, lsb=8, doc="Protection domain whose queues may use the connection."),
            Field("valid", 1, RW, lsb=16, doc="The entry is valid."),
        ], doc="Receiver of a connection."),
        Register("CONNECTION_COMMIT", [number_field("connection", config.connections, PULSE, doc="Entry to write.")],
                 doc="Writes the staged connection to the table. No word that names it may be waiting or in flight."),
    )


def _queue_settings(config: DmaConfig) -> Sequence[Register]:
    registers: list[Register] = []
    for name, doc in QUEUE_REGISTERS.items():
        settings = setting_fields(name)
        if (width := settings[0].bits(config)) > REGISTER_WIDTH:
            registers += register_pair(name, width, RW, reset=settings[0].reset, doc=doc)
        else:
            registers.append(Register(name, [
                Field(setting.field, setting.bits(config), RW, lsb=setting.lsb, reset=setting.reset, doc=setting.doc,
                      enum=setting.codes, legal=setting.legal) for setting in settings], doc=doc))
    return registers


def _queues(config: DmaConfig) -> Sequence[Register]:
    return (
        *_queue_settings(config),
        Register("QUEUE_COMMIT", [number_field("queue", config.queues, PULSE, doc="Queue to configure.")],
                 doc="Writes the staged configuration to a queue, which must have nothing in flight. Refused for a "
                     "ring if the other queue of its pair, 2n and 2n + 1, has a ring, and one of the two has "
                     "RING_CONFIG.pair; or if the queue has a ring with the other value. RESET and a commit of another "
                     "mode, in this order, end a ring.",
                 guard="the other queue of its pair has a ring, and one of the two has RING_CONFIG.pair, or the queue "
                       "has a ring with the other value"),
        Register("QUEUE_COMMAND", [
            number_field("queue", config.queues, PULSE, doc="Queue to command."),
            Field("command", 3, PULSE, lsb=8, enum=Command, legal=range(min(Command), max(Command) + 1),
                  doc="Command."),
        ], doc="Starts, pauses, clears or resets a queue."),
        Register("QUEUE_SELECT", [number_field("queue", config.queues, RW, doc="Queue to select.")],
                 doc="Selects the queue of the following registers."),
        Register("QUEUE_STATE", [
            Field("enabled", 1, RO, doc="Words are accepted."),
            Field("running", 1, RO, doc="Segments are scheduled."),
            Field("held", 1, RO, doc="The queue holds after an error until CLEAR or RESET."),
            Field("refusing", 1, RO, doc="A word was refused, and later ones are refused until CLEAR or RESET."),
            Field("resetting", 1, RO, doc="A RESET is in progress."),
            Field("waiting", 1, RO, doc="The queue has words that are not completely scheduled."),
            Field("in_flight", config.flight_width, RO, lsb=8, doc="Segments scheduled and not retired."),
        ], doc="State of the selected queue."),
        Register("QUEUE_COUNT", [Field("count", COUNT_WIDTH, RO, doc="Requests completed since reset.")],
                 doc="The selected queue's counter, as in SC and RC."),
        Register("QUEUE_RESULT", [
            Field("failed", FAILED_WIDTH, RO, doc="Failures since reset."),
            Field("status", 8, RO, enum=Status, doc="The latest failure since CLEAR or RESET."),
        ], doc="The selected queue's failures, as in SC and RC."),
        Register("QUEUE_SNAPSHOT", [
            Field("take", 1, PULSE, doc="Write 1 to start."),
            Field("busy", 1, RO, lsb=31, doc="The copy is in progress; it waits for a cycle without an event."),
        ], doc="Copies the counters of the selected queue to the SNAPSHOT registers."),
        Register("SNAPSHOT_REQUESTS", [Field("value", COUNT_WIDTH, RO, doc="As QUEUE_COUNT.")],
                 doc="Requests completed since reset, including failed ones."),
        Register("SNAPSHOT_FAILED", [Field("value", FAILED_WIDTH, RO, doc="As QUEUE_RESULT.")],
                 doc="Failures since reset."),
        *register_pair("SNAPSHOT_BYTES", BYTES_WIDTH, RO,
                       doc="Bytes of segments that were written without an error, since reset"),
        Register("SNAPSHOT_SEGMENTS", [Field("value", 32, RO, doc="Wraps.")],
                 doc="Segments with a response of memory, since reset."),
        Register("SNAPSHOT_STALLS", [Field("value", 32, RO, doc="Wraps.")],
                 doc="Picks of the queue that scheduled nothing because of its limit or a fence, since reset."),
        Register("HISTOGRAM_BIN", [number_field("bin", HISTOGRAM_BINS, RW, doc="Bin to select.")],
                 doc="Reads a bin of the selected queue's latency histogram into HISTOGRAM_COUNT."),
        Register("HISTOGRAM_COUNT", [Field("count", 32, RO, doc="Wraps.")],
                 doc="Samples of 2^bin to less than 2^(bin+1) cycles from acceptance to completion, since reset; the "
                     "last bin includes all longer ones."),
    )


def _targets(config: DmaConfig) -> Sequence[Register]:
    return [Register(f"TARGET_LIMIT_{number}", [
        Field("beats", config.load_width, RW,
              doc="Maximum of beats in flight; at this number no queue of the target is scheduled. 0 for no limit."),
        Field("slow", 1, RW, lsb=31, doc="Write a segment after its last beat was read, not from its first beat on."),
    ], doc=f"Limit of all queues of target {number} together, in destination beats.")
        for number in range(TARGETS)]


def _errors(config: DmaConfig) -> Sequence[Register]:
    return (
        Register("ERROR_LOG", [
            Field("status", 8, RO, enum=Status, doc="Cause of the failure."),
            Field("queue", config.queue_bits, RO, lsb=8, doc="Queue that failed."),
            Field("valid", 1, RO, lsb=31, doc="The log has an entry."),
        ], doc="Oldest entry of the error log. Read and pop entries until valid is 0, after at most as many entries as "
               "queues, even if queues fail again."),
        Register("ERROR_LOG_COUNT", [Field("count", COUNT_WIDTH, RO, doc="Requests of the queue that had completed.")],
                 doc="The queue's counter in the oldest entry: the number of the failed request, from 0."),
        Register("ERROR_LOG_POP", [Field("pop", 1, PULSE, doc="Write 1.")], doc="Removes the oldest entry."),
        Register("ERROR_LOG_LOST", [Field("count", 32, RO, doc="Wraps.")],
                 doc="Failures that were not entered because the log had an entry of their queue."),
        Register("WATCHDOG", [Field("cycles", 32, RW, doc="Time limit in cycles; 0 for none.")],
                 doc="A queue with segments in flight gets TIMEOUT if none completes for one to two times this limit."),
    )


def _ablations() -> Sequence[Register]:
    return (
        Register("ABLATION", [
            Field("single_read", 1, RW, doc="One segment's read in flight: the next is issued after it has completed."),
            Field("every_word", 1, RW, doc="A queue's next request completes after the words of the previous one are "
                  "written: SC and RC take every value."),
        ], doc="Disables parts of the pipelining, to measure their effect; 0 in use."),
    )


COUNTERS = (
    ("WORDS", "Words accepted from doorbells and descriptor rings."),
    ("REFUSED", "Words and tails refused."),
    ("REQUESTS", "Requests completed, including failed ones."),
    ("FAILED", "Failures, whether entered in the error log or not."),
    ("SEGMENTS", "Segments issued to memory."),
    ("READ_BEATS", "Beats received on R."),
    ("WRITE_BEATS", "Beats sent on W, including completion words."),
    ("COMPLETION_WRITES", "Completion words and records written."),
    ("READ_STALLS", "Cycles in which AR stalled."),
    ("WRITE_STALLS", "Cycles in which W stalled."),
    ("UNEXPECTED", "Unexpected R beats and B responses, dropped because nothing was in flight under their ID."),
)
"""Name and meaning of each free-running 32-bit counter."""


def register_map(config: DmaConfig) -> RegisterMap:
    """Registers of an engine with this configuration."""
    value = Field("value", 32, RO, doc="Wraps; zeroed by rst only. Updated up to 17 cycles after the event.")
    counters = [Register(f"COUNT_{name}", [value], doc=doc) for name, doc in COUNTERS]
    return RegisterMap(
        "dma_engine",
        [*_identity(config), *_interrupts(), *_regions(config), *_pages(config), *_connections(config),
         *_queues(config), *_targets(config), *_errors(config),
         *_ablations(),
         *counters, *refusal_registers(_MAP_WIDTH)],
        doc="GPU-controlled DMA engine.", addr_width=_MAP_WIDTH)
