# SPDX-License-Identifier: Apache-2.0
"""Simulators of the `tiny` engines that hold all mutants.

The DMA engine has two: that of the C++ harness, which is fast, and that of ``dmace compare dma``, which compares all
observable results with the golden model. The accelerator has one, of a cluster.
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hw import emit
from hw.ace import config as ace_config
from hw.dma_engine import config as dma_config
from sim.verilator.design import Design
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root
from tests.mutation import pool
from tests.mutation.netlist import modules, observable
from tests.mutation.operators import Mutant
from tests.mutation.schemata import candidates, verilog_with_mutants

__all__ = ["ENGINES", "Ready", "candidates_of", "design_of", "mutants_of_engine", "netlist_of", "prepare"]

@dataclass(frozen=True)
class Ready:
    """The simulators of an engine: ``mutants`` by number, ``parts``, which the fast set runs, and ``key``, which
    is equal for equal simulators."""

    engine: str
    mutants: dict[int, Mutant]
    parts: dict[str, Any]
    key: str


def netlist_of(design: Design, *, name: str, assertions: bool = True) -> str:
    """RTLIL of a design with source lines, made once for equal sources."""
    folder = build_root() / "mutants" / f"{name}-{digest(design.key(), name, assertions, version('amaranth'))}"
    path = folder / f"{name}.il"

    def make() -> None:
        path.write_text(emit.netlist(design.component(), name=name, assertions=assertions, sources=True),
                        encoding="utf-8")

    once(folder, make, product=path.name, name=name)
    return path.read_text(encoding="utf-8")


def design_of(engine: str) -> tuple[Design, str, str]:
    """The design that the mutants are chosen in, its name, and the path of the engine in it."""
    if engine == "dma":
        from sim.dma.checked import CheckedDma

        return Design(CheckedDma, dma_config.TINY), "dma_tiny", "engine"
    from hw.ace.engine import AceEngine
    from sim.cpp.clocked import ClockedInputs

    return Design(ClockedInputs, Design(AceEngine, ace_config.TINY)), "ace_mutants", "component"


@cache
def candidates_of(engine: str) -> list[Mutant]:
    """All possible mutants, but for those of logic that only an assertion reads."""
    design, name, below = design_of(engine)
    text = netlist_of(design, name=name)
    seen = {module.path: observable(module) for module in modules(text, below=below)}
    return [mutant for mutant in candidates(text, below=below) if mutant.item in seen[mutant.module]]


@cache
def mutants_of_engine(engine: str) -> dict[int, Mutant]:
    """Number -> mutant, of the engine's pool. The C++ of a simulator with all possible ones would be five times as long
    as that of the engine."""
    return pool.found_rows(pool.read(engine), candidates_of(engine))


def _verilog(engine: str, text: str, name: str, below: str) -> str:
    """Verilog with the mutants of an engine, made once for equal netlists and operators."""
    own = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))
           if path.stem in ("designs", "netlist", "operators", "schemata")]
    folder = build_root() / "mutants" / f"{name}-verilog-{digest(engine, text, name, below, own)}"
    path = folder / f"{name}.v"

    def make() -> None:
        found = {mutant.key for mutant in candidates(text, below=below)}
        if not found.issuperset(mutant.key for mutant in mutants_of_engine(engine).values()):
            raise RuntimeError("The simulators of the engine have different cells.")
        path.write_text(verilog_with_mutants(text, mutants_of_engine(engine), below=below), encoding="utf-8")

    once(folder, make, product=path.name, name=name)
    return path.read_text(encoding="utf-8")


def prepare(engine: str) -> Ready:
    """Build the simulators of an engine, unless they exist."""
    mutants = mutants_of_engine(engine)
    design, name, below = design_of(engine)
    verilog = _verilog(engine, netlist_of(design, name=name), name, below)
    if engine == "ace":
        from hw.ace.engine import AceEngine
        from sim.ace.shared_library import build_library

        library = build_library(ace_config.TINY, component=Design(AceEngine, ace_config.TINY), verilog=(name, verilog))
        return Ready(engine, mutants, {"library": library}, str(library.program.path))
    from sim.cpp import build_harness
    from sim.cpp.clocked import ClockedInputs
    from sim.verilator.build import build_text

    fast = netlist_of(Design(ClockedInputs, design), name="fast_mutants", assertions=False)
    harness = build_harness(dma_config.TINY, verilog=(
        "fast_mutants", _verilog(engine, fast, "fast_mutants", f"component.{below}")))
    simulator = build_text(verilog, name=name)
    return Ready(engine, mutants, {"harness": harness, "simulator": simulator},
                 f"{harness.program.path} {simulator.folder}")


ENGINES = {"dma": "DMA engine", "ace": "accelerator"}
