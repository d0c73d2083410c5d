# SPDX-License-Identifier: Apache-2.0
"""Simulators of the `tiny` engines that count coverage, and the runs: most of the mutants' fast set.

The engine's Verilog writes its counts to a new file when a simulation ends.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hw import emit
from hw.ace import config as ace_config
from sim.verilator.toolchain import build_root
from tests.coverage.bins import Tally
from tests.coverage.branches import line_map, with_branch_sources, with_few_toggles
from tests.coverage.collectives import every_bin
from tests.coverage.dat import Point, read, total
from tests.coverage.observed import BINS, STALLS, counted_collectives
from tests.mutation import designs
from tests.mutation.fast_set import FAST_SETS

__all__ = ["ENGINES", "run"]

FOLDER = "DMACE_COVERAGE"

ENGINES = designs.ENGINES

_WRITE = ('$c("{ static int n = 0; if (const char* folder = std::getenv(\\"' + FOLDER + '\\")) vlSymsp->_vm_contextp__'
          '->coveragep()->write((std::string(folder) + \\"/\\" + std::to_string(getpid()) + \\"-\\" + '
          'std::to_string(n++) + \\".dat\\").c_str()); vlSymsp->_vm_contextp__->coveragep()->clear(); }");')
"""With models of several ranks in one simulation, the first one that ends writes the counts of all; the others would
find those of models that were deleted."""
_TOP_END = re.compile(r"^endmodule$", flags=re.MULTILINE)

LEFT_OUT = ("all shapes, seed 2", "more faults, seed 6", "cycles")
"""Ends of the names of runs of the accelerator that reach hardly more, and would take as long as all others."""

COMPARED = ((1, "random"), (2, "none"))
"""Seed and stalls of the runs of ``dmace compare dma``, and of requests of each bin."""


def _verilog(text: str, name: str) -> str:
    """Verilog with source lines that writes its coverage at the end."""
    made = emit.verilog_of(with_branch_sources(text), sources=True)
    top = re.search(rf"^module \\?{name} ?\(", made, flags=re.MULTILINE)
    assert top is not None
    end = _TOP_END.search(made, top.end())
    assert end is not None
    return f"{made[:end.start()]}  final {_WRITE}\n{made[end.start():]}"


def run(engine: str, tally: Tally,
        status: Callable[[str], object]) -> tuple[dict[Point, int], dict[int, str], list[str]]:
    """Build the simulator of an engine, make its runs, and return counts, source lines of the Verilog, and their names.

    Parameters
    ----------
    tally : :class:`Tally`
        Receives the bins.
    status : callable
        Receives a line for each step.
    """
    design, name, _ = designs.design_of(engine)
    verilog = _verilog(designs.netlist_of(design, name=name), name)
    with tempfile.TemporaryDirectory(prefix="dmace-") as folder, _environment(FOLDER, folder):
        make_runs = _run_dma if engine == "dma" else _run_ace
        names = make_runs(with_few_toggles(verilog), name, tally, Path(folder), status)
        counts = total(read(path) for path in sorted(Path(folder).glob("*.dat")))
    build = build_root() / "coverage"
    build.mkdir(parents=True, exist_ok=True)
    (build / f"{name}.v").write_text(verilog, encoding="utf-8")
    return counts, line_map(verilog), names


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def _run_dma(verilog: str, name: str, tally: Tally, folder: Path, status: Callable[[str], object]) -> list[str]:
    from sim.verilator.build import build_text

    simulator = build_text(verilog, name=name, coverage=True)
    bins, made = folder / "bins.json", []
    for seed, stalls in COMPARED:
        status(f"compare dma, and each bin, seed {seed}, stalls {stalls}")
        options = {"config": "tiny", "requests": 200, "stalls": stalls, "latency": 20, "seed": seed,
                   "result": str(folder / "result.json")}
        simulator.run("tests.coverage.observed", seed=seed, log=folder / "log", results=folder / "results.xml", env={
            "DMACE_RUN": json.dumps(options), BINS: str(bins), STALLS: str(int(stalls != "none"))})
        made.append(f"each bin, and compare dma (seed {seed}, stalls {stalls})")
    tally.load(bins)
    ready = designs.Ready("dma", {}, {"simulator": simulator}, "")
    for test in FAST_SETS["dma"]:
        if test.name.startswith("cocotb: "):
            status(test.name)
            test.call(ready, None)
            made.append(test.name)
    return made


def _run_ace(verilog: str, name: str, tally: Tally, folder: Path, status: Callable[[str], object]) -> list[str]:
    from hw.ace.engine import AceEngine
    from sim.ace import compare
    from sim.ace.shared_library import build_library
    from sim.verilator.design import Design

    library = build_library(ace_config.TINY, component=Design(AceEngine, ace_config.TINY), verilog=(name, verilog),
                            checked=True, coverage=True)
    ready: Any = designs.Ready("ace", {}, {"library": library}, "")
    made = []
    for stalls, seed in ((True, 11), (False, 12)):
        status(f"compare ace, seed {seed}")
        with counted_collectives(tally, stalls=stalls, faults=False):
            every_bin(library, stalls=stalls, seed=seed)
            compare.compare(ace_config.TINY, collectives=40, seed=seed, stalls=stalls, library=library,
                            shapes=((3,), (3, 1, 2)))
        made.append(f"each bin, and compare ace (seed {seed}, {'stalls' if stalls else 'no stalls'})")
    for test in FAST_SETS["ace"]:
        if test.name.endswith(LEFT_OUT):
            continue
        status(test.name)
        with counted_collectives(tally, stalls=True, faults="faults" in test.name):
            test.call(ready, None)
        made.append(test.name)
    return made
