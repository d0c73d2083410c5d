# SPDX-License-Identifier: Apache-2.0
"""Count of what an FSM has received of one phase at one port.

FsmDispatch -> Received -> Fsm.  Latency: 1 cycle.  Throughput: a packet per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import STEP_WIDTH, AceConfig

__all__ = ["Received"]


class Received(wiring.Component):
    """Counts the sends that have arrived, up to the last beats of their last packets.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    clear : ``In(1)``
    valid : ``In(1)``, beats : ``In(7)``, final : ``In(1)``, end : ``In(1)``
        As in :class:`~.fsm_ports.BeatsLanded`.
    sends : ``Out(STEP_WIDTH)``
        Sends whose last packet began to arrive.
    part : ``Out``
        Beats of the packets of the next send.
    incoming : ``Out(1)``
        More beats of a packet arrive.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"clear": In(1), "valid": In(1), "beats": In(7), "final": In(1), "end": In(1),
                          "sends": Out(STEP_WIDTH), "part": Out(config.chunk_beat_bits + 1), "incoming": Out(1)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.valid):
            m.d.sync += [self.sends.eq(self.sends + self.final),
                         self.part.eq(Mux(self.final, 0, self.part + self.beats + 1))]
        m.d.sync += self.incoming.eq((self.incoming | self.valid) & ~self.end)
        with m.If(self.clear):
            m.d.sync += [self.sends.eq(0), self.part.eq(0), self.incoming.eq(0)]
        return m
