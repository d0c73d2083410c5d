# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames and other frames on one Ethernet port.

FrameBuilder, other traffic -> FrameMerge -> MAC.  Latency: 0, combinational.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiStreamSignature
from hw.rdma.config import RdmaConfig
from hw.stream import RoundRobin, selected

__all__ = ["FrameMerge"]

_FIELDS = ("tdata", "tkeep", "tlast", "tuser")


class FrameMerge(wiring.Component):
    """Pass on whole frames of two sources in turn.

    A source that stops within a frame stalls the port: it must have the whole frame before it offers the first beat.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    i : ``In(AxiStreamSignature).array(2)``
    o : ``Out(AxiStreamSignature)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        frames = AxiStreamSignature(data_width=config.data_width)
        super().__init__({"i": In(frames).array(2), "o": Out(frames)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.choice = choice = RoundRobin(2)
        inside, current, chosen = Signal(), Signal(2), Signal(2)
        taken = self.o.tvalid & self.o.tready
        m.d.comb += [
            choice.requests.eq(Cat(source.tvalid for source in self.i)), choice.advance.eq(self.o.tvalid & ~inside),
            chosen.eq(Mux(inside, current, choice.grant_onehot)),
            self.o.tvalid.eq((chosen & choice.requests).any()),
            *(source.tready.eq(one & self.o.tready) for source, one in zip(self.i, chosen, strict=True)),
            *(getattr(self.o, name).eq(selected(len(getattr(self.o, name)), chosen,
                                                [getattr(source, name) for source in self.i])) for name in _FIELDS),
        ]
        # A beat that waits keeps its source, so that it stays on offer.
        with m.If(self.o.tvalid):
            m.d.sync += [inside.eq(~taken | ~self.o.tlast), current.eq(chosen)]
        return m
