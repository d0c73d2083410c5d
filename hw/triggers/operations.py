# SPDX-License-Identifier: Apache-2.0
"""Merge the operations of all sources into one stream, and return their verdicts.

TriggerStores, chains, ticks of local and remote requests, resets, registers -> OperationMerge -> TriggerTable.
Latency: 1 cycle; for verdicts ``config.read_latency`` + 1.  Throughput: one operation per cycle, sources in turn.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.stream import Merge, Skid

from .config import INDEX_WIDTH, TriggerConfig
from .layouts import CODE_WIDTH, OpKind, RowLayout, op_layout
from .ports import OperationSignature, RefusalSignature, TickSignature
from .words import Refusal

__all__ = ["OperationMerge"]

STORES, TICKS, CLEAR, READ = 0, (1, 2, 3), 4, 5
"""Numbers of the sources; TICKS are those of chains, of local and of remote requests."""


class OperationMerge(wiring.Component):
    """
    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    stores : ``In(OperationSignature)``, ticks : ``In(TickSignature).array(3)``
        Stores to the trigger pages; ticks of chains, of local and of remote requests.
    clear, read : ``In(stream.Signature(counter_bits))``
        Counters to clear, and to read.
    ops : ``Out(stream.Signature(op_layout))``, code : ``In(CODE_WIDTH)``, row : ``In(RowLayout)``
        To the table, and its verdict and row for the operation that it took ``config.read_latency`` cycles before.
    done_read : ``Out(1)``, read_row : ``Out(RowLayout)``
        The counter of ``read`` has been read, a cycle before.
    cleared : ``Out(1)``
        A counter of ``clear`` has been cleared, a cycle before.
    ticked : ``Out(1)``, refusal : ``Out(RefusalSignature)``
        A tick was accepted, an operation was refused, a cycle before.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        counter = stream.Signature(config.counter_bits)
        super().__init__({
            "stores": In(OperationSignature(config)), "ticks": In(TickSignature(config)).array(len(TICKS)),
            "clear": In(counter), "read": In(counter),
            "ops": Out(stream.Signature(op_layout(config))), "code": In(CODE_WIDTH), "row": In(RowLayout),
            "done_read": Out(1), "read_row": Out(RowLayout),
            "cleared": Out(1), "ticked": Out(1), "refusal": Out(RefusalSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, count = self.config, READ + 1
        tagged = data.StructLayout({"source": range(count), "op": op_layout(config)})
        m.submodules.merge = merge = Merge(op_layout(config), count)
        m.submodules.skid = skid = Skid(tagged)
        for port, source in ((merge.i[STORES], self.stores), *zip((merge.i[n] for n in TICKS), self.ticks, strict=True),
                             (merge.i[CLEAR], self.clear), (merge.i[READ], self.read)):
            m.d.comb += [port.valid.eq(source.valid), source.ready.eq(port.ready)]
        m.d.comb += merge.i[STORES].payload.eq(self.stores.payload)
        for number, source in zip(TICKS, self.ticks, strict=True):
            op, tick = merge.i[number].payload, source.payload
            m.d.comb += [
                op.kind.eq(OpKind.TICK), op.code.eq(Mux(tick.malformed, Refusal.MALFORMED, Refusal.NONE)),
                *(op[name].eq(tick[name]) for name in ("counter", "any", "generation", "value")),
            ]
        for number, kind, source in ((CLEAR, OpKind.CLEAR, self.clear), (READ, OpKind.READ, self.read)):
            m.d.comb += [merge.i[number].payload.kind.eq(kind), merge.i[number].payload.counter.eq(source.payload)]
        m.d.comb += [
            skid.i.valid.eq(merge.o.valid), merge.o.ready.eq(skid.i.ready), skid.i.payload.op.eq(merge.o.payload),
            skid.i.payload.source.eq(merge.source),
            self.ops.valid.eq(skid.o.valid), skid.o.ready.eq(self.ops.ready), self.ops.payload.eq(skid.o.payload.op),
        ]

        # -- Verdicts, registered.
        done, source, code, latency = Signal(), Signal(range(count)), Signal(CODE_WIDTH), config.read_latency
        taken = delayed(m, self.ops.valid & self.ops.ready, latency, name="taken", reset_less=False)
        origin = delayed(m, skid.o.payload.source, latency, name="origin")
        kind = delayed(m, self.ops.payload.kind, latency, name="kind")
        counter = delayed(m, self.ops.payload.counter, latency, name="counter")
        m.d.sync += [
            done.eq(taken), source.eq(origin), code.eq(self.code), self.read_row.eq(self.row),
            self.ticked.eq(taken & (kind == OpKind.TICK) & (self.code == Refusal.NONE)),
            self.refusal.valid.eq(taken & (self.code != Refusal.NONE)),
            self.refusal.code.eq(self.code),
            self.refusal.index.eq(counter[:INDEX_WIDTH]), self.refusal.block.eq(counter[INDEX_WIDTH:]),
        ]
        for number, port in ((STORES, self.stores), *zip(TICKS, self.ticks, strict=True)):
            m.d.comb += [port.verdict.valid.eq(done & (source == number)), port.verdict.code.eq(code)]
        m.d.comb += [self.done_read.eq(done & (source == READ)), self.cleared.eq(done & (source == CLEAR))]
        return m
