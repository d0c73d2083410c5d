# SPDX-License-Identifier: Apache-2.0
"""Ticks of all ports' packets: signals and counts in turn.

PutReceiver -> TickQueue -> TriggerUnit.  Latency: 1 cycle; 0 for verdicts.  Throughput: one tick per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream import Merge, Queue, Skid
from hw.triggers.layouts import tick_layout
from hw.triggers.ports import TickSignature
from hw.triggers.words import Refusal

from .config import EndpointConfig

__all__ = ["PortVerdictSignature", "TickQueue"]

DEPTH = 8
"""Ticks without verdict."""


class PortVerdictSignature(wiring.Signature):
    """Verdict on a port's signal: a strobe."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "refused": Out(1)})


class TickQueue(wiring.Component):
    """
    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    signals : array of ``In(stream.Signature(tick_layout))``, verdicts : ``Out(PortVerdictSignature).array(ports)``
        Ticks of each port that waits for their verdicts.
    counts : ``In(stream.Signature(tick_layout))``
        Ticks whose verdicts are not needed. ``ready`` does not depend on ``valid``.
    o : ``Out(TickSignature)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "signals": In(stream.Signature(tick_layout(config.triggers))).array(config.ports),
            "verdicts": Out(PortVerdictSignature()).array(config.ports),
            "counts": In(stream.Signature(tick_layout(config.triggers))), "o": Out(TickSignature(config.triggers)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.merge = merge = Merge(tick_layout(config.triggers), config.ports)
        m.submodules.skid = skid = Skid(tick_layout(config.triggers))
        # Port of each tick that has no verdict yet.
        m.submodules.order = order = Queue(
            data.StructLayout({"port": range(config.ports), "signal": 1}), depth=DEPTH)
        for port, signal in zip(merge.i, self.signals, strict=True):
            connect(m, flipped(signal), port)
        free, count_first, is_signal, some = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(skid.i.ready & order.i.ready),
            self.counts.ready.eq(free & (count_first | ~merge.o.valid)),
            is_signal.eq(merge.o.valid & ~(count_first & self.counts.valid)), merge.o.ready.eq(free & is_signal),
            some.eq(merge.o.valid | self.counts.valid),
            skid.i.valid.eq(some & order.i.ready), order.i.valid.eq(some & skid.i.ready),
            skid.i.payload.eq(Mux(is_signal, merge.o.payload, self.counts.payload)),
            order.i.payload.port.eq(merge.source), order.i.payload.signal.eq(is_signal),
            self.o.valid.eq(skid.o.valid), self.o.payload.eq(skid.o.payload), skid.o.ready.eq(self.o.ready),
            order.o.ready.eq(self.o.verdict.valid),
        ]
        with m.If(free & some):
            m.d.sync += count_first.eq(is_signal)
        for port, verdict in enumerate(self.verdicts):
            m.d.comb += [
                verdict.valid.eq(self.o.verdict.valid & order.o.payload.signal & (order.o.payload.port == port)),
                verdict.refused.eq(self.o.verdict.code != Refusal.NONE),
            ]
        return m
