# SPDX-License-Identifier: Apache-2.0
"""Collectives in progress, from their command to their completion word.

Decoder -> Operations -> chunker, and back; Operations -> Drain (completion words).  Latency: 4 cycles from the end of
the last chunk to the completion word if its queue has nothing older.  Throughput: one collective starts, one chunk
starts and one ends per cycle; each queue is polled every ``queues`` cycles.

Each communicator has two rows: chunks of its next collective are cut while those of the previous one are in progress.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.common.layouts import CompletionLayout
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .command_queues import Admission, QueueClear, QueueWrite, Refusal
from .communicator_status import ActivitySignature, CommunicatorStatusSignature
from .config import LENGTH_WIDTH, AceConfig
from .layouts import arithmetic_layout
from .numerics.formats import TYPE_WIDTH
from .words import CommandFlag, Status

__all__ = [
    "ROWS", "ChunkEnded", "ChunkIssued", "CompletionLookup", "CompletionWords", "OperationInterrupts", "OperationRead",
    "Operations", "OperationsToCut", "WorkSignature", "operation_layout", "row_width", "verdict_layout", "word_layout",
]

ROWS = 2
"""Maximum collectives of a communicator in progress."""

ACTIVE = 4
"""Maximum commands of a queue in progress. The decoder has one command at a time: the previous one is already counted
when it accepts the next."""

STATUS_WIDTH = 8


def operation_layout(config):
    """A collective, ready to be cut into chunks.

    ``shard_bytes``: of columns. ``half``: columns before it go up, the others down. ``piece``: maximum columns of a
    chunk, in units of 16 bytes. ``plus``, ``minus``: programs. ``src_limit``, ``dst_limit``: bytes of the buffers.
    ``varying``: the extents table has the parts of the buffers, from ``row`` on. ``size``: log2 of bytes per element.
    """
    return data.StructLayout({
        "src_base": config.address_width, "dst_base": config.address_width,
        "src_limit": LENGTH_WIDTH, "dst_limit": LENGTH_WIDTH,
        "shard_bytes": LENGTH_WIDTH, "half": LENGTH_WIDTH, "piece": 13,
        "plus": config.program_bits, "minus": config.program_bits,
        "dtype": TYPE_WIDTH, "widen": 1, "divide": 8, "arithmetic": arithmetic_layout(),
        "varying": 1, "row": config.extent_bits, "size": 2,
    })


def word_layout(config):
    """A completion word: its address, a multiple of 8 bytes, and its queue."""
    return data.StructLayout({"address": config.address_width, "data": 64, "queue": config.queue_bits})


def verdict_layout(config):
    """A decoded command: the row in which it starts, or the status with which it fails; ``chunks`` is 0 if it has
    none."""
    return data.StructLayout({
        "queue": config.queue_bits, "flags": 4, "communicator": config.communicator_bits, "status": STATUS_WIDTH,
        "chunks": 1, "operation": operation_layout(config),
    })


def row_width(config):
    """Bits of a row's number: the communicator, and in the low bits which of its rows."""
    return config.communicator_bits + (ROWS - 1).bit_length()


class OperationRead(wiring.Signature):
    """Read port of the operations. The reader drives ``row``; ``operation`` follows in the same cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"row": Out(row_width(config)), "operation": In(operation_layout(config))})


class OperationsToCut(wiring.Signature):
    """Collectives to be cut into chunks: levels, driven by Operations, without handshake.

    Members
    -------
    begun : ``Out(communicators)``
        Communicators with a collective of which chunks remain to be cut.
    row : ``Out(communicators)``
        Which of the communicator's two rows it is in.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"begun": Out(config.communicators), "row": Out(config.communicators)})


class ChunkIssued(EventSignature):
    """A chunk of ``payload.row`` was cut; ``payload.last``: the collective's last one. Driven by Chunker."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(data.StructLayout({"row": row_width(config), "last": 1}))


class ChunkEnded(EventSignature):
    """A chunk of ``payload.row`` has been drained, or dropped, with ``payload.status``. Driven by Chunker."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(data.StructLayout({"row": row_width(config), "status": STATUS_WIDTH}))


class WorkSignature(wiring.Signature):
    """Communicators with a collective in progress, one bit each: a level, driven by Operations."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"communicators": Out(config.communicators)})


class CompletionWords(wiring.Signature):
    """Completion words to be written to memory, and the responses.

    A stream of ``word_layout`` from Operations to Drain, with back-pressure. Drain drives the other members: in the
    cycle of ``done`` the oldest word's response has arrived, an error if ``failed``; ``queue`` is that word's.
    Operations always accepts the response.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            **stream.Signature(word_layout(config)).members,
            "done": In(1), "failed": In(1), "queue": In(config.queue_bits),
        })


class CompletionLookup(wiring.Signature):
    """Debug look-up: the registers drive ``queue``; the rest follows in the same cycle.

    ``count``: completed commands. ``status``: of the failed command. ``active``: commands in progress.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "count": In(32), "status": In(STATUS_WIDTH),
                          "active": In(range(ACTIVE + 1))})


class OperationInterrupts(wiring.Signature):
    """Interrupt strobes, one cycle each: a command failed; a command with the IRQ flag has completed."""

    def __init__(self) -> None:
        super().__init__({"error": Out(1), "completion": Out(1)})


class Operations(wiring.Component):
    """Store the rows, count their chunks, and complete the commands of each queue in order.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    i : ``In(stream.Signature(verdict_layout))``
        The communicator has a free row and the queue a free entry.
    admission : ``Out(Admission)``
    to_cut : ``Out(OperationsToCut)``
    reads : ``In(OperationRead).array(2)``
    issued : ``In(ChunkIssued)``, ended : ``In(ChunkEnded)``
    communicator_status : ``In(CommunicatorStatusSignature)``
        Collectives of a stopped communicator complete with its status when none of their chunks remain.
    cutting : ``In(ActivitySignature)``
        The communicator whose chunk is being cut.
    work : ``Out(WorkSignature)``
    held : ``Out(ActivitySignature)``
        Communicators with a chunk in progress.
    configure : ``In(QueueWrite)``, clear : ``In(QueueClear)``
    refused : ``In(Refusal)``
        The queue enters the error state when all earlier commands have completed; the same after an error response to a
        completion word.
    words : ``Out(CompletionWords)``
    lookup : ``In(CompletionLookup)``
    irq : ``Out(OperationInterrupts)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        self.row_bits = row_width(config)
        super().__init__({
            "init": In(SweepSignature(config)),
            "i": In(stream.Signature(verdict_layout(config))),
            "admission": Out(Admission(config)), "to_cut": Out(OperationsToCut(config)),
            "reads": In(OperationRead(config)).array(2),
            "issued": In(ChunkIssued(config)), "ended": In(ChunkEnded(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)), "cutting": In(ActivitySignature(config)),
            "work": Out(WorkSignature(config)), "held": Out(ActivitySignature(config)),
            "configure": In(QueueWrite(config)), "clear": In(QueueClear(config)), "refused": In(Refusal(config)),
            "words": Out(CompletionWords(config)), "lookup": In(CompletionLookup(config)),
            "irq": Out(OperationInterrupts()),
        })

    def elaborate(self, platform):
        m = Module()
        self._queues(m, *self._rows(m))
        return m

    def _rows(self, m):
        """Rows are used alternately; chunks of the older are cut before those of the newer."""
        config = self.config
        rows = config.communicators * ROWS
        m.submodules.operations = table = Table(operation_layout(config), depth=rows, reads=len(self.reads), init=None)
        new = self.i.payload
        to, cutting = Signal(config.communicators), Signal(config.communicators)    # which of the two rows
        taken, whole, empty = Signal(rows), Signal(rows), Signal(rows)              # in use; all chunks cut; no chunks
        statuses = Array(Signal(STATUS_WIDTH, name=f"status_{row}") for row in range(rows))
        chunks = Array(Signal(config.slot_bits + 1, name=f"chunks_{row}") for row in range(rows))
        row = Cat(to.bit_select(new.communicator, 1), new.communicator)
        begins = Signal()
        m.d.comb += [
            self.i.ready.eq(1),
            begins.eq(self.i.valid & (new.status == Status.OK)),
            table.write.en.eq(begins), table.write.addr.eq(row), table.write.data.eq(new.operation),
            self.to_cut.row.eq(cutting),
        ]
        with m.If(begins & ~ResetSignal(allow_reset_less=True)):
            m.d.sync += Assert(~taken.bit_select(row, 1), Format("a collective begins in a row in use"))
        for port, read in zip(self.reads, table.read, strict=True):
            m.d.comb += [read.addr.eq(port.row), port.operation.eq(read.data)]
        over = Signal(rows)
        for number in range(config.communicators):
            first = number * ROWS
            here = range(first, first + ROWS)
            m.d.comb += [
                self.work.communicators[number].eq(Cat(taken[row] & ~over[row] for row in here).any()),
                self.held.communicators[number].eq(Cat(chunks[row] != 0 for row in here).any()),
                self.admission.communicators[number].eq(~taken.bit_select(first + to[number], 1)),
                self.to_cut.begun[number].eq((taken & ~whole).bit_select(first + cutting[number], 1)),
            ]
            for row_index in range(ROWS):
                with m.If(empty[first + row_index] & (cutting[number] == row_index)):
                    m.d.sync += [empty[first + row_index].eq(0), cutting[number].eq(~cutting[number])]
            # No more chunks of a stopped communicator are cut.
            with m.If(self.communicator_status.stopped[number] & ~self.cutting.communicators[number]):
                m.d.sync += cutting[number].eq(to[number])
                m.d.sync += [signal.eq(value) for row in here for signal, value in ((whole[row], 1), (empty[row], 0))]
        for number in range(rows):
            cut = self.issued.valid & (self.issued.payload.row == number)
            ended = self.ended.valid & (self.ended.payload.row == number)
            starts = begins & (row == number)
            m.d.comb += over[number].eq(whole[number] & (chunks[number] == 0))
            m.d.sync += chunks[number].eq(chunks[number] + cut - ended)
            with m.If(cut & self.issued.payload.last):
                m.d.sync += [whole[number].eq(1), cutting[number // ROWS].eq(~cutting[number // ROWS])]
            with m.If(ended & (statuses[number] == Status.OK)):
                m.d.sync += statuses[number].eq(self.ended.payload.status)
            with m.If(starts):
                m.d.sync += [taken[number].eq(1), whole[number].eq(~new.chunks), statuses[number].eq(Status.OK),
                             empty[number].eq(~new.chunks), to[number // ROWS].eq(~to[number // ROWS])]
            with m.Elif(self.communicator_status.stopped[number // ROWS] & taken[number] & ~over[number]
                        & (statuses[number] == Status.OK)):
                m.d.sync += statuses[number].eq(self.communicator_status.statuses[number // ROWS])
        return row, taken, over, statuses

    def _queues(self, m, begin_row, taken, over, statuses):
        config, init = self.config, SweepSignature(self.config)
        queues, new, selected = config.queues, self.i.payload, self.lookup.queue
        entry_layout = data.StructLayout({
            "row": self.row_bits, "status": STATUS_WIDTH, "flags": 4})
        m.submodules.active = active = Table(
            entry_layout, depth=queues * ACTIVE, reads=1, init=None)
        m.submodules.addresses = addresses = Table(config.address_width - 3, depth=queues, reads=1, init=init)
        m.submodules.ends = ends = Table(CompletionLayout, depth=queues, reads=2, init=init)
        for table in (addresses, ends):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        entry_bits = (ACTIVE - 1).bit_length()
        heads, tails = ([Signal(entry_bits + 1, name=f"{name}_{queue}") for queue in range(queues)]
                        for name in ("head", "tail"))
        enabled, refused, held = Signal(queues), Signal(queues), Signal(queues)   # held: in error
        failing = Signal(queues)            # a failed command waits for earlier ones to complete
        reasons = [Signal(STATUS_WIDTH, name=f"reason_{queue}") for queue in range(queues)]

        m.d.comb += [
            addresses.write.en.eq(self.configure.valid), addresses.write.addr.eq(self.configure.queue),
            addresses.write.data.eq(self.configure.sc_address[3:]),
            active.write.en.eq(self.i.valid),
            active.write.addr.eq(Cat(Array(tails)[new.queue][:entry_bits], new.queue)),
            active.write.data.row.eq(begin_row), active.write.data.status.eq(new.status),
            active.write.data.flags.eq(new.flags),
        ]
        for queue in range(queues):
            held_in = (tails[queue] - heads[queue])[:entry_bits + 1]
            m.d.comb += self.admission.queues[queue].eq((held_in < ACTIVE) & ~held[queue] & ~failing[queue])
            with m.If(self.configure.valid & (self.configure.queue == queue)):
                m.d.sync += enabled[queue].eq(self.configure.sc_enable)
            with m.If(self.i.valid & (new.queue == queue)):
                m.d.sync += [tails[queue].eq(tails[queue] + 1), failing[queue].eq(new.status != Status.OK)]
            with m.If(self.refused.valid & (self.refused.payload.queue == queue) & ~refused[queue]):
                m.d.sync += [refused[queue].eq(1), reasons[queue].eq(self.refused.payload.status)]
            with m.Elif(self.words.failed & (self.words.queue == queue) & ~refused[queue]):
                m.d.sync += [refused[queue].eq(1), reasons[queue].eq(Status.COMPLETION_ERROR)]

        # -- One queue after the other: is its oldest command complete?
        queue = Signal(config.queue_bits)
        entry = Signal(entry_layout)
        word, address = Signal(CompletionLayout), Signal(config.address_width)
        result = Signal(STATUS_WIDTH)
        due, some = Signal(), Signal()
        clearing = Signal(queues)
        publishes = Signal()
        m.d.comb += [
            active.read[0].addr.eq(Cat(Array(heads)[queue][:entry_bits], queue)),
            addresses.read[0].addr.eq(queue), ends.read[0].addr.eq(queue),
        ]
        for number in range(queues):
            with m.If(self.clear.valid & (self.clear.payload == number)):
                m.d.sync += clearing[number].eq(held[number])
        m.d.comb += self.words.payload.eq(Cat(address, word, queue))
        with m.FSM():
            with m.State("LOOKUP"):
                m.d.comb += some.eq(Array(heads)[queue] != Array(tails)[queue])
                m.d.sync += [
                    entry.eq(active.read[0].data), word.eq(ends.read[0].data),
                    address.eq(addresses.read[0].data << 3),
                ]
                with m.If(clearing.bit_select(queue, 1)):
                    m.next = "CLEAR"
                with m.Elif(held.bit_select(queue, 1) | self.init.active):
                    m.d.sync += queue.eq(queue + 1)
                with m.Elif(some):
                    m.next = "JUDGE"
                with m.Elif(refused.bit_select(queue, 1) & ~self.admission.pending.bit_select(queue, 1)):
                    m.d.sync += [entry.flags.eq(CommandFlag.SC), result.eq(Array(reasons)[queue])]
                    m.next = "FAIL"
                with m.Else():
                    m.d.sync += queue.eq(queue + 1)
            with m.State("JUDGE"):
                m.d.sync += result.eq(Mux(entry.status != Status.OK, entry.status, statuses[entry.row]))
                with m.If(entry.status != Status.OK):
                    m.next = "FAIL"
                with m.Elif(over.bit_select(entry.row, 1)):
                    for number in range(len(over)):
                        with m.If(entry.row == number):
                            m.d.sync += taken[number].eq(0)
                    m.next = "END"
                with m.Else():
                    m.d.sync += queue.eq(queue + 1)
                    m.next = "LOOKUP"
            with m.State("END"):
                with m.If(result != Status.OK):
                    m.next = "FAIL"
                with m.Else():
                    m.d.comb += self.irq.completion.eq((entry.flags & CommandFlag.IRQ).any())
                    for number in range(queues):
                        with m.If(queue == number):
                            m.d.sync += heads[number].eq(heads[number] + 1)
                    m.d.sync += [word.count.eq(word.count + 1), publishes.eq((entry.flags & CommandFlag.SC).any())]
                    m.next = "STORE"
            with m.State("FAIL"):
                m.d.comb += self.irq.error.eq(1)
                m.d.sync += [word.failed.eq(word.failed + 1), word.status.eq(result), publishes.eq(1),
                             held.bit_select(queue, 1).eq(1)]
                m.next = "STORE"
            with m.State("CLEAR"):
                # A refused word was never a command; any other failed command now counts as completed.
                m.d.sync += [clearing.bit_select(queue, 1).eq(0), held.bit_select(queue, 1).eq(0),
                             failing.bit_select(queue, 1).eq(0),
                             word.status.eq(Status.OK), publishes.eq(1)]
                m.d.comb += some.eq(Array(heads)[queue] != Array(tails)[queue])
                with m.If(some):
                    m.d.sync += word.count.eq(word.count + 1)
                    for number in range(queues):
                        with m.If(queue == number):
                            m.d.sync += heads[number].eq(heads[number] + 1)
                with m.Else():
                    m.d.sync += refused.bit_select(queue, 1).eq(0)
                m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [ends.write.en.eq(1), ends.write.addr.eq(queue), ends.write.data.eq(word)]
                m.next = "PUBLISH"
            with m.State("PUBLISH"):
                m.d.comb += due.eq(publishes & enabled.bit_select(queue, 1))
                m.d.comb += self.words.valid.eq(due)
                with m.If(~due | self.words.ready):
                    m.d.sync += queue.eq(queue + 1)
                    m.next = "LOOKUP"

        m.d.comb += [
            ends.read[1].addr.eq(selected), self.lookup.count.eq(ends.read[1].data.count),
            self.lookup.status.eq(ends.read[1].data.status),
            self.lookup.active.eq((Array(tails)[selected] - Array(heads)[selected])[:entry_bits + 1]),
        ]
