# SPDX-License-Identifier: Apache-2.0
"""Chunks: cuts collectives into chunks, and passes each, in its slot, from fill to FSM to drain.

Operations -> Chunker -> Fill, FsmPool -> Drain -> Chunker -> Operations.  Latency: 9 cycles from a collective to the
job of its first chunk; 2 from there to its FSM, once the scan reaches its communicator. Throughput: a chunk per 8
cycles.

There is no search: a chunk's slot and FSM follow from its number. Each communicator has its own slots and FSMs, so none
can block another.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .chunk_status import ChunkCountLookup, ChunkerCounts, ChunkFailed, SlotLookup, name_layout
from .communicator_status import ActivitySignature, CommunicatorStatusSignature
from .communicators import CommunicatorWrite, ShareRead, own
from .config import LENGTH_WIDTH, PHASES, SEQUENCE_WIDTH, AceConfig
from .layouts import HeaderLayout, arithmetic_layout, chunk_layout, through_layout, widens
from .mover_queue import MoverDone, MoverQueue, MoverStatus
from .numerics.convert_byte import is_byte, known
from .operations import ROWS, ChunkEnded, ChunkIssued, OperationRead, OperationsToCut, operation_layout, row_width
from .pool.fsm_ports import FsmsBusy
from .priority import PriorityQueue, PriorityRoundRobin
from .programs.store import ProgramRead
from .transfers import TransferJobs
from .watchdog import ProgressSignature
from .words import Stage, Status

__all__ = ["Chunker"]

_ROW_BITS = (ROWS - 1).bit_length()
"""Bits of the number of a row within its communicator."""


class Chunker(wiring.Component):
    """Cut collectives into chunks, and store each chunk's parameters with its slot.

    Chunks of a collective's two halves alternate, the upper half first, until one half is cut.

    Parameters
    ----------
    config : AceConfig
    first : int
        Number of a communicator's first chunk, less than 2 ** SEQUENCE_WIDTH: the same on all its ranks.

    Members
    -------
    init : ``In(SweepSignature)``
    to_cut : ``In(OperationsToCut)``, cutting : ``Out(ActivitySignature)``
        Collectives to cut; the communicator whose chunk is being cut.
    operation, drain_operation : ``Out(OperationRead)``
        Of the chunk that is being cut; of the chunk to drain.
    issued : ``Out(ChunkIssued)``, ended : ``Out(ChunkEnded)``
    cut_share, start_share : ``Out(ShareRead)``
    restart : ``In(CommunicatorWrite)``
        Restart the communicator's chunk numbers at ``first``. In that cycle a job on ``fills`` is withdrawn.
    communicator_status : ``In(CommunicatorStatusSignature)``
        No chunks of a stopped communicator are cut; those that have not started pass their FSM without phases, and
        none is written.
    program : ``Out(ProgramRead)``
    fills, drains : ``Out(TransferJobs)``, filled, drained : ``In(MoverDone)``
    chunks : ``Out(stream.Signature(chunk_layout))``, busy : ``In(FsmsBusy)``
        A chunk starts as soon as its FSM is free; the fill may not have ended.
    through : ``In(stream.Signature(through_layout))``
        Slots whose FSM has completed; before, those of programs with ``parts`` of which only the last drain must wait.
    movers : ``Out(MoverStatus).array(2)``
        Fill and drain. Communicators whose next chunk is to be cut also wait for fill.
    progress : ``Out(ProgressSignature)``
        A chunk was cut, filled or drained.
    unread, unwritten : ``Out(ChunkFailed)``
    slot : ``In(SlotLookup)``, count : ``In(ChunkCountLookup)``, counts : ``Out(ChunkerCounts)``
    """

    def __init__(self, config: AceConfig, *, first: int = 0) -> None:
        self.config, self.first = config, first
        self.row_bits = row_width(config)
        super().__init__({
            "init": In(SweepSignature(config)), "communicator_status": In(CommunicatorStatusSignature(config)),
            "to_cut": In(OperationsToCut(config)), "cutting": Out(ActivitySignature(config)),
            "operation": Out(OperationRead(config)), "drain_operation": Out(OperationRead(config)),
            "issued": Out(ChunkIssued(config)), "ended": Out(ChunkEnded(config)),
            "cut_share": Out(ShareRead(config)), "start_share": Out(ShareRead(config)),
            "restart": In(CommunicatorWrite(config)), "program": Out(ProgramRead(config)),
            "fills": Out(TransferJobs(config)), "drains": Out(TransferJobs(config)),
            "filled": In(MoverDone(config)), "drained": In(MoverDone(config)),
            "chunks": Out(stream.Signature(chunk_layout(config))), "busy": In(FsmsBusy(config)),
            "through": In(stream.Signature(through_layout(config))),
            "movers": Out(MoverStatus(config)).array(2), "progress": Out(ProgressSignature(config)),
            "unread": Out(ChunkFailed(config)), "unwritten": Out(ChunkFailed(config)),
            "slot": In(SlotLookup(config)), "count": In(ChunkCountLookup(config)), "counts": Out(ChunkerCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Parameters for the FSM and for the drain.
        start_row = data.StructLayout({
            "arithmetic": arithmetic_layout(),
            "piece_beats": config.chunk_beat_bits + 1, "program": config.program_bits, "phases": PHASES.bit_length(),
            "early": 1, "parts": 1})
        drain_row = data.StructLayout({
            "row": self.row_bits, "column": LENGTH_WIDTH, "piece_bytes": range(config.chunk_bytes + 1),
            "piece_beats": config.chunk_beat_bits + 1, "list": config.program_bits, "runs": 8,
            "parts": 1, "rest": config.program_bits})     # ``rest``: address of the last drain, if that is by itself
        m.submodules.starts = starts = Table(start_row, depth=config.slots, reads=1, init=None)
        m.submodules.ends = ends = Table(drain_row, depth=config.slots, reads=1, init=None)
        m.submodules.owners = owners = Table(self.row_bits, depth=config.slots, reads=3, init=None)
        m.submodules.names = names = Table(name_layout(config), depth=config.slots, reads=4, init=None)
        taken, filling, waiting, unread, draining, unwritten = (Signal(config.slots, name=name) for name in (
            "taken", "filling", "waiting", "unread", "draining", "unwritten"))
        m.d.comb += self.counts.active_cycles.eq(taken.any())
        queues = m.submodules.fill_queue, m.submodules.drain_queue = (
            MoverQueue(config), MoverQueue(config, depth=2 * config.slots))
        ready = self._cut(m, taken, filling, waiting, starts, ends, owners, names, queues[0])
        self._start(m, waiting, filling, unread, starts, names.read[0])
        self._drain(m, draining, ends, owners.read[1], queues[1])
        # One slot after the other: which communicator's chunk waits to be moved there?
        candidate, owner = owners.read[2].addr, 1 << owners.read[2].data[_ROW_BITS:]
        m.d.sync += candidate.eq(candidate + 1)
        for queue, mover, jobs, done, moving, more in zip(
                queues, self.movers, (self.fills, self.drains), (self.filled, self.drained),
                (filling, draining), (ready, 0), strict=True):
            wiring.connect(m, queue.mover, wiring.flipped(mover))
            m.d.comb += [queue.stopped.eq(self.communicator_status.stopped), queue.moved.eq(done.valid),
                         jobs.stop.eq(queue.stop),
                         queue.waiting.eq(Mux(moving.bit_select(candidate, 1), owner, 0) | more)]

        # -- Filled and drained chunks.
        number, drained = self.drained.payload.slot, Signal()
        for event, failure, read in ((self.filled, self.unread, names.read[1]),
                                     (self.drained, self.unwritten, names.read[2])):
            m.d.comb += [read.addr.eq(event.payload.slot), failure.valid.eq(event.valid & event.payload.error),
                         failure.payload.eq(read.data)]
        m.d.sync += self.progress.communicators.eq(
            Mux(self.filled.valid, 1 << self.unread.payload.communicator, 0)
            | Mux(self.drained.valid, 1 << self.unwritten.payload.communicator, 0)
            | Mux(self.issued.valid, self.cutting.communicators, 0))
        stage, shown = Signal(Stage), self.slot.slot
        m.d.comb += [
            names.read[3].addr.eq(shown), self.slot.state.name.eq(names.read[3].data), self.slot.state.stage.eq(stage),
            stage.eq(Mux(~taken.bit_select(shown, 1), Stage.FREE, Mux(
                filling.bit_select(shown, 1), Stage.FILLING, Mux(
                    waiting.bit_select(shown, 1), Stage.FILLED, Mux(
                        draining.bit_select(shown, 1), Stage.DRAINING, Stage.LINKS))))),
            owners.read[0].addr.eq(number), drained.eq(self.drained.valid & ~self.drained.payload.part),
            self.ended.valid.eq(drained),
            self.ended.payload.row.eq(owners.read[0].data),
            self.ended.payload.status.eq(Mux(unread.bit_select(number, 1), Status.READ_ERROR, Mux(
                self.drained.payload.error | unwritten.bit_select(number, 1), Status.WRITE_ERROR, Status.OK))),
        ]
        for slot in range(config.slots):
            with m.If(self.filled.valid & (self.filled.payload.slot == slot)):
                m.d.sync += [filling[slot].eq(0), unread[slot].eq(self.filled.payload.error)]
            with m.If(self.drained.valid & (number == slot)):
                m.d.sync += unwritten[slot].eq(self.drained.payload.error & self.drained.payload.part)
            with m.If(drained & (number == slot)):
                m.d.sync += [taken[slot].eq(0), draining[slot].eq(0)]
        return m

    def _cut(self, m, taken, filling, waiting, starts, ends, owners, names, queue):
        """Cut one chunk after the other, communicators in turn, those of the highest priority first."""
        config, init = self.config, SweepSignature(self.config)
        number, row = Signal(config.communicator_bits), Signal(self.row_bits)
        m.submodules.sequences = sequences = Table(
            SEQUENCE_WIDTH, depth=config.communicators, reads=2, init=init)
        columns_layout = data.StructLayout({"up": LENGTH_WIDTH, "down": LENGTH_WIDTH})
        m.submodules.columns = columns = Table(columns_layout, depth=config.communicators, reads=1, init=None)
        wiring.connect(m, wiring.flipped(self.init), sequences.init)
        fresh = Signal(config.communicators, init=-1)       # the collective has no chunk yet
        downward = Signal(config.communicators)             # the next chunk, if any such columns remain
        sequence = Signal(SEQUENCE_WIDTH)
        slot = Signal(config.slot_bits)
        m.d.comb += [
            self.cut_share.number.eq(number), sequences.read[0].addr.eq(number), columns.read[0].addr.eq(number),
            row.eq(Cat(self.to_cut.row.bit_select(number, 1), number)), self.operation.row.eq(row),
        ]
        operation = Signal(operation_layout(config), reset_less=True)
        now = Signal(columns_layout, reset_less=True)       # first remaining column of each half
        down, down_left, up_left = Signal(), Signal(), Signal()
        more, other_left = Signal(), Signal()               # columns behind this chunk's, and in the other half
        column = Signal(LENGTH_WIDTH, reset_less=True)
        available, piece = Signal(LENGTH_WIDTH, reset_less=True), Signal(range(config.chunk_bytes + 1), reset_less=True)
        grown = Signal(range(config.chunk_bytes + 1))       # bytes in the SRAM
        header = Signal(HeaderLayout, reset_less=True)
        beats = Signal(config.chunk_beat_bits + 1)
        lane_bits = (config.beat_bytes - 1).bit_length()
        program = Signal(config.program_bits)
        last = Signal()
        job, quarters = self.fills.payload, is_byte(known(config, operation.dtype))
        m.d.comb += [
            self.program.address.eq(program),
            down.eq(down_left & (downward.bit_select(number, 1) | ~up_left)),
            # Compared by XOR: the carries of the differences that SIDE computes would arrive late.
            up_left.eq((now.up ^ operation.half).any()), down_left.eq((now.down ^ operation.shard_bytes).any()),
            grown.eq(Mux(widens(config, operation), Mux(quarters, piece << 2, piece << 1), piece)),
            beats.eq((grown + config.beat_bytes - 1) >> lane_bits),
            job.list.eq(program + 1), job.runs.eq(header.fills), job.base.eq(operation.src_base),
            job.shard_bytes.eq(operation.shard_bytes), job.column.eq(column), job.limit.eq(operation.src_limit),
            job.piece_bytes.eq(piece), job.piece_beats.eq(beats), job.slot.eq(slot),
            job.varying.eq(operation.varying), job.row.eq(operation.row), job.size.eq(operation.size),
            job.dtype.eq(operation.dtype), job.widen.eq(operation.widen), job.divide.eq(0),
        ]
        goes_down = Signal()
        m.submodules.turn = turn = PriorityRoundRobin(config.communicators)
        blocked = Signal(config.communicators)              # the next slot is in use; until one of its slots is freed
        ready = Signal(config.communicators)
        m.d.sync += ready.eq(self.to_cut.begun & ~self.communicator_status.stopped & ~blocked)
        m.d.comb += [
            turn.requests.eq(ready),
            *(mine.eq(priority) for mine, priority in zip(
                turn.priorities, self.communicator_status.priorities, strict=True)),
            sequences.read[1].addr.eq(self.count.communicator), self.count.chunks.eq(sequences.read[1].data),
        ]
        with m.FSM() as fsm:
            with m.State("CHOOSE"):
                m.d.comb += turn.advance.eq(1)
                m.d.sync += number.eq(turn.grant)
                with m.If(turn.valid):
                    m.next = "LOOKUP"
            with m.State("LOOKUP"):
                m.d.sync += [operation.eq(self.operation.operation), sequence.eq(sequences.read[0].data),
                             now.eq(columns.read[0].data)]
                mine = Signal(config.slot_bits)
                m.d.comb += mine.eq(own(self.cut_share.share, sequences.read[0].data)[1])
                with m.If(taken.bit_select(mine, 1)):
                    m.d.sync += blocked.bit_select(number, 1).eq(1)
                    m.next = "CHOOSE"
                with m.Elif(self.to_cut.begun.bit_select(number, 1)
                            & ~self.communicator_status.stopped.bit_select(number, 1)):
                    m.next = "COLUMNS"
                with m.Else():
                    m.next = "CHOOSE"
            with m.State("COLUMNS"):
                with m.If(fresh.bit_select(number, 1)):
                    m.d.sync += [now.up.eq(0), now.down.eq(operation.half), fresh.bit_select(number, 1).eq(0),
                                 downward.bit_select(number, 1).eq(0)]
                m.next = "SIDE"
            with m.State("SIDE"):
                m.d.sync += [
                    goes_down.eq(down), other_left.eq(Mux(down, up_left, down_left)),
                    column.eq(Mux(down, now.down, now.up)),
                    available.eq(Mux(down, operation.shard_bytes - now.down, operation.half - now.up)),
                    program.eq(Mux(down, operation.minus, operation.plus)),
                ]
                m.next = "PIECE"
            with m.State("PIECE"):
                longest = operation.piece << 4
                m.d.sync += [piece.eq(Mux(available < longest, available, longest)), more.eq(available > longest)]
                m.d.comb += self.program.valid.eq(1)
                with m.If(self.program.ready):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.sync += header.eq(self.program.word)
                with m.If(goes_down):
                    m.d.sync += now.down.eq(now.down + piece)
                with m.Else():
                    m.d.sync += now.up.eq(now.up + piece)
                m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [slot.eq(own(self.cut_share.share, sequence)[1]), self.fills.valid.eq(~self.restart.valid),
                             last.eq(~more & ~other_left)]
                with m.If(self.fills.ready & ~self.restart.valid):
                    m.d.comb += [
                        starts.write.en.eq(1), ends.write.en.eq(1), owners.write.en.eq(1), names.write.en.eq(1),
                        sequences.write.en.eq(1), columns.write.en.eq(1), self.issued.valid.eq(1),
                    ]
                    m.d.sync += [downward.bit_select(number, 1).eq(~goes_down), fresh.bit_select(number, 1).eq(last)]
                    for candidate in range(config.slots):
                        with m.If(slot == candidate):
                            m.d.sync += [taken[candidate].eq(1), filling[candidate].eq(1), waiting[candidate].eq(1)]
                    m.next = "CHOOSE"
        with m.If(self.drained.valid):
            m.d.sync += blocked.bit_select(self.unwritten.payload.communicator, 1).eq(0)
        with m.If(self.restart.valid):
            m.d.sync += [blocked.eq(0), fresh.bit_select(self.restart.number, 1).eq(1)]
        cutting = self.cutting.communicators
        m.d.comb += [cutting.eq(Mux(fsm.ongoing("CHOOSE") | fsm.ongoing("LOOKUP"), 0, 1 << number)),
                     queue.begins.eq(Mux(self.issued.valid, cutting, 0))]

        m.d.comb += [
            self.issued.payload.row.eq(row), self.issued.payload.last.eq(last),
            *(table.write.addr.eq(slot) for table in (starts, ends, owners, names)),
            owners.write.data.eq(row),
            names.write.data.communicator.eq(number), names.write.data.sequence.eq(sequence),
            starts.write.data.arithmetic.eq(operation.arithmetic),
            starts.write.data.piece_beats.eq(beats), starts.write.data.phases.eq(header.phases),
            starts.write.data.early.eq(header.early), starts.write.data.parts.eq(header.parts),
            starts.write.data.program.eq(program + 1 + header.fills + header.drains),
            ends.write.data.row.eq(row), ends.write.data.column.eq(column),
            ends.write.data.piece_bytes.eq(piece), ends.write.data.piece_beats.eq(beats),
            ends.write.data.list.eq(program + 1 + header.fills), ends.write.data.runs.eq(header.drains - header.parts),
            ends.write.data.parts.eq(header.parts), ends.write.data.rest.eq(program + header.fills + header.drains),
            sequences.write.addr.eq(number), sequences.write.data.eq(sequence + 1),
            columns.write.addr.eq(number), columns.write.data.eq(now),
        ]

        self._restart(m, sequences.write)
        return ready

    def _restart(self, m, write):
        with m.If(self.restart.valid):
            m.d.comb += [write.en.eq(1), write.addr.eq(self.restart.number), write.data.eq(self.first)]

    def _start(self, m, waiting, filling, unread, starts, name):
        """Pass a chunk to its FSM when that is free, in the order of the communicator's chunks."""
        config, init = self.config, SweepSignature(self.config)
        number = Signal(config.communicator_bits)
        m.submodules.started = started = Table(SEQUENCE_WIDTH, depth=config.communicators, reads=1, init=init)
        wiring.connect(m, wiring.flipped(self.init), started.init)
        sequence = Signal(SEQUENCE_WIDTH)
        fsm, slot = Signal(config.fsm_bits), Signal(config.slot_bits)
        ready, stopped, ended = Signal(), Signal(), Signal()
        chunk = Signal(chunk_layout(config), reset_less=True)
        row = starts.read[0].data
        m.d.comb += [
            self.start_share.number.eq(number), started.read[0].addr.eq(number),
            sequence.eq(started.read[0].data),
            Cat(fsm, slot).eq(Cat(*own(self.start_share.share, sequence))),
            starts.read[0].addr.eq(slot), name.addr.eq(slot),
            stopped.eq(self.communicator_status.stopped.bit_select(number, 1)),
            # Numbers of no communicator also read slot 0.
            ready.eq(waiting.bit_select(slot, 1) & ~self.busy.fsms.bit_select(fsm, 1)
                     & (name.data.communicator == number)),
            started.write.addr.eq(number), started.write.data.eq(sequence + 1),
            self.chunks.payload.eq(chunk),
            # Also if it ends in the cycle in which the chunk starts: later, the FSM observes the event.
            self.chunks.payload.ended.eq(ended | ~filling.bit_select(chunk.slot, 1)),
            self.chunks.payload.filled.eq(
                Mux(ended, ~self.filled.payload.error,
                    ~filling.bit_select(chunk.slot, 1) & ~unread.bit_select(chunk.slot, 1))),
            ended.eq(self.filled.valid & (self.filled.payload.slot == chunk.slot)),
        ]
        with m.FSM():
            with m.State("LOOKUP"):
                m.d.sync += [
                    chunk.communicator.eq(number), chunk.sequence.eq(name.data.sequence), chunk.fsm.eq(fsm),
                    chunk.slot.eq(slot), chunk.arithmetic.eq(row.arithmetic), chunk.piece_beats.eq(row.piece_beats),
                    chunk.program.eq(row.program), chunk.phases.eq(Mux(stopped, 0, row.phases)),
                    chunk.early.eq(row.early), chunk.parts.eq(row.parts),
                ]
                with m.If(ready & ~self.init.active & ~self.restart.valid):
                    m.d.comb += started.write.en.eq(1)
                    for candidate in range(config.slots):
                        with m.If(slot == candidate):
                            m.d.sync += waiting[candidate].eq(0)
                    m.next = "START"
                with m.Else():
                    m.d.sync += number.eq(number + 1)
            with m.State("START"):
                m.d.comb += self.chunks.valid.eq(1)
                with m.If(self.chunks.ready):
                    m.next = "LOOKUP"
        self._restart(m, started.write)

    def _drain(self, m, draining, ends, owner, queue):
        """Drain slots in order of priority; nothing of a stopped communicator is written."""
        config = self.config
        through, chunk = Signal(), Signal(through_layout(config))
        slot, rest = chunk.slot, Signal()
        m.submodules.waiting = waiting = PriorityQueue(through_layout(config), depth=2 * config.slots)
        row, operation, job = ends.read[0].data, self.drain_operation.operation, self.drains.payload
        lookup_valid, stopped = Signal(), Signal()
        domain = "sync" if config.timing.registered_drain_requests else "comb"
        m.d[domain] += [through.eq(self.through.valid), chunk.eq(self.through.payload)]
        m.d.comb += [
            owner.addr.eq(slot),
            waiting.i.payload.priority.eq(self.communicator_status.priorities[owner.data[_ROW_BITS:]]),
            waiting.i.payload.item.eq(chunk), waiting.i.valid.eq(through),
            # A slot is queued at most twice, and each priority has two entries for every slot: the queue is never full.
            self.through.ready.eq(1),
            ends.read[0].addr.eq(waiting.o.payload.slot), self.drain_operation.row.eq(row.row),
            rest.eq(row.parts & ~waiting.o.payload.part), job.part.eq(waiting.o.payload.part),
            job.list.eq(Mux(rest, row.rest, row.list)), job.runs.eq(Mux(stopped, 0, Mux(rest, 1, row.runs))),
            job.base.eq(operation.dst_base),
            job.shard_bytes.eq(operation.shard_bytes), job.column.eq(row.column), job.limit.eq(operation.dst_limit),
            job.piece_bytes.eq(row.piece_bytes), job.piece_beats.eq(row.piece_beats),
            job.slot.eq(waiting.o.payload.slot),
            job.varying.eq(operation.varying), job.row.eq(operation.row), job.size.eq(operation.size),
            job.dtype.eq(operation.dtype), job.widen.eq(operation.widen), job.divide.eq(operation.divide),
            self.drains.valid.eq(waiting.o.valid & lookup_valid), waiting.o.ready.eq(self.drains.ready & lookup_valid),
            queue.begins.eq(Mux(self.drains.valid & self.drains.ready, 1 << row.row[_ROW_BITS:], 0)),
        ]
        with m.If(through & ~ResetSignal(allow_reset_less=True)):
            m.d.sync += Assert(waiting.i.ready, Format("a slot completes too often"))
        m.d.sync += lookup_valid.eq(waiting.o.valid & ~(lookup_valid & self.drains.ready))
        with m.If(~lookup_valid):
            m.d.sync += stopped.eq(self.communicator_status.stopped.bit_select(row.row[_ROW_BITS:], 1))
        for candidate in range(config.slots):
            with m.If(through & ~chunk.part & (slot == candidate)):
                m.d.sync += draining[candidate].eq(1)
