"""The same all-reduces in the accelerator's RTL and in the simulator: cycles of both."""

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.graph import Kind
from sim.terminal import measuring

__all__ = ["MOST_RANKS", "against_rtl", "sizes_of"]

MOST_RANKS = 64
"""That are simulated in RTL."""

LARGEST = 64 << 10
"""Bytes of a workload's all-reduces that are simulated in RTL; longer ones are cut there."""


def against_rtl(cases):
    """A row as those of :mod:`.validation`, in cycles, for each ``(shape, bytes)``; of the preset ``tiny``."""
    # Imported here: the RTL's simulation is not needed otherwise.
    from hw.ace.config import TINY
    from sim.ace.bench import Bench
    from sim.ace.shared_library import build_library
    from sim.validation import simulated

    with measuring("ace tiny") as (building, tell):
        bench = Bench(TINY, build_library(TINY, status=building), link_rate=0.25, link_latency=100)
        tell("all-reduces", total=len(cases))
        rows = []
        for shape, size in cases:
            rows.append(simulated.compare(bench, shape, size))
            tell(rows[-1]["what"])
    return rows


def sizes_of(graph):
    """Bytes of the shortest, a middle and the longest all-reduce over all ranks of a :class:`Graph`, in whole words,
    cut at :data:`LARGEST`.

    Raises
    ------
    UserError
        If it has none.
    """
    sizes = sorted(node.exchange.bytes for node in graph.nodes if node.kind == Kind.COLLECTIVE
                   and node.exchange.collective == Collective.ALL_REDUCE and node.exchange.group == "all")
    if not sizes:
        raise UserError(f"{graph.name} has no all-reduce over all ranks to compare with the RTL.")
    chosen = (sizes[0], sizes[len(sizes) // 2], sizes[-1])
    return sorted({min(-(-size // 4) * 4, LARGEST) for size in chosen})
