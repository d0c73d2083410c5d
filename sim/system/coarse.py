# SPDX-License-Identifier: Apache-2.0
"""Lengths of the pieces into which a direction's part of a buffer is cut.

Coarse chunks are short at both ends, so that a collective begins and ends as it does with chunks of full fineness, and
long between: twice as long as the ones before, up to a longest, and so back. Messages grow with their chunk. The
longest follows from the number of chunks that is allowed, whatever the size. An accelerator has as many bytes in its
slots as with other chunks, but eight coarse chunks at least; latencies and FSMs are those of a chunk, however long.
"""

from functools import lru_cache

from .configuration import MachineConfig

__all__ = ["cut", "factor", "messages"]


def cut(length: int, piece: int, most: int | None, phases: int = 1) -> list[int]:
    """Lengths that sum to ``length``.

    Parameters
    ----------
    length, piece : int
        Bytes to cut, and of a piece of full fineness.
    most : int or None
        Number of pieces, about; None for no limit. A long buffer has more of them, as its short ones at the ends alone
        are ``2 * phases`` for each power of two.
    phases : int
        Phases of a chunk, one after the other: this number of pieces has the same length, so that a long one has passed
        all its phases when the last short ones have begun.
    """
    return list(_cut(length, piece, most, phases)) if length else []


@lru_cache(maxsize=1024)
def _cut(length: int, piece: int, most: int | None, phases: int) -> tuple[int, ...]:
    longest = factor(-(-length // piece), most, phases)
    if longest == 1:
        return (piece,) * (length // piece) + ((length % piece,) if length % piece else ())
    ramp = [piece << power for power in range(longest.bit_length() - 1) for _ in range(phases)]
    between, remainder = divmod(length - 2 * sum(ramp), longest * piece)
    # The remainder is shorter than the longest: it goes where the lengths still grow.
    return (*sorted([*ramp, remainder] if remainder else ramp), *[longest * piece] * between, *reversed(ramp))


def factor(count: int, most: int | None, phases: int) -> int:
    """Length of the longest of ``count`` pieces that become about ``most``, in pieces: a power of two."""
    longest = 1
    while most is not None and _number(count, longest, phases) > most and _ramps(2 * longest, phases) <= count:
        longest *= 2
    return longest


def _ramps(longest: int, phases: int) -> int:
    return 2 * phases * (longest - 1)


def _number(count: int, longest: int, phases: int) -> int:
    return 2 * phases * (longest.bit_length() - 1) + -(-(count - _ramps(longest, phases)) // longest)


def messages(config: MachineConfig, size: int) -> list[int]:
    """Lengths of a send's messages: ``message_bytes``, or more if that would be more than ``most_chunks``."""
    part = config.message_bytes
    if config.most_chunks is not None:
        part = max(part, -(-size // config.most_chunks))
    return [min(part, size - low) for low in range(0, size, part)]
