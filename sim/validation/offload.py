# SPDX-License-Identifier: Apache-2.0
"""Saving by the accelerator: its network rate at a given memory bandwidth, and the bandwidth that a rate needs.

The rate is that of a large all-reduce alone, relative to an endpoint that is limited by the links only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypedDict

from hw.ace.words import Collective
from sim.system.configuration import ENDPOINTS, EndpointKind, MachineConfig, Npu
from sim.system.machine import Machine
from sim.system.memory import POOLS

__all__ = ["SHAPES", "memory_needed", "rows", "share_of_ideal"]

SHAPES = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4))
SIZE = 64 << 20
MEMORY = 128e9
NEEDED = 0.9
NPU = Npu(memory_bytes_per_s=1e14, bus_bytes_per_s=1e14, sms=10**6)
"""One in which only the share of communication is a limit."""


class Row(TypedDict):
    """The comparison of a shape: see :func:`rows`."""

    shape: str
    memory_pool: str
    bytes: int
    memory_bytes_per_s: float
    ace_share: float
    twice_lanes_share: float
    compopt_share: float
    ace_needs: float | None
    conventional_needs: float | None
    ratio: float | None


def share_of_ideal(shape: tuple[int, ...], kind: EndpointKind, *, size: int = SIZE, **changes: Any) -> float:
    """Network rate over that of the ideal endpoint."""
    return _seconds(shape, ENDPOINTS["ideal"], size, changes) / _seconds(shape, kind, size, changes)


def memory_needed(shape: tuple[int, ...], kind: EndpointKind, *, share: float = NEEDED, size: int = SIZE,
                  **changes: Any) -> float | None:
    """Bytes per second of memory with which an endpoint reaches a share of the ideal one's rate, or None."""
    ideal = _seconds(shape, ENDPOINTS["ideal"], size, changes)

    def enough(rate: float) -> bool:
        return ideal / _seconds(shape, replace(kind, memory_bytes_per_s=rate), size, changes) >= share

    low, high = 2e10, 2e12
    if not enough(high):
        return None
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def rows(shapes: Sequence[tuple[int, ...]] = SHAPES, size: int = SIZE) -> Iterator[Row]:
    """A row for each convention of memory bandwidth and each shape: shares of the ideal rate at 128 GB/s, and memory
    needed for 90 % of it, of both kinds; and the accelerator's share with lanes for twice as many bytes per cycle."""
    ace, compopt = ENDPOINTS["ace"], ENDPOINTS["compopt"]
    conventional = replace(compopt, sms=NPU.sms - 1)
    twice_lanes = replace(ace, memory_bytes_per_s=MEMORY, receive_bytes=2 * (ace.receive_bytes or 0))
    for pool, shape in product(POOLS, shapes):
        mine, theirs = (memory_needed(shape, kind, size=size // 2, memory_pool=pool) for kind in (ace, conventional))
        shares = [share_of_ideal(shape, kind, size=size, memory_pool=pool) for kind in (
            replace(ace, memory_bytes_per_s=MEMORY), twice_lanes, compopt)]
        yield {"shape": "x".join(map(str, shape)), "memory_pool": pool, "bytes": size, "memory_bytes_per_s": MEMORY,
               "ace_share": shares[0], "twice_lanes_share": shares[1], "compopt_share": shares[2],
               "ace_needs": mine, "conventional_needs": theirs, "ratio": theirs / mine if theirs and mine else None}


def _seconds(shape: tuple[int, ...], kind: EndpointKind, size: int, changes: Mapping[str, Any]) -> float:
    machine = Machine(MachineConfig(shape=shape, endpoint=kind, **{"npu": NPU, **changes}))
    machine.issue(Collective.ALL_REDUCE, size)
    machine.run()
    return machine.now
