# SPDX-License-Identifier: Apache-2.0
"""Byte counts and addresses of completions.

Source: PCI Express Base 2.2.9 and 2.3.1.1.
"""

from amaranth import *

from ..tlp import RequestType

__all__ = ["byte_count", "first_offset", "is_memory_read"]


def first_offset(first_be):
    """Position of the first enabled byte in the first DW; 0 if there is none."""
    return Mux(first_be[0], 0, Mux(first_be[1], 1, Mux(first_be[2], 2, Mux(first_be[3], 3, 0))))


def _unused_at_end(be):
    """Bytes behind the last enabled one of a DW; 3 if there is none, so that a read of no byte counts one byte."""
    return Mux(be[3], 0, Mux(be[2], 1, Mux(be[1], 2, 3)))


def is_memory_read(request_type):
    """Whether completions carry a byte count and an address of memory."""
    return (request_type == RequestType.MEMORY_READ) | (request_type == RequestType.LOCKED_READ)


def byte_count(descriptor, first_be, last_be):
    """Byte count of the first completion: for atomic operations the operand's size, for other requests than reads 4."""
    last = Mux(descriptor.dwords == 1, first_be, last_be)
    memory = (descriptor.dwords << 2) - first_offset(first_be) - _unused_at_end(last)
    kind, other = descriptor.request_type, Const(4, 13)
    operand = Mux(kind == RequestType.COMPARE_SWAP, descriptor.dwords << 1, descriptor.dwords << 2)
    atomic = (kind == RequestType.FETCH_ADD) | (kind == RequestType.SWAP) | (kind == RequestType.COMPARE_SWAP)
    return Mux(is_memory_read(kind), memory, Mux(atomic, operand, other))[:13]
