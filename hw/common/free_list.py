# SPDX-License-Identifier: Apache-2.0
"""List of free numbers: tags, and slots of the beat buffer.

Latency: 2 cycles from ``free`` to ``o``.  Throughput: one number per cycle in each direction.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from hw.stream import Queue

__all__ = ["FreeList", "FreeSignature"]


class FreeSignature(wiring.Signature):
    """Return ``number`` to the list. There is no back-pressure, as only numbers in use may be returned."""

    def __init__(self, count: int) -> None:
        super().__init__({"valid": Out(1), "number": Out(range(count))})


class FreeList(wiring.Component):
    """Offer the free numbers of ``range(count)``, the one that has been free longest first.

    Parameters
    ----------
    count : int
        Size of the list; a power of two.
    init : wiring.Signature
        Signature of the sweep after reset, which fills the list.

    Members
    -------
    init : ``In(init)``
    free : ``In(FreeSignature)``
    o : ``Out(stream.Signature(range(count)))``
    """

    def __init__(self, count: int, *, init: Signature) -> None:
        self.count = count
        super().__init__({
            "init": In(init),
            "free": In(FreeSignature(count)),
            "o": Out(stream.Signature(unsigned((count - 1).bit_length()))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.numbers = numbers = Queue(self.o.payload.shape(), depth=self.count)
        m.d.comb += [
            numbers.i.valid.eq(Mux(self.init.active, self.init.address < self.count, self.free.valid)),
            numbers.i.payload.eq(Mux(self.init.active, self.init.address, self.free.number)),
            self.o.payload.eq(numbers.o.payload),
            self.o.valid.eq(numbers.o.valid & ~self.init.active),
            numbers.o.ready.eq(self.o.ready & ~self.init.active),
        ]
        return m
