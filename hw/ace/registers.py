# SPDX-License-Identifier: Apache-2.0
"""The accelerator's register map (``s_axil``), the source of gateware, C header, Markdown and SystemRDL.

Tables (regions, queues, communicators, programs) are written through a window, like those of the DMA engine: fill
the staging registers, then write the entry's number to the COMMIT register; the whole entry changes in one cycle.
"""

from collections.abc import Sequence

from hw.common.sizes import ADDR_WIDTH, DOMAIN_WIDTH, REGION_BEYOND
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

from .collectives import DIRECTORY_WIDTH, RANK_ORDER, OneShot
from .config import COUNT_WIDTH, DIMENSIONS, OFFSET_WIDTH, ONE_SHOT_WIDTH, ROOT_WIDTH, AceConfig
from .words import PROGRAM_WIDTH, CommunicatorState, LinkCause, LinkState, Stage, Status, Waits

__all__ = ["ID_VALUE", "LINK_COUNTERS", "LINK_TIMEOUT", "LINK_TRIES", "VERSION", "register_map"]

ID_VALUE = 0x4143_4520
"""ASCII ``ACE`` and a blank."""

VERSION = 1

_MAP_WIDTH = 12

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE


def _identity(config: AceConfig) -> Sequence[Register]:
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII ACE.")], doc="Identifies this block."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="A new version requires a change of software."),
        Register("SIZES", [
            constant_field("beat_bits", 4, (config.beat_bytes - 1).bit_length(), "Log2 of bytes per beat."),
            constant_field("fsm_bits", 4, config.fsm_bits, "Log2 of the number of FSMs."),
            constant_field("slot_bits", 4, config.slot_bits, "Log2 of the number of slots."),
            constant_field("chunk_bits", 5, (config.chunk_bytes - 1).bit_length(), "Log2 of bytes per chunk."),
            constant_field("queue_bits", 4, config.queue_bits, "Log2 of the number of queues."),
            constant_field("region_bits", 4, config.region_bits, "Log2 of the number of regions."),
            constant_field("communicator_bits", 3, config.communicator_bits,
                           "Log2 of the number of communicators."),
            constant_field("program_bits", 4, config.program_bits, "Log2 of the number of program words."),
        ], doc="Sizes of this accelerator."),
        Register("IRQ_STATUS", [
            Field("error", 1, W1C, doc="A collective failed, a word was refused, or a communicator ended."),
            Field("completion", 1, W1C, doc="A collective with the IRQ flag has completed."),
            Field("register", 1, W1C, doc="A register write was refused; see REFUSED_WRITE."),
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
            Field("readable", 1, RW, doc="Commands may use it as a send buffer."),
            Field("writable", 1, RW, doc="Commands may use it as a receive buffer."),
            Field("valid", 1, RW, doc="The entry is valid."),
        ], doc="Domain and rights of the region."),
        Register("REGION_COMMIT", [number_field("region", config.regions, PULSE, doc="Entry to write.")],
                 doc="Writes the staged region to the table. It applies to commands checked later. "
                     "Refused if the region is valid, and ends beyond the last address.",
                 guard=REGION_BEYOND),
    )


def _communicators(config: AceConfig) -> Sequence[Register]:
    sizes = [Field(f"size_{number}", 8, RW, doc=f"Ranks along dimension {number} of the communicator, less one.")
             for number in range(DIMENSIONS)]
    places = [Field(f"rank_{number}", 8, RW, doc=f"This endpoint's coordinate in dimension {number}.")
              for number in range(DIMENSIONS)]
    return (
        Register("COMMUNICATOR_SHAPE", sizes, doc="Shape of the communicator; unused dimensions have one rank."),
        Register("COMMUNICATOR_PLACE", places, doc="Coordinates of this endpoint."),
        Register("COMMUNICATOR_SHARE", [
            Field("fsm_first", 5, RW, legal=range(config.fsms), doc="Its first FSM."),
            Field("fsm_bits", 3, RW, legal=range(config.fsm_bits + 1),
                  doc="Log2 of the number of its FSMs; the same on all its ranks."),
            Field("slot_first", 6, RW, legal=range(config.slots), doc="Its first slot."),
            Field("slot_bits", 3, RW, legal=range(config.slot_bits + 1),
                  doc="Log2 of the number of its slots; at least as many as FSMs."),
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain whose queues may use it."),
            Field("valid", 1, RW, doc="The entry is valid."),
        ], doc="FSMs and slots of the communicator, which no other one shares, so that none can block another."),
        Register("COMMUNICATOR_ROOT", [
            Field(f"width_{number}", 4, RW, doc=f"Bits of the root's coordinate in dimension {number}.")
            for number in range(DIMENSIONS)
        ] + [Field("ranks", 8, RW, lsb=16, doc="Number of ranks; the divisor of averages.")],
            doc=f"Layout of the {ROOT_WIDTH} bits of a command's root; the last dimension is lowest."),
        Register("COMMUNICATOR_MODE", [
            Field("epoch", 4, RW, doc="Number of this opening, the same on all its ranks; changes each time."),
            Field("priority", 2, RW, doc="Class; higher ones go first at memory and ports."),
            number_field("ports", 1 << config.ports, RW, lsb=8, doc="Ports that its programs use, one bit each."),
            Field("rank", 8, RW, lsb=16, doc="Rank of this endpoint."),
        ], doc="Epoch and rank, which its packets and errors carry; priority and ports."),
        Register("COMMUNICATOR_COMMIT", [
            number_field("communicator", config.communicators, PULSE, doc="Entry to write.")],
            doc="Writes the staged communicator, and opens it. No command of it may be waiting or in progress; its "
                "chunks count from 0."),
        Register("COMMUNICATOR_REVOKE", [
            number_field("communicator", config.communicators, PULSE, doc="Communicator to end.")],
            doc="Ends all work in progress of an open communicator, on all its ranks, with REVOKED."),
        Register("WATCHDOG", [Field("cycles", 32, RW, doc="Time limit in cycles; 0 for none.")],
                 doc="A communicator with work and no progress for this time ends with TIMEOUT, except while another "
                     "blocks it. One that blocks others has half of the time for each chunk."),
        *register_pair("PROGRAM_WORD", PROGRAM_WIDTH, RW, doc="Word of a program"),
        Register("PROGRAM_COMMIT", [number_field("address", config.program_words, PULSE, doc="Word to write.")],
                 doc="Writes the staged word."),
        Register("DIRECTORY_ENTRY", [
            Field("plus", 12, RW, legal=range(config.program_words),
                  doc="Address of the program for chunks that go up, or of its table of roles."),
            Field("minus", 12, RW, legal=range(config.program_words), doc="The same for chunks that go down."),
            Field("both", 1, RW, doc="Half of the columns go down; otherwise all go up."),
            Field("valid", 1, RW, doc="The collective has a program."),
        ], doc="Addresses of a collective's programs."),
        Register("DIRECTORY_COMMIT", [
            number_field("collective", 1 << DIRECTORY_WIDTH, PULSE,
                         doc=f"Collective; plus {RANK_ORDER}: in rank order; {int(OneShot.ALL_REDUCE)}: one-shot "
                             "ALL_REDUCE."),
            number_field("communicator", config.communicators, PULSE, lsb=8, doc="Communicator."),
        ], doc="Writes the staged entry of the directory."),
    )


def _extents(config: AceConfig) -> Sequence[Register]:
    def part(side: str, buffer: str) -> tuple[Register, ...]:
        return (
            Register(f"EXTENT_{side}_COUNT", [Field("count", COUNT_WIDTH, RW, doc="Elements.")],
                     doc=f"Length of a part of the {buffer} buffer."),
            Register(f"EXTENT_{side}_PLACE", [
                Field("displacement", OFFSET_WIDTH, RW, doc="Elements before it.")], doc="Start of the part."))

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
            Field("sc_enable", 1, RW, doc="QUEUE_SC is valid; otherwise no completion word is published."),
            Field("enabled", 1, RW, doc="Accept words; otherwise they are refused."),
        ], doc="Behaviour of the queue."),
        Register("QUEUE_COMMIT", [number_field("queue", config.queues, PULSE, doc="Queue to configure.")],
                 doc="Writes the staged queue to the table."),
        Register("QUEUE_CLEAR", [number_field("queue", config.queues, PULSE, doc="Queue to clear.")],
                 doc="Leaves the error state: the failed command counts as completed, and the queue resumes."),
        Register("QUEUE_SELECT", [number_field("queue", config.queues, RW, doc="Queue to select.")],
                 doc="Selects the queue of the following registers."),
        Register("QUEUE_STATE", [
            Field("status", 8, RO, enum=Status, doc="Status of the failed command, otherwise OK."),
            Field("waiting", 8, RO, doc="Commands that have not started."),
            Field("active", 8, RO, doc="Commands in progress."),
        ], doc="State of the selected queue."),
        Register("QUEUE_COUNT", [Field("count", 32, RO, doc="Commands completed since reset.")],
                 doc="Count of the selected queue, as in its completion word."),
    )


def _features(config: AceConfig) -> Register:
    return Register("FEATURES", [
        constant_field("dimensions", 2, config.dimensions,
                       "Dimensions of the torus with ports; counters of others stay 0."),
        constant_field("prod", 1, config.prod, "Products are supported."),
        constant_field("fp8", 1, config.fp8, "FP8 is supported."),
        constant_field("avg", 1, config.avg, "Averages are supported."),
        constant_field("widen", 1, config.widen, "16-bit floats and FP8 can be reduced as FP32."),
        constant_field("varying", 1, config.varying, "Parts of different lengths are supported."),
        constant_field("counters", 1, config.counters, "Events are counted."),
        constant_field("address_bits", 7, config.address_width, "Width of its addresses."),
    ], doc="Features of this accelerator.")


LINK_TIMEOUT, LINK_TRIES = 4096, 8
"""Values after reset."""


def _links(config: AceConfig) -> Sequence[Register]:
    ports = config.ports
    return (
        Register("LINK_PATIENCE", [
            Field("timeout", 24, RW, reset=LINK_TIMEOUT, doc="Cycles without progress before packets are "
                  "replayed: longer than a packet and its acknowledgement take. 0: never."),
            Field("tries", 8, RW, reset=LINK_TRIES, doc="Time-outs in a row before the link goes down."),
        ], doc="Time-outs of all links."),
        Register("LINK_START", [number_field("ports", 1 << ports, PULSE, doc="One bit per port.")],
                 doc="Discards the waiting packets of these ports, and brings their links up with those of the peers."),
        Register("LINK_STOP", [number_field("ports", 1 << ports, PULSE, doc="One bit per port.")],
                 doc="Takes the links of these ports down."),
        Register("LINK_DOWN", [Field("ports", ports, RO, doc="One bit per port.")],
                 doc="Links that timed out or were taken down."),
        Register("LINK_SELECT", [Field("port", 3, RW, legal=range(ports), doc="Port to select.")],
                 doc="Selects the port of the following registers."),
        Register("LINK_STATE", [
            Field("state", 2, RO, enum=LinkState, doc="State of the selected port."),
            Field("unacknowledged", 9, RO, lsb=4, doc="Packets that the peer has not acknowledged."),
            Field("credits", 13, RO, lsb=16, doc="Credits: free beats of the peer's receive buffer."),
            Field("cause", 3, RO, lsb=29, enum=LinkCause, doc="Cause of its last DOWN."),
        ], doc="State of the selected port."),
        *map(_link_counter, LINK_COUNTERS[:-1]),
    )


def _link_counter(counter: tuple[str, str]) -> Register:
    name, doc = counter
    return Register(f"LINK_{name.upper()}", [Field("count", 16, RO, doc="Saturates.")],
                    doc=f"{doc}, at the selected port, since reset.")


LINK_COUNTERS = (
    ("replays", "Replays"),
    ("crc_errors", "Corrupt packets received"),
    ("sequence_errors", "Packets received out of sequence"),
    ("duplicates", "Duplicate packets received"),
    ("timeouts", "Time-outs without progress"),
    ("stale", "Stale packets received, from an earlier session or older than another received packet"),
)

COUNTERS = (
    ("READ_BYTES", "Payload bytes read from memory."),
    ("WRITE_BYTES", "Payload bytes written to memory, without completion words."),
    ("REDUCED_BEATS", "Beats received and combined."),
    ("COPIED_BEATS", "Beats received and stored without combining."),
    ("CHUNKS", "Chunks completed."),
    ("ACTIVE_CYCLES", "Cycles in which a chunk was in progress."),
    ("STARVED_CYCLES", "Cycles in which an FSM had data to send and none could send."),
    ("LATE_PACKETS", "Packets dropped because their communicator is not open or has another epoch."),
    ("BAD_PACKETS", "Packets dropped because they exceed a slot."),
    *((f"SENT_BEATS_{port}", f"Payload beats sent at port {port}.") for port in range(2 * DIMENSIONS)),
    ("UNEXPECTED", "Unexpected R beats and B responses, dropped because nothing was in flight."),
)
"""Name and meaning of each counter; all wrap, and only reset zeroes them."""


def register_map(config: AceConfig) -> RegisterMap:
    """The map of an accelerator with this configuration."""
    counters = [
        register
        for name, doc in COUNTERS
        for register in register_pair(f"COUNT_{name}", 48, RO, doc=doc)
    ]
    newest = 2                          # registers of the last counter
    watch = (
        Register("FSM_SELECT", [number_field("fsm", config.fsms, RW, doc="FSM to select.")],
                 doc="Selects the FSM of the following registers."),
        Register("FSM_STATE", [
            Field("busy", 1, RO, doc="It has a chunk."),
            Field("wants", 1, RO, doc="It has data to send."),
            Field("granted", 1, RO, doc="The receiver has granted it."),
            Field("ready", 1, RO, doc="The data to send has arrived."),
            Field("phase", 2, RO, doc="Phase of its program."),
            Field("port", 3, RO, doc="Port at which it sends."),
            Field("waits", 3, RO, enum=Waits, doc="Cause of the wait."),
            Field("communicator", 4, RO, lsb=12, doc="Communicator."),
            Field("sequence", 16, RO, lsb=16, doc="Number of its chunk."),
        ], doc="State of the selected FSM."),
        Register("FSM_STEPS", [
            Field("sent", 12, RO, doc="Completed sends of its phase."),
            Field("received", 12, RO, lsb=16, doc="Completed receives of its phase."),
        ], doc="Progress of the selected FSM."),
        Register("SLOT_SELECT", [number_field("slot", config.slots, RW, doc="Slot to select.")],
                 doc="Selects the slot of the following register."),
        Register("SLOT_STATE", [
            Field("stage", 3, RO, enum=Stage, doc="Stage of its chunk."),
            Field("communicator", 4, RO, lsb=12, doc="Communicator."),
            Field("sequence", 16, RO, lsb=16, doc="Number of its chunk."),
        ], doc="Contents of the selected slot; if it is free, its last contents."),
        Register("COMMUNICATOR_SELECT", [
            number_field("communicator", config.communicators, RW, doc="Communicator to select.")],
            doc="Selects the communicator of the following registers."),
        Register("COMMUNICATOR_STATE", [
            Field("state", 2, RO, enum=CommunicatorState, doc="Commands and packets are accepted when it is OPEN."),
            Field("work", 1, RO, doc="A collective of it has not completed."),
            Field("epoch", 4, RO, lsb=4, doc="Value of the entry."),
            Field("priority", 2, RO, lsb=8, doc="Value of the entry."),
            Field("chunks", 16, RO, lsb=16, doc="Number of its started chunks, modulo 65,536."),
        ], doc="State of the selected communicator."),
        Register("FAULT", [
            Field("status", 8, RO, enum=Status, doc="Cause of its end."),
            Field("rank", 8, RO, doc="Rank in the communicator where the error occurred."),
            Field("port", 3, RO, doc="Port of that rank whose link is down; otherwise 0."),
            Field("phase", 2, RO, doc="Phase of the chunk."),
            Field("named", 1, RO, doc="A chunk is named; otherwise none was on the links."),
        ], doc="The selected communicator's error, if it is ENDING or REVOKED."),
        Register("FAULT_CHUNK", [
            Field("step", 12, RO, doc="Completed sends of the phase; 0 for a memory error."),
            Field("sequence", 16, RO, lsb=16, doc="Number of the chunk: the failed one, or the oldest if none failed."),
        ], doc="The chunk of the error."),
    )
    return RegisterMap("ace", [
        *_identity(config), *_regions(config), *_communicators(config), *_extents(config), *_queues(config), *watch,
        *counters[:-newest], *_links(config), _features(config), *refusal_registers(_MAP_WIDTH),
        # At the end, so that existing registers keep their addresses.
        _link_counter(LINK_COUNTERS[-1]), *counters[-newest:],
        Register("COMMUNICATOR_ONE_SHOT", [
            Field("bytes", ONE_SHOT_WIDTH, RW, doc="Length of the longest one, the same on all its ranks; 0: none.")],
            doc="ALL_REDUCEs of at most this length are one-shot; part of the entry that COMMUNICATOR_COMMIT writes."),
    ], addr_width=_MAP_WIDTH, doc="Registers of the dmace collectives accelerator.")
