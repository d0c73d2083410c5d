# SPDX-License-Identifier: Apache-2.0
"""Verilog of a component and a C++ source, made into a program or a shared library, once.

::

    made = build_program(component, name="ace_lane", main=Path("lanes.cpp"))
    subprocess.run([made.path, ...])

Kept and found again as the builds of :mod:`sim.verilator.build` are. The Verilated class is ``Vtop``; its inputs are
best those of a :class:`sim.cpp.clocked.ClockedInputs`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from amaranth.lib.wiring import Component

from sim.verilator.blocks import BLOCK, separated
from sim.verilator.build import COVERAGE_OPTIONS, Status, execute, link, quiet
from sim.verilator.design import Design, verilog_of
from sim.verilator.initial_values import without_initial_values
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root, find_compiler, find_verilator

__all__ = ["Program", "build_program"]

# Functions of 1,000 nodes take the compiler a fifth of the time of functions of 60,000; without Verilator's tables it
# takes a third. Neither makes the simulation of an accelerator `tiny` or a DMA engine `wide` slower, nor does -O1
# instead of -O2.
_VERILATOR_OPTIONS = ("--cc", "--prefix", "Vtop", "--make", "json", "--no-timing", "-Wno-fatal", "-O3", "-fno-table",
                      "--output-split", "60000", "--output-split-cfuncs", "1000")
# Designs with a block have long words: loops over them, instead of a statement for each 32 bits.
_BLOCK_OPTIONS = ("--expand-limit", "8")
_FAST, _FAST_CHECKED, _MAIN = "-O1", "-O0", "-O2"
# Two libraries in one process have classes of the same names.
_SHARED_OPTIONS = ("-fPIC", "-fvisibility=hidden")


@dataclass(frozen=True)
class Program:
    """A built program or library at ``path``."""

    path: Path
    reused: bool
    seconds: float

    @property
    def folder(self) -> Path:
        return self.path.parent


def build_program(component: Component | Design | str, *, name: str, main: Path, sources: Sequence[Path] = (),
                  generated: Mapping[str, str] | None = None, defines: Mapping[str, object] | None = None,
                  includes: Iterable[Path] = (), checked: bool = False, shared: bool = False,
                  coverage: bool = False, random_initial: bool = False, block: str | None = None,
                  status: Status | None = None) -> Program:
    """Build ``component`` with ``main`` unless that was done before, and return a :class:`Program`.

    Parameters
    ----------
    component : :class:`amaranth.lib.wiring.Component`, :class:`~sim.verilator.design.Design` or str
        The design; as a :class:`Design`, it is emitted as Verilog only once. As a string, its Verilog.
    name : str
        Name of the top module and of the build.
    main : :class:`Path`
        The C++ source.
    sources : sequence of :class:`Path`
        All else that it includes and is not in ``generated``.
    generated : dict
        Name -> text of headers that are written for this build.
    defines : dict
        Name -> value of macros for ``main``.
    includes : sequence of :class:`Path`
        Folders where ``main`` finds its ``sources``, besides its own.
    checked : bool
        With the assertions of the design, which stop the program; not optimised.
    shared : bool
        Make a shared library.
    coverage : bool
        Count lines, branches and toggles.
    random_initial : bool
        Remove the initial values of registers and memories; ``main`` draws them (``Verilated::randReset``). Else all
        begin as the design says.
    block : str or None
        Path of the first instance of a module, below the top module and joined by dots, of whose C++ all instances
        share one copy (:mod:`sim.verilator.blocks`): faster where there are a hundred.
    status : callable or None
        Receives ``(what, done, total)`` as the build progresses.

    Raises
    ------
    BuildFailed
        If Verilator or the compiler fails.
    ToolMissing
        If there is no Verilator or no compiler.
    ValueError
        If there is no such ``block``, or the program is ``checked`` or counts ``coverage``, which a block cannot.
    """
    if block and (checked or coverage):
        raise ValueError(f"The block {block} cannot be in a program that is checked or counts coverage.")
    status, generated = status or quiet, generated or {}
    status("describe", 0, 1)
    text = component if isinstance(component, str) else verilog_of(component, name=name, assertions=checked)
    text = without_initial_values(text) if random_initial else text
    verilator, unknown = find_verilator(), "unique" if random_initial else "fast"
    verilating = [*_VERILATOR_OPTIONS, "--x-assign", unknown, "--x-initial", unknown,
                  "--assert" if checked else "--no-assert", *(COVERAGE_OPTIONS if coverage else ()),
                  *(_BLOCK_OPTIONS if block else ())]
    macros = [f"-D{macro}={value}" for macro, value in (defines or {}).items()]
    options = ["-DVM_TRACE=0", *(_SHARED_OPTIONS if shared else ())]
    fast = _FAST_CHECKED if checked else _FAST
    included = [(source.name, source.read_text(encoding="utf-8")) for source in (main, *sources)]
    key = digest(text, included, sorted(generated.items()), verilating, macros, options, fast, _MAIN,
                 verilator.version, str(verilator.root), find_compiler().version, *([block] if block else ()))
    folder = build_root() / "sim" / f"{name}-{key}"
    product = "library.so" if shared else "program"

    def verilate(top: str, files: Sequence[str], into: str, *further: str) -> None:
        execute([verilator.path, *verilating, *further, "--top-module", top, "-Mdir", into, *files],
                env=verilator.env(), folder=folder, log=folder / f"verilator_{into}.log")

    def make() -> None:
        whole, files = text, [f"{name}.v"]
        for header, content in generated.items():
            (folder / header).write_text(content)
        status("verilate", 0, 1)
        if block:
            whole, own = separated(text, top=name, block=block, name=BLOCK)
            (folder / f"{BLOCK}.v").write_text(own)
            files.append(f"{BLOCK}/{BLOCK}.sv")
            verilate(BLOCK, [f"{BLOCK}.v"], BLOCK, "--lib-create", BLOCK, "--prefix", f"V{BLOCK}")
        (folder / f"{name}.v").write_text(whole)
        verilate(name, files, "cpp")
        link(folder, main=(main, _MAIN), product=product, status=status, fast=fast, options=options,
             main_options=(*macros, *(f"-I{include}" for include in (folder, *includes))),
             libraries=("-shared",) if shared else (), coverage=coverage)

    reused, seconds = once(folder, make, product=product, name=name)
    return Program(folder / product, reused, seconds)
