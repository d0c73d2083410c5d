# SPDX-License-Identifier: Apache-2.0
"""Formal proofs of the table of counters and of its queues, for every sequence of operations.

The table is proved by induction, without a bound, for a counter that the solver chooses: if only queued counters leave,
it fires at its threshold, once, and is queued only while it is not queued. The queues are proved within a number of
cycles, with few counters: if only counters that are not queued become due, only queued counters leave, and no queue
overflows.
"""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Format, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

import hw.triggers.pending
import hw.triggers.table
from hw.common.table import Table
from hw.triggers.config import COUNTERS_PER_BLOCK, INDEX_WIDTH, MOST_DUE, TriggerConfig
from hw.triggers.layouts import ArmLayout, OpKind, op_layout
from hw.triggers.pending import PendingFirings
from hw.triggers.table import TriggerTable
from hw.triggers.words import Mode, Refusal
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

CONFIG = TriggerConfig(blocks=2, dma_pages=1, ace_pages=1)
FEW = 2
"""Counters of a block, for the proof of the queues."""


class _Shown(Table):
    """With another read port, for the proof."""

    def __init__(self, shape, *, depth, reads, init):
        super().__init__(shape, depth=depth, reads=reads + 1, init=init)


class Counter(wiring.Component):
    """The table, and an independent count of one counter from the operations that the table accepted.

    Parameters
    ----------
    flaw : str
        Breaks an assumption or a property, to show that the proof sees it.
    """

    def __init__(self, *, flaw=""):
        self.flaw = flaw
        super().__init__({
            "watched": In(CONFIG.counter_bits), "op_valid": In(1), "op": In(op_layout(CONFIG)),
            "resetting": In(CONFIG.blocks), "leave": In(1), "leave_counter": In(CONFIG.counter_bits),
        })

    def elaborate(self, platform):
        m = Module()
        table, op = TriggerTable(CONFIG), self.op
        hw.triggers.table.Table = _Shown
        try:
            m.submodules.table = parts = table.elaborate(platform)
        finally:
            hw.triggers.table.Table = Table
        # The watched counter and its block; both do not change.
        watched, known = Signal(CONFIG.counter_bits), Signal()
        m.d.sync += [watched.eq(self.watched), known.eq(1)]
        with m.If(known):
            m.d.comb += Assume(self.watched == watched)
        counter, block = self.watched, self.watched[INDEX_WIDTH:]
        m.d.comb += [
            table.ops.valid.eq(self.op_valid), table.ops.payload.eq(op), table.resetting.eq(self.resetting),
            *(rows.read[-1].addr.eq(counter) for rows in (parts.submodules.rows, parts.submodules.settings)),
        ]
        row, settings = (rows.read[-1].data for rows in (parts.submodules.rows, parts.submodules.settings))
        self._environment(m, table, counter, block)
        self._count(m, table, row, settings, parts)
        return m

    def _environment(self, m, table, counter, block):
        """Operations as their sources make them, resets as ``BlockResets`` makes them, and firings that leave."""
        op, arm = self.op, data.View(ArmLayout, self.op.word)
        resetting, was = self.resetting.bit_select(block, 1), Signal()
        taken = table.ops.valid & table.ops.ready
        clears = taken & (op.kind == OpKind.CLEAR) & (op.counter == counter) & (op.code == 0)
        m.d.sync += was.eq(resetting)
        # A reset ends when the row has been cleared in it.
        uncleared = Signal()
        m.d.comb += Assume(~(was & ~resetting & uncleared))
        m.d.sync += uncleared.eq(Mux(resetting, (~was | uncleared) & ~clears, 0))
        with m.If(self.op_valid):
            m.d.comb += [
                Assume(op.kind.as_value() <= OpKind.NONE.value),
                Assume((op.kind != OpKind.CLEAR) | (self.resetting.bit_select(op.counter[INDEX_WIDTH:], 1)
                                                    & (op.code == 0))),
                Assume((op.kind != OpKind.ARM) | (op.code != 0) | (arm.threshold != 0) | (arm.mode == Mode.DISARM)
                       | (arm.mode == Mode.SUM)),
            ]
        self.uncleared, self.cleared = uncleared, was & ~uncleared
        m.d.comb += [table.leave.valid.eq(self.leave), table.leave.counter.eq(self.leave_counter)]

    def _count(self, m, table, row, settings, parts):
        op, arm, counter = self.op, data.View(ArmLayout, self.op.word), self.watched
        resetting = self.resetting.bit_select(counter[INDEX_WIDTH:], 1)
        taken = table.ops.valid & table.ops.ready
        ours = taken & (op.counter == counter)
        accepted = ours & (table.code == Refusal.NONE)
        ticks, leaves = accepted & (op.kind == OpKind.TICK), table.leave.valid & (table.leave.counter == counter)

        # -- The count: the sum of the accepted values since arming or since the last firing, and the numbers of the
        # firings that are pending, oldest first.
        mode, generation, threshold = Signal(2), Signal(16), Signal(32)
        total, due, queued = Signal(33), Signal(3), Signal()
        numbers = Array(Signal(16, name=f"number_{age}") for age in range(MOST_DUE))
        after = Signal(33)
        m.d.comb += after.eq(Mux(mode == Mode.SUM, (total + op.value)[:32], total + op.value))
        reaches = (mode != Mode.SUM) & (after == threshold)
        fires = ticks & Mux(mode == Mode.SUM, (op.value != 0) & (due == 0), reaches)
        with m.If(ticks):
            m.d.sync += total.eq(after)
            with m.If(reaches):
                m.d.sync += total.eq(0)
                with m.If(mode == Mode.ONCE):
                    m.d.sync += [mode.eq(Mode.DISARM), total.eq(total)]
                with m.Else():
                    m.d.sync += generation.eq(generation + 1)
        with m.If(fires):
            m.d.sync += [numbers[due[:2]].eq(generation), due.eq(due + 1), queued.eq(1)]
        with m.If(accepted & (op.kind == OpKind.ARM)):
            m.d.sync += [mode.eq(arm.mode), generation.eq(arm.generation), threshold.eq(arm.threshold), total.eq(0)]
        with m.If(leaves):
            m.d.sync += [due.eq(Mux(mode == Mode.SUM, 0, due - 1)), queued.eq(table.requeue),
                         *(numbers[age].eq(numbers[age + 1]) for age in range(MOST_DUE - 1))]
        with m.If(resetting):
            m.d.sync += queued.eq(0)
        with m.If(accepted & (op.kind == OpKind.CLEAR)):
            m.d.sync += [mode.eq(Mode.DISARM), due.eq(0)]
        if self.flaw != "queue":
            m.d.comb += Assume(~leaves | (queued & ~resetting))

        # -- The row shows the count.
        m.d.comb += [
            Assert(row.mode == mode, Format("mode is not that of the count")),
            Assert(row.due == due, Format("due is not the number of pending firings")),
            Assert(due <= MOST_DUE, Format("too many firings are pending")),
            Assert(resetting | self.uncleared | (queued == (due != 0)), Format("queued without a firing")),
            Assert(~self.cleared | ((due == 0) & (mode == Mode.DISARM)), Format("a reset has left a count")),
            Assert((mode != Mode.SUM) | (due <= 1), Format("SUM has one firing at most")),
            Assert((mode != Mode.ONCE) | (due == 0), Format("ONCE fires once")),
        ]
        with m.If(mode != Mode.DISARM):
            m.d.comb += Assert(row.generation == generation, Format("generation is not that of the count"))
            with m.If(mode == Mode.SUM):
                m.d.comb += Assert((row.remaining + total)[:32] == 0, Format("the sum is not that of the count"))
            with m.Else():
                m.d.comb += [Assert(row.remaining + total == threshold, Format("the count is not that of the values")),
                             Assert(row.remaining != 0, Format("an armed counter has reached its threshold"))]
        with m.If(mode == Mode.REPEAT):
            m.d.comb += Assert(settings.threshold == threshold, Format("the threshold is not that of the arm word"))
            for age in range(MOST_DUE):
                with m.If(age < due):
                    m.d.comb += Assert(numbers[age] == (generation - due + age)[:16],
                                       Format("numbers are not in order"))
        with m.If((mode == Mode.DISARM) & (due != 0)):
            m.d.comb += [Assert(due == 1, Format("ONCE fires once")), Assert(row.generation == numbers[0])]

        # -- It is queued when it fires, and at no other time; never while it is queued.
        queues = table.due.valid & (Cat(table.due.payload.index, table.due.block) == counter)
        m.d.comb += [
            Assert(queues == (fires & (due == 0)), Format("not queued at the threshold")),
            Assert(~queues | (~queued & ~resetting & (mode != Mode.DISARM)), Format("queued while queued or idle")),
            Assert(~leaves | (queued & (due != 0) & ~resetting), Format("a firing left that was not pending")),
            Assert(~leaves | ~table.requeue | (due > 1), Format("queued again without a firing")),
        ]
        # -- Verdicts on ticks, from the count.
        tick = ours & (op.kind == OpKind.TICK) & (op.code == 0)
        idle = (mode == Mode.DISARM) | resetting
        wrong = ~op.any & (op.generation != generation)
        beyond = (mode != Mode.SUM) & ((after > threshold) | ((after == threshold) & (due == MOST_DUE)))
        with m.If(tick):
            m.d.comb += Assert(table.code == Mux(idle, Refusal.IDLE, Mux(wrong, Refusal.GENERATION, Mux(
                beyond, Refusal.OVERFLOW, Refusal.NONE))), Format("the verdict on a tick is wrong"))
        prepares = ours & (op.code == 0) & ((op.kind == OpKind.ARM) | (op.kind == OpKind.WORD))
        with m.If(prepares):
            m.d.comb += Assert(table.code == Mux(resetting, Refusal.IDLE, Mux(
                (due != 0) | ((op.kind == OpKind.WORD) & (mode != Mode.DISARM)), Refusal.BUSY, Refusal.NONE)),
                Format("the verdict on preparation is wrong"))

        # -- A refused operation, of any counter, changes nothing.
        changes = [parts.submodules.rows.write.en, parts.submodules.settings.write.en, table.words.valid,
                   table.due.valid]
        with m.If(~table.leave.valid & (~taken | (table.code != Refusal.NONE))):
            m.d.comb += [Assert(~change, Format("a refused operation has an effect")) for change in changes]
        with m.If(table.leave.valid):
            m.d.comb += [Assert(~change, Format("two operations in one cycle")) for change in changes[1:]]

        # -- The number that leaves.
        left, number, firing = Signal(), Signal(32), table.firing.payload
        shown = Mux(firing.sum, (-firing.base)[:32], (firing.base - firing.behind)[:16])
        m.d.sync += [left.eq(leaves), number.eq(Mux(mode == Mode.SUM, total[:32], numbers[0]))]
        with m.If(left):
            m.d.comb += [
                Assert(table.firing.valid & (table.firing.payload.counter == counter), Format("the firing is lost")),
                Assert(shown == number, Format("the number of the firing is wrong")),
            ]
        if self.flaw == "threshold":
            m.d.comb += Assert(~(ticks & reaches))
        self._cover(m, ticks, due, leaves, mode, resetting)

    def _cover(self, m, ticks, due, leaves, mode, resetting):
        reset = Signal()
        with m.If(resetting & (due != 0)):
            m.d.sync += reset.eq(1)
        m.d.comb += [Cover(leaves & (due == 2)), Cover(reset & ticks & (mode == Mode.SUM) & (due == 0))]


class Queued(wiring.Component):
    """``PendingFirings`` with few counters in each block, and the set of those that are queued.

    ``flaw``: counters may become due while they are queued.
    """

    def __init__(self, *, flaw=False):
        self.flaw = flaw
        super().__init__({
            "due": In(1), "due_block": In(CONFIG.block_bits), "due_index": In(range(FEW)),
            "resetting": In(CONFIG.blocks), "ready": In(1), "requeue": In(1),
            "allowed": In(CONFIG.blocks + 1), "free": In(CONFIG.blocks + 1),
            "pages_valid": In(1), "pages_block": In(CONFIG.block_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = PendingFirings(CONFIG)
        hw.triggers.pending.COUNTERS_PER_BLOCK = FEW
        try:
            m.submodules.dut = parts = dut.elaborate(platform)
        finally:
            hw.triggers.pending.COUNTERS_PER_BLOCK = COUNTERS_PER_BLOCK
        leave = dut.leave
        block, index = leave.counter[INDEX_WIDTH:], leave.counter[:INDEX_WIDTH]
        m.d.comb += [
            dut.due.valid.eq(self.due), dut.due.block.eq(self.due_block), dut.due.payload.index.eq(self.due_index),
            dut.resetting.eq(self.resetting), dut.settings.pages_valid.eq(self.pages_valid),
            dut.settings.pages_block.eq(self.pages_block),
            *(look_up.allowed.eq(allowed) for look_up, allowed in zip(dut.pages, self.allowed, strict=True)),
            *(look_up.free.eq(free) for look_up, free in zip(dut.pages, self.free, strict=True)),
            dut.ready.eq(self.ready), dut.requeue.eq(self.requeue),
            Assume(~self.due | ~leave.valid), Assume(~self.due | ~self.resetting.bit_select(self.due_block, 1)),
            Assume(self.due_index < FEW),
            Assert(~leave.valid | ~self.resetting.bit_select(block, 1), Format("a firing left in a reset")),
            Assert(~leave.valid | (index < FEW), Format("a firing of no counter left")),
        ]
        for number in range(CONFIG.blocks):
            inside = [Signal(name=f"inside_{number}_{position}") for position in range(FEW)]
            queue = parts.submodules[f"queue_{number}"]
            for position, queued in enumerate(inside):
                due = self.due & (self.due_block == number) & (self.due_index == position)
                leaves = leave.valid & (block == number) & (index == position)
                if not self.flaw:
                    m.d.comb += Assume(~due | ~queued)
                m.d.comb += Assert(~leaves | queued, Format("a firing left that was not queued"))
                m.d.sync += queued.eq((queued | due) & ~(leaves & ~self.requeue) & ~self.resetting[number])
            m.d.comb += [
                Assert(queue.level == sum(inside), Format("a queue does not hold the queued counters")),
                Assert(~queue.i.valid | queue.i.ready, Format("a queue overflows")),
                Cover(Cat(inside).all() & leave.valid & self.requeue & (block == number)),
            ]
        return m


def test_table():
    prove(Counter(), name="trigger-table", depth=2, mode="prove")


def test_table_reaches_everything():
    prove(Counter(), name="trigger-table-cover", depth=8, mode="cover")


@pytest.mark.parametrize("depth", [6, pytest.param(8, marks=pytest.mark.soak)])
def test_queues(depth):
    prove(Queued(), name=f"trigger-queues-{depth}", depth=depth)


def test_queues_are_full_at_times():
    prove(Queued(), name="trigger-queues-cover", depth=5, mode="cover")


def test_queues_are_not_vacuous():
    with pytest.raises(ProofFailed, match="Assert failed"):
        prove(Queued(flaw=True), name="trigger-queues-flaw", depth=4)


@pytest.mark.parametrize("flaw", ["queue", "threshold"])
def test_table_is_not_vacuous(flaw):
    message = rf"^trigger-{flaw} failed in mode bmc within 5 cycles:\n(.*\n)*.*Assert failed"
    with pytest.raises(ProofFailed, match=message):
        prove(Counter(flaw=flaw), name=f"trigger-{flaw}", depth=5)
