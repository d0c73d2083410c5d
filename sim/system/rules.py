# SPDX-License-Identifier: Apache-2.0
"""Rules of other simulators, and the closed forms of textbooks, as configurations of this simulator.

All of them have endpoints without latency, links without headers, one ring of twice the bandwidth instead of two
directions, and steps that start when the whole previous step has arrived.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hw.ace.words import Collective

from .configuration import ENDPOINTS, LinkConfig, MachineConfig

__all__ = ["GIB", "Links", "astra", "block", "closed_form", "plain", "simgrid"]

GIB = 1 << 30
C = Collective

_UNLIMITED = 1 << 60

Links = Sequence[tuple[float, float]]
"""``(bytes_per_s, latency_s)`` for each dimension."""


def plain(shape: tuple[int, ...], links: Links, *, chunks: int = 1, **rules: Any) -> MachineConfig:
    """A machine of that kind, which works on each collective in ``chunks`` chunks."""
    return MachineConfig(
        shape=shape, endpoint=rules.pop("endpoint", ENDPOINTS["ideal"]), header_bytes=0, both=False, cut_through=False,
        message_bytes=_UNLIMITED, packet_bytes=_UNLIMITED, chunk_bytes=_UNLIMITED, chunks=chunks,
        turns=rules.pop("turns", "age"), order=rules.pop("order", "fifo"),
        links=tuple(LinkConfig(bytes_per_s=rate, latency_s=latency) for rate, latency in links), **rules)


def astra(shape: tuple[int, ...], links: Links, *, chunks: int = 1, optimised: bool = True,
          **rules: Any) -> MachineConfig:
    """ASTRA-sim 1.0, analytical: five phases (or a whole all-reduce in each dimension), and an all-to-all's blocks one
    after the other. A dimension serves one chunk at a time, in the order of their collectives, then of arrival."""
    return plain(shape, links, chunks=chunks, endpoint=replace(ENDPOINTS["ideal"], per_dimension=1), blocking=True,
                 turns="fifo", algorithm="five-phase" if optimised else "flat", **rules)


def simgrid(shape: tuple[int, ...], links: Links, *, algorithm: str = "hierarchical") -> MachineConfig:
    """SimGrid 3.32, a fluid model: chunks that begin together share each link evenly, so they stay together, as if they
    were one."""
    return plain(shape, links, algorithm=algorithm)


def block(collective: Collective, size: int, ranks: int) -> int:
    """Bytes as :meth:`Machine.issue` takes them, of a whole vector of ``size``."""
    return size // ranks if collective.info.varying else size


def closed_form(collective: Collective, shape: tuple[int, ...], size: int, links: Links, *,
                algorithm: str = "hierarchical", serial_blocks: bool = False) -> float:
    """Seconds of a collective of whole steps in one chunk, no two dimensions at once.

    Parameters
    ----------
    size : int
        Bytes of the whole vector of a rank; of an all-gather what each has in the end.
    links : sequence of (bytes_per_s, latency_s)
        Of a ring in one direction.
    serial_blocks : bool
        The blocks of an all-to-all go one after the other, each with its latency; else those of a step together.
    """
    rings = [(n, *link) for n, link in zip(shape, links, strict=True) if n > 1]

    def passes(count: int, n: int, part: float, rate: float, latency: float) -> float:
        return count * (n - 1) * (part / n / rate + latency)

    if collective == C.ALL_TO_ALL:
        return sum(n * (n - 1) / 2 * (size / n / rate) + (n * (n - 1) / 2 if serial_blocks else n - 1) * latency
                   for n, rate, latency in rings)
    if collective == C.ALL_REDUCE and algorithm == "flat":
        return sum(passes(2, n, size, rate, latency) for n, rate, latency in rings)
    if collective == C.ALL_REDUCE and algorithm == "hierarchical" and len(rings) > 1:
        (n, rate, latency), *others = rings
        return passes(2, n, size, rate, latency) + sum(passes(2, m, size / n, *link) for m, *link in others)
    total, part = 0.0, float(size)
    for n, rate, latency in rings:
        total += passes(2 if collective == C.ALL_REDUCE else 1, n, part, rate, latency)
        part /= n
    return total
