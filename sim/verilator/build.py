# SPDX-License-Identifier: Apache-2.0
"""Build a component once with Verilator.

::

    made = build(Queue(16, depth=8), name="queue")
    result = made.run("tests.stream.test_queue", seed=1)

A build is kept under ``build/sim/NAME-HASH``; the hash covers the Verilog, the options and the versions of
the tools, so nothing is built twice or used when it is out of date. Processes that want the same build wait
for each other, and a build that was interrupted is done again. Only the ports of the top module are visible
to cocotb: Verilator then removes the rest of the names, which doubles its speed.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from importlib.metadata import version as package_version
from pathlib import Path

from amaranth.lib.wiring import Component
from cocotb_tools import config as cocotb_config
from filelock import FileLock

from hw.errors import UserError
from sim.verilator.blocks import BLOCK
from sim.verilator.design import Design, verilog_of
from sim.verilator.simulator import Build, Result, SimulationFailed, TestResult
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root, find_compiler, find_verilator, quick_builds

__all__ = ["Build", "BuildFailed", "Design", "Result", "SimulationFailed", "Status", "TestResult", "build",
           "build_text"]

Status = Callable[[str, int, int], None]
"""Receives ``(what, done, total)`` as a build progresses."""

_OPTIMISE = ("-O3", "-fno-table")
"""For Verilator. Turning logic into tables takes it most of its time; under cocotb that never comes back."""
_VERILATOR_OPTIONS = (
    "--cc", "--exe", "--vpi", "--prefix", "Vtop", "--make", "json", "--timescale", "1ns/1ps", "--no-timing",
    "--assert", "-Wno-fatal", *_OPTIMISE, "--x-assign", "fast", "--x-initial", "fast",
    "--output-split", "60000", "--output-split-cfuncs", "60000",
)
# Verilator 5.48 fails on a netlist of LUTs with an internal error (V3DfgRegularize: Mismatched vertices).
_NETLIST_OPTIONS = ("-fno-dfg",)
COVERAGE_OPTIONS = ("--coverage-line", "--coverage-toggle")
# A bus wider than 256 bits is left out of a trace by default.
_WAVES_OPTIONS = ("--trace-structs", "--trace-max-width", "4096")
_COMPILE_OPTIONS = ("-std=gnu++17", "-w")
_FAST, _UNOPTIMISED, _RUNTIME = "-O1", "-O0", "-O2"


class BuildFailed(UserError):
    """Verilator or the C++ compiler refused a design."""

    status = 1


def build(component: Component | Design, *, name: str, waves: bool = False,
          status: Status | None = None) -> Build:
    """Build ``component`` unless that was done before, and return a :class:`Build`.

    Parameters
    ----------
    component : :class:`amaranth.lib.wiring.Component` or :class:`~sim.verilator.design.Design`
        The design; as a :class:`Design`, it is emitted as Verilog only once.
    name : str
        Name of the top module, which cocotb's log shows.
    waves : bool
        Make a simulator that records every signal: FST where the headers of zlib and lz4 are installed, else
        VCD. It is slower, and is kept apart from the other.
    status : callable or None
        Receives ``(what, done, total)`` as the build progresses.

    Raises
    ------
    BuildFailed
        If Verilator or the compiler fails.
    ToolMissing
        If there is no Verilator or no compiler.
    """
    return build_text(verilog_of(component, name=name, waves=waves), name=name, waves=waves, status=status)


def build_text(text: str, *, name: str, cells: Sequence[Path] = (), netlist: bool = False, waves: bool = False,
               coverage: bool = False, status: Status | None = None) -> Build:
    """As :func:`build`, of Verilog whose top module is ``name``.

    Parameters
    ----------
    cells : sequence of :class:`Path`
        Verilog files with the modules that ``text`` lacks.
    netlist : bool
        ``text`` is of the cells of an FPGA, which takes other options of Verilator.
    coverage : bool
        Count lines, branches and toggles.
    """
    verilator, compiler = find_verilator(), find_compiler()
    trace = waves_format() if waves else None
    verilating = (*_VERILATOR_OPTIONS, *(_NETLIST_OPTIONS if netlist else ()),
                  *(COVERAGE_OPTIONS if coverage else ()))
    # Python takes most of the time of a cocotb test, so that the simulator need not be fast.
    fast = _UNOPTIMISED if quick_builds() else _FAST
    key = digest(text, name, verilator.version, str(verilator.root), compiler.version, verilating,
                 _WAVES_OPTIONS, _COMPILE_OPTIONS, fast, _UNOPTIMISED, _RUNTIME, trace, package_version("cocotb"),
                 str(cocotb_config.libs_dir), [path.read_text(encoding="utf-8") for path in cells])
    folder = build_root() / "sim" / f"{name}-{key}"
    reused, seconds = once(folder, lambda: _verilate(folder, text, cells, name=name, verilating=verilating, fast=fast,
                                                     trace=trace, coverage=coverage, status=status or quiet),
                           product="simulator", name=name)
    return Build(name, folder, trace, reused=reused, seconds=seconds)


def quiet(what: str, done: int, total: int) -> None:
    """Reports nothing."""


def _verilate(folder: Path, text: str, cells: Sequence[Path], *, name: str, verilating: Sequence[str], fast: str,
              trace: str | None, coverage: bool, status: Status) -> None:
    """Verilog to ``folder/simulator``."""
    verilator = find_verilator()
    (folder / f"{name}.v").write_text(text)
    (folder / "ports.vlt").write_text(f'`verilator_config\npublic_flat_rw -module "{name}" -port "*"\n')
    status("verilate", 0, 1)
    tracing = (f"--trace-{trace}", *_WAVES_OPTIONS) if trace else ()
    # Relative names, so that messages about the design say `queue.v:12`.
    execute([verilator.path, *verilating, *tracing, "--top-module", name, "-Mdir", "cpp",
             "ports.vlt", *cells, f"{name}.v"], env=verilator.env(), folder=folder, log=folder / "verilator.log")
    main = cocotb_config.share_dir / "lib" / "verilator" / "verilator.cpp"
    libs = cocotb_config.libs_dir
    libraries = (f"-L{libs}", f"-Wl,-rpath,{libs}", "-lcocotbvpi_verilator",
                 *(("-lz", "-llz4") if trace == "fst" else ()))
    link(folder, main=(main, fast), libraries=libraries, product="simulator", status=status, fast=fast,
         coverage=coverage,
         options=(f"-DVM_TRACE={int(bool(trace))}",
                  *(f"-DVM_TRACE_{kind}={int(trace == kind.lower())}" for kind in ("FST", "VCD", "SAIF"))))


def link(folder: Path, *, main: tuple[Path, str], product: str, status: Status, options: Iterable[str] = (),
         main_options: Iterable[str] = (), libraries: Iterable[str] = (), fast: str = _FAST,
         coverage: bool = False) -> None:
    """Compile what Verilator wrote to ``folder/cpp`` and make a program of it.

    Parameters
    ----------
    folder : :class:`Path`
        Folder of the build.
    main : (path, str)
        The program's own source, and how it is optimised.
    product : str
        Name of the program in ``folder``.
    status : callable
        Receives ``(what, done, total)``.
    options, main_options : sequence of str
        For the compiler: of all, and of ``main`` alone. Verilator's own library is compiled once for equal ``options``.
    libraries : sequence of str
        For the linker.
    fast : str
        How the parts that run every cycle are optimised.
    coverage : bool
        Verilator was called with :data:`COVERAGE_OPTIONS`.
    """
    include = find_verilator().root / "include"
    options = [*_COMPILE_OPTIONS, f"-I{include}", f"-I{include / 'vltstd'}", "-DVERILATOR=1",
               f"-DVM_COVERAGE={int(coverage)}", "-DVM_SC=0", "-DVM_TIMING=0", *options]
    sources = json.loads((folder / "cpp" / "Vtop.json").read_text())["sources"]
    runtime = _runtime(sources["global"], options, status=status)
    folders = [folder / "cpp"]
    if (of_block := folder / BLOCK / f"V{BLOCK}.json").is_file():
        folders.append(folder / BLOCK)
        own = json.loads(of_block.read_text())["sources"]
        sources = {group: [*found, *own.get(group, ())] for group, found in sources.items()}
        sources["classes_fast"].append(str(folder / BLOCK / f"{BLOCK}.cpp"))
    # A main program with options of its own is compiled alone.
    alone = bool(main_options) or main[1] != fast
    wanted: list[tuple[Path, str, Iterable[str]]] = [
        (source, level, ()) for source, level in _units(folder, sources, fast, () if alone else (main[0],))]
    wanted += [(*main, main_options)] if alone else []
    # The longest first: the last one to end is then short.
    wanted.sort(key=lambda job: -_size(job[0]))
    jobs = [(source, [*options, *own, level, *(f"-I{one}" for one in folders)], folder / f"{source.stem}.o")
            for source, level, own in wanted]
    _compile(jobs, log=folder / "compile.log", status=status)

    status("link", 0, 1)
    execute([*find_compiler().command, "-o", product, *(job[2] for job in jobs), *runtime, *libraries, "-pthread"],
            folder=folder, log=folder / "link.log")
    for job in jobs:
        job[2].unlink()
    status("link", 1, 1)


_SMALL = 100_000
"""Bytes of C++. Smaller sources are compiled together: most of their time is Verilator's headers."""


def _units(folder: Path, sources: Mapping[str, Sequence[str]], fast: str,
           further: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield ``(source, level)``: Verilator's large sources, and one that includes the small ones and ``further``."""
    small = []
    for level, group in ((fast, "classes_fast"), (fast, "support_fast"),
                         (_UNOPTIMISED, "classes_slow"), (_UNOPTIMISED, "support_slow")):
        for source in map(Path, sources.get(group, ())):
            if _size(source) < _SMALL:
                small.append(source)
            else:
                yield source, level
    together = folder / "small.cpp"
    # A block and the design around it have a header for precompilation each, which refuse each other.
    together.write_text("".join(f'#undef VL_PCH_INCLUDED\n#include "{source}"\n' for source in (*small, *further)),
                        encoding="utf-8")
    yield together, fast


def _size(source: Path) -> int:
    return source.stat().st_size


def _runtime(sources: Sequence[str], options: Sequence[str], *, status: Status) -> list[Path]:
    """Objects of Verilator's own library, compiled once for all designs."""
    options = [*options, _RUNTIME]
    key = digest(sources, options, find_verilator().version, find_compiler().version)
    folder = build_root() / "sim" / f"verilator-{key}"
    stamp = folder / "complete"
    objects = [folder / f"{Path(source).stem}.o" for source in sources]
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not stamp.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            jobs = [(Path(source), options, made) for source, made in zip(sources, objects, strict=True)]
            _compile(jobs, log=folder / "compile.log", status=status)
            stamp.touch()
    return objects


def _compile(jobs: Sequence[tuple[Path, Sequence[str], Path]], *, log: Path, status: Status) -> None:
    """Run ``(source, options, object)`` on all cores; the first failure stops the rest."""
    compiler = find_compiler().command
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        running = [pool.submit(execute, [*compiler, *options, "-c", str(source), "-o", str(made)],
                               folder=made.parent, log=log.with_name(f"{made.stem}.log"))
                   for source, options, made in jobs]
        try:
            status("compile", 0, len(jobs))
            for done, future in enumerate(as_completed(running), 1):
                future.result()
                status("compile", done, len(jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def execute(command: Iterable[str | Path], *, folder: Path, log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a tool of the build with its output in ``log``."""
    command = [str(word) for word in command]
    with open(log, "w", encoding="utf-8") as stream:
        done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=stream,
                              stderr=subprocess.STDOUT, check=False)
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    if done.returncode != 0:
        lines = [line for line in text.splitlines() if "rror" in line] or text.splitlines()[-5:]
        shown = "".join(f"\n    {line}" for line in lines[:10])
        killed = " It may have run out of memory." if done.returncode < 0 or "Killed" in text else ""
        raise BuildFailed(f"{Path(command[0]).name} failed with status {done.returncode}.{killed}{shown}"
                          f"\n  log {log}")
    if not text:
        log.unlink()


@cache
def waves_format() -> str:
    """FST where its writer can be compiled here; it needs the headers of zlib and lz4."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text("#include <lz4.h>\n#include <zlib.h>\nint main() { return !zlibVersion(); }\n")
        command = [*find_compiler().command, str(source), "-o", str(source.with_suffix("")), "-lz", "-llz4"]
        probe = subprocess.run(command, capture_output=True, check=False)
    return "fst" if probe.returncode == 0 else "vcd"
