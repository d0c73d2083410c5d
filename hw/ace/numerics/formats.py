"""Data types and operations of the collectives accelerator: codes, bit layouts, canonical NaNs.

Plain Python: the golden model, the C header and the hardware share these tables and nothing else.
"""

import enum
from typing import NamedTuple

__all__ = [
    "BYTE_FLOATS", "FLOATS", "OP_WIDTH", "TYPE_WIDTH", "WORD_WIDTH", "DType", "FloatFormat", "Op", "Reduction",
    "check_types", "elements", "growth", "reductions", "types", "width",
]

WORD_WIDTH = 32
"""Bits of an operand that one lane takes per cycle."""

TYPE_WIDTH = 4
"""Bits of a type code. Integers have bit 3 set, FP8 has bit 2 set: then bit 0 tells E5M2, and bit 1 the mode,
saturating or not."""

OP_WIDTH = 3
"""Bits of an operation code. Values not named are kept for more; their result is unspecified."""


class DType(enum.IntEnum):
    """What an element is. Every other code is reserved, and what a lane makes of it is unspecified."""

    FP32 = 0
    """IEEE 754-2019 binary32."""
    FP16 = 1
    """IEEE 754-2019 binary16."""
    BF16 = 2
    """The upper half of a binary32."""
    E4M3 = 4
    """OCP 8-bit floating point, E4M3: no infinity, one NaN of each sign. What is beyond the greatest becomes NaN."""
    E5M2 = 5
    """OCP 8-bit floating point, E5M2: the upper half of a binary16. What is beyond the greatest becomes infinity."""
    E4M3_SAT = 6
    """E4M3 that saturates: a result beyond the greatest finite number becomes that number."""
    E5M2_SAT = 7
    """E5M2 that saturates: so does an infinite result."""
    INT32 = 8
    """Two's complement; sums and products wrap."""
    INT8 = 9
    """Two's complement; sums and products wrap."""


class Op(enum.IntEnum):
    """What is made of two elements."""

    SUM = 0
    """IEEE 754-2019 addition (5.4.1), rounded to nearest, ties to even; integers wrap."""
    MIN = 1
    """IEEE 754-2019 ``minimum`` (9.6): NaN if either is NaN; -0 is less than +0."""
    MAX = 2
    """IEEE 754-2019 ``maximum`` (9.6)."""
    PROD = 4
    """IEEE 754-2019 multiplication (5.4.1), rounded to nearest, ties to even; integers wrap."""


class Reduction(enum.IntEnum):
    """What a command asks for: an :class:`Op` of the same code, or the mean. Every other value is malformed."""

    SUM = Op.SUM
    MIN = Op.MIN
    MAX = Op.MAX
    AVG = 3
    """The sum, divided once by the number of ranks: IEEE 754-2019 division (5.4.1), rounded to nearest, ties to even;
    integers are cut towards zero."""
    PROD = Op.PROD


def types(config):
    """What elements an accelerator of this :class:`~hw.ace.config.AceConfig` knows."""
    return [dtype for dtype in DType if config.fp8 or dtype not in BYTE_FLOATS]


def reductions(config):
    """What an accelerator of this :class:`~hw.ace.config.AceConfig` reduces with."""
    left_out = {Reduction.PROD: not config.prod, Reduction.AVG: not config.avg}
    return [reduction for reduction in Reduction if not left_out.get(reduction)]


class FloatFormat(NamedTuple):
    """Bit layout of a binary floating-point type: fraction from bit 0 up, biased exponent, sign."""

    exponent_width: int
    fraction_width: int
    nan: int
    """The one NaN that ever leaves the hardware: positive, quiet, no payload."""
    finite: bool = False
    """There is no infinity: its place is that of a finite number, but for the last, which is NaN."""
    saturates: bool = False
    """A result beyond the greatest finite number, infinity too, becomes that number."""

    @property
    def width(self):
        return 1 + self.exponent_width + self.fraction_width

    @property
    def bias(self):
        return (1 << (self.exponent_width - 1)) - 1

    @property
    def infinity(self):
        """Bits after those of the greatest finite number: positive infinity, or NaN where there is none."""
        infinity = ((1 << self.exponent_width) - 1) << self.fraction_width
        return self.nan if self.finite else infinity

    @property
    def greatest(self):
        """Bits of the greatest finite number."""
        return self.infinity - 1

    @property
    def sign(self):
        """The sign bit alone: -0."""
        return 1 << (self.width - 1)


FLOATS = {
    DType.FP32: FloatFormat(exponent_width=8, fraction_width=23, nan=0x7FC0_0000),
    DType.FP16: FloatFormat(exponent_width=5, fraction_width=10, nan=0x7E00),
    DType.BF16: FloatFormat(exponent_width=8, fraction_width=7, nan=0x7FC0),
    DType.E4M3: FloatFormat(exponent_width=4, fraction_width=3, nan=0x7F, finite=True),
    DType.E5M2: FloatFormat(exponent_width=5, fraction_width=2, nan=0x7E),
    DType.E4M3_SAT: FloatFormat(exponent_width=4, fraction_width=3, nan=0x7F, finite=True, saturates=True),
    DType.E5M2_SAT: FloatFormat(exponent_width=5, fraction_width=2, nan=0x7E, saturates=True),
}
"""Floating-point types and their layouts."""

BYTE_FLOATS = tuple(dtype for dtype, layout in FLOATS.items() if layout.width == 8)
"""FP8."""

_INTEGERS = {DType.INT32: 32, DType.INT8: 8}


def width(dtype):
    """Bits of one element."""
    return FLOATS[dtype].width if dtype in FLOATS else _INTEGERS[dtype]


def growth(dtype):
    """log2 of how many times as long an element is as FP32: 1 or 2 for floats that can be widened, 0 for all others."""
    return {16: 1, 8: 2}.get(width(dtype), 0) if dtype in FLOATS else 0


def check_types(a, b, o):
    """Raise :class:`ValueError` unless a lane can combine elements of types ``a`` and ``b`` to one of type ``o``."""
    for dtype in (a, b, o):
        if not isinstance(dtype, DType):
            raise ValueError(f"An element type must be a DType, not {dtype!r}")
    if not a == b == o and not {a, b, o} <= FLOATS.keys():
        raise ValueError("Types of operands and result must be equal unless all are floating-point, "
                         f"not {a.name}, {b.name} and {o.name}")


def elements(a, b, o):
    """Elements in a 32-bit word: as many as fit if all three types are equal, else one, in the low bits."""
    check_types(a, b, o)
    return WORD_WIDTH // width(a) if a == b == o else 1
