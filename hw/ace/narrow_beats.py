"""FP32 in the SRAM becomes 16-bit floats for memory: two beats become one.

Sram -> NarrowBeats -> Drain.  Latency: 2 cycles.  Throughput: one beat of the SRAM per cycle. Nothing stalls.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .convert import Narrow
from .formats import TYPE_WIDTH, WORD_WIDTH

__all__ = ["NarrowBeats", "kind_layout"]


def kind_layout():
    """What comes of a beat: with ``narrow``, a half of one of ``dtype``, the ``upper`` or the lower one. ``complete``:
    no other half is to come."""
    return data.StructLayout({"narrow": 1, "upper": 1, "complete": 1, "dtype": TYPE_WIDTH})


class NarrowBeats(wiring.Component):
    """Round what is to be rounded, and pass on the rest.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    valid : ``In(1)``, i : ``In(data_width)``, kind : ``In(kind_layout)``
        A beat of the SRAM.
    o_valid : ``Out(1)``, o : ``Out(data_width)``
        A beat for memory is complete, :data:`LATENCY` cycles after what it is made of. Without an upper half,
        its lanes have anything.
    """

    LATENCY = Narrow.LATENCY + 1

    def __init__(self, config):
        self.config = config
        super().__init__({
            "valid": In(1), "i": In(config.data_width), "kind": In(kind_layout()),
            "o_valid": Out(1), "o": Out(config.data_width),
        })

    def elaborate(self, platform):
        m = Module()
        width, halves = self.config.data_width, []
        whole, kind, valid = Signal(width, reset_less=True), Signal(kind_layout(), reset_less=True), Signal()
        m.d.sync += [whole.eq(self.i), kind.eq(self.kind), valid.eq(self.valid)]
        for index in range(width // WORD_WIDTH):
            m.submodules[f"narrow_{index}"] = narrow = Narrow()
            m.d.comb += [narrow.i.eq(self.i.word_select(index, WORD_WIDTH)), narrow.dtype.eq(self.kind.dtype)]
            halves.append(narrow.o)

        # A lower half stays until the upper one is there.
        lower, upper = Signal(width // 2, reset_less=True), Signal(width // 2, reset_less=True)
        m.d.comb += self.o.eq(Cat(lower, upper))
        m.d.sync += self.o_valid.eq(valid & kind.complete)
        with m.If(valid):
            m.d.sync += upper.eq(Mux(kind.narrow, Cat(halves), whole[width // 2:]))
            with m.If(~kind.narrow | ~kind.upper):
                m.d.sync += lower.eq(Mux(kind.narrow, Cat(halves), whole[:width // 2]))
        return m
