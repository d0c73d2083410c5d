"""The engine's register map (``s_axil``), from which gateware, C header, Markdown and SystemRDL come.

Tables (regions, queues) are written through a window: fill the staging registers, then write the
entry's number to the COMMIT register; the whole entry changes in one cycle.
"""

from hw.common.sizes import (
    ADDR_WIDTH,
    COUNT_WIDTH,
    DOMAIN_WIDTH,
    FAILED_WIDTH,
    OFFSET_WIDTH,
    PAGE_ID_WIDTH,
    REGION_ID_WIDTH,
    WEIGHT_WIDTH,
)
from hw.regs import (
    Access,
    Field,
    Register,
    RegisterMap,
    constant_field,
    number_field,
    refusal_registers,
    register_pair,
)

from .config import BYTES_WIDTH, CLASSES, HISTOGRAM_BINS, MODERATION_WIDTH, TARGETS
from .words import Command, QueueMode, Status

__all__ = ["ID_VALUE", "VERSION", "register_map"]

ID_VALUE = 0x444D_4145
"""ASCII ``DMAE``."""

VERSION = 1

_MAP_WIDTH = 12

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE


def _identity(config):
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII DMAE.")], doc="Tells what this block is."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="Changes when software must."),
        Register("SIZES", [
            constant_field("queue_bits", 4, config.queue_bits, "Log2 of the number of queues."),
            constant_field("region_bits", 4, config.region_bits, "Log2 of the number of regions."),
            constant_field("depth_bits", 4, (config.queue_depth - 1).bit_length(), "Log2 of words waiting per queue."),
            constant_field("window_bits", 4, config.window_bits, "Log2 of segments in flight per plain queue."),
            constant_field("tag_bits", 4, config.tag_bits, "Log2 of segments in flight."),
            constant_field("lane_bits", 4, config.lane_bits, "Log2 of bytes per beat."),
            constant_field("segment_bits", 4, config.segment_bits, "Log2 of bytes per segment."),
            constant_field("extended_bits", 4, config.extended_bits,
                           "Log2 of extended queues, which a ring can drive."),
        ], doc="Sizes this engine was built with."),
        Register("SIZES_2", [
            constant_field("page_bits", 4, config.page_bits, "Log2 of entries of the page table."),
            Field("extended_window_bits", 4, RO, reset=config.place_bits, constant=True, lsb=8,
                  doc="Log2 of segments in flight per extended queue."),
            constant_field("ring_bits", 4, (config.ring_depth - 1).bit_length(),
                           "Log2 of descriptors read ahead per ring."),
            constant_field("connection_bits", 4, config.connection_bits, "Log2 of the number of connections."),
        ], doc="More of them."),
    )


def _interrupts():
    sources = (
        ("error", "A request failed, or a word was refused; the error log says which."),
        ("completion", "A request with the IRQ flag ended."),
        ("register", "A write to a register was refused; REFUSED_WRITE says which."),
    )
    return (
        Register("IRQ_STATUS", [Field(name, 1, W1C, doc=doc) for name, doc in sources], doc="Interrupt sources."),
        Register("IRQ_ENABLE", [Field(name, 1, RW, doc=f"Let {name} drive irq.") for name, _ in sources],
                 doc="The irq output is high while an enabled source is set."),
        Register("IRQ_MODERATION", [
            Field("count", MODERATION_WIDTH, RW, doc="Requests, or 0."),
            Field("cycles", MODERATION_WIDTH, RW, doc="Cycles, or 0."),
        ], doc="Sets completion when so many requests with the IRQ flag have ended, or so many cycles after the first "
           "of them, whichever comes first; both 0 for at once."),
    )


def _regions(config):
    return (
        *register_pair("REGION_BASE", ADDR_WIDTH, RW,
                       doc="First byte of the region; a multiple of 4096, lower bits are ignored"),
        *register_pair("REGION_LENGTH", OFFSET_WIDTH + 1, RW, doc="Bytes in the region"),
        Register("REGION_ACCESS", [
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain whose queues may use the region."),
            Field("readable", 1, RW, doc="May be a source."),
            Field("writable", 1, RW, doc="May be a destination."),
            Field("valid", 1, RW, doc="The entry is a region."),
        ], doc="Who may do what with the region."),
        Register("REGION_ATTRIBUTES", [
            Field("cache", 4, RW, doc="AxCACHE; bits 3:2 count only where bit 1 (Modifiable) is set."),
            Field("prot", 3, RW, doc="AxPROT."),
            Field("qos", 4, RW, doc="AxQOS."),
        ], doc="Attributes of the bursts that read or write the region."),
        Register("REGION_PAGES", [
            Field("paged", 1, RW, doc="The region consists of pages; REGION_BASE is ignored."),
            Field("large", 1, RW, doc="Pages are of 2 MiB, not of 64 KiB."),
            Field("first", PAGE_ID_WIDTH, RW, lsb=16,
                  doc="Entry of the page table with the region's first page; the others follow it."),
        ], doc="Where a region lies that is not contiguous."),
        Register("REGION_COMMIT", [number_field("region", config.regions, PULSE, doc="Entry to write.")],
                 doc="Writes the staged region to the table. Requests scheduled later see it."),
    )


def _pages(config):
    return (
        *register_pair("PAGE_FRAME", ADDR_WIDTH, RW,
                       doc="Address of a page; lower bits, 16 or for a large page 21, are ignored"),
        Register("PAGE_COMMIT", [
            number_field("page", config.pages, PULSE, doc="Entry to write."),
            Field("present", 1, PULSE, lsb=31, doc="There is a page; SRC_PAGE or DST_PAGE otherwise."),
        ], doc="Writes an entry of the page table. Segments scheduled later see it."),
        Register("QUIESCE", [
            Field("start", 1, PULSE, doc="Write 1 after changing entries of the region or page table."),
            Field("busy", 1, RO, lsb=31, doc="Segments scheduled before the latest start, or words and descriptors of "
                  "a queue that was given up, are not answered."),
        ], doc="Tells when nothing uses the old entries, nor the memory of queues that were given up, any more."),
    )


def _connections(config):
    return (
        *register_pair("CONNECTION_RC", ADDR_WIDTH, RW, doc="Address of the receiver's RC array; a multiple of 8"),
        Register("CONNECTION_CONFIG", [
            Field("base", REGION_ID_WIDTH, RW, doc="Region that is the receiver's segment 0."),
            Field("domain", DOMAIN_WIDTH, RW, lsb=8, doc="Protection domain whose queues may use the connection."),
            Field("valid", 1, RW, lsb=16, doc="The entry is a connection."),
        ], doc="Where a connection leads."),
        Register("CONNECTION_COMMIT", [number_field("connection", config.connections, PULSE, doc="Entry to write.")],
                 doc="Writes the staged connection to the table. Nothing that names it may be waiting or in flight."),
    )


def _queues(config):
    return (
        *register_pair("QUEUE_SC", ADDR_WIDTH, RW, doc="Address of the send completion word; a multiple of 8"),
        *register_pair("QUEUE_RC", ADDR_WIDTH, RW, doc="Address of the receive completion word; a multiple of 8"),
        Register("QUEUE_CONFIG", [
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain of the queue's requests."),
            Field("sc_enable", 1, RW, doc="The queue has a send completion word."),
            Field("rc_enable", 1, RW, doc="The queue has a receive completion word."),
            Field("skip_errors", 1, RW, doc="Go on after a failed request instead of holding."),
            Field("mode", 2, RW, enum=QueueMode,
                  doc="What stores to its page mean; NATIVE in a queue that is not extended."),
            Field("target", (TARGETS - 1).bit_length(), RW, lsb=24,
                  doc="Memory that most of the queue's traffic comes from or goes to, see TARGET_LIMIT."),
            Field("priority", (CLASSES - 1).bit_length(), RW, doc="Class; queues of a higher one go first."),
            Field("weight", WEIGHT_WIDTH, RW, doc="Share of the bus among the queues of the class; 0 counts as 1."),
        ], doc="How the queue behaves."),
        *register_pair("RING_BASE", ADDR_WIDTH, RW,
                       doc="Address of the queue's descriptor ring; a multiple of its length and of 4096, "
                           "lower bits are ignored"),
        *register_pair("RING_RECORDS", ADDR_WIDTH, RW,
                       doc="Address of the ring's completion records; a multiple of their length and of 4096, "
                           "lower bits are ignored"),
        Register("RING_CONFIG", [
            Field("size", 5, RW, doc="Log2 of descriptors, and of records, 3 to 16; beyond, the nearest."),
            Field("records", 1, RW, lsb=8, doc="The ring has records."),
        ], doc="How the queue's descriptor ring is laid out."),
        Register("QUEUE_LIMIT", [
            Field("segments", config.place_bits, RW, doc="Most segments in flight; 0 for the whole window."),
        ], doc="How much of the engine the queue may occupy."),
        Register("QUEUE_ARK", [
            Field("base", REGION_ID_WIDTH, RW, doc="Region that is the queue's segment 0."),
        ], doc="For queues in ARK mode."),
        Register("QUEUE_COMMIT", [number_field("queue", config.queues, PULSE, doc="Queue to configure.")],
                 doc="Writes the staged configuration to a queue, which must have nothing in flight."),
        Register("QUEUE_COMMAND", [
            number_field("queue", config.queues, PULSE, doc="Queue that is told."),
            Field("command", 3, PULSE, lsb=8, enum=Command, legal=range(min(Command), max(Command) + 1),
                  doc="What it is told."),
        ], doc="Starts, pauses, clears or resets a queue."),
        Register("QUEUE_SELECT", [number_field("queue", config.queues, RW, doc="Queue to look at.")],
                 doc="Selects the queue that the registers below show."),
        Register("QUEUE_STATE", [
            Field("enabled", 1, RO, doc="Words are accepted."),
            Field("running", 1, RO, doc="Segments are scheduled."),
            Field("held", 1, RO, doc="Holds after an error until CLEAR or RESET."),
            Field("refusing", 1, RO, doc="A word was refused; so are later ones until CLEAR or RESET."),
            Field("resetting", 1, RO, doc="A RESET is draining."),
            Field("waiting", 1, RO, doc="Has words that are not wholly scheduled."),
            Field("in_flight", config.index_width, RO, lsb=8, doc="Segments issued and not retired."),
        ], doc="State of the selected queue."),
        Register("QUEUE_COUNT", [Field("count", COUNT_WIDTH, RO, doc="Requests ended since reset.")],
                 doc="The selected queue's counter, as in SC and RC."),
        Register("QUEUE_RESULT", [
            Field("failed", FAILED_WIDTH, RO, doc="Failures since reset."),
            Field("status", 8, RO, enum=Status, doc="The latest failure since CLEAR or RESET."),
        ], doc="The selected queue's failures, as in SC and RC."),
        Register("QUEUE_SNAPSHOT", [
            Field("take", 1, PULSE, doc="Write 1."),
            Field("busy", 1, RO, lsb=31, doc="The copy is not complete; it waits for a cycle without an event."),
        ], doc="Copies the counters of the selected queue to the SNAPSHOT registers."),
        Register("SNAPSHOT_REQUESTS", [Field("value", COUNT_WIDTH, RO, doc="As QUEUE_COUNT.")],
                 doc="Requests ended since reset, failed ones included."),
        Register("SNAPSHOT_FAILED", [Field("value", FAILED_WIDTH, RO, doc="As QUEUE_RESULT.")],
                 doc="Failures since reset."),
        *register_pair("SNAPSHOT_BYTES", BYTES_WIDTH, RO,
                       doc="Bytes of segments that were written without an error, since reset"),
        Register("SNAPSHOT_SEGMENTS", [Field("value", 32, RO, doc="Wraps.")],
                 doc="Segments that memory has answered, since reset."),
        Register("SNAPSHOT_STALLS", [Field("value", 32, RO, doc="Wraps.")],
                 doc="Times that the queue was picked and could not go, because of its limit or a fence, since reset."),
        Register("HISTOGRAM_BIN", [number_field("bin", HISTOGRAM_BINS, RW, doc="Bin to look at.")],
                 doc="Reads a bin of the selected queue's latency histogram into HISTOGRAM_COUNT."),
        Register("HISTOGRAM_COUNT", [Field("count", 32, RO, doc="Wraps.")],
                 doc="Samples of 2^bin to less than 2^(bin+1) cycles from acceptance to end, since reset; the last bin "
                     "has all longer ones too."),
    )


def _targets(config):
    return [Register(f"TARGET_LIMIT_{number}", [
        Field("beats", config.load_width, RW,
              doc="While that many are in flight, no queue of the target is scheduled; 0 for no limit."),
        Field("slow", 1, RW, lsb=31, doc="Write a segment when it has all been read, not at its first beat."),
    ], doc=f"What the queues of target {number} may occupy together, in destination beats.")
        for number in range(TARGETS)]


def _errors(config):
    return (
        Register("ERROR_LOG", [
            Field("status", 8, RO, enum=Status, doc="What went wrong."),
            Field("queue", config.queue_bits, RO, lsb=8, doc="On which queue."),
            Field("valid", 1, RO, lsb=31, doc="There is an entry."),
        ], doc="Oldest entry of the error log. Read it, and pop entries, until valid is 0: at the latest after as many "
               "as there are queues, though a queue may have failed again."),
        Register("ERROR_LOG_COUNT", [Field("count", COUNT_WIDTH, RO, doc="Requests of the queue that ended before.")],
                 doc="The queue's counter in the oldest entry: the number of the failed request, from 0."),
        Register("ERROR_LOG_POP", [Field("pop", 1, PULSE, doc="Write 1.")], doc="Drops the oldest entry."),
        Register("ERROR_LOG_LOST", [Field("count", 32, RO, doc="Wraps.")],
                 doc="Failures that were not entered, as one of their queue was waiting: each queue has one place."),
        Register("WATCHDOG", [Field("cycles", 32, RW, doc="Cycles, or 0 for never.")],
                 doc="A queue with segments in flight of which none ends for one to two such times gets TIMEOUT."),
    )


def _ablations():
    return (
        Register("ABLATION", [
            Field("single_read", 1, RW, doc="A segment is read when the one before has been: one read in flight."),
            Field("every_word", 1, RW, doc="A queue's next request ends when the words of the one before are "
                  "written: SC and RC take every value."),
        ], doc="Switches off what makes the engine fast, for measurements of its worth; 0 in use."),
    )


COUNTERS = (
    ("WORDS", "Words accepted from doorbells and descriptor rings."),
    ("REFUSED", "Words and tails refused."),
    ("REQUESTS", "Requests ended, failed ones included."),
    ("FAILED", "Failures, entered in the error log or not."),
    ("SEGMENTS", "Segments issued to memory."),
    ("READ_BEATS", "Beats received on R."),
    ("WRITE_BEATS", "Beats sent on W, completion words included."),
    ("COMPLETION_WRITES", "Completion words and records written."),
    ("READ_STALLS", "Cycles that AR waited for ready."),
    ("WRITE_STALLS", "Cycles that W waited for ready."),
    ("UNEXPECTED", "R beats and B responses dropped: nothing was in flight under their ID."),
)
"""Name and meaning of each free-running 32-bit counter."""


def register_map(config):
    """Registers of an engine of these sizes."""
    value = Field("value", 32, RO, doc="Wraps; zeroed by rst only. Up to 17 cycles late.")
    counters = [Register(f"COUNT_{name}", [value], doc=doc) for name, doc in COUNTERS]
    return RegisterMap(
        "dma_engine",
        [*_identity(config), *_interrupts(), *_regions(config), *_pages(config), *_connections(config),
         *_queues(config), *_targets(config), *_errors(config),
         *_ablations(),
         *counters, *refusal_registers(_MAP_WIDTH)],
        doc="GPU-controlled DMA engine.", addr_width=_MAP_WIDTH)
