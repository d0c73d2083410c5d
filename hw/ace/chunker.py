"""Chunks: cuts collectives into them, and leads each through its slot, from fill to FSM to drain.

Operations -> Chunker -> Fill -> FsmPool -> Drain -> Chunker -> Operations.  Latency: 8 cycles from a collective to the
job of its first chunk; 2 from a filled slot to its FSM, when its communicator is looked at. Throughput: a chunk per 8
cycles.

Nothing is ever searched: a chunk's slot and FSM follow from its number. Each communicator has slots and FSMs of its
own, so that none keeps another waiting.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.layouts import InitSignature
from hw.dma_engine.table import Table
from hw.stream import Queue

from .communicators import own, share_layout
from .config import LENGTH_WIDTH, PHASES, SEQUENCE_WIDTH
from .convert_byte import is_byte
from .layouts import HeaderLayout, arithmetic_layout, chunk_layout, done_layout
from .operations import ROWS, operation_layout
from .programs import ProgramRead
from .transfers import job_layout
from .words import Status

__all__ = ["Chunker"]


class Chunker(wiring.Component):
    """Keep a chunk's facts with its slot.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(InitSignature)``
    begun : ``In(communicators)``, row_number : ``In(communicators)``
        Communicators with a collective to be cut, and in which of their rows.
    row : ``Out``, operation : ``In(operation_layout)``
        The row of the chunk that is being cut.
    drain_row : ``Out``, drain_operation : ``In(operation_layout)``
        The row of the chunk that is to be drained.
    issued : ``Out(1)``, issued_row, issued_last : ``Out``
    ended : ``Out(1)``, ended_row, ended_status : ``Out``
    cut_share, start_share : ``Out(communicator)``, ``In(share_layout)``
    restart : ``In(1)``, restart_number : ``In``
        Count a communicator's chunks from 0 again; none of them is under way.
    program : ``Out(ProgramRead)``, program_data : ``In``
    fills, drains : ``Out(stream.Signature(job_layout))``
    filled, drained : ``In``; ``valid``, ``payload``: done_layout
    chunks : ``Out(stream.Signature(chunk_layout))``, busy : ``In(fsms)``
    through : ``In(stream.Signature(slot))``
        Slots whose FSM has finished.
    active : ``Out(1)``
        A slot is in use.
    """

    def __init__(self, config):
        self.config = config
        row = config.communicator_bits + (ROWS - 1).bit_length()
        self.row_bits = row
        share = wiring.Signature({"number": Out(config.communicator_bits), "share": In(share_layout(config))})
        done = wiring.Signature({"valid": Out(1), "payload": Out(done_layout(config))})
        super().__init__({
            "init": In(InitSignature(config)),
            "begun": In(config.communicators), "row_number": In(config.communicators),
            "row": Out(row), "operation": In(operation_layout(config)),
            "drain_row": Out(row), "drain_operation": In(operation_layout(config)),
            "issued": Out(1), "issued_row": Out(row), "issued_last": Out(1),
            "ended": Out(1), "ended_row": Out(row), "ended_status": Out(8),
            "cut_share": Out(share), "start_share": Out(share),
            "restart": In(1), "restart_number": In(config.communicator_bits),
            "program": Out(ProgramRead(config)), "program_data": In(HeaderLayout.size),
            "fills": Out(stream.Signature(job_layout(config))), "drains": Out(stream.Signature(job_layout(config))),
            "filled": In(done), "drained": In(done),
            "chunks": Out(stream.Signature(chunk_layout(config))), "busy": In(config.fsms),
            "through": In(stream.Signature(config.slot_bits)),
            "active": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # What the FSM needs, and what the drain needs.
        start_row = data.StructLayout({
            "communicator": config.communicator_bits, "sequence": SEQUENCE_WIDTH, "arithmetic": arithmetic_layout(),
            "piece_beats": config.chunk_beat_bits + 1, "program": config.program_bits, "phases": PHASES.bit_length()})
        drain_row = data.StructLayout({
            "row": self.row_bits, "column": LENGTH_WIDTH, "piece_bytes": range(config.chunk_bytes + 1),
            "piece_beats": config.chunk_beat_bits + 1, "list": config.program_bits, "runs": 8})
        m.submodules.starts = starts = Table(start_row, depth=config.slots, reads=1, init=None)
        m.submodules.ends = ends = Table(drain_row, depth=config.slots, reads=1, init=None)
        m.submodules.owners = owners = Table(self.row_bits, depth=config.slots, reads=1, init=None)
        taken, full, unread = Signal(config.slots), Signal(config.slots), Signal(config.slots)
        m.d.comb += self.active.eq(taken.any())
        self._cut(m, taken, starts, ends, owners)
        self._start(m, full, starts)
        self._drain(m, ends)

        # -- What has come, what is over.
        number = self.drained.payload.slot
        m.d.comb += [
            owners.read[0].addr.eq(number), self.ended.eq(self.drained.valid), self.ended_row.eq(owners.read[0].data),
            self.ended_status.eq(Mux(unread.bit_select(number, 1), Status.READ_ERROR, Mux(
                self.drained.payload.error, Status.WRITE_ERROR, Status.OK))),
        ]
        for slot in range(config.slots):
            with m.If(self.filled.valid & (self.filled.payload.slot == slot)):
                m.d.sync += [full[slot].eq(1), unread[slot].eq(self.filled.payload.error)]
            with m.If(self.drained.valid & (number == slot)):
                m.d.sync += taken[slot].eq(0)
        return m

    def _cut(self, m, taken, starts, ends, owners):
        """One chunk after the other, of each communicator in turn."""
        config, init = self.config, InitSignature(self.config)
        number = Signal(config.communicator_bits)
        m.submodules.sequences = sequences = Table(
            SEQUENCE_WIDTH, depth=config.communicators, reads=1, init=init)
        columns_layout = data.StructLayout({"up": LENGTH_WIDTH, "down": LENGTH_WIDTH})
        m.submodules.columns = columns = Table(columns_layout, depth=config.communicators, reads=1, init=None)
        wiring.connect(m, wiring.flipped(self.init), sequences.init)
        fresh = Signal(config.communicators, init=-1)       # the collective has no chunk yet
        downward = Signal(config.communicators)             # the next chunk, if there are such columns
        sequence = Signal(SEQUENCE_WIDTH)
        slot = Signal(config.slot_bits)
        m.d.comb += [
            self.cut_share.number.eq(number), sequences.read[0].addr.eq(number), columns.read[0].addr.eq(number),
            self.row.eq(Cat(self.row_number.bit_select(number, 1), number)),
        ]
        operation = Signal(operation_layout(config), reset_less=True)
        now = Signal(columns_layout, reset_less=True)       # first columns that are left, of each half
        down, down_left, up_left = Signal(), Signal(), Signal()
        column = Signal(LENGTH_WIDTH, reset_less=True)
        room, piece = Signal(LENGTH_WIDTH, reset_less=True), Signal(range(config.chunk_bytes + 1), reset_less=True)
        grown = Signal(range(config.chunk_bytes + 1))       # as it is in the SRAM
        header = Signal(HeaderLayout, reset_less=True)
        beats = Signal(config.chunk_beat_bits + 1)
        lane_bits = (config.beat_bytes - 1).bit_length()
        program = Signal(config.program_bits)
        last = Signal()
        job = self.fills.payload
        m.d.comb += [
            self.program.address.eq(program),
            down.eq(down_left & (downward.bit_select(number, 1) | ~up_left)),
            up_left.eq(now.up != operation.half), down_left.eq(now.down != operation.shard_bytes),
            grown.eq(Mux(operation.widen, Mux(is_byte(operation.dtype), piece << 2, piece << 1), piece)),
            beats.eq((grown + config.beat_bytes - 1) >> lane_bits),
            job.list.eq(program + 1), job.runs.eq(header.fills), job.base.eq(operation.src_base),
            job.shard_bytes.eq(operation.shard_bytes), job.column.eq(column), job.limit.eq(operation.src_limit),
            job.piece_bytes.eq(piece), job.piece_beats.eq(beats), job.slot.eq(slot),
            job.varying.eq(operation.varying), job.row.eq(operation.row), job.size.eq(operation.size),
            job.dtype.eq(operation.dtype), job.widen.eq(operation.widen), job.divide.eq(0),
        ]
        goes_down = Signal()
        with m.FSM():
            with m.State("LOOK"):
                m.d.sync += [operation.eq(self.operation), sequence.eq(sequences.read[0].data),
                             now.eq(columns.read[0].data)]
                mine = Signal(config.slot_bits)
                m.d.comb += mine.eq(own(self.cut_share.share, sequences.read[0].data)[1])
                with m.If(self.begun.bit_select(number, 1) & ~taken.bit_select(mine, 1)):
                    m.next = "COLUMNS"
                with m.Else():
                    m.d.sync += number.eq(number + 1)
            with m.State("COLUMNS"):
                with m.If(fresh.bit_select(number, 1)):
                    m.d.sync += [now.up.eq(0), now.down.eq(operation.half), fresh.bit_select(number, 1).eq(0),
                                 downward.bit_select(number, 1).eq(0)]
                m.next = "SIDE"
            with m.State("SIDE"):
                m.d.sync += [
                    goes_down.eq(down), column.eq(Mux(down, now.down, now.up)),
                    room.eq(Mux(down, operation.shard_bytes - now.down, operation.half - now.up)),
                    program.eq(Mux(down, operation.minus, operation.plus)),
                ]
                m.next = "PIECE"
            with m.State("PIECE"):
                longest = operation.piece << 4
                m.d.sync += piece.eq(Mux(room < longest, room, longest))
                m.d.comb += self.program.valid.eq(1)
                with m.If(self.program.ready):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.sync += header.eq(self.program_data)
                with m.If(goes_down):
                    m.d.sync += now.down.eq(now.down + piece)
                with m.Else():
                    m.d.sync += now.up.eq(now.up + piece)
                m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [slot.eq(own(self.cut_share.share, sequence)[1]), self.fills.valid.eq(~self.restart),
                             last.eq(~up_left & ~down_left)]
                with m.If(self.fills.ready & ~self.restart):
                    m.d.comb += [
                        starts.write.en.eq(1), ends.write.en.eq(1), owners.write.en.eq(1),
                        sequences.write.en.eq(1), columns.write.en.eq(1), self.issued.eq(1),
                    ]
                    m.d.sync += [downward.bit_select(number, 1).eq(~goes_down), fresh.bit_select(number, 1).eq(last)]
                    for place in range(config.slots):
                        with m.If(slot == place):
                            m.d.sync += taken[place].eq(1)
                    m.d.sync += number.eq(number + 1)
                    m.next = "LOOK"

        m.d.comb += [
            self.issued_row.eq(self.row), self.issued_last.eq(last),
            *(table.write.addr.eq(slot) for table in (starts, ends, owners)),
            owners.write.data.eq(self.row),
            starts.write.data.communicator.eq(number), starts.write.data.sequence.eq(sequence),
            starts.write.data.arithmetic.eq(operation.arithmetic),
            starts.write.data.piece_beats.eq(beats), starts.write.data.phases.eq(header.phases),
            starts.write.data.program.eq(program + 1 + header.fills + header.drains),
            ends.write.data.row.eq(self.row), ends.write.data.column.eq(column),
            ends.write.data.piece_bytes.eq(piece), ends.write.data.piece_beats.eq(beats),
            ends.write.data.list.eq(program + 1 + header.fills), ends.write.data.runs.eq(header.drains),
            sequences.write.addr.eq(number), sequences.write.data.eq(sequence + 1),
            columns.write.addr.eq(number), columns.write.data.eq(now),
        ]

        self._restart(m, sequences)

    def _restart(self, m, table):
        with m.If(self.restart):
            m.d.comb += [table.write.en.eq(1), table.write.addr.eq(self.restart_number), table.write.data.eq(0)]

    def _start(self, m, full, starts):
        """A filled slot goes to its FSM when that is free, in the order of its communicator."""
        config, init = self.config, InitSignature(self.config)
        number = Signal(config.communicator_bits)
        m.submodules.started = started = Table(SEQUENCE_WIDTH, depth=config.communicators, reads=1, init=init)
        wiring.connect(m, wiring.flipped(self.init), started.init)
        sequence = Signal(SEQUENCE_WIDTH)
        fsm, slot = Signal(config.fsm_bits), Signal(config.slot_bits)
        ready = Signal()
        chunk = Signal(chunk_layout(config), reset_less=True)
        row = starts.read[0].data
        m.d.comb += [
            self.start_share.number.eq(number), started.read[0].addr.eq(number),
            sequence.eq(started.read[0].data),
            Cat(fsm, slot).eq(Cat(*own(self.start_share.share, sequence))),
            starts.read[0].addr.eq(slot),
            # Entries that are no communicators look at slot 0 too.
            ready.eq(full.bit_select(slot, 1) & ~self.busy.bit_select(fsm, 1) & (row.communicator == number)),
            started.write.addr.eq(number), started.write.data.eq(sequence + 1),
            self.chunks.payload.eq(chunk),
        ]
        with m.FSM():
            with m.State("LOOK"):
                m.d.sync += [
                    chunk.communicator.eq(number), chunk.sequence.eq(row.sequence), chunk.fsm.eq(fsm),
                    chunk.slot.eq(slot), chunk.arithmetic.eq(row.arithmetic), chunk.piece_beats.eq(row.piece_beats),
                    chunk.program.eq(row.program), chunk.phases.eq(row.phases),
                ]
                with m.If(ready & ~self.init.active & ~self.restart):
                    m.d.comb += started.write.en.eq(1)
                    for place in range(config.slots):
                        with m.If(slot == place):
                            m.d.sync += full[place].eq(0)
                    m.next = "START"
                with m.Else():
                    m.d.sync += number.eq(number + 1)
            with m.State("START"):
                m.d.comb += self.chunks.valid.eq(1)
                with m.If(self.chunks.ready):
                    m.next = "LOOK"
        self._restart(m, started)

    def _drain(self, m, ends):
        config = self.config
        m.submodules.waiting = waiting = Queue(config.slot_bits, depth=config.slots)
        wiring.connect(m, wiring.flipped(self.through), waiting.i)
        row, operation, job = ends.read[0].data, self.drain_operation, self.drains.payload
        m.d.comb += [
            ends.read[0].addr.eq(waiting.o.payload), self.drain_row.eq(row.row),
            job.list.eq(row.list), job.runs.eq(row.runs), job.base.eq(operation.dst_base),
            job.shard_bytes.eq(operation.shard_bytes), job.column.eq(row.column), job.limit.eq(operation.dst_limit),
            job.piece_bytes.eq(row.piece_bytes), job.piece_beats.eq(row.piece_beats),
            job.slot.eq(waiting.o.payload),
            job.varying.eq(operation.varying), job.row.eq(operation.row), job.size.eq(operation.size),
            job.dtype.eq(operation.dtype), job.widen.eq(operation.widen), job.divide.eq(operation.divide),
            self.drains.valid.eq(waiting.o.valid), waiting.o.ready.eq(self.drains.ready),
        ]
