"""What a simulation costs: seconds of a core and memory for an iteration of ResNet-50 on 16 to 1,024 endpoints."""

import resource
import time
from math import prod
from multiprocessing import get_context

__all__ = ["SHAPES", "draw", "measure"]

SHAPES = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4), (8, 8, 4), (8, 8, 8), (16, 8, 8))
CHUNK_BYTES = 64 << 10


def measure(shapes=SHAPES, *, workload="resnet50", endpoint="ace"):
    """A row for each shape, each in a process of its own."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for shape in shapes:
            yield pool.apply(_one, (shape, workload, endpoint))


def _one(shape, workload, endpoint):
    from sim.system.experiment import Experiment

    experiment = Experiment(workload=workload, shape=shape, endpoint=endpoint, steps=1,
                            settings={"chunk_bytes": CHUNK_BYTES})
    begin = time.process_time()
    run = experiment.run()
    return {"workload": workload, "endpoint": endpoint, "shape": "x".join(map(str, shape)), "ranks": prod(shape),
            "chunk_bytes": CHUNK_BYTES, "simulated_seconds": run.seconds, "core_seconds": time.process_time() - begin,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def draw(rows, path):
    """Write a plot of the rows as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    ranks = [row["ranks"] for row in rows]
    for axis, key, scale, label in zip(figure.subplots(1, 2), ("core_seconds", "peak_bytes"), (1, 1 << 20),
                                       ("seconds of a core", "MiB at most"), strict=True):
        axis.plot(ranks, [row[key] / scale for row in rows], "o-")
        axis.set_xscale("log", base=2)
        axis.set_xticks(ranks, [str(one) for one in ranks])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("endpoints")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    figure.suptitle(f"An iteration of {rows[0]['workload']} on {rows[0]['endpoint']}, chunks of "
                    f"{rows[0]['chunk_bytes'] // 1024} KiB", fontsize=10)
    figure.savefig(path, dpi=150, metadata={"Software": None})
