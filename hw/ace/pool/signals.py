# SPDX-License-Identifier: Apache-2.0
"""Arbitration among the FSMs' GRANTs.

Fsm -> SignalArbiter -> Transmit.  Latency: 1 cycle.  Throughput: one GRANT per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import signal_layout
from hw.ace.pipe_split import GrantPort
from hw.stream import RoundRobin, selected

__all__ = ["SignalArbiter"]


class SignalArbiter(wiring.Component):
    """Serve the FSMs whose port has a credit, in turn.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(signal_layout)).array(fsms)``
    o : ``Out(GrantPort)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({"i": In(stream.Signature(signal_layout(config))).array(config.fsms),
                          "o": Out(GrantPort(config))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.turn = turn = RoundRobin(self.config.fsms)
        signal, valid, free = Signal(signal_layout(self.config), reset_less=True), Signal(), Signal()
        m.d.comb += [
            turn.requests.eq(Cat(fsm.valid & self.o.free.bit_select(fsm.payload.port, 1) for fsm in self.i)),
            free.eq(~valid | self.o.ready),
            turn.advance.eq(free),
            self.o.valid.eq(valid), self.o.payload.eq(signal),
        ]
        with m.If(free):
            m.d.sync += [valid.eq(turn.valid), signal.eq(selected(
                signal_layout(self.config), turn.grant_onehot, [fsm.payload for fsm in self.i]))]
        m.d.comb += [fsm.ready.eq(free & granted) for fsm, granted in zip(self.i, turn.grant_onehot, strict=True)]
        return m
