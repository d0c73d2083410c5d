"""The accelerator's register map (``s_axil``), from which gateware, C header, Markdown and SystemRDL come.

Tables (regions, queues, communicators, programs) are written through a window, as those of the DMA engine: fill
the staging registers, then write the entry's number to the COMMIT register; the whole entry changes in one cycle.
"""

from collections.abc import Sequence

from hw.common.sizes import ADDR_WIDTH, DOMAIN_WIDTH
from hw.common.sizes import OFFSET_WIDTH as REGION_WIDTH
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

from .config import COUNT_WIDTH, DIMENSIONS, DIRECTORY_WIDTH, OFFSET_WIDTH, ROOT_WIDTH, AceConfig
from .words import PROGRAM_WIDTH, CommunicatorState, LinkCause, LinkState, Stage, Status, Waits

__all__ = ["ID_VALUE", "LINK_COUNTERS", "LINK_TIMEOUT", "LINK_TRIES", "VERSION", "register_map"]

ID_VALUE = 0x4143_4520
"""ASCII ``ACE`` and a blank."""

VERSION = 1

_MAP_WIDTH = 12

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE


def _identity(config: AceConfig) -> Sequence[Register]:
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII ACE.")], doc="Tells what this block is."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="Changes when software must."),
        Register("SIZES", [
            constant_field("beat_bits", 4, (config.beat_bytes - 1).bit_length(), "Log2 of bytes per beat."),
            constant_field("fsm_bits", 4, config.fsm_bits, "Log2 of the number of FSMs."),
            constant_field("slot_bits", 4, config.slot_bits, "Log2 of the number of slots."),
            constant_field("chunk_bits", 5, (config.chunk_bytes - 1).bit_length(), "Log2 of bytes per chunk."),
            constant_field("queue_bits", 4, config.queue_bits, "Log2 of the number of queues."),
            constant_field("region_bits", 4, config.region_bits, "Log2 of the number of regions."),
            constant_field("communicator_bits", 3, config.communicator_bits,
                           "Log2 of the number of communicators."),
            constant_field("program_bits", 4, config.program_bits, "Log2 of words of programs."),
        ], doc="Sizes this accelerator was built with."),
        Register("IRQ_STATUS", [
            Field("error", 1, W1C, doc="A collective failed, a word was refused, or a communicator ended."),
            Field("completion", 1, W1C, doc="A collective with the IRQ flag has ended."),
            Field("register", 1, W1C, doc="A write to a register was refused; REFUSED_WRITE says which."),
        ], doc="Interrupt sources."),
        Register("IRQ_ENABLE", [
            Field(name, 1, RW, doc=f"Let {name} drive irq.") for name in ("error", "completion", "register")],
            doc="The irq output is high while an enabled source is set."),
    )


def _regions(config: AceConfig) -> Sequence[Register]:
    return (
        *register_pair("REGION_BASE", ADDR_WIDTH, RW,
                       doc="First byte of the region; a multiple of 4096, lower bits are ignored"),
        *register_pair("REGION_LENGTH", REGION_WIDTH + 1, RW, doc="Bytes in the region"),
        Register("REGION_ACCESS", [
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain whose queues may use the region."),
            Field("readable", 1, RW, doc="May be a send buffer."),
            Field("writable", 1, RW, doc="May be a receive buffer."),
            Field("valid", 1, RW, doc="The entry is a region."),
        ], doc="Who may do what with the region."),
        Register("REGION_COMMIT", [number_field("region", config.regions, PULSE, doc="Entry to write.")],
                 doc="Writes the staged region to the table. Commands looked at later see it."),
    )


def _communicators(config: AceConfig) -> Sequence[Register]:
    sizes = [Field(f"size_{number}", 8, RW, doc=f"Ranks along dimension {number} of the communicator, less one.")
             for number in range(DIMENSIONS)]
    places = [Field(f"rank_{number}", 8, RW, doc=f"This endpoint's coordinate in dimension {number}.")
              for number in range(DIMENSIONS)]
    return (
        Register("COMMUNICATOR_SHAPE", sizes, doc="Shape of the communicator; unused dimensions have one rank."),
        Register("COMMUNICATOR_PLACE", places, doc="Where this endpoint is in it."),
        Register("COMMUNICATOR_SHARE", [
            Field("fsm_first", 5, RW, legal=range(config.fsms), doc="First FSM of its own."),
            Field("fsm_bits", 3, RW, legal=range(config.fsm_bits + 1),
                  doc="Log2 of how many; the same on all its ranks."),
            Field("slot_first", 6, RW, legal=range(config.slots), doc="First slot of its own."),
            Field("slot_bits", 3, RW, legal=range(config.slot_bits + 1),
                  doc="Log2 of how many; at least as many as FSMs."),
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain whose queues may use it."),
            Field("valid", 1, RW, doc="The entry is a communicator."),
        ], doc="What it has for itself, so that none can be kept waiting by another."),
        Register("COMMUNICATOR_ROOT", [
            Field(f"width_{number}", 4, RW, doc=f"Bits of the root's coordinate in dimension {number}.")
            for number in range(DIMENSIONS)
        ] + [Field("ranks", 8, RW, lsb=16, doc="Ranks in all; what averages are divided by.")],
            doc=f"How the {ROOT_WIDTH} bits of a command's root are cut; the last dimension is lowest."),
        Register("COMMUNICATOR_MODE", [
            Field("epoch", 4, RW, doc="Which time it is set up; the same on all its ranks, another one than before."),
            Field("priority", 2, RW, doc="Higher ones go first at memory and ports."),
            number_field("ports", 1 << config.ports, RW, lsb=8, doc="Ports that its programs use, a bit each."),
            Field("rank", 8, RW, lsb=16, doc="This endpoint's rank in it."),
        ], doc="What packets and errors of it carry, and who goes first."),
        Register("COMMUNICATOR_COMMIT", [
            number_field("communicator", config.communicators, PULSE, doc="Entry to write.")],
            doc="Writes the staged communicator, and opens it. Nothing of it may be waiting or under way; its chunks "
                "count from 0."),
        Register("COMMUNICATOR_REVOKE", [
            number_field("communicator", config.communicators, PULSE, doc="Communicator to end.")],
            doc="Ends what is under way of an open communicator, on all its ranks, with REVOKED."),
        Register("WATCHDOG", [Field("cycles", 32, RW, doc="Cycles; 0 for no limit.")],
                 doc="A communicator that has work, and makes no progress for this time, ends with TIMEOUT; not while "
                     "others keep it waiting. One that keeps others waiting has half of the time for each chunk."),
        *register_pair("PROGRAM_WORD", PROGRAM_WIDTH, RW, doc="A word of a program"),
        Register("PROGRAM_COMMIT", [number_field("address", config.program_words, PULSE, doc="Word to write.")],
                 doc="Writes the staged word."),
        Register("DIRECTORY_ENTRY", [
            Field("plus", 12, RW, legal=range(config.program_words),
                  doc="Address of the program for chunks that go up, or of its table of roles."),
            Field("minus", 12, RW, legal=range(config.program_words), doc="The same for those that go down."),
            Field("both", 1, RW, doc="Half of the columns go down; else all go up."),
            Field("valid", 1, RW, doc="There is a program."),
        ], doc="Where a collective's programs are."),
        Register("DIRECTORY_COMMIT", [
            number_field("collective", 1 << DIRECTORY_WIDTH, PULSE, doc="Collective; 8 more: in rank order."),
            number_field("communicator", config.communicators, PULSE, lsb=8, doc="Communicator."),
        ], doc="Writes the staged entry of the directory."),
    )


def _extents(config: AceConfig) -> Sequence[Register]:
    def part(side: str, buffer: str) -> tuple[Register, ...]:
        return (
            Register(f"EXTENT_{side}_COUNT", [Field("count", COUNT_WIDTH, RW, doc="Elements.")],
                     doc=f"How long a part of the {buffer} buffer is."),
            Register(f"EXTENT_{side}_PLACE", [
                Field("displacement", OFFSET_WIDTH, RW, doc="Elements before it.")], doc="Where it begins."))

    return (
        *part("SEND", "send"), *part("RECEIVE", "receive"),
        Register("EXTENT_COMMIT", [number_field("row", config.extent_rows, PULSE, doc="Row to write.")],
                 doc="Writes the staged extents, of one rank, to both halves of a row. No collective may be using it."),
    )


def _queues(config: AceConfig) -> Sequence[Register]:
    return (
        *register_pair("QUEUE_SC", ADDR_WIDTH, RW, doc="Address of the completion word; a multiple of 8"),
        Register("QUEUE_CONFIG", [
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain of the queue."),
            Field("sc_enable", 1, RW, doc="QUEUE_SC is an address; without it, SC is not published."),
            Field("enabled", 1, RW, doc="Take words; else they are refused."),
        ], doc="How a queue behaves."),
        Register("QUEUE_COMMIT", [number_field("queue", config.queues, PULSE, doc="Queue to configure.")],
                 doc="Writes the staged queue to the table."),
        Register("QUEUE_CLEAR", [number_field("queue", config.queues, PULSE, doc="Queue to clear.")],
                 doc="Leaves the error state: the failed command counts as ended, and the queue goes on."),
        Register("QUEUE_SELECT", [number_field("queue", config.queues, RW, doc="Queue to look at.")],
                 doc="Which queue the following registers show."),
        Register("QUEUE_STATE", [
            Field("status", 8, RO, enum=Status, doc="Of the failed command, else OK."),
            Field("waiting", 8, RO, doc="Commands that have not begun."),
            Field("active", 8, RO, doc="Commands under way."),
        ], doc="State of the selected queue."),
        Register("QUEUE_COUNT", [Field("count", 32, RO, doc="Commands ended since reset.")],
                 doc="Count of the selected queue, as in its completion word."),
    )


def _features(config: AceConfig) -> Register:
    return Register("FEATURES", [
        constant_field("dimensions", 2, config.dimensions,
                       "Dimensions of the torus that it has ports for; counters of others stay 0."),
        constant_field("prod", 1, config.prod, "It makes products."),
        constant_field("fp8", 1, config.fp8, "It knows FP8."),
        constant_field("avg", 1, config.avg, "It makes averages."),
        constant_field("widen", 1, config.widen, "It reduces 16-bit floats and FP8 as FP32."),
        constant_field("varying", 1, config.varying, "It takes parts of different lengths."),
        constant_field("counters", 1, config.counters, "It counts events."),
        constant_field("address_bits", 7, config.address_width, "Bits of its addresses that count."),
    ], doc="What this accelerator was built with.")


LINK_TIMEOUT, LINK_TRIES = 4096, 8
"""Out of reset."""


def _links(config: AceConfig) -> Sequence[Register]:
    ports = config.ports
    return (
        Register("LINK_PATIENCE", [
            Field("timeout", 24, RW, reset=LINK_TIMEOUT, doc="Cycles without progress after which packets are sent "
                  "again: more than a packet takes there, and its acknowledgement back. 0: never."),
            Field("tries", 8, RW, reset=LINK_TRIES, doc="How often in a row, before the link is given up."),
        ], doc="Patience of all links."),
        Register("LINK_START", [number_field("ports", 1 << ports, PULSE, doc="A bit for each port.")],
                 doc="Forgets what waits at these ports, and brings their links up when the other ends do so too."),
        Register("LINK_STOP", [number_field("ports", 1 << ports, PULSE, doc="A bit for each port.")],
                 doc="Takes the links of these ports down."),
        Register("LINK_DOWN", [Field("ports", ports, RO, doc="A bit for each port.")],
                 doc="Links that were given up, or taken down."),
        Register("LINK_SELECT", [Field("port", 3, RW, legal=range(ports), doc="Port to look at.")],
                 doc="Which port the following registers show."),
        Register("LINK_STATE", [
            Field("state", 2, RO, enum=LinkState, doc="State of the selected port."),
            Field("unacknowledged", 9, RO, lsb=4, doc="Packets that the other end has not acknowledged."),
            Field("credits", 13, RO, lsb=16, doc="Beats for which the other end has room."),
            Field("cause", 3, RO, lsb=29, enum=LinkCause, doc="Why it went DOWN the last time."),
        ], doc="State of the selected port."),
        *map(_link_counter, LINK_COUNTERS[:-1]),
    )


def _link_counter(counter: tuple[str, str]) -> Register:
    name, doc = counter
    return Register(f"LINK_{name.upper()}", [Field("count", 16, RO, doc="It stays at its largest value.")],
                    doc=f"{doc}, at the selected port, since reset.")


LINK_COUNTERS = (
    ("replays", "Times that packets were sent again"),
    ("crc_errors", "Broken packets that came"),
    ("sequence_errors", "Packets that came in place of another"),
    ("duplicates", "Packets that had come before"),
    ("timeouts", "Times that there was no progress"),
    ("stale", "Packets that came too late: of an earlier session, or older than another that has come"),
)

COUNTERS = (
    ("READ_BYTES", "Payload bytes read from memory."),
    ("WRITE_BYTES", "Payload bytes written to memory; without completion words."),
    ("REDUCED_BEATS", "Beats combined with another."),
    ("COPIED_BEATS", "Beats received and only stored."),
    ("CHUNKS", "Chunks ended."),
    ("ACTIVE_CYCLES", "Cycles in which a chunk was under way."),
    ("STARVED_CYCLES", "Cycles in which an FSM waited to send and none could."),
    ("LATE_PACKETS", "Packets dropped because their communicator is not open, or has another epoch."),
    ("BAD_PACKETS", "Packets dropped because they do not fit a slot."),
    *((f"SENT_BEATS_{port}", f"Beats of payload sent at port {port}.") for port in range(2 * DIMENSIONS)),
    ("UNEXPECTED", "R beats and B responses dropped: nothing was in flight."),
)
"""Name and meaning of each counter; all wrap, and only reset zeroes them."""


def register_map(config: AceConfig) -> RegisterMap:
    """The map of an accelerator of this configuration."""
    counters = [
        register
        for name, doc in COUNTERS
        for register in register_pair(f"COUNT_{name}", 48, RO, doc=doc)
    ]
    newest = 2                          # registers of the last counter
    watch = (
        Register("FSM_SELECT", [number_field("fsm", config.fsms, RW, doc="FSM to look at.")],
                 doc="Which FSM the following registers show."),
        Register("FSM_STATE", [
            Field("busy", 1, RO, doc="It has a chunk."),
            Field("wants", 1, RO, doc="It has something to send."),
            Field("granted", 1, RO, doc="The receiver of that is ready."),
            Field("ready", 1, RO, doc="What it sends has come."),
            Field("phase", 2, RO, doc="Phase of its program."),
            Field("port", 3, RO, doc="Port at which it sends."),
            Field("waits", 3, RO, enum=Waits, doc="What it waits for."),
            Field("communicator", 4, RO, lsb=12, doc="Communicator."),
            Field("sequence", 16, RO, lsb=16, doc="Number of its chunk."),
        ], doc="What the selected FSM is at."),
        Register("FSM_STEPS", [
            Field("sent", 12, RO, doc="Sends of its phase that are done."),
            Field("received", 12, RO, lsb=16, doc="Receives of its phase that are done."),
        ], doc="How far the selected FSM is."),
        Register("SLOT_SELECT", [number_field("slot", config.slots, RW, doc="Slot to look at.")],
                 doc="Which slot the following register shows."),
        Register("SLOT_STATE", [
            Field("stage", 3, RO, enum=Stage, doc="Where its chunk is."),
            Field("communicator", 4, RO, lsb=12, doc="Communicator."),
            Field("sequence", 16, RO, lsb=16, doc="Number of its chunk."),
        ], doc="What the selected slot holds; if it is free, held last."),
        Register("COMMUNICATOR_SELECT", [
            number_field("communicator", config.communicators, RW, doc="Communicator to look at.")],
            doc="Which communicator the following registers show."),
        Register("COMMUNICATOR_STATE", [
            Field("state", 2, RO, enum=CommunicatorState, doc="Whether it takes commands and packets."),
            Field("work", 1, RO, doc="A collective of it is not over."),
            Field("epoch", 4, RO, lsb=4, doc="As it was written."),
            Field("priority", 2, RO, lsb=8, doc="As it was written."),
            Field("chunks", 16, RO, lsb=16, doc="Its chunks that have begun, modulo 65,536."),
        ], doc="What the selected communicator is at."),
        Register("FAULT", [
            Field("status", 8, RO, enum=Status, doc="Why it ended."),
            Field("rank", 8, RO, doc="Where: rank in the communicator."),
            Field("port", 3, RO, doc="That rank's port whose link is down; else 0."),
            Field("phase", 2, RO, doc="Phase of the chunk."),
            Field("named", 1, RO, doc="There is a chunk: else none of it was on the links."),
        ], doc="The selected communicator's error, if it is ENDING or REVOKED."),
        Register("FAULT_CHUNK", [
            Field("step", 12, RO, doc="Sends of the phase that were done; of a memory error, 0."),
            Field("sequence", 16, RO, lsb=16, doc="Number of the chunk: of a memory error the one, else the oldest."),
        ], doc="The chunk that the error hit."),
    )
    return RegisterMap("ace", [
        *_identity(config), *_regions(config), *_communicators(config), *_extents(config), *_queues(config), *watch,
        *counters[:-newest], *_links(config), _features(config), *refusal_registers(_MAP_WIDTH),
        # Last, so that no other has another address than before.
        _link_counter(LINK_COUNTERS[-1]), *counters[-newest:],
    ], addr_width=_MAP_WIDTH, doc="Registers of the dmace collectives accelerator.")
