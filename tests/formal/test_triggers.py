# SPDX-License-Identifier: Apache-2.0
"""Formal proof of the table of counters, for every sequence of operations.

It is proved by induction, without a bound, for a counter that the solver chooses: if only queued counters leave, it
fires at its threshold, once, and is queued only while it is not queued. ``test_trigger_queues`` proves the rest.

With ``pipelined``, its memories are replaced by asynchronous ones behind registered addresses;
``test_forwarding_table`` proves that they show the same rows.
"""

from dataclasses import replace

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Format, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

import hw.triggers.table
from hw.common.delay import delayed
from hw.common.forwarding_table import ForwardingTable
from hw.common.table import Table
from hw.triggers.config import INDEX_WIDTH, MOST_DUE, TriggerConfig
from hw.triggers.layouts import ArmLayout, OpKind, op_layout
from hw.triggers.table import TriggerTable
from hw.triggers.words import Mode, Refusal
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

CONFIG = TriggerConfig(blocks=2, dma_pages=1, ace_pages=1)
PIPELINED = replace(CONFIG, pipelined=True)


class _Shown(Table):
    """With another read port, for the proof."""

    def __init__(self, shape, *, depth, reads, init):
        super().__init__(shape, depth=depth, reads=reads + 1, init=init)


class _Delayed(_Shown):
    """A :class:`ForwardingTable` as its contract says: asynchronous reads of the address of two cycles before."""

    def __init__(self, shape, *, depth, reads):
        super().__init__(shape, depth=depth, reads=reads, init=None)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        # The last port is that of the proof.
        for number, port in enumerate(m.submodules.memory.read_ports[:-1]):
            m.d.comb += port.addr.eq(delayed(m, self.read[number].addr, 2, name=f"address_{number}"))
        return m


class Counter(wiring.Component):
    """The table, and an independent count of one counter from the operations that the table accepted.

    Parameters
    ----------
    config : TriggerConfig
    flaw : str
        Breaks an assumption or a property, to show that the proof sees it.
    """

    def __init__(self, config=CONFIG, *, flaw=""):
        self.config = config
        self.flaw = flaw
        super().__init__({
            "watched": In(CONFIG.counter_bits), "op_valid": In(1), "op": In(op_layout(CONFIG)),
            "resetting": In(CONFIG.blocks), "leave": In(1), "leave_counter": In(CONFIG.counter_bits),
        })

    def elaborate(self, platform):
        m = Module()
        table = TriggerTable(self.config)
        hw.triggers.table.Table, hw.triggers.table.ForwardingTable = _Shown, _Delayed
        try:
            m.submodules.table = parts = table.elaborate(platform)
        finally:
            hw.triggers.table.Table, hw.triggers.table.ForwardingTable = Table, ForwardingTable
        # The watched counter and its block; both do not change.
        watched, known = Signal(CONFIG.counter_bits), Signal()
        m.d.sync += [watched.eq(self.watched), known.eq(1)]
        with m.If(known):
            m.d.comb += Assume(self.watched == watched)
        counter, block = self.watched, self.watched[INDEX_WIDTH:]
        m.d.comb += [
            table.ops.valid.eq(self.op_valid), table.ops.payload.eq(self.op), table.resetting.eq(self.resetting),
            table.leave.valid.eq(self.leave), table.leave.counter.eq(self.leave_counter),
            *(rows.read[-1].addr.eq(counter) for rows in (parts.submodules.rows, parts.submodules.settings)),
        ]
        row, settings = (rows.read[-1].data for rows in (parts.submodules.rows, parts.submodules.settings))
        # The operation or the firing of which the table shows verdict and row.
        self.taken, self.now, self.requested, self.leaving = (
            delayed(m, value, self.config.read_latency, name=name, reset_less=False) for name, value in (
                ("taken", table.ops.valid & table.ops.ready), ("now", self.op), ("requested", self.leave),
                ("leaving", self.leave_counter)))
        self._environment(m, counter, block)
        self._count(m, table, row, settings, parts)
        return m

    def _environment(self, m, counter, block):
        """Operations as their sources make them, and resets as ``BlockResets`` makes them."""
        op, arm, now = self.op, data.View(ArmLayout, self.op.word), self.now
        resetting, was = self.resetting.bit_select(block, 1), Signal()
        clears = self.taken & (now.kind == OpKind.CLEAR) & (now.counter == counter) & (now.code == 0)
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
        # A reset does not end while a row is being cleared.
        clearing = self.op_valid & ~self.leave & (op.kind == OpKind.CLEAR)
        for age in range(1, self.config.read_latency + 1):
            block_then = delayed(m, op.counter[INDEX_WIDTH:], age, name=f"block_{age}")
            m.d.comb += Assume(~delayed(m, clearing, age, name=f"clearing_{age}", reset_less=False)
                               | self.resetting.bit_select(block_then, 1))

    def _count(self, m, table, row, settings, parts):
        op, arm, counter = self.now, data.View(ArmLayout, self.now.word), self.watched
        resetting = self.resetting.bit_select(counter[INDEX_WIDTH:], 1)
        ours = self.taken & (op.counter == counter)
        accepted = ours & (table.code == Refusal.NONE)
        ticks = accepted & (op.kind == OpKind.TICK)
        # A firing is discarded if a reset has begun since it was requested.
        leaves = self.requested & (self.leaving == counter) & (~resetting if self.config.read_latency else 1)

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
        requests = self.leave & (self.leave_counter == counter)
        on_its_way = [delayed(m, requests, age, name=f"requests_{age}", reset_less=False)
                      for age in range(1, self.config.read_latency + 1)]
        if self.flaw != "queue":
            m.d.comb += Assume(~requests | (queued & ~resetting & ~Cat(on_its_way).any()))

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
        if self.config.pipelined:
            again = Cat(table.due.payload.index, table.due.block)
            m.d.comb += [Assert(~table.requeue | (again == self.leaving), Format("another counter is queued again")),
                         Assert(~table.requeue | ~leaves | (table.due.payload.page == settings.page))]
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
        with m.If(~self.requested & (~self.taken | (table.code != Refusal.NONE))):
            m.d.comb += [Assert(~change, Format("a refused operation has an effect")) for change in changes]
        with m.If(self.requested):
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


both = pytest.mark.parametrize("config", [CONFIG, PIPELINED], ids=["plain", "pipelined"])


@both
def test_table(config):
    prove(Counter(config), name=f"trigger-table-{config.read_latency}", depth=2 + config.read_latency, mode="prove")


@both
def test_table_reaches_everything(config):
    prove(Counter(config), name=f"trigger-table-cover-{config.read_latency}", depth=8 + 4 * config.read_latency,
          mode="cover")


@pytest.mark.parametrize("flaw", ["queue", "threshold"])
def test_table_is_not_vacuous(flaw):
    message = rf"^trigger-{flaw} failed in mode bmc within 5 cycles:\n(.*\n)*.*Assert failed"
    with pytest.raises(ProofFailed, match=message):
        prove(Counter(flaw=flaw), name=f"trigger-{flaw}", depth=5)
