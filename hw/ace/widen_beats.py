"""16-bit floats from memory become FP32 in the SRAM: one beat becomes two.

Fill -> WidenBeats -> Sram.  Latency: 1 cycle.  Throughput: one beat to the SRAM per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .convert import Widen
from .formats import DType

__all__ = ["WidenBeats", "filled_layout"]


def filled_layout(config):
    """A beat for the SRAM, if ``write``.

    ``widen``: of 16-bit floats, FP16 if ``half``, else BF16, that are to be FP32 there: the lower half of the lanes
    goes to ``address``, the upper half to the next one, unless ``single``. ``ends``: nothing more comes for the chunk
    of ``slot``; ``error``: then, whether anything went wrong.
    """
    return data.StructLayout({
        "data": config.data_width, "address": config.sram_bits, "write": 1, "widen": 1, "half": 1, "single": 1,
        "ends": 1, "slot": config.slot_bits, "error": 1,
    })


class WidenBeats(wiring.Component):
    """Widen what is to be widened, and pass on the rest. A converter for each word of a beat does both halves in turn.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(filled_layout))``
    o : ``Out(stream.Signature(filled_layout))``
        From registers. ``widen``, ``half`` and ``single`` have done their work.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(filled_layout(config))),
            "o": Out(stream.Signature(filled_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        half_width = self.config.data_width // 2
        beat, upper, last, advance = self.i.payload, Signal(), Signal(), Signal()
        m.d.comb += [
            last.eq(~beat.widen | beat.single | upper),
            advance.eq(~self.o.valid | self.o.ready), self.i.ready.eq(advance & last),
        ]

        # Only the type codes that can come, so that no converter knows FP32.
        dtype = Mux(beat.half, DType.FP16, DType.BF16)
        numbers, words = Mux(upper, beat.data[half_width:], beat.data[:half_width]), []
        for index in range(half_width // 16):
            m.submodules[f"widen_{index}"] = widen = Widen()
            m.d.comb += [widen.i.eq(numbers.word_select(index, 16)), widen.dtype.eq(dtype)]
            fraction, leading = widen.o.significand[:-1], widen.o.significand[-1]
            words.append(Cat(fraction, widen.o.exponent & leading.replicate(len(widen.o.exponent)), widen.o.sign))

        with m.If(advance):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(beat)]
            with m.If(beat.widen):
                m.d.sync += [self.o.payload.data.eq(Cat(words)), self.o.payload.address.eq(beat.address + upper),
                             self.o.payload.ends.eq(beat.ends & last)]
            with m.If(self.i.valid):
                m.d.sync += upper.eq(~last)
        return m
