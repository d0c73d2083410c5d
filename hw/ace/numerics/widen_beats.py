# SPDX-License-Identifier: Apache-2.0
"""16-bit floats and FP8 from memory become FP32 in the SRAM: one beat becomes two, or four.

Fill -> WidenBeats -> Sram.  Latency: 1 cycle.  Throughput: one beat to the SRAM per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig

from .convert import Widen
from .convert_byte import is_byte, known
from .formats import TYPE_WIDTH, DType

__all__ = ["WidenBeats", "filled_layout"]


def filled_layout(config):
    """A beat for the SRAM, if ``write``.

    ``widen``: its elements of ``dtype`` become FP32 in the SRAM: the lower half of the lanes, or for FP8 the lowest
    quarter, goes to ``address``, the next one to the next address, and so on up to the one with ``quarter``. ``ends``:
    the last beat for the chunk of ``slot``, ``mark``: of a fill with a mark; ``error``: then, whether any error
    occurred.
    """
    return data.StructLayout({
        "data": config.data_width, "address": config.sram_bits, "write": 1, "widen": 1, "dtype": TYPE_WIDTH,
        "quarter": 2, "ends": 1, "mark": 1, "slot": config.slot_bits, "error": 1,
    })


class WidenBeats(wiring.Component):
    """Widen beats with ``widen``, and copy others. A converter for each word of a beat converts all parts in turn.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(filled_layout))``
    o : ``Out(stream.Signature(filled_layout))``
        Registered. ``widen``, ``dtype`` and ``quarter`` are not used any more.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(filled_layout(config))),
            "o": Out(stream.Signature(filled_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        width = self.config.data_width
        beat, last, advance, four = self.i.payload, Signal(), Signal(), Signal()
        part = Signal(2)                            # of two, or of four
        m.d.comb += [
            four.eq(is_byte(known(self.config, beat.dtype))),
            last.eq(~beat.widen | (part == Mux(four, beat.quarter, beat.quarter[1]))),
            advance.eq(~self.o.valid | self.o.ready), self.i.ready.eq(advance & last),
        ]

        # Only the type codes that can occur, so that no converter supports FP32.
        dtype = Mux(four, Cat(beat.dtype[0], 0, 1, 0), Mux(beat.dtype == DType.FP16, DType.FP16, DType.BF16))
        halves = Mux(part[0], beat.data[width // 2:], beat.data[:width // 2])
        quarters = Mux(part[1], beat.data[width // 2:], beat.data[:width // 2])
        quarters, words = Mux(part[0], quarters[width // 4:], quarters[:width // 4]), []
        for index in range(width // 32):
            m.submodules[f"widen_{index}"] = widen = Widen()
            half = halves.word_select(index, 16)
            m.d.comb += [widen.i.eq(Cat(Mux(four, quarters.word_select(index, 8), half[:8]), half[8:])),
                         widen.dtype.eq(dtype)]
            fraction, leading = widen.o.significand[:-1], widen.o.significand[-1]
            words.append(Cat(fraction, widen.o.exponent & leading.replicate(len(widen.o.exponent)), widen.o.sign))

        with m.If(advance):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(beat)]
            with m.If(beat.widen):
                m.d.sync += [self.o.payload.data.eq(Cat(words)), self.o.payload.address.eq(beat.address + part),
                             self.o.payload.ends.eq(beat.ends & last), self.o.payload.mark.eq(beat.mark & last)]
            with m.If(self.i.valid):
                m.d.sync += part.eq(Mux(last, 0, part + 1))
        return m
