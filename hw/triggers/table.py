# SPDX-License-Identifier: Apache-2.0
"""The table of counters: one operation per cycle, each complete before the next.

OperationMerge, PendingFirings -> TriggerTable -> PendingFirings, TriggerPoster.  Latency: ``config.read_latency`` for
verdicts, 1 cycle more for firings.  Throughput: one operation or one request of a firing per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.forwarding_table import ForwardingTable
from hw.common.posts import WORD_BITS
from hw.common.table import Table

from .config import INDEX_WIDTH, MOST_DUE, TriggerConfig
from .layouts import CODE_WIDTH, ArmLayout, OpKind, RowLayout, SettingsLayout, op_layout
from .ports import DueSignature, FiringSignature, LeaveSignature
from .words import Mode, Refusal

__all__ = ["TriggerTable", "WordWriteSignature"]


class WordWriteSignature(wiring.Signature):
    """A word to post is stored: a strobe. ``clear``: both words of the counter are set to 0."""

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"valid": Out(1), "counter": Out(config.counter_bits), "second": Out(1), "clear": Out(1),
                          "word": Out(WORD_BITS)})


class TriggerTable(wiring.Component):
    """Read a counter's row, apply an operation, write the row: in one cycle, or in a pipeline.

    A counter whose ``due`` becomes 1 is queued in ``PendingFirings``; it stays queued until its last firing has left.
    Thus a counter is queued exactly while ``due`` is not 0.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    ops : ``In(stream.Signature(op_layout))``
        Stalls only for ``leave``.
    code : ``Out(CODE_WIDTH)``
        Verdict on the operation that was taken ``config.read_latency`` cycles before. All outputs below are of that
        cycle.
    resetting : ``In(blocks)``
        Blocks whose ticks and preparation are refused.
    leave : ``In(LeaveSignature)``
        A counter whose oldest firing leaves, before any operation.
    due : ``Out(DueSignature)``
    requeue : ``Out(1)``
        The counter of ``leave`` has another firing, and stays queued. With ``pipelined``, ``due`` shows its block
        and payload, without ``valid``.
    firing : ``Out(FiringSignature)``
    words : ``Out(WordWriteSignature)``
    row : ``Out(RowLayout)``
        The row before the operation.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "ops": In(stream.Signature(op_layout(config))), "code": Out(CODE_WIDTH),
            "resetting": In(config.blocks), "leave": In(LeaveSignature(config)),
            "due": Out(DueSignature(config)), "requeue": Out(1), "firing": Out(FiringSignature(config)),
            "words": Out(WordWriteSignature(config)), "row": Out(RowLayout),
        })

    def elaborate(self, platform):
        m = Module()
        config, latency = self.config, self.config.read_latency
        rows, settings = self._tables(m)
        of_firings = 0 if config.pipelined else 1
        row, known, left, due = (table.read[port].data for port in (0, of_firings) for table in (rows, settings))
        new, fields = rows.write.data, settings.write.data
        # The operation or the firing for which the rows were requested.
        op = delayed(m, self.ops.payload, latency, name="op")
        taken = delayed(m, self.ops.valid & ~self.leave.valid, latency, name="taken", reset_less=False)
        requested = delayed(m, self.leave.valid, latency, name="requested", reset_less=False)
        leaving = delayed(m, self.leave.counter, latency, name="leaving")
        arm, counter, leaves = data.View(ArmLayout, op.word), Signal(config.counter_bits), Signal()
        m.d.comb += [
            self.ops.ready.eq(~self.leave.valid), self.row.eq(row), counter.eq(Mux(requested, leaving, op.counter)),
            # A firing that was requested before a reset of its block is discarded.
            leaves.eq(requested & ~self._resets(leaving) if latency else requested),
        ]

        # -- A tick.
        idle, equal, beyond, full = Signal(), Signal(), Signal(), Signal()
        wrong, resetting = Signal(), Signal()
        m.d.comb += [
            resetting.eq(self._resets(op.counter)),
            idle.eq((row.mode == Mode.DISARM) | resetting),
            rows.write.addr.eq(counter), settings.write.addr.eq(op.counter),
            wrong.eq(~op.any & (op.generation != row.generation)),
            equal.eq((row.remaining == op.value) & (row.mode != Mode.SUM)),
            beyond.eq((op.value > row.remaining) & (row.mode != Mode.SUM)),
            full.eq(row.due == MOST_DUE),
        ]

        # -- Its verdict, and the new row.
        busy, fires, arms = Signal(), Signal(), Signal()
        m.d.comb += [
            busy.eq(row.due != 0),
            new.eq(row), fields.threshold.eq(arm.threshold), fields.page.eq(arm.page), fields.pair.eq(arm.pair),
            fields.stamp.eq(arm.stamp),
            self.words.counter.eq(op.counter), self.words.second.eq(op.second), self.words.word.eq(op.word),
            settings.write.en.eq(arms),
        ]
        with m.If(op.code != Refusal.NONE):
            m.d.comb += self.code.eq(op.code)
        with m.Else():
            with m.Switch(op.kind):
                with m.Case(OpKind.TICK):
                    with m.If(idle):
                        m.d.comb += self.code.eq(Refusal.IDLE)
                    with m.Elif(wrong):
                        m.d.comb += self.code.eq(Refusal.GENERATION)
                    with m.Elif(beyond | (equal & full)):
                        m.d.comb += self.code.eq(Refusal.OVERFLOW)
                    with m.Else():
                        m.d.comb += [
                            rows.write.en.eq(taken),
                            new.remaining.eq(Mux(equal & (row.mode == Mode.REPEAT), known.threshold,
                                                 row.remaining - op.value)),
                            fires.eq(Mux(row.mode == Mode.SUM, (op.value != 0) & ~busy, equal)),
                        ]
                        with m.If(fires):
                            m.d.comb += new.due.eq(row.due + 1)
                        with m.If(equal & (row.mode == Mode.REPEAT)):
                            m.d.comb += new.generation.eq(row.generation + 1)
                        with m.If(equal & (row.mode == Mode.ONCE)):
                            m.d.comb += new.mode.eq(Mode.DISARM)
                with m.Case(OpKind.WORD):
                    with m.If(resetting):
                        m.d.comb += self.code.eq(Refusal.IDLE)
                    with m.Elif(busy | ~idle):
                        m.d.comb += self.code.eq(Refusal.BUSY)
                    with m.Else():
                        m.d.comb += self.words.valid.eq(taken)
                with m.Case(OpKind.ARM):
                    with m.If(resetting):
                        m.d.comb += self.code.eq(Refusal.IDLE)
                    with m.Elif(busy):
                        m.d.comb += self.code.eq(Refusal.BUSY)
                    with m.Else():
                        m.d.comb += [
                            rows.write.en.eq(taken), arms.eq(taken),
                            new.remaining.eq(Mux(arm.mode == Mode.SUM, 0, arm.threshold)),
                            new.generation.eq(arm.generation), new.mode.eq(arm.mode), new.due.eq(0),
                        ]
                with m.Case(OpKind.CLEAR):
                    m.d.comb += [rows.write.en.eq(taken), new.eq(0), self.words.valid.eq(taken), self.words.clear.eq(1)]

        with m.If(leaves):
            m.d.comb += [rows.write.en.eq(1), new.eq(left), new.due.eq(Mux(left.mode == Mode.SUM, 0, left.due - 1))]

        # -- Firings.
        firing, queued = self.firing.payload, counter if latency else op.counter
        m.d.comb += [
            self.due.valid.eq(taken & fires & ~busy), Cat(self.due.payload.index, self.due.block).eq(queued),
            self.due.payload.page.eq(known.page), self.requeue.eq(leaves & (left.mode != Mode.SUM) & (left.due > 1)),
        ]
        m.d.sync += [
            self.firing.valid.eq(leaves), firing.counter.eq(leaving), firing.page.eq(due.page),
            firing.pair.eq(due.pair), firing.stamp.eq(due.stamp),
            firing.sum.eq(left.mode == Mode.SUM),
            firing.base.eq(Mux(left.mode == Mode.SUM, left.remaining, left.generation)),
            firing.behind.eq(Mux(left.mode == Mode.REPEAT, left.due, 0)),
        ]
        return m

    def _resets(self, counter):
        return self.resetting.bit_select(counter[INDEX_WIDTH:], 1)

    def _tables(self, m):
        """Rows and settings, with a read port for operations and firings, or one for each."""
        counters = self.config.counters
        if self.config.pipelined:
            m.submodules.rows = rows = ForwardingTable(RowLayout, depth=counters, reads=1)
            m.submodules.settings = settings = ForwardingTable(SettingsLayout, depth=counters, reads=1)
            addresses = [Mux(self.leave.valid, self.leave.counter, self.ops.payload.counter)]
        else:
            # Neither waits for the other's address.
            m.submodules.rows = rows = Table(RowLayout, depth=counters, reads=2, init=None)
            m.submodules.settings = settings = Table(SettingsLayout, depth=counters, reads=2, init=None)
            addresses = [self.ops.payload.counter, self.leave.counter]
        for table in (rows, settings):
            m.d.comb += [table.read[port].addr.eq(address) for port, address in enumerate(addresses)]
        return rows, settings
