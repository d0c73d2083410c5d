# SPDX-License-Identifier: Apache-2.0
"""The same all-reduces in the accelerator's RTL and in the simulator: cycles of both."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.graph import Graph
from sim.terminal import measuring

from .links import Row

if TYPE_CHECKING:
    from .points import Point

__all__ = ["MOST_RANKS", "against_rtl", "sizes_of"]

MOST_RANKS = 64
"""That are simulated in RTL."""

LARGEST = 64 << 10
"""Bytes of a workload's all-reduces that are simulated in RTL; longer ones are cut there."""


def against_rtl(points: "Sequence[Point]") -> list[Row]:
    """A row of :mod:`.simulated` for each point, in their order."""
    # Imported here: the RTL's simulation is not needed otherwise.
    from sim.ace.bench import Bench
    from sim.ace.shared_library import build_library
    from sim.validation import simulated

    with measuring(f"ace {', '.join(dict.fromkeys(point.preset for point in points))}") as (building, notify):
        rows: list[Row] = []
        notify("all-reduces", total=len(points), advance=0)
        for point in points:
            bench = Bench(point.config, build_library(point.config, status=building), link_rate=point.link_rate,
                          link_latency=point.link_latency)
            rows.append(simulated.compare(bench, point.shape, point.size, what=str(point)))
            notify(str(point))
    return rows


def sizes_of(graph: Graph) -> list[int]:
    """Bytes of the shortest, a middle and the longest all-reduce over all ranks of a :class:`Graph`, in whole words,
    cut at :data:`LARGEST`.

    Raises
    ------
    UserError
        If it has none.
    """
    sizes = sorted(node.exchange.bytes for node in graph.nodes if node.exchange is not None
                   and node.exchange.collective == Collective.ALL_REDUCE and node.exchange.group == "all")
    if not sizes:
        raise UserError(f"{graph.name} has no all-reduce over all ranks to compare with the RTL.")
    chosen = (sizes[0], sizes[len(sizes) // 2], sizes[-1])
    return sorted({min(-(-size // 4) * 4, LARGEST) for size in chosen})
