# SPDX-License-Identifier: Apache-2.0
"""All lanes side by side: combine a beat of two operands, or copy a beat.

SRAM, received packet -> AluArray -> SRAM.  Latency: that of a lane, and with fewer lanes than words in a beat, a cycle
for each further slice; the same for every beat.  Throughput: one beat per cycle; reduced ones, one per
:attr:`AluArray.slices` cycles.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import arithmetic_layout
from hw.common.delay import delayed, stored
from hw.stream.shapes import ShapeLike

from .alu import Lane
from .convert_byte import known
from .formats import WORD_WIDTH, DType, Op

__all__ = ["AluArray"]


def alu_slices(config):
    """Cycles in which a beat is reduced."""
    return config.data_width // WORD_WIDTH // config.lanes


def alu_latency(config):
    """Cycles from a beat at the lanes to its result."""
    return Lane.LATENCY + alu_slices(config) - 1


class AluArray(wiring.Component):
    """Combine two beats word by word, or copy the second; beats leave in order of arrival.

    With a lane for each word, copies pass the lanes, too, as a sum of integers with 0. With fewer, a beat is reduced
    slice by slice, the first words first, and copies pass through a delay line beside the lanes.

    Parameters
    ----------
    config : AceConfig
    tag : shape-like
        Data that accompanies a beat.

    Members
    -------
    valid : ``In(1)``, reduce : ``In(1)``
        A beat arrives, and is to be reduced: not within :attr:`slices` cycles of the last reduced one.
    a, b : ``In(data_width)``, arithmetic : ``In(arithmetic_layout)``, tag : ``In(tag)``
        Operands, and the operation on them.
    o_valid : ``Out(1)``, o : ``Out(data_width)``, o_tag : ``Out(tag)``
        The same beat :attr:`latency` cycles later.
    """

    def __init__(self, config: AceConfig, tag: ShapeLike) -> None:
        self.config = config
        super().__init__({
            "valid": In(1), "reduce": In(1), "a": In(config.data_width), "b": In(config.data_width),
            "arithmetic": In(arithmetic_layout()), "tag": In(tag),
            "o_valid": Out(1), "o": Out(config.data_width), "o_tag": Out(tag),
        })

    @property
    def slices(self) -> int:
        """Cycles in which a beat is reduced."""
        return alu_slices(self.config)

    @property
    def latency(self) -> int:
        """Cycles from ``valid`` to ``o_valid``."""
        return alu_latency(self.config)

    def elaborate(self, platform):
        m = Module()
        # Fewer lanes are for small FPGAs, where a delay in LUT RAM is smaller.
        later = delayed if self.slices == 1 else stored
        m.d.comb += [
            self.o_valid.eq(delayed(m, self.valid, self.latency, name="valid", reset_less=False)),
            self.o_tag.eq(later(m, self.tag, self.latency, name="tag")),
        ]
        if self.slices == 1:
            result = self._lanes(m, self.a & self.reduce.replicate(len(self.a)), self.b,
                                 Mux(self.reduce, self.arithmetic.dtype, DType.INT32),
                                 Mux(self.reduce, self.arithmetic.op, Op.SUM))
            m.d.comb += self.o.eq(result)
        else:
            self._slice(m)
        return m

    def _lanes(self, m, a, b, dtype, op):
        """Results of all lanes."""
        results, dtype = [], known(self.config, dtype)
        for number in range(self.config.lanes):
            m.submodules[f"lane_{number}"] = lane = Lane(products=self.config.prod, fp8=self.config.fp8)
            m.d.comb += [lane.a.eq(a.word_select(number, WORD_WIDTH)), lane.b.eq(b.word_select(number, WORD_WIDTH)),
                         lane.a_type.eq(dtype), lane.b_type.eq(dtype), lane.o_type.eq(dtype), lane.op.eq(op)]
            results.append(lane.o)
        return Cat(results)

    def _slice(self, m):
        """The first slice of a beat goes directly to the lanes; the others wait their turn."""
        width = self.config.lanes * WORD_WIDTH
        begin = Signal()
        m.d.comb += begin.eq(self.valid & self.reduce)
        slices = []
        for operand, name in ((self.a, "a"), (self.b, "b")):
            waiting = Signal(len(operand) - width, name=f"waiting_{name}", reset_less=True)
            m.d.sync += waiting.eq(Mux(begin, operand[width:], waiting[width:]))
            slices.append(Mux(begin, operand[:width], waiting[:width]))
        held = Signal(arithmetic_layout(), reset_less=True)
        now = Signal(arithmetic_layout())
        m.d.comb += now.eq(Mux(begin, self.arithmetic, held))
        m.d.sync += held.eq(now)
        result = self._lanes(m, *slices, now.dtype, now.op)

        # Results of earlier slices, the last of them in the upper bits.
        earlier = Signal(len(self.o) - width, reset_less=True)
        m.d.sync += earlier.eq(Cat(earlier, result)[width:])
        m.d.comb += self.o.eq(Mux(delayed(m, self.reduce, self.latency, name="reduce"), Cat(earlier, result),
                                  stored(m, self.b, self.latency, name="copy")))
