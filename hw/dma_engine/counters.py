"""Counters of each queue, and the copy that software reads.

Responses, Scheduler, Retire (resets) -> QueueCounters -> registers.  Latency: 2 cycles from an event to what a copy
has.  Throughput: one segment and one stall per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .config import BYTES_WIDTH
from .layouts import InitSignature
from .table import Table

__all__ = ["QueueCounters", "Tally"]


class Tally(wiring.Component):
    """Sums of each queue, in LUT RAM.

    A row that was cleared or never used has bits that mean nothing: they do where ``used`` and ``marks`` differ.

    Parameters
    ----------
    shape : StructLayout
        A row: sums, by name.
    config : DmaConfig

    Members
    -------
    init : ``In(InitSignature)``
    add : ``In(1)``, queue : ``In``, amounts : ``In(shape)``
    clear : ``In(1)``, clear_queue : ``In``
        Not in a cycle in which the queue is added to.
    take : ``In(1)``, take_queue : ``In``, busy : ``Out(1)``
        Copy a row in the next cycle in which nothing is added; ``busy`` until then.
    copy : ``Out(shape)``
    """

    def __init__(self, shape, config):
        self.shape, self.config = shape, config
        queue = config.queue_bits
        super().__init__({
            "init": In(InitSignature(config)),
            "add": In(1), "queue": In(queue), "amounts": In(shape),
            "clear": In(1), "clear_queue": In(queue),
            "take": In(1), "take_queue": In(queue), "busy": Out(1),
            "copy": Out(shape),
        })

    def elaborate(self, platform):
        m = Module()
        init, queues = InitSignature(self.config), self.config.queues
        m.submodules.sums = sums = Table(self.shape, depth=queues, reads=1, init=None)
        m.submodules.used = used = Table(1, depth=queues, reads=2, init=init)
        m.submodules.marks = marks = Table(1, depth=queues, reads=1, init=init)
        for table in (used, marks):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        for table in (sums, used, marks):
            m.d.comb += table.read[0].addr.eq(Mux(self.add, self.queue, self.take_queue))
        now, holds, row = sums.read[0].data, Signal(), sums.write.data
        m.d.comb += [
            holds.eq(used.read[0].data != marks.read[0].data),
            sums.write.en.eq(self.add), sums.write.addr.eq(self.queue),
            used.write.en.eq(self.add), used.write.addr.eq(self.queue), used.write.data.eq(~marks.read[0].data),
            used.read[1].addr.eq(self.clear_queue),
            marks.write.en.eq(self.clear), marks.write.addr.eq(self.clear_queue),
            marks.write.data.eq(used.read[1].data),
        ]
        for name in self.shape.members:
            m.d.comb += row[name].eq(Mux(holds, now[name], 0) + self.amounts[name])

        with m.If(self.take):
            m.d.sync += self.busy.eq(1)
        with m.Elif(self.busy & ~self.add):
            m.d.sync += [self.busy.eq(0), self.copy.eq(now)]
            with m.If(~holds):
                m.d.sync += self.copy.eq(0)
        return m


class QueueCounters(wiring.Component):
    """Count what memory ended and what the scheduler put off, per queue.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(InitSignature)``
    done : ``In(1)``, done_queue, done_size : ``In``, done_ok : ``In(1)``
        Memory has answered a segment, of ``done_size`` bytes less one, without or with an error.
    dropped : ``In(1)``, dropped_queue : ``In``
        The queue was picked and could not go.
    reset : ``In(1)``, reset_queue : ``In``
        The queue, of which nothing is under way, begins from zero.
    take : ``In(1)``, queue : ``In``, busy : ``Out(1)``
        Copy a queue's counters, in the next cycle in which nothing is counted; ``busy`` until then.
    bytes, segments, stalls : ``Out``
        The copy.
    """

    def __init__(self, config):
        self.config = config
        queue = config.queue_bits
        super().__init__({
            "init": In(InitSignature(config)),
            "done": In(1), "done_queue": In(queue), "done_size": In(config.segment_bits), "done_ok": In(1),
            "dropped": In(1), "dropped_queue": In(queue),
            "reset": In(1), "reset_queue": In(queue),
            "take": In(1), "queue": In(queue), "busy": Out(1),
            "bytes": Out(BYTES_WIDTH), "segments": Out(32), "stalls": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.moved = moved = Tally(data.StructLayout({"bytes": BYTES_WIDTH, "segments": 32}), config)
        m.submodules.put_off = put_off = Tally(data.StructLayout({"stalls": 32}), config)
        m.d.sync += [
            moved.add.eq(self.done), moved.queue.eq(self.done_queue),
            moved.amounts.bytes.eq(Mux(self.done_ok, self.done_size + 1, 0)),
            put_off.add.eq(self.dropped), put_off.queue.eq(self.dropped_queue),
        ]
        m.d.comb += [moved.amounts.segments.eq(1), put_off.amounts.stalls.eq(1)]
        for tally in (moved, put_off):
            wiring.connect(m, wiring.flipped(self.init), tally.init)
            m.d.comb += [tally.clear.eq(self.reset), tally.clear_queue.eq(self.reset_queue),
                         tally.take.eq(self.take), tally.take_queue.eq(self.queue)]
        m.d.comb += [
            self.busy.eq(moved.busy | put_off.busy),
            self.bytes.eq(moved.copy.bytes), self.segments.eq(moved.copy.segments),
            self.stalls.eq(put_off.copy.stalls),
        ]
        return m
