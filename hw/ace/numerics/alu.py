# SPDX-License-Identifier: Apache-2.0
"""One lane of the collectives accelerator: 32 bits of two operands each cycle.

SRAM, received packet -> Lane -> SRAM, port.  Latency: 8 cycles, for all types and operations.  Throughput: one word
per cycle.

::

    cycle  1       2       3      4     5          6      7                 8
           widen   swap    align  add   normalise  round  narrow: move      narrow: round, select
                   to top  mul    sum   move ----/
           integer -------------- delayed ---------------/

An engine with more lanes has one delay line for the data beside the words: validity, address, last.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed

from .convert import Narrow, Widen
from .convert_byte import BYTE_EXPONENT_WIDTH, NarrowByte, WidenByte, is_byte
from .formats import FLOATS, HALF_FLOATS, OP_WIDTH, TYPE_WIDTH, WORD_WIDTH, DType, Op, one_of
from .fp_add import FpAdd, unpacked_layout
from .fp_multiply import FpMultiply
from .integer import IntegerAlu
from .multiplier import Multiplier, mode_layout

__all__ = ["Lane"]

UPPER_PRECISION = 13
"""Bits of a sum of two 16-bit floats, rounded to odd: two more than FP16 has."""

BYTE_PRECISION = 6
"""Bits of a sum of two FP8 numbers, rounded to odd: two more than E4M3 has."""


class Lane(wiring.Component):
    """Combine two words element by element.

    If all three types are equal, a word holds one FP32 or INT32, two FP16 or BF16, or four FP8 or INT8, the first in
    the low bits. If types of floats differ, it holds one element, in the low bits; the other bits are ignored in ``a``
    and ``b`` and zero in ``o``. So the types in memory, received and sent can differ: BF16 in memory and FP32 on the
    wire, for example. A sum is rounded to FP32 and then to the type of the result. If both operands and the result are
    of one type, the result is the same as rounding the exact sum once.

    The operation is commutative bit for bit: the only NaN is the canonical one, and -0 is less than +0. The minimum or
    maximum of many operands does not depend on their order either; with ``minimumNumber`` or ``a < b ? a : b``, one of
    the two would not hold.

    Parameters
    ----------
    products : bool
        Support products. Otherwise, the result of :attr:`Op.PROD` is undefined.
    fp8 : bool
        Support FP8. Otherwise, its results are undefined.

    Members
    -------
    a, b : ``In(32)``
        Operands. A new pair may arrive in every cycle, and nothing stalls.
    a_type, b_type, o_type : ``In(TYPE_WIDTH)``
        Their :class:`DType` and that of the result, with the operands: equal, or all floating-point.
    op : ``In(OP_WIDTH)``
        An :class:`Op`, with the operands.
    o : ``Out(32)``
        The result, :data:`LATENCY` cycles later, registered.
    """

    LATENCY = 1 + FpAdd.LATENCY + Narrow.LATENCY + 1

    def __init__(self, *, products: bool = True, fp8: bool = True) -> None:
        self.products, self.fp8 = products, fp8
        super().__init__({
            "a": In(WORD_WIDTH),
            "b": In(WORD_WIDTH),
            "a_type": In(TYPE_WIDTH),
            "b_type": In(TYPE_WIDTH),
            "o_type": In(TYPE_WIDTH),
            "op": In(OP_WIDTH),
            "o": Out(WORD_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        controls = data.StructLayout({"dtype": TYPE_WIDTH, "integer": 1, "packed": 1})
        control = Signal(controls)
        m.d.comb += [
            control.dtype.eq(self.o_type),
            control.integer.eq(self.o_type[-1]),
            control.packed.eq((self.a_type == self.b_type) & (self.a_type == self.o_type)),
        ]

        op = delayed(m, self.op, 1, name="op")
        paths = {
            "low": self._half(m, "low", FpAdd(products=self.products), op, mixed=True),
            "high": self._half(m, "high", FpAdd(
                precision=UPPER_PRECISION, rounding="odd", products=self.products), op, mixed=False),
            **{f"byte_{number}": self._byte(m, number, op) for number in ((1, 3) if self.fp8 else ())},
        }
        low, high, *bytes_ = (narrow for _, narrow in paths.values())

        # The operation on integers is decoded late: they use the cycle in which floats are widened.
        words = {side: delayed(m, getattr(self, side), 1, name=f"{side}_word") for side in "ab"}
        m.submodules.integer = integer = IntegerAlu()
        m.d.comb += [integer.a.eq(words["a"]), integer.b.eq(words["b"]), integer.op.eq(op),
                     integer.dtype.eq(delayed(m, self.o_type, 1, name="integer_dtype"))]
        added, counted = 1 + FpAdd.LATENCY, 1 + IntegerAlu.LATENCY
        if self.products:
            made = 1 + Multiplier.LATENCY
            word = Mux(delayed(m, op == Op.PROD, Multiplier.LATENCY, name="is_product"),
                       self._multiply(m, {name: adder for name, (adder, _) in paths.items()}, control, words),
                       delayed(m, integer.o, made - counted, name="integer"))
            whole = delayed(m, word, added - made, name="whole")
        else:
            whole = delayed(m, integer.o, added - counted, name="integer")

        # The sum itself, beside the narrowed ones.
        now = Signal(controls)
        m.d.comb += now.eq(delayed(m, control, added, name="control"))
        m.d.comb += [narrow.dtype.eq(now.dtype) for narrow in (low, high, *bytes_)]
        word, last = Signal(WORD_WIDTH, reset_less=True), Signal(controls, reset_less=True)
        m.d.sync += [word.eq(Mux(now.integer, whole, low.i)), last.eq(now)]
        halves = one_of(last.dtype, HALF_FLOATS)
        packed = last.packed.replicate(24)
        m.d.sync += self.o.eq(Mux(halves, Cat(low.o, high.o & packed[:16]), word))
        if self.fp8:
            with m.If(~last.integer & is_byte(last.dtype)):
                m.d.sync += self.o.eq(Cat(low.o[8:], Cat(bytes_[0].o, high.o[8:], bytes_[1].o) & packed))
        return m

    def _half(self, m, name, adder, op, *, mixed):
        """Widen both operands and add them; return the adder, and the unit that narrows the sum."""
        m.submodules[f"{name}_add"] = adder
        m.d.comb += adder.op.eq(op)
        for side in ("a", "b"):
            word = getattr(self, side)
            m.submodules[f"{name}_widen_{side}"] = widen = Widen(precision=adder.precision, mixed=mixed)
            m.d.comb += [widen.i.eq(word if mixed else word[16:]), widen.dtype.eq(getattr(self, f"{side}_type"))]
            wide = Signal(unpacked_layout(adder.precision), name=f"{name}_{side}", reset_less=True)
            m.d.sync += wide.eq(widen.o)
            m.d.comb += getattr(adder, side).eq(wide)
        m.submodules[f"{name}_narrow"] = narrow = Narrow(precision=adder.precision)
        m.d.comb += narrow.i.eq(adder.o)
        return adder, narrow

    def _byte(self, m, number, op):
        """As :meth:`_half`, for the FP8 of this byte."""
        adder = FpAdd(precision=BYTE_PRECISION, rounding="odd", exponent_width=BYTE_EXPONENT_WIDTH,
                      products=self.products)
        m.submodules[f"byte_{number}_add"] = adder
        m.d.comb += adder.op.eq(op)
        for side in ("a", "b"):
            m.submodules[f"byte_{number}_widen_{side}"] = widen = WidenByte(precision=BYTE_PRECISION)
            m.d.comb += [widen.i.eq(getattr(self, side).word_select(number, 8)),
                         widen.dtype.eq(getattr(self, f"{side}_type"))]
            wide = Signal.like(widen.o, name=f"byte_{number}_{side}", reset_less=True)
            m.d.sync += wide.eq(widen.o)
            m.d.comb += getattr(adder, side).eq(wide)
        m.submodules[f"byte_{number}_narrow"] = narrow = NarrowByte(precision=BYTE_PRECISION)
        m.d.comb += narrow.i.eq(adder.o)
        return adder, narrow

    def _multiply(self, m, adders, control, words):
        """Multiply the adders' operands, and the integers ``words``; return the products of the integers."""
        m.submodules.multiplier = multiplier = Multiplier(
            low=FLOATS[DType.FP32].fraction_width + 1, high=UPPER_PRECISION, byte=BYTE_PRECISION)
        for name, adder in adders.items():
            m.submodules[f"{name}_multiply"] = around = FpMultiply(
                precision=adder.precision, exponent_width=adder.exponent_width)
            lane = name.removeprefix("byte_")
            m.d.comb += [
                around.a.eq(adder.a), around.b.eq(adder.b), around.product.eq(getattr(multiplier, name)),
                getattr(multiplier, f"a_{lane}").eq(around.x), getattr(multiplier, f"b_{lane}").eq(around.y),
                adder.product.eq(around.o),
            ]
        if not self.fp8:
            m.d.comb += [getattr(multiplier, f"{side}_{number}").eq(0) for side in "ab" for number in (1, 3)]
        fp8 = is_byte(control.dtype) & ~control.integer
        mode = Signal(mode_layout(), reset_less=True)
        m.d.sync += [
            mode.integer.eq(control.integer),
            mode.pair.eq(control.packed & (one_of(control.dtype, HALF_FLOATS) | fp8)),
            mode.bytes.eq(control.packed & ((control.dtype == DType.INT8) | fp8)),
        ]
        m.d.comb += [multiplier.mode.eq(mode), multiplier.a_word.eq(words["a"]), multiplier.b_word.eq(words["b"])]
        return multiplier.word
