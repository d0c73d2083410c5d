# SPDX-License-Identifier: Apache-2.0
"""Packets of the responder, merged.

ReadResponses, Acknowledgements, CongestionNotices -> Replies -> frame builder.  Latency: 1 cycle.  Throughput: one beat
per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import RoundRobin, Skid, selected

from ..config import RdmaConfig
from ..fault import Fault
from ..layouts import transmit_layout
from ..ports import FaultSignature, MarkSignature
from .layouts import reply_layout

__all__ = ["Replies"]


class Replies(wiring.Component):
    """Send packets of three sources, in turn.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    replies : ``In(stream.Signature(reply_layout)).array(3)``
    packets : ``Out(stream.Signature(transmit_layout))``
    fault : ``Out(FaultSignature)``, failed : ``Out(MarkSignature)``
        The NAK of an error has been accepted: its queue pair fails.
    sent : ``Out(1)``
        Strobe.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "replies": In(stream.Signature(reply_layout(config))).array(3),
            "packets": Out(stream.Signature(transmit_layout(config))), "fault": Out(FaultSignature(config)),
            "failed": Out(MarkSignature(config)), "sent": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(len(self.replies))
        m.submodules.output = output = Skid(transmit_layout(self.config))
        wiring.connect(m, output.o, wiring.flipped(self.packets))
        inside, chosen, choice, go = (Signal(), Signal(len(self.replies)), Signal(len(self.replies)), Signal())
        m.d.comb += [
            arbiter.requests.eq(Cat(one.valid for one in self.replies)), arbiter.advance.eq(go & ~inside),
            choice.eq(Mux(inside, chosen, arbiter.grant_onehot)),
            output.i.valid.eq((choice & arbiter.requests).any()), go.eq(output.i.valid & output.i.ready),
            *(one.ready.eq(bit & output.i.ready) for one, bit in zip(self.replies, choice, strict=True)),
        ]
        reply = selected(reply_layout(self.config), choice, [one.payload for one in self.replies])
        m.d.comb += output.i.payload.eq(reply.beat)
        with m.If(go):
            m.d.sync += [inside.eq(~reply.beat.last), chosen.eq(choice)]
        m.d.sync += [
            self.sent.eq(go & reply.beat.last), self.fault.valid.eq(go & (reply.fault != Fault.NONE)),
            self.fault.qp.eq(reply.beat.header.qp), self.fault.code.eq(reply.fault),
        ]
        m.d.comb += [self.failed.valid.eq(self.fault.valid), self.failed.qp.eq(self.fault.qp)]
        return m
