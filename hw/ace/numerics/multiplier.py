# SPDX-License-Identifier: Apache-2.0
"""The multipliers of a lane: one product of 32 or 24 bits, two of 13 or 16, or four of 8 or fewer, each cycle.

FpMultiply, integers -> Multiplier -> FpMultiply, Lane.  Latency: 3 cycles.  Throughput: one word per cycle.

Four multipliers of 16 by 16 bits, with registers before and after, and after the sum of their products: a DSP slice
each on Xilinx's FPGAs and on ECP5.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Multiplier", "mode_layout"]

_DIGIT = 16


def mode_layout():
    """``integer``: words, whole or, with ``bytes``, byte by byte. Otherwise floats: a significand of the low element
    or, with ``pair``, of the low and the high one, and, with ``bytes``, of two between them, too."""
    return data.StructLayout({"integer": 1, "pair": 1, "bytes": 1})


class Multiplier(wiring.Component):
    """Multiply corresponding elements of both operands.

    Operands are split into upper and lower halves of 16 bits; there is a multiplier for both upper ones, for both lower
    ones, and two for the cross products. Significands of a pair, and bytes, have one each.

    Parameters
    ----------
    low, high, byte : int
        Bits of significands: 24, and at most 16.

    Members
    -------
    mode : ``In(mode_layout())``
    a_word, b_word : ``In(32)``
        Integers.
    a_low, b_low, a_high, b_high, a_1, b_1, a_3, b_3 : ``In``
        Significands, of the elements that begin at byte 0, 2, 1 and 3; with a pair, the upper 16 bits of the low ones.
    low, high, byte_1, byte_3 : ``Out``
        Products of the significands, of twice their bits, :data:`LATENCY` cycles later, registered.
    word : ``Out(32)``
        Products of integers, modulo 2 ** 32 or 2 ** 8, with the same latency.
    """

    LATENCY = 3

    def __init__(self, *, low: int, high: int, byte: int) -> None:
        self.widths = {"low": low, "high": high, "1": byte, "3": byte}
        super().__init__({
            "mode": In(mode_layout()), "a_word": In(32), "b_word": In(32),
            **{f"{side}_{name}": In(width) for name, width in self.widths.items() for side in "ab"},
            "low": Out(2 * low), "high": Out(2 * high), "byte_1": Out(2 * byte), "byte_3": Out(2 * byte),
            "word": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        mode = self.mode

        pair = mode.pair & ~mode.integer

        def word(side):
            """All bits of the operand: an integer's, or the low element's, its leading one at bit 23."""
            return getattr(self, f"{side}_word"), getattr(self, f"{side}_low") << 24 - self.widths["low"]

        def lower(side):
            integer, low = word(side)
            return Mux(pair, getattr(self, f"{side}_high"), Mux(mode.integer, integer[:_DIGIT], low[:_DIGIT]))

        def upper(side):
            # For a single float, 8 bits and 8 zeros below: so its product has the position of that of a pair's low
            # element.
            integer, low = word(side)
            return Mux(mode.integer, integer[_DIGIT:], Cat(low[8:16] & mode.pair.replicate(8), low[16:24]))

        def across(side, number, at):
            integer, low = word(side)
            byte = Mux(mode.integer, integer.word_select(number, 8), getattr(self, f"{side}_{number}"))
            return Mux(mode.bytes, byte, Mux(mode.integer, integer[at:][:_DIGIT], low[at:24][:_DIGIT]))

        operands = {
            "lower": (lower("a"), lower("b")), "upper": (upper("a"), upper("b")),
            "1": (across("a", 1, 0), across("b", 1, _DIGIT)), "3": (across("a", 3, _DIGIT), across("b", 3, 0)),
        }
        products = {}
        for name, values in operands.items():
            a, b = (Signal(_DIGIT, name=f"{side}_{name}_digit", reset_less=True) for side in "ab")
            made = Signal(2 * _DIGIT, name=f"product_{name}", reset_less=True)
            m.d.sync += [a.eq(values[0]), b.eq(values[1]), made.eq(a * b)]
            products[name] = made

        # The sum; for a pair, the upper product alone.
        first, second = (Signal(mode_layout(), name=f"mode_{cycle}", reset_less=True) for cycle in (1, 2))
        m.d.sync += [first.eq(mode), second.eq(first)]
        alone = second.pair & ~second.integer
        lower, upper, one, three = products.values()
        total, bytes_, by_byte = Signal(48, reset_less=True), Signal(32, reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            total.eq(Cat(lower[:_DIGIT] & (~alone).replicate(_DIGIT), (
                Cat(Mux(alone, upper[:_DIGIT], lower[_DIGIT:]), upper[_DIGIT:])
                + (one & (~alone).replicate(32)) + (three & (~alone).replicate(32)))[:32])),
            bytes_.eq(Cat(lower[:8], one[:8], upper[:8], three[:8])), by_byte.eq(second.bytes),
        ]
        m.d.comb += [self.low.eq(total[48 - len(self.low):]), self.word.eq(Mux(by_byte, bytes_, total[:32]))]
        for port, product in ((self.high, lower), (self.byte_1, one), (self.byte_3, three)):
            later = Signal.like(port, name="product_later", reset_less=True)
            m.d.sync += later.eq(product)
            m.d.comb += port.eq(later)
        return m
