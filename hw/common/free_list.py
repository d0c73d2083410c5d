"""A free list: tags, or slots of the beat buffer.

Latency: 2 cycles from freeing a number to offering it.  Throughput: one each way per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue

__all__ = ["FreeList"]


class FreeList(wiring.Component):
    """Offer the free numbers of ``range(count)``, first freed first.

    Parameters
    ----------
    count : int
        A power of two.
    init : wiring.Signature
        Signature of the sweep after reset, which fills the list.

    Members
    -------
    init : ``In(init)``
    free, number : ``In``
        Free a number.
    o : ``Out(stream.Signature(range(count)))``
    """

    def __init__(self, count, *, init):
        self.count = count
        super().__init__({
            "init": In(init),
            "free": In(1), "number": In(range(count)),
            "o": Out(stream.Signature(unsigned((count - 1).bit_length()))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.numbers = numbers = Queue(self.o.payload.shape(), depth=self.count)
        m.d.comb += [
            numbers.i.valid.eq(Mux(self.init.active, self.init.address < self.count, self.free)),
            numbers.i.payload.eq(Mux(self.init.active, self.init.address, self.number)),
            self.o.payload.eq(numbers.o.payload),
            self.o.valid.eq(numbers.o.valid & ~self.init.active),
            numbers.o.ready.eq(self.o.ready & ~self.init.active),
        ]
        return m
