# SPDX-License-Identifier: Apache-2.0
"""Ticks of all ports' packets, in turn.

PutReceiver -> TickQueue -> TriggerUnit.  Latency: 1 cycle; 0 for verdicts.  Throughput: one tick per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Merge, Queue, Skid
from hw.triggers.layouts import tick_layout
from hw.triggers.ports import TickSignature
from hw.triggers.words import Refusal

from .config import EndpointConfig

__all__ = ["PortVerdictSignature", "TickQueue"]

DEPTH = 8
"""Ticks without verdict."""


def port_tick_layout(config):
    """A tick; ``signal``: its port waits for the verdict."""
    return data.StructLayout({"tick": tick_layout(config.triggers), "signal": 1})


class PortVerdictSignature(wiring.Signature):
    """Verdict on a port's tick with ``signal``: a strobe."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "refused": Out(1)})


class TickQueue(wiring.Component):
    """
    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    i : array of ``In(stream.Signature(port_tick_layout))``
        Ticks by port.
    verdicts : ``Out(PortVerdictSignature).array(ports)``
    o : ``Out(TickSignature)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(port_tick_layout(config))).array(config.ports),
            "verdicts": Out(PortVerdictSignature()).array(config.ports), "o": Out(TickSignature(config.triggers)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.merge = merge = Merge(port_tick_layout(config), config.ports)
        m.submodules.skid = skid = Skid(tick_layout(config.triggers))
        # Port of each tick that has no verdict yet.
        m.submodules.order = order = Queue(
            data.StructLayout({"port": range(config.ports), "signal": 1}), depth=DEPTH)
        for port, i in zip(merge.i, self.i, strict=True):
            m.d.comb += [port.valid.eq(i.valid), port.payload.eq(i.payload), i.ready.eq(port.ready)]
        m.d.comb += [
            merge.o.ready.eq(skid.i.ready & order.i.ready),
            skid.i.valid.eq(merge.o.valid & order.i.ready), skid.i.payload.eq(merge.o.payload.tick),
            order.i.valid.eq(merge.o.valid & skid.i.ready),
            order.i.payload.port.eq(merge.source), order.i.payload.signal.eq(merge.o.payload.signal),
            self.o.valid.eq(skid.o.valid), self.o.payload.eq(skid.o.payload), skid.o.ready.eq(self.o.ready),
            order.o.ready.eq(self.o.verdict.valid),
        ]
        for port, verdict in enumerate(self.verdicts):
            m.d.comb += [
                verdict.valid.eq(self.o.verdict.valid & order.o.payload.signal & (order.o.payload.port == port)),
                verdict.refused.eq(self.o.verdict.code != Refusal.NONE),
            ]
        return m
