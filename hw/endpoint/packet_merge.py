# SPDX-License-Identifier: Apache-2.0
"""Merge the packets of several streams into one, without interleaving them.

Latency: 0, combinational.  Throughput: one beat per cycle, also from packet to packet.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import RoundRobin, selected
from hw.stream.shapes import ShapeLike

__all__ = ["PacketMerge"]


class PacketMerge(wiring.Component):
    """Forward one packet at a time from the inputs, round robin.

    Parameters
    ----------
    shape : data.Layout
        Payload with a field ``last``.
    n : int
        Number of inputs.

    Members
    -------
    i : ``In(stream.Signature(shape)).array(n)``
    o : ``Out(stream.Signature(shape))``
    source : ``Out(range(n))``
        Number of the input whose beat is on ``o``.
    """

    def __init__(self, shape: ShapeLike, n: int) -> None:
        self.shape, self.n = shape, n
        super().__init__({
            "i": In(stream.Signature(shape)).array(n), "o": Out(stream.Signature(shape)), "source": Out(range(n)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.choice = choice = RoundRobin(self.n)
        # Once a beat is offered, its input stays selected until the end of the packet.
        held, current, chosen = Signal(), Signal(self.n), Signal(self.n)
        m.d.comb += [
            choice.requests.eq(Cat(i.valid for i in self.i)), choice.advance.eq(~held),
            chosen.eq(Mux(held, current, choice.grant_onehot)),
            self.o.valid.eq((chosen & choice.requests).any()),
            self.source.eq(Cat(Cat(chosen[index] for index in range(self.n) if index >> bit & 1).any()
                               for bit in range(len(self.source)))),
        ]
        for i, one in zip(self.i, chosen, strict=True):
            m.d.comb += i.ready.eq(one & self.o.ready)
        m.d.comb += self.o.payload.eq(selected(self.shape, chosen, [i.payload for i in self.i]))
        with m.If(self.o.valid):
            m.d.sync += [held.eq(~(self.o.ready & self.o.payload.last)), current.eq(chosen)]
        return m
