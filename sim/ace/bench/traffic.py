# SPDX-License-Identifier: Apache-2.0
"""An all-reduce on a torus, in closed form: bytes that a link carries, and bytes that are read from memory.

The first dimension of more than one rank scatters, and at last gathers, the whole buffer of ``size`` bytes; each other
one all-reduces a rank's own part of it.
"""

from collections.abc import Sequence

from hw.ace import sizing
from hw.ace.config import AceConfig
from hw.ace.sizing import wire_beats

__all__ = ["bound", "conventional_ratio", "hops", "latencies", "limit", "one_way"]


def one_way(shape: Sequence[int], size: int, *, ordered: bool = False) -> list[float]:
    """Bytes of payload that each direction of a rank's links has to carry, by dimension. In rank order, each direction
    of those within the line carries all there is."""
    if ordered:
        return [size * (ranks > 1) for ranks in shape]
    return [size * share for share in sizing.one_way(shape)]


def bound(config: AceConfig, shape: Sequence[int], size: int, link_rate: float, *,
          ordered: bool = False) -> list[float]:
    """Cycles that the links of each dimension need, with packets as long as they may be."""
    rate = link_rate * config.beat_bytes / wire_beats(config)
    return [carried / rate for carried in one_way(shape, size, ordered=ordered)]


def limit(config: AceConfig, bounds: Sequence[float], size: int) -> tuple[float, str]:
    """The larger one of what the links of each dimension need, :func:`bound`, and of the memory port's cycles, which
    reads and writes each byte of the buffer once, a beat per cycle each; and the name of that resource."""
    return max((max(bounds), "links"), (size / config.beat_bytes, "memory port"))


def hops(shape: Sequence[int]) -> int:
    """Times that something has to cross a link, one after the other: all there is for a short message."""
    return sum(2 * (ranks - 1) for ranks in shape)


def latencies(shape: Sequence[int], *, link_latency: int, memory_latency: int) -> int:
    """Cycles that an all-reduce of any size waits for latencies: memory's, before the first byte can be sent and after
    the last one is written, and the links' of each hop."""
    return 2 * memory_latency + hops(shape) * link_latency


def conventional_ratio(shape: Sequence[int]) -> float:
    """Bytes that an endpoint reads that keeps partial sums in memory, over those of the buffer.

    It reads two for each that it sends in a reduce-scatter, own and partial sum, and one in an all-gather.
    """
    return sum(3 * carried for carried in one_way(shape, 1))
