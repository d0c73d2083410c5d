# SPDX-License-Identifier: Apache-2.0
"""CRC-32 of IEEE 802.3 over a packet's header and payload, a beat per cycle, as XOR trees.

The trees come from :mod:`amaranth.lib.crc`: a CRC is an affine function of the message and of the previous CRC, so one
message per bit gives that bit's column. Sums of up to four bits that several rows share are computed once, which saves
nearly half of the LUTs and adds no level. Values are those of zlib's ``crc32``, which continues from a previous value
as ``continued`` does. Combinational; about five levels of LUT6 for 512 bits.
"""

from functools import lru_cache

from amaranth import *
from amaranth.lib.crc import Algorithm

__all__ = ["CRC_WIDTH", "continued", "crc32", "remainder", "shift", "shifted"]

CRC_WIDTH = 32
_ONES = (1 << CRC_WIDTH) - 1

_POLYNOMIAL = 0xEDB8_8320
"""That of IEEE 802.3, reflected: the coefficient of x ** 31 is bit 0."""

_COMMON = 4
"""Maximum bits of a shared sum: a LUT4."""


def crc32(message, before=0):
    """CRC-32 of bytes that follow those with the CRC ``before``, in software."""
    register = int(f"{before ^ _ONES:032b}"[::-1], 2)
    algorithm = Algorithm(crc_width=CRC_WIDTH, polynomial=0x04C1_1DB7, initial_crc=register, reflect_input=True,
                          reflect_output=True, xor_output=_ONES)
    return algorithm(data_width=8).compute(message)


@lru_cache(maxsize=64)
def _columns(width):
    """CRC bits that each message bit of ``width``, and each bit of the previous CRC, inverts; and the CRC of zeros."""
    zeros = bytes(width // 8)
    constant = crc32(zeros)
    message = [crc32((1 << bit).to_bytes(width // 8, "little")) ^ constant for bit in range(width)]
    before = [crc32(zeros, 1 << bit) ^ constant for bit in range(CRC_WIDTH)]
    return message, before, constant


@lru_cache(maxsize=64)
def _shared(columns):
    """The same matrix as sums: tuples of the added bits, and of the rows that share their sum."""
    left, sums = list(columns), []

    def rows_of(column):
        return tuple(row for row in range(CRC_WIDTH) if column >> row & 1)

    for first in range(len(left)):
        while left[first]:
            bits, rows, best = [first], left[first], (0, None, None)
            while len(bits) < _COMMON:
                bits.append(max((bit for bit in range(len(left)) if bit not in bits),
                                key=lambda bit, rows=rows: (rows & left[bit]).bit_count()))
                rows &= left[bits[-1]]
                # LUT4s saved in the rows, each of which takes three bits more, less the one of the sum.
                saved = rows.bit_count() * (len(bits) - 1) - (_COMMON - 1)
                best = max(best, (saved, tuple(bits), rows), key=lambda one: one[0])
            saved, bits, rows = best
            if not saved:
                break
            sums.append((bits, rows_of(rows)))
            for bit in bits:
                left[bit] &= ~rows
    return [*sums, *(((bit,), rows_of(column)) for bit, column in enumerate(left) if column)]


def continued(m, message, before=None, *, zeros=0):
    """CRC of ``message``, lowest byte first, followed by ``zeros`` zero bits; it continues from the CRC ``before``, if
    given.

    The length of ``message``, with ``zeros``, is a multiple of 8 bits.
    """
    columns, behind, constant = _columns(len(message) + zeros)
    columns, bits = columns[:len(message)], [*message]
    if before is not None and len(message) >= CRC_WIDTH:
        # The previous CRC and the first bits of the message have the same columns.
        bits[:CRC_WIDTH] = message[:CRC_WIDTH] ^ before
    elif before is not None:
        columns, bits = [*columns, *behind], [*bits, *before]
    return _sums(m, columns, bits, constant)


def _sums(m, columns, bits, constant):
    """Each CRC bit: the sum of the bits whose columns contain it, and of its bit of ``constant``."""
    terms = [[] for _ in range(CRC_WIDTH)]
    for among, rows in _shared(tuple(columns)):
        term = Signal(name="term")
        m.d.comb += term.eq(Cat(bits[bit] for bit in among).xor())
        for row in rows:
            terms[row].append(term)
    return Cat(Cat(some).xor() ^ (constant >> row & 1) for row, some in enumerate(terms))


# -- In parts, for a pipeline. The remainder of a message is its CRC without the inversions before and after it: it is
#    linear, and leading zeros do not change it.

def shift(value, bits):
    """Remainder of a message with the remainder ``value``, followed by ``bits`` zeros; if negative, without that number
    of zeros at its end. In software."""
    for _ in range(bits):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    for _ in range(-bits):
        carried = value >> CRC_WIDTH - 1
        value = ((value ^ (_POLYNOMIAL if carried else 0)) << 1 | carried) & _ONES
    return value


def remainder(m, message):
    """Remainder of ``message``, lowest byte first; its length is a multiple of 8 bits.

    The remainder of a longer message is the sum of those of its parts, each :func:`shifted` by the bits behind it.
    """
    columns, column = [], _POLYNOMIAL
    for _ in range(len(message)):
        columns.append(column)
        column = shift(column, 1)
    return _sums(m, columns[::-1], [*message], 0)


def shifted(m, value, bits):
    """:func:`shift` by a constant number of bits."""
    return _sums(m, [shift(1 << bit, bits) for bit in range(CRC_WIDTH)], [*value], 0)
