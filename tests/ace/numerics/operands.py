# SPDX-License-Identifier: Apache-2.0
"""Operands for critical cases: special values, and random pairs with near exponents."""

import numpy as np

from hw.ace.numerics.formats import FLOATS, width

__all__ = ["all_pairs", "factors", "random_pairs", "specials", "words"]


def specials(dtype):
    """Bits of a type's limits and of the values next to them, of both signs."""
    if dtype not in FLOATS:
        top = 1 << (width(dtype) - 1)
        values = [0, 1, 2, 3, top - 2, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1, 0x55555555, 0xAAAAAAAA, 1 << 7,
                  (1 << 7) - 1]
        return np.array(sorted({value % (2 * top) for value in values}), f"u{width(dtype) // 8}")
    layout = FLOATS[dtype]
    ones = (1 << layout.fraction_width) - 1
    fractions = {0, 1, 2, 3, ones, ones - 1, 1 << (layout.fraction_width - 1), (1 << (layout.fraction_width - 1)) - 1,
                 0x2AAAAA & ones, 0x555555 & ones}
    top, precision = (1 << layout.exponent_width) - 1, layout.fraction_width + 1
    exponents = {0, 1, 2, 3, precision, precision + 1, precision + 2, layout.bias - precision, layout.bias - 1,
                 layout.bias, layout.bias + 1, top - precision - 1, top - 2, top - 1, top}
    values = [exponent << layout.fraction_width | fraction
              for exponent in exponents if 0 <= exponent <= top for fraction in fractions]
    return np.array(sorted(values + [value | layout.sign for value in values]), f"u{layout.width // 8}")


def all_pairs(a, b=None):
    """Every element of ``a`` with every one of ``b``, or of itself."""
    b = a if b is None else b
    return np.repeat(a, len(b)), np.tile(b, len(a))


def random_pairs(rng, dtype, count):
    """Pairs of random bits; for floats, a quarter. The others have exponents so near that both matter for the result: a
    quarter with random fractions, one with few ones or zeros (for ties), and one that nearly cancels."""
    bits = width(dtype)
    a, b = (rng.integers(0, 1 << bits, count, dtype=np.uint64) for _ in range(2))
    if dtype in FLOATS:
        layout = FLOATS[dtype]
        top, low = (1 << layout.exponent_width) - 1, layout.fraction_width
        ones = np.uint64((1 << low) - 1)

        def random():
            return rng.integers(0, 1 << bits, count, dtype=np.uint64)

        kind = rng.integers(0, 4, count)
        reach = low + 4
        exponent = (a >> np.uint64(low)) & np.uint64(top)
        near = np.clip(exponent.astype(np.int64) + rng.integers(-reach, reach + 1, count), 0, top).astype(np.uint64)
        sparse = random() & random() & random() & ones
        sparse = np.where(rng.integers(0, 2, count) == 1, sparse, ones ^ sparse)
        sparse = np.where(rng.integers(0, 4, count) == 0, np.uint64(0), sparse)
        fraction = np.where(kind == 2, sparse, b & ones)
        moved = b & np.uint64(layout.sign) | near << np.uint64(low) | fraction
        a = np.where((kind == 2) & (rng.integers(0, 2, count) == 1), a & ~ones | random() & random() & ones, a)
        few = rng.integers(0, 1 << 6, count, dtype=np.uint64) >> rng.integers(0, 7, count, dtype=np.uint64)
        beside = (a ^ np.uint64(layout.sign)) + few & np.uint64((1 << bits) - 1)
        b = np.select([kind == 0, kind == 3], [b, beside], moved)
    return a.astype(f"u{bits // 8}"), b.astype(f"u{bits // 8}")


def factors(rng, dtype, count):
    """Pairs of floats whose product is often near one end of the type's range, or a tie, or both: half have exponents
    whose sum is that of the lowest or greatest number, plus or minus the bits of a significand."""
    a, b = random_pairs(rng, dtype, count)
    layout = FLOATS[dtype]
    kind, low = a.dtype, layout.fraction_width
    top = (1 << layout.exponent_width) - 1
    ends = rng.choice([layout.bias - low, layout.bias, layout.bias + top], count) + rng.integers(-3, low + 4, count)
    exponent = (a >> kind.type(low)).astype(np.int64) & top
    other = np.clip(ends - exponent, 0, top).astype(kind) << kind.type(low)
    # Few ones, so that products have ties at any bit.
    few = [rng.integers(0, 1 << bits, count) << (low - bits) for bits in (min(low, 4), low)]
    fraction = np.where(rng.integers(0, 2, count) == 1, *few).astype(kind)
    moved = b & kind.type(layout.sign) | other | fraction
    sparse = a & kind.type(layout.sign | (top << low)) | few[0].astype(kind)
    a = np.where(rng.integers(0, 4, count) == 0, sparse, a).astype(kind)
    return a, np.where(rng.integers(0, 2, count) == 1, moved, b).astype(kind)


def words(elements):
    """Elements as 32-bit words, the first in the low bits; padded with zeros."""
    each = 4 // elements.itemsize
    return np.concatenate([elements, np.zeros(-len(elements) % each, elements.dtype)]).view(np.uint32)
