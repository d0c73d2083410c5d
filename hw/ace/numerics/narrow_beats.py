# SPDX-License-Identifier: Apache-2.0
"""FP32 in the SRAM becomes 16-bit floats or FP8 in memory: two beats, or four, become one.

Sram -> NarrowBeats -> Drain.  Latency: 2 cycles.  Throughput: one beat of the SRAM per cycle. Nothing stalls.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig

from .convert import Narrow
from .convert_byte import is_byte
from .formats import TYPE_WIDTH, WORD_WIDTH

__all__ = ["NarrowBeats", "kind_layout"]


def kind_layout():
    """How to convert a beat: with ``narrow``, to half a beat of ``dtype``, or for FP8 to the quarter ``quarter``.
    ``complete``: the beat's last part."""
    return data.StructLayout({"narrow": 1, "quarter": 2, "complete": 1, "dtype": TYPE_WIDTH})


class NarrowBeats(wiring.Component):
    """Round the elements of beats with ``narrow``, and copy other beats. Without ``config.widen``, no beat may have
    ``narrow``.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    valid : ``In(1)``, i : ``In(data_width)``, kind : ``In(kind_layout)``
        A beat of the SRAM.
    o_valid : ``Out(1)``, o : ``Out(data_width)``
        A beat for memory is complete, :data:`LATENCY` cycles after its last part. Lanes of missing parts are undefined.
    """

    LATENCY = Narrow.LATENCY + 1

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "valid": In(1), "i": In(config.data_width), "kind": In(kind_layout()),
            "o_valid": Out(1), "o": Out(config.data_width),
        })

    def elaborate(self, platform):
        m = Module()
        width, halves, bytes_ = self.config.data_width, [], []
        whole, kind, valid = Signal(width, reset_less=True), Signal(kind_layout(), reset_less=True), Signal()
        m.d.sync += [whole.eq(self.i), kind.eq(self.kind), valid.eq(self.valid)]
        for index in range(width // WORD_WIDTH if self.config.widen else 0):
            m.submodules[f"narrow_{index}"] = narrow = Narrow()
            m.d.comb += [narrow.i.eq(self.i.word_select(index, WORD_WIDTH)), narrow.dtype.eq(self.kind.dtype)]
            halves.append(narrow.o)
            bytes_.append(narrow.o[8:])

        # Earlier parts are held until the beat is complete; later quarters may be overwritten before their turn.
        quarters = [Signal(width // 4, name=f"quarter_{number}", reset_less=True) for number in range(4)]
        four = is_byte(kind.dtype)
        stays = (kind.quarter != 0, kind.quarter[1], four & kind.quarter.all(), C(0))
        m.d.comb += self.o.eq(Cat(quarters))
        m.d.sync += self.o_valid.eq(valid & kind.complete)
        for number, quarter in enumerate(quarters):
            part = whole.word_select(number, width // 4)
            if self.config.widen:
                part = Mux(kind.narrow, Mux(four, Cat(bytes_), Cat(halves).word_select(number % 2, width // 4)), part)
            with m.If(valid & ~(kind.narrow & stays[number])):
                m.d.sync += quarter.eq(part)
        return m
