# SPDX-License-Identifier: Apache-2.0
"""A register slice that cuts every combinational path of a stream, or that of ``ready`` alone.

Latency: 1 cycle, 0 without ``output_register``.  Throughput: 1 transfer per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

__all__ = ["Skid"]


class Skid(wiring.Component):
    """Pass a stream on with ``valid``, ``payload`` and ``ready`` all straight from registers.

    Parameters
    ----------
    shape : shape-like
        Payload shape, usually a :class:`data.Struct`.
    output_register : bool
        If False, only ``i.ready`` is registered: ``o`` follows ``i`` in the same cycle through one level of logic.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while the spare entry is empty.
    o : ``Out(stream.Signature(shape))``
        Offers the oldest entry.

    The input sees a stall one cycle later; the spare entry holds the item that was accepted meanwhile.
    """

    def __init__(self, shape: ShapeLike, *, output_register: bool = True) -> None:
        self.shape, self.output_register = shape, output_register
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()

        # Data registers have no reset: their valid bits do.
        spare = Signal(self.shape, reset_less=True)
        spare_free = Signal(init=1)
        m.d.comb += self.i.ready.eq(spare_free)
        # The spare follows the input until the output stalls.
        with m.If(spare_free):
            m.d.sync += spare.eq(self.i.payload)
        if self.output_register:
            self._show_register(m, spare, spare_free)
        else:
            m.d.comb += self.o.valid.eq(self.i.valid | ~spare_free)
            with m.If(spare_free):
                m.d.comb += self.o.payload.eq(self.i.payload)
            with m.Else():
                m.d.comb += self.o.payload.eq(spare)
            m.d.sync += spare_free.eq(self.o.ready | ~self.o.valid)
        return m

    def _show_register(self, m, spare, spare_free):
        valid = Signal()
        payload = Signal(self.shape, reset_less=True)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(payload)]
        # The output entry is free now: refill it from the spare, else from the input.
        with m.If(self.o.ready | ~valid):
            m.d.sync += [valid.eq(self.i.valid | ~spare_free), spare_free.eq(1)]
            with m.If(spare_free):
                m.d.sync += payload.eq(self.i.payload)
            with m.Else():
                m.d.sync += payload.eq(spare)
        # The output is stalled: an accepted transfer waits in the spare.
        with m.Elif(self.i.valid):
            m.d.sync += spare_free.eq(0)
