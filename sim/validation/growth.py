# SPDX-License-Identifier: Apache-2.0
"""Cost of a simulation: seconds of a core and memory for an iteration of ResNet-50 on 16 to 1,024 endpoints."""

import resource
import time
from collections.abc import Iterator, Sequence
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import TypedDict

__all__ = ["SHAPES", "Row", "draw", "measure"]

SHAPES = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4), (8, 8, 4), (8, 8, 8), (16, 8, 8))
CHUNK_BYTES = 64 << 10


class Row(TypedDict):
    """The cost of one simulation."""

    workload: str
    endpoint: str
    shape: str
    ranks: int
    chunk_bytes: int
    simulated_seconds: float
    core_seconds: float
    peak_bytes: int


def measure(shapes: Sequence[tuple[int, ...]] = SHAPES, *, workload: str = "resnet50",
            endpoint: str = "ace") -> Iterator[Row]:
    """A row for each shape, each in a process of its own."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for shape in shapes:
            yield pool.apply(_one, (shape, workload, endpoint))


def _one(shape: tuple[int, ...], workload: str, endpoint: str) -> Row:
    from sim.system.experiment import Experiment

    experiment = Experiment(workload=workload, shape=shape, endpoint=endpoint, steps=1,
                            settings={"chunk_bytes": CHUNK_BYTES})
    begin = time.process_time()
    run = experiment.run()
    return {"workload": workload, "endpoint": endpoint, "shape": "x".join(map(str, shape)), "ranks": prod(shape),
            "chunk_bytes": CHUNK_BYTES, "simulated_seconds": run.seconds, "core_seconds": time.process_time() - begin,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def draw(rows: Sequence[Row], path: str | Path) -> None:
    """Write a plot of the rows as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    ranks = [row["ranks"] for row in rows]
    drawn = (([row["core_seconds"] for row in rows], "seconds of a core"),
             ([row["peak_bytes"] / (1 << 20) for row in rows], "MiB at most"))
    for axis, (values, label) in zip(figure.subplots(1, 2), drawn, strict=True):
        axis.plot(ranks, values, "o-")
        axis.set_xscale("log", base=2)
        axis.set_xticks(ranks, [str(one) for one in ranks])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("endpoints")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    figure.suptitle(f"An iteration of {rows[0]['workload']} on {rows[0]['endpoint']}, chunks of "
                    f"{rows[0]['chunk_bytes'] // 1024} KiB", fontsize=10)
    figure.savefig(path, dpi=150, metadata={"Software": None})
