# SPDX-License-Identifier: Apache-2.0
"""Element types and operations of the collectives accelerator: codes, bit layouts, canonical NaNs.

Plain Python: the golden model, the driver, the tools, the C header and the hardware derive from these tables. A new
type is a code and a row here, and the arithmetic of a lane: :mod:`~.alu`, :mod:`~.convert`, :mod:`~.divide`.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from hw.ace.config import AceConfig

__all__ = [
    "BYTE_FLOATS", "DTYPES", "FLOATS", "HALF_FLOATS", "OP_WIDTH", "TYPE_WIDTH", "WORD_WIDTH", "DType", "DTypeInfo",
    "FloatFormat", "IntegerFormat", "Op", "Reduction", "check_types", "elements", "growth", "one_of", "reductions",
    "types", "width",
]

WORD_WIDTH = 32
"""Bits of an operand that one lane takes per cycle."""

TYPE_WIDTH = 4
"""Bits of a type code. Integers have bit 3 set, FP8 has bit 2 set: then bit 0 selects E5M2, and bit 1 saturation."""

OP_WIDTH = 3
"""Bits of an operation code. Other values are reserved; their result is undefined."""


class DType(enum.IntEnum):
    """Code of an element type. Every other code is reserved, and a lane's result for it is undefined."""

    FP32 = 0
    FP16 = 1
    BF16 = 2
    E4M3 = 4
    E5M2 = 5
    E4M3_SAT = 6
    E5M2_SAT = 7
    INT32 = 8
    INT8 = 9

    @property
    def info(self) -> "DTypeInfo":
        """Its row of :data:`DTYPES`."""
        return DTYPES[self]


class Op(enum.IntEnum):
    """Operation on two elements."""

    SUM = 0
    """IEEE 754-2019 addition (5.4.1), rounded to nearest, ties to even; integers wrap."""
    MIN = 1
    """IEEE 754-2019 ``minimum`` (9.6): NaN if either is NaN; -0 is less than +0."""
    MAX = 2
    """IEEE 754-2019 ``maximum`` (9.6)."""
    PROD = 4
    """IEEE 754-2019 multiplication (5.4.1), rounded to nearest, ties to even; integers wrap."""


class Reduction(enum.IntEnum):
    """Reduction of a command: an :class:`Op` of the same code, or the mean. Every other value is malformed."""

    SUM = Op.SUM
    MIN = Op.MIN
    MAX = Op.MAX
    AVG = 3
    """The sum, divided once by the number of ranks: IEEE 754-2019 division (5.4.1), rounded to nearest, ties to even;
    integers are truncated towards zero."""
    PROD = Op.PROD


def types(config: AceConfig) -> list[DType]:
    """Element types of an accelerator of this :class:`~hw.ace.config.AceConfig`."""
    return [dtype for dtype in DType if dtype.info.option is None or getattr(config, dtype.info.option)]


def reductions(config: AceConfig) -> list[Reduction]:
    """Reductions of an accelerator of this :class:`~hw.ace.config.AceConfig`."""
    left_out = {Reduction.PROD: not config.prod, Reduction.AVG: not config.avg}
    return [reduction for reduction in Reduction if not left_out.get(reduction)]


class FloatFormat(NamedTuple):
    """Bit layout of a binary floating-point type: fraction from bit 0 up, biased exponent, sign."""

    exponent_width: int
    fraction_width: int
    nan: int
    """The only NaN that the hardware produces: positive, quiet, no payload."""
    finite: bool = False
    """There is no infinity: its codes are finite numbers, except the last, which is NaN."""
    saturates: bool = False
    """A result beyond the greatest finite number, including infinity, becomes that number."""

    @property
    def width(self) -> int:
        return 1 + self.exponent_width + self.fraction_width

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_width - 1)) - 1

    @property
    def infinity(self) -> int:
        """The code after the greatest finite number: positive infinity, or NaN if there is none."""
        infinity = ((1 << self.exponent_width) - 1) << self.fraction_width
        return self.nan if self.finite else infinity

    @property
    def greatest(self) -> int:
        """Bits of the greatest finite number."""
        return self.infinity - 1

    @property
    def sign(self) -> int:
        """The sign bit alone: -0."""
        return 1 << (self.width - 1)


class IntegerFormat(NamedTuple):
    """A two's complement integer."""

    width: int


@dataclass(frozen=True, kw_only=True)
class DTypeInfo:
    """A row of :data:`DTYPES`.

    Parameters
    ----------
    doc : str
        Its definition, as half a sentence.
    layout : FloatFormat or IntegerFormat
        Its bits; its class distinguishes integers from floating point.
    numpy : str
        NumPy's name of it, once ``ml_dtypes`` is imported.
    nccl : str or None
        NCCL's name of it.
    option : str or None
        The option of :class:`~hw.ace.config.AceConfig` without which the accelerator does not have it.
    """

    doc: str
    layout: "FloatFormat | IntegerFormat"
    numpy: str
    nccl: str | None
    option: str | None = None

    @property
    def bits(self) -> int:
        return self.layout.width

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return isinstance(self.layout, FloatFormat)

    @property
    def widens(self) -> bool:
        """With ``widen``, it is FP32 in the SRAM and on the links, and is added as FP32."""
        return self.is_float and self.bits < WORD_WIDTH


_E4M3 = FloatFormat(exponent_width=4, fraction_width=3, nan=0x7F, finite=True)
_E5M2 = FloatFormat(exponent_width=5, fraction_width=2, nan=0x7E)

DTYPES = {
    DType.FP32: DTypeInfo(
        doc="IEEE 754-2019 binary32", numpy="float32", nccl="ncclFloat32",
        layout=FloatFormat(exponent_width=8, fraction_width=23, nan=0x7FC0_0000)),
    DType.FP16: DTypeInfo(
        doc="IEEE 754-2019 binary16", numpy="float16", nccl="ncclFloat16",
        layout=FloatFormat(exponent_width=5, fraction_width=10, nan=0x7E00)),
    DType.BF16: DTypeInfo(
        doc="upper half of a binary32", numpy="bfloat16", nccl="ncclBfloat16",
        layout=FloatFormat(exponent_width=8, fraction_width=7, nan=0x7FC0)),
    DType.E4M3: DTypeInfo(
        doc="OCP 8-bit E4M3, no infinity; a result beyond 448 becomes NaN", numpy="float8_e4m3fn",
        nccl="ncclFloat8e4m3", option="fp8", layout=_E4M3),
    DType.E5M2: DTypeInfo(
        doc="OCP 8-bit E5M2; a result beyond 57,344 becomes infinity", numpy="float8_e5m2",
        nccl="ncclFloat8e5m2", option="fp8", layout=_E5M2),
    DType.E4M3_SAT: DTypeInfo(
        doc="E4M3, saturating: a result beyond 448 becomes 448", numpy="float8_e4m3fn", nccl=None, option="fp8",
        layout=_E4M3._replace(saturates=True)),
    DType.E5M2_SAT: DTypeInfo(
        doc="E5M2, saturating: a result beyond 57,344, infinity too, becomes 57,344", numpy="float8_e5m2", nccl=None,
        option="fp8", layout=_E5M2._replace(saturates=True)),
    DType.INT32: DTypeInfo(
        doc="two's complement; sums and products wrap", numpy="int32", nccl="ncclInt32", layout=IntegerFormat(32)),
    DType.INT8: DTypeInfo(
        doc="two's complement; sums and products wrap", numpy="int8", nccl="ncclInt8", layout=IntegerFormat(8)),
}
"""Code -> row."""

FLOATS = {dtype: info.layout for dtype, info in DTYPES.items() if isinstance(info.layout, FloatFormat)}
"""Floating-point types and their layouts."""

HALF_FLOATS = tuple(dtype for dtype, layout in FLOATS.items() if layout.width == 16)
"""Floating-point types of 16 bits."""

BYTE_FLOATS = tuple(dtype for dtype, layout in FLOATS.items() if layout.width == 8)
"""FP8."""


def one_of(value: Any, dtypes: Iterable[DType]) -> Any:
    """Whether a code is that of one of the types; an expression if the code is one."""
    return reduce(or_, (value == dtype for dtype in dtypes))


def width(dtype: DType) -> int:
    """Bits of one element."""
    return DTYPES[dtype].bits


def growth(dtype: DType) -> int:
    """log2 of FP32's width over the type's, where it can be widened: 1 or 2; 0 for all others."""
    return (WORD_WIDTH // width(dtype)).bit_length() - 1 if DTYPES[dtype].widens else 0


def check_types(a: DType, b: DType, o: DType) -> None:
    """Raise :class:`ValueError` unless a lane can combine elements of types ``a`` and ``b`` to one of type ``o``."""
    for dtype in (a, b, o):
        if not isinstance(dtype, DType):
            raise ValueError(f"An element type must be a DType, not {dtype!r}")
    if not a == b == o and not {a, b, o} <= FLOATS.keys():
        raise ValueError("Types of operands and result must be equal unless all are floating-point, "
                         f"not {a.name}, {b.name} and {o.name}")


def elements(a: DType, b: DType, o: DType) -> int:
    """Elements in a 32-bit word: as many as fit if all three types are equal, otherwise one, in the low bits."""
    check_types(a, b, o)
    return WORD_WIDTH // width(a) if a == b == o else 1
