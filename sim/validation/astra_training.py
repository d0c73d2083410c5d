# SPDX-License-Identifier: Apache-2.0
"""Training as ASTRA-sim 1.0 has it: its workloads, its queues, its results.

There a collective is cut into a number of chunks; each dimension serves one at a time, those that the next compute
waits for first, then those of the latest or the earliest collective, in the order of their arrival; endpoints take no
time.
"""

import csv
from collections.abc import Iterator
from math import prod
from pathlib import Path

from sim.system.graph import unroll
from sim.system.machine import Machine
from sim.system.rules import GIB, astra
from sim.system.training import train
from sim.system.workloads import load

__all__ = ["rows"]

WORKLOADS = {"Resnet50_DataParallel": "resnet50", "DLRM_HybridParallel": "dlrm",
             "Transformer_HybridParallel": "transformer"}
LINKS = [(2 * 200 * GIB, 72e-9), (2 * 25 * GIB, 402e-9), (2 * 25 * GIB, 402e-9)]
ORDERS = {"LIFO": "priority-lifo", "FIFO": "priority"}


def rows(path: str | Path) -> Iterator[tuple[str, float, float]]:
    """``(what, our seconds, ASTRA-sim's seconds)`` for the total and the compute of each row of a file."""
    with open(path, encoding="utf-8", newline="") as file:
        given = list(csv.DictReader(file))
    for row in given:
        shape = tuple(map(int, row["torus_LxVxH"].split("x")))
        machine = Machine(astra(shape, LINKS, chunks=int(row["chunks"]), order=ORDERS[row["scheduling"]]))
        run = train(unroll(load(WORKLOADS[row["workload"]]), int(row["passes"])), machine)
        what = (f"{row['torus_LxVxH']} {WORKLOADS[row['workload']]}, {row['scheduling']}, {prod(shape)} ranks, "
                f"{row['chunks']} chunks")
        yield f"{what}, total", run.seconds, float(row["total_ns"]) / 1e9
        yield f"{what}, compute", run.computed, float(row["total_comp_us"]) / 1e6
