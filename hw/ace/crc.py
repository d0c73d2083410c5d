"""CRC-32 of IEEE 802.3 over a packet's header and payload, a beat per cycle, as XOR trees.

The trees come from :mod:`amaranth.lib.crc`: a CRC is an affine function of the message and of the CRC before it, so one
message for each bit tells its column. Values are those of zlib's ``crc32``, which goes on from a value as ``continued``
does. Combinational; about five levels of LUT6 for 512 bits.
"""

from functools import lru_cache

from amaranth import *
from amaranth.lib.crc import Algorithm

__all__ = ["CRC_WIDTH", "continued", "crc32"]

CRC_WIDTH = 32
_ONES = (1 << CRC_WIDTH) - 1


def crc32(message, before=0):
    """CRC-32 of bytes behind those that gave ``before``, in software."""
    register = int(f"{before ^ _ONES:032b}"[::-1], 2)
    algorithm = Algorithm(crc_width=CRC_WIDTH, polynomial=0x04C1_1DB7, initial_crc=register, reflect_input=True,
                          reflect_output=True, xor_output=_ONES)
    return algorithm(data_width=8).compute(message)


@lru_cache(maxsize=64)
def _columns(width):
    """What each bit of ``width``, and each bit of the CRC before it, turns over; and the CRC of zeros behind 0."""
    zeros = bytes(width // 8)
    constant = crc32(zeros)
    message = [crc32((1 << bit).to_bytes(width // 8, "little")) ^ constant for bit in range(width)]
    before = [crc32(zeros, 1 << bit) ^ constant for bit in range(CRC_WIDTH)]
    return message, before, constant


def continued(message, before=None):
    """CRC of ``message``, whose lowest byte is first, behind what gave ``before``, or behind nothing.

    The length of ``message`` is a multiple of 8 bits.
    """
    columns, behind, constant = _columns(len(message))
    pairs = [*zip(message, columns, strict=True), *(zip(before, behind, strict=True) if before is not None else ())]
    return Cat(Cat(bit for bit, column in pairs if column >> row & 1).xor() ^ (constant >> row & 1)
               for row in range(CRC_WIDTH))
