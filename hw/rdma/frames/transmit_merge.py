# SPDX-License-Identifier: Apache-2.0
"""The requester's and the responder's packets in one stream.

Requester's buffers, responder -> TransmitMerge -> FrameBuilder.  Latency: 1 cycle.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import transmit_layout
from hw.stream import RoundRobin, Skid, selected

__all__ = ["TransmitMerge"]

INPUTS = 2


class TransmitMerge(wiring.Component):
    """Merge packets, round robin: an input that has one waits for one packet of the other input at most.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    i : ``In(stream.Signature(transmit_layout(config))).array(2)``
        ``ready`` depends on ``valid`` of both.
    o : ``Out(stream.Signature(transmit_layout(config)))``
        All beats of a packet without another one between them. From registers.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        packets = stream.Signature(transmit_layout(config))
        super().__init__({"i": In(packets).array(INPUTS), "o": Out(packets)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.output = output = Skid(transmit_layout(self.config))
        m.submodules.arbiter = arbiter = RoundRobin(INPUTS)
        connect(m, output.o, flipped(self.o))
        # The input whose packet is in progress, if any; only its requests are seen.
        locked = Signal(INPUTS)
        granted, beat, go = arbiter.grant_onehot, output.i.payload, Signal()
        m.d.comb += [
            arbiter.requests.eq(Cat(i.valid for i in self.i) & (locked | ~locked.any().replicate(INPUTS))),
            output.i.valid.eq(arbiter.valid), go.eq(arbiter.valid & output.i.ready), arbiter.advance.eq(go),
            output.i.payload.eq(selected(transmit_layout(self.config), granted, [i.payload for i in self.i])),
            *(i.ready.eq(granted[index] & output.i.ready) for index, i in enumerate(self.i)),
        ]
        with m.If(go):
            m.d.sync += locked.eq(Mux(beat.last, 0, granted))
        return m
