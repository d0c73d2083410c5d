# SPDX-License-Identifier: Apache-2.0
"""Counters of each queue, and the snapshot that software reads.

Responses, Scheduler, Retire (resets) -> QueueCounters -> registers.  Latency: 2 cycles from an event until a snapshot
includes it.  Throughput: one segment and one stall per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import BYTES_WIDTH, DmaConfig
from hw.dma_engine.strobes import OutcomeSignature, QueueStrobeSignature
from hw.stream.shapes import ShapeLike

__all__ = ["MovedSignature", "QueueCounters", "SnapshotSignature", "Tally"]


class MovedSignature(wiring.Signature):
    """A segment completed without being abandoned: ``size`` is its length in bytes less one, ``ok`` is set if memory
    responded without an error."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "size": Out(config.segment_bits),
                          "ok": Out(1)})


class SnapshotSignature(wiring.Signature):
    """Snapshot of the counters of one queue, for software.

    Members
    -------
    take : ``Out(1)``, queue : ``Out``
        Copy the queue's counters in the next cycle without an event.
    busy : ``In(1)``
        The copy is pending.
    bytes, segments, stalls : ``In``
        The copy.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"take": Out(1), "queue": Out(config.queue_bits), "busy": In(1),
                          "bytes": In(BYTES_WIDTH), "segments": In(32), "stalls": In(32)})


LOW_BITS = 14
"""Width of the lower part of a sum. Amounts are limited so that it carries in at most every third addition."""


class Tally(wiring.Component):
    """Sums of each queue, in LUT RAM.

    A row holds sums while its bits in ``used`` and ``marks`` differ; after a clear they are equal, and the row counts
    as zero, whatever its contents.

    Parameters
    ----------
    shape : StructLayout
        Layout of a row: the sums by name.
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    add : ``In(1)``, queue : ``In``, amounts : ``In(shape)``
        Amounts are at most ``2 ** (LOW_BITS - 2)``.
    clear : ``In(1)``, clear_queue : ``In``
        Set the sums of the queue to zero. Not allowed in the cycle of an addition to the same queue.
    take : ``In(1)``, busy : ``Out(1)``
        Copy the row of ``queue`` in the second of the next two consecutive cycles without an addition; ``busy`` until
        then. ``queue`` must select this row in every cycle without an addition.
    copy : ``Out(shape)``
    """

    def __init__(self, shape: ShapeLike, config: DmaConfig) -> None:
        self.shape, self.config = shape, config
        queue = config.queue_bits
        super().__init__({
            "init": In(SweepSignature(config)),
            "add": In(1), "queue": In(queue), "amounts": In(shape),
            "clear": In(1), "clear_queue": In(queue),
            "take": In(1), "busy": Out(1),
            "copy": Out(shape),
        })

    def elaborate(self, platform):
        m = Module()
        init, queues = SweepSignature(self.config), self.config.queues
        low_widths = {name: min(LOW_BITS, shape.width) for name, shape in _shapes(self.shape)}
        m.submodules.low = low = Table(data.StructLayout(low_widths), depth=queues, reads=1, init=None)
        m.submodules.used = used = Table(1, depth=queues, reads=2, init=init)
        m.submodules.marks = marks = Table(1, depth=queues, reads=1, init=init)
        for table in (used, marks):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        for table in (low, used, marks):
            m.d.comb += table.read[0].addr.eq(self.queue)
        holds, carried, carried_queue = Signal(), Signal(), Signal.like(self.queue)
        m.d.sync += [carried.eq(self.add), carried_queue.eq(self.queue)]
        m.d.comb += [
            holds.eq(used.read[0].data != marks.read[0].data),
            low.write.en.eq(self.add), low.write.addr.eq(self.queue),
            used.write.en.eq(self.add), used.write.addr.eq(self.queue), used.write.data.eq(~marks.read[0].data),
            used.read[1].addr.eq(self.clear_queue),
            marks.write.en.eq(self.clear), marks.write.addr.eq(self.clear_queue),
            marks.write.data.eq(used.read[1].data),
        ]
        now = {}
        for name, shape in _shapes(self.shape):
            width = low_widths[name]
            so_far, amount = low.read[0].data[name], self.amounts[name][:LOW_BITS]
            total = Signal(width + 1, name=f"{name}_total")
            m.d.comb += [total.eq(Mux(holds, so_far + amount, amount)), low.write.data[name].eq(total)]
            now[name] = so_far
            if shape.width > width:
                # The upper bits are updated one cycle later. A sum that carries did not carry in the previous cycle, so
                # no update of the value read is pending.
                m.submodules[f"{name}_high"] = high = Table(shape.width - width, depth=queues, reads=1, init=None)
                above, carry, fresh = Signal.like(high.write.data), Signal(), Signal()
                m.d.sync += [above.eq(Mux(holds, high.read[0].data, 0)), carry.eq(total[width]), fresh.eq(~holds)]
                m.d.comb += [
                    high.read[0].addr.eq(self.queue),
                    high.write.en.eq(carried & (carry | fresh)), high.write.addr.eq(carried_queue),
                    high.write.data.eq(above + carry),
                ]
                now[name] = Cat(so_far, high.read[0].data)

        with m.If(self.take):
            m.d.sync += self.busy.eq(1)
        with m.Elif(self.busy & ~self.add & ~carried):
            m.d.sync += self.busy.eq(0)
            m.d.sync += [self.copy[name].eq(Mux(holds, value, 0)) for name, value in now.items()]
        return m


def _shapes(layout):
    return [(name, Shape.cast(field.shape)) for name, field in layout]


class QueueCounters(wiring.Component):
    """Count completed segments, their bytes, and dropped picks of the scheduler (stalls) for each queue.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    moved : ``In(MovedSignature)``
    dropped : ``In(QueueStrobeSignature)``
        A pick of the queue was dropped.
    outcome : ``In(OutcomeSignature)``
        The reset of a queue clears its counters.
    snapshot : ``In(SnapshotSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "moved": In(MovedSignature(config)), "dropped": In(QueueStrobeSignature(config)),
            "outcome": In(OutcomeSignature(config)), "snapshot": In(SnapshotSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, snapshot = self.config, self.snapshot
        m.submodules.moved = moved = Tally(data.StructLayout({"bytes": BYTES_WIDTH, "segments": 32}), config)
        m.submodules.put_off = put_off = Tally(data.StructLayout({"stalls": 32}), config)
        m.d.sync += [
            moved.add.eq(self.moved.valid), moved.queue.eq(Mux(self.moved.valid, self.moved.queue, snapshot.queue)),
            moved.amounts.bytes.eq(Mux(self.moved.ok, self.moved.size + 1, 0)),
            put_off.add.eq(self.dropped.valid),
            put_off.queue.eq(Mux(self.dropped.valid, self.dropped.queue, snapshot.queue)),
        ]
        m.d.comb += [moved.amounts.segments.eq(1), put_off.amounts.stalls.eq(1)]
        for tally in (moved, put_off):
            wiring.connect(m, wiring.flipped(self.init), tally.init)
            m.d.comb += [tally.clear.eq(self.outcome.reset), tally.clear_queue.eq(self.outcome.queue),
                         tally.take.eq(snapshot.take)]
        m.d.comb += [
            snapshot.busy.eq(moved.busy | put_off.busy),
            snapshot.bytes.eq(moved.copy.bytes), snapshot.segments.eq(moved.copy.segments),
            snapshot.stalls.eq(put_off.copy.stalls),
        ]
        return m
