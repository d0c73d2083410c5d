# SPDX-License-Identifier: Apache-2.0
"""The model's programs: alone, which needs only a C++ compiler, and with a Verilated DMA engine.

Kept and found again as the builds of :mod:`sim.verilator.build` are.
"""

from pathlib import Path

from hw.dma_engine.config import DmaConfig
from sim.verilator.build import Status, execute
from sim.verilator.program import Program, build_program
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root, find_compiler

__all__ = ["build_beside", "build_model"]

_HERE = Path(__file__).parent
_CPP = _HERE.parent / "cpp"
_MODEL = (*(_HERE / f"{name}.h" for name in ("compute", "dram", "l2", "machine", "options", "policy")),
          _CPP / "pairs.h")
_ENGINE = (*(_HERE / f"{name}.h" for name in ("cached_memory", "copies")),
           *(_CPP / f"{name}.h" for name in ("engine", "ports", "axi_memory", "memory")))
_OPTIONS = ("-std=gnu++17", "-O2", "-Wall", "-Wextra")


def build_model(*, status: Status | None = None) -> Program:
    """Build compute units, L2 and DRAM without an engine.

    Parameters
    ----------
    status : callable or None
        Receives ``(what, done, total)`` during the build.

    Raises
    ------
    BuildFailed
        If the compiler fails.
    ToolMissing
        If there is no compiler.
    """
    compiler, main = find_compiler(), _HERE / "main.cpp"
    if status:
        status("compile", 0, 1)
    sources = [(path.name, path.read_text(encoding="utf-8")) for path in (main, *_MODEL)]
    folder = build_root() / "sim" / f"cache-{digest(sources, _OPTIONS, compiler.version)}"

    def make() -> None:
        execute([*compiler.command, *_OPTIONS, f"-I{_CPP}", main, "-o", folder / "program"], folder=folder,
                log=folder / "compiler.log")

    reused, seconds = once(folder, make, product="program", name="cache")
    return Program(folder / "program", reused, seconds)


def build_beside(config: DmaConfig, *, checked: bool = False, status: Status | None = None) -> Program:
    """Build the same with ``DmaEngine(config)`` on the L2; see :func:`build_program`.

    Parameters
    ----------
    config : :class:`DmaConfig`
        The engine's sizes.
    checked : bool
        With the protocol monitors on each bus, which stop the run; slower.
    status : callable or None
        Receives ``(what, done, total)`` during the build.
    """
    # Imported here, so that a wrong option is reported without waiting for the hardware description.
    from hw.dma_engine.engine import DmaEngine
    from hw.dma_engine.header import c_header
    from sim.cpp.clocked import ClockedInputs
    from sim.dma.checked import CheckedDma
    from sim.verilator.design import Design

    return build_program(Design(ClockedInputs, Design(CheckedDma if checked else DmaEngine, config)),
                         name="cache_checked" if checked else "cache_beside", main=_HERE / "beside.cpp",
                         sources=(*_MODEL, *_ENGINE), includes=(_CPP,), generated={"dmace.h": c_header(config)},
                         defines={"DMACE_DATA_BYTES": config.beat_bytes, "DMACE_ID_BITS": config.axi_id_width},
                         checked=checked, status=status)
