# SPDX-License-Identifier: Apache-2.0
"""Moves from memory to the SRAM: bytes from any address, to lane 0 of a beat and on.

Move -> Bursts -> AR; R -> Fill -> WidenBeats -> Sram.  Latency: 3 cycles from a move to ARVALID, 6 from a beat on R to
its write.  Throughput: one beat of R per cycle, also when moves are short.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Outstanding
from hw.axi.lanes import rotate_up
from hw.common.delay import delayed
from hw.common.event import EventSignature
from hw.stream import CreditCounter, Queue

from .bursts import Bursts, burst_bytes
from .config import AceConfig
from .layouts import move_layout, widens
from .memory_port import MemoryRead
from .mover_queue import MoverDone
from .numerics.convert_byte import is_byte, known
from .numerics.formats import TYPE_WIDTH
from .numerics.widen_beats import WidenBeats, filled_layout
from .sram import SramWriteSignature, write_latency

__all__ = ["Fill", "FillCounts", "FillMarked"]

READS = 512
"""Default number of beats in flight: those that arrive within the latency of a slow memory."""

OUTPUT_DEPTH = 4
"""Beats that may wait for the SRAM in LUT RAM, which keeps its arbiter out of the timing paths of earlier stages."""

START_CYCLES = 4
"""Cycles that an FSM that has started before takes at least from the report of a chunk to the first read of it."""


class FillCounts(wiring.Signature):
    """Counts of Fill, each of the previous cycle: ``read_bytes`` of the accepted move, otherwise 0; ``unexpected``, an
    unexpected beat of R was dropped."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"read_bytes": Out(range(config.chunk_bytes + 1)), "unexpected": Out(1)})


class FillMarked(EventSignature):
    """A fill with a mark has ended, and all earlier ones of its chunk, without an error: the chunk's slot. Driven by
    Fill; marks of fills without bytes are left out."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(config.slot_bits)


class Fill(wiring.Component):
    """Read moves in order, rotate the beats, join each with the next one, and write whole beats to the SRAM.

    A buffer entry is reserved for each beat before its burst is issued, so R never stalls. The last beat of a move does
    not wait for the next move. Lanes after a move's last byte are written with undefined values. In a move with
    ``widen``, 16-bit floats and FP8 become FP32, which takes two or four times the beats; beats without any of the
    move's bytes are not written.

    Parameters
    ----------
    config : AceConfig
    reads : int
        Maximum beats in flight, at least a burst: the full rate is reached if memory responds within this number of
        cycles.

    Members
    -------
    i : ``In(stream.Signature(move_layout))``
    memory : ``Out(MemoryRead)``
    write : ``Out(SramWriteSignature)``
    done : ``Out(MoverDone)``, marked : ``Out(FillMarked)``
        A chunk's last beat, or that of a fill with a mark, was accepted by the SRAM at least a cycle ago, and is
        written before its FSM can send it.
    counts : ``Out(FillCounts)``

    Raises
    ------
    ValueError
        If ``reads`` is less than the longest burst.
    """

    def __init__(self, config: AceConfig, *, reads: int = READS) -> None:
        self.burst_beats = burst_bytes(config) // config.beat_bytes
        if not isinstance(reads, int) or reads < self.burst_beats:
            raise ValueError(f"Fill reads must be an integer of at least {self.burst_beats}, not {reads!r}")
        self.config = config
        self.reads = reads
        super().__init__({
            "i": In(stream.Signature(move_layout(config))),
            "memory": Out(MemoryRead(config)), "write": Out(SramWriteSignature(config)),
            "done": Out(MoverDone(config)), "marked": Out(FillMarked(config)), "counts": Out(FillCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        lane_bits = (config.beat_bytes - 1).bit_length()
        m.submodules.bursts = bursts = Bursts(config)
        wiring.connect(m, wiring.flipped(self.i), bursts.i)
        m.d.comb += self.counts.read_bytes.eq(bursts.count)

        read = data.StructLayout({
            "len": range(self.burst_beats), "first": 1, "last": 1, "empty": 1,
            "lane": lane_bits, "shift": lane_bits, "opposite": lane_bits, "extra": 1,
            "sram": config.sram_bits, "slot": config.slot_bits, "ends": 1, "mark": 1, "quarter": 2, "widen": 1,
            "dtype": TYPE_WIDTH,
        })
        m.submodules.waiting = waiting = Queue(
            read, depth=self.reads, output_register=config.timing.fill_output_registers)
        self._issue(m, bursts.o, waiting.i)
        ahead = self._rotate(m, waiting.o)
        self._join(m, *ahead)
        return m

    def _issue(self, m, bursts, waiting):
        """Issue a burst once entries for all its beats are free, and queue it for its data."""
        burst, entry = bursts.payload, waiting.payload
        m.submodules.credit = self._credit = credit = CreditCounter(self.reads, max_take=self.burst_beats)
        free, fits, reads = Signal(), Signal(), Signal()
        if self.config.timing.registered_read_credits:
            # A burst that fits also fits in the next cycle, unless it was issued.
            m.d.sync += fits.eq((credit.available > burst.len) & bursts.valid & ~bursts.ready)
        else:
            m.d.comb += fits.eq(credit.available > burst.len)
        m.d.comb += [
            credit.take.eq(burst.len + 1),
            free.eq((~self.memory.arvalid | self.memory.arready) & fits),
            waiting.valid.eq(bursts.valid & (burst.empty | free)),
            bursts.ready.eq(waiting.ready & (burst.empty | free)),
            reads.eq(bursts.valid & bursts.ready & ~burst.empty),
            credit.take_stb.eq(reads),
        ]
        m.submodules.outstanding = outstanding = Outstanding(self.reads)
        self._outstanding = outstanding.outstanding
        m.d.comb += [
            outstanding.issued.eq(Mux(reads, burst.len + 1, 0)), outstanding.response.eq(self.memory.rvalid),
            self.counts.unexpected.eq(outstanding.unexpected),
        ]
        m.d.comb += [entry[name].eq(burst[name]) for name in (
            "len", "first", "last", "empty", "lane", "extra", "sram", "slot", "ends", "mark", "quarter", "widen",
            "dtype")]
        m.d.comb += [entry.shift.eq(-burst.lane), entry.opposite.eq(burst.lane - 1)]
        with m.If(reads):
            m.d.sync += [self.memory.arvalid.eq(1), self.memory.araddr.eq(burst.address),
                         self.memory.arlen.eq(burst.len)]
        with m.Elif(self.memory.arready):
            m.d.sync += self.memory.arvalid.eq(0)

    def _rotate(self, m, waiting):
        """Pair each beat of R with its burst, and rotate its first byte to lane 0. An empty burst passes as a beat."""
        config, burst = self.config, waiting.payload
        m.submodules.beats = beats = Queue(
            data.StructLayout({"data": config.data_width, "error": 1}), depth=self.reads,
            output_register=config.timing.fill_output_registers)
        m.d.comb += [
            beats.i.valid.eq(self.memory.rvalid & self._outstanding), beats.i.payload.data.eq(self.memory.rdata),
            beats.i.payload.error.eq(self.memory.rresp.as_value()[1]), self.memory.rready.eq(1),
        ]

        number = Signal.like(burst.len)
        valid, ready, final = Signal(), Signal(), Signal()
        m.d.comb += [
            final.eq(burst.empty | (number == burst.len)),
            valid.eq(waiting.valid & (beats.o.valid | burst.empty)),
            beats.o.ready.eq(waiting.valid & ~burst.empty & ready),
            waiting.ready.eq(valid & ready & final),
        ]
        m.d.sync += self._credit.give.eq(beats.o.valid & beats.o.ready)

        now, now_valid = Signal(self._beat_layout(), reset_less=True), Signal()
        with m.If(ready):
            m.d.sync += now_valid.eq(valid)
        with m.If(ready & valid):
            over = final & burst.last
            four = is_byte(known(config, burst.dtype))
            grows = widens(config, burst)
            stride = Cat(~grows, grows & ~four, grows & four)
            m.d.sync += [
                number.eq(Mux(final, 0, number + 1)),
                now.data.eq(rotate_up(beats.o.payload.data, burst.shift, burst.opposite)),
                now.error.eq(beats.o.payload.error & ~burst.empty),
                now.lane.eq(burst.lane),
                now.emits.eq(~burst.empty & ~(over & burst.extra)),
                now.needs.eq(~over & burst.lane.any()),
                now.address.eq(Mux(burst.first & (number == 0), burst.sram, now.address + stride)),
                now.over.eq(over), now.ends.eq(final & burst.ends), now.mark.eq(final & burst.mark),
            ]
            m.d.sync += [now[name].eq(burst[name]) for name in ("slot", "extra", "quarter", "widen", "dtype")]
        return now, now_valid, ready

    def _join(self, m, now, now_valid, now_ready):
        """Take the missing lanes of a beat from the move's next beat."""
        config, lanes = self.config, self.config.beat_bytes
        m.submodules.out = out = Queue(filled_layout(config), depth=OUTPUT_DEPTH, output_register=True)
        filled = out.o
        if config.widen:
            m.submodules.widen = widen = WidenBeats(config)
            wiring.connect(m, out.o, widen.i)
            filled = widen.o
        before, before_valid = Signal(self._beat_layout(), reset_less=True), Signal()
        above = Signal(lanes, reset_less=True)      # lanes taken from the next beat
        complete, advance, failed = Signal(), Signal(), Signal()
        m.d.comb += [
            complete.eq(~before.needs | now_valid),
            advance.eq(~before_valid | (complete & out.i.ready)),
            now_ready.eq(~now_valid | advance),
        ]
        with m.If(advance):
            m.d.sync += [before_valid.eq(now_valid), before.eq(now)]
            m.d.sync += [above[lane].eq(lane + now.lane >= lanes) for lane in range(lanes)]
            with m.If(before_valid):
                m.d.sync += failed.eq((failed | before.error) & ~before.ends)
        m.d.comb += [
            out.i.valid.eq(before_valid & complete & (before.emits | before.ends | before.mark)),
            out.i.payload.data.eq(Cat(
                Mux(above[lane], now.data.word_select(lane, 8), before.data.word_select(lane, 8))
                for lane in range(lanes))),
            out.i.payload.address.eq(before.address), out.i.payload.write.eq(before.emits),
            out.i.payload.ends.eq(before.ends), out.i.payload.mark.eq(before.mark),
            out.i.payload.slot.eq(before.slot),
            out.i.payload.error.eq(failed | before.error),
            out.i.payload.widen.eq(before.widen & before.emits), out.i.payload.dtype.eq(before.dtype),
            out.i.payload.quarter.eq(before.quarter | (~(before.over | (now.over & before.extra))).replicate(2)),
        ]

        beat = filled.payload
        m.d.comb += [
            self.write.valid.eq(filled.valid & beat.write), self.write.address.eq(beat.address),
            self.write.data.eq(beat.data), filled.ready.eq(~beat.write | self.write.ready),
        ]
        late = max(1, write_latency(config) + 1 - START_CYCLES)
        m.d.comb += [
            self.done.valid.eq(delayed(m, filled.valid & filled.ready & beat.ends, late, name="done",
                                       reset_less=False)),
            self.done.payload.slot.eq(delayed(m, beat.slot, late, name="done_slot")),
            self.done.payload.error.eq(delayed(m, beat.error, late, name="done_error")),
            self.marked.valid.eq(delayed(m, filled.valid & filled.ready & beat.mark & ~beat.error, late, name="marked",
                                         reset_less=False)),
            self.marked.payload.eq(self.done.payload.slot),
        ]

    def _beat_layout(self):
        """A rotated beat. ``emits``: it is written to ``address``; with lanes of the next beat, if ``needs``. ``over``:
        last beat of its move."""
        config = self.config
        return data.StructLayout({
            "data": config.data_width, "error": 1, "lane": (config.beat_bytes - 1).bit_length(), "emits": 1,
            "needs": 1, "address": config.sram_bits, "over": 1, "extra": 1, "quarter": 2, "widen": 1,
            "dtype": TYPE_WIDTH, "slot": config.slot_bits, "ends": 1, "mark": 1,
        })
