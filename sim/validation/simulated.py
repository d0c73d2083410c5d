# SPDX-License-Identifier: Apache-2.0
"""All-reduces in RTL and in the system simulator: cycles of both."""

from hw.ace.words import Collective
from sim.ace.bench.runner import MEMORY_LATENCY, Bench
from sim.system.calibration import Calibration
from sim.validation.as_rtl import as_rtl, cycles

from .links import Row
from .points import Point

__all__ = ["ALLOWED", "compare"]

ALLOWED = 0.02


def compare(bench: Bench, shape: tuple[int, ...], size: int, *, calibration: Calibration | None = None,
            what: str | None = None) -> Row:
    """The same all-reduce in the simulator and on a bench; ``what`` names it."""
    machine = as_rtl(bench.config, shape, link_rate=bench.link_rate, link_latency=bench.link_latency,
                     memory_latency=MEMORY_LATENCY, calibration=calibration)
    ours, theirs = cycles(machine, Collective.ALL_REDUCE, size), bench.run(shape, size)["cycles"]
    what = what or str(Point(shape, size, bench.link_rate, bench.link_latency))
    return {"check": "RTL", "what": what, "ours": what, "ours_cycles": ours, "rtl_cycles": theirs,
            "difference": ours / theirs - 1, "allowed": ALLOWED}
