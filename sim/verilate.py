"""Build a component once with Verilator, and run cocotb tests on it.

::

    made = build(Queue(16, depth=8), name="queue")
    result = made.run("tests.stream.test_queue", seed=1)

A build is kept under ``build/sim/NAME-HASH``; the hash covers the Verilog, the options and the versions of the tools,
so nothing is ever built twice or used when it is out of date. Processes that want the same build wait for each other,
and a build that was interrupted is done again. Only the ports of the top module are visible to cocotb: Verilator
then removes the rest of the names, which doubles its speed.
"""

import hashlib
import json
import os
import re
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version as package_version
from pathlib import Path
from xml.etree import ElementTree

import find_libpython
from cocotb_tools import config as cocotb_config
from filelock import FileLock

from hw import emit
from hw.errors import UserError
from sim.toolchain import ToolMissing, build_root, find_compiler, find_verilator

__all__ = ["Build", "BuildFailed", "Result", "SimulationFailed", "TestResult", "build"]

_VERILATOR_OPTIONS = ("--cc", "--exe", "--vpi", "--assert", "-O3", "-Wno-fatal", "--no-timing", "--make", "json",
                      "--prefix", "Vtop", "--timescale", "1ns/1ps", "--x-assign", "fast", "--x-initial", "fast",
                      "--output-split", "20000", "--output-split-cfuncs", "2000")
# A bus wider than 256 bits is left out of a trace unless asked for.
_WAVES_OPTIONS = ("--trace-structs", "--trace-max-width", "4096")
_COMPILE_OPTIONS = ("-std=gnu++17", "-w")
_FAST, _SLOW, _RUNTIME = "-O1", "-O0", "-O2"
_KEPT_RUNS = 8


class BuildFailed(UserError):
    """Verilator or the C++ compiler refused a design."""

    status = 1


class SimulationFailed(UserError):
    """A cocotb test failed, an assertion in the hardware did, or the simulator died.

    Attributes
    ----------
    reason : str
        What went wrong, one sentence.
    lines : tuple of str
        The last relevant lines of the log.
    log : :class:`Path`
        The whole log.
    seed : int
        Seed that repeats the run.
    result : :class:`Result` or None
        What was reached before, where the simulator got as far as writing it.
    """

    status = 1

    def __init__(self, reason, *, lines=(), log, seed, result=None):
        self.reason, self.lines, self.log, self.seed, self.result = reason, tuple(lines), log, seed, result
        shown = "".join(f"\n    {line}" for line in self.lines)
        super().__init__(f"{reason}{shown}\n  seed {seed}, log {log}")


@dataclass(frozen=True)
class TestResult:
    """One cocotb test: ``message`` is empty where it passed."""

    __test__ = False

    name: str
    passed: bool
    sim_ns: float
    seconds: float
    message: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class Result:
    """What a run did."""

    tests: tuple
    seed: int
    seconds: float
    log: Path
    waves: Path | None = None


@dataclass(frozen=True)
class Build:
    """A simulator of one design, ready to run."""

    name: str
    folder: Path
    waves: str | None = None
    #: Whether this call found it ready.
    reused: bool = True
    #: Seconds the build took when it was made.
    seconds: float = field(default=0.0, compare=False)

    @property
    def binary(self):
        """The simulator; it needs cocotb's environment, see :meth:`run`."""
        return self.folder / "simulator"

    def run(self, module, *, testcase=None, env=None, seed=None, log=None, results=None, waves=None,
            progress: Callable[[dict], None] | None = None, verbose=False, timeout=None):
        """Run the cocotb tests of ``module`` and return a :class:`Result`.

        Parameters
        ----------
        module : str
            Module with ``@cocotb.test``s, as in ``import``; what this process can import, the simulator can.
        testcase : str or list of str or None
            Names of the tests to run; all of them if None.
        env : dict or None
            Further environment variables for the tests.
        seed : int or None
            Random seed; a fresh one if None. ``random`` in the test starts from it.
        log, results, waves : path or None
            Where to write the log, the JUnit results and the trace. Without them they go to a folder of this run
            below the build, which is removed if nothing failed and no trace is in it.
        progress : callable or None
            Receives each dict that the test passes to :func:`sim.progress.report`.
        verbose : bool
            Copy the log to standard error as it is written.
        timeout : float or None
            Seconds of real time after which the simulator is stopped.

        Raises
        ------
        SimulationFailed
            If a test or an assertion failed, no test was found, or the simulator did not end properly.
        """
        seed = secrets.randbelow(2**31) if seed is None else int(seed)
        runs = self.folder / "runs"
        runs.mkdir(exist_ok=True)
        _forget_old(runs)
        scratch = Path(tempfile.mkdtemp(prefix=f"{int(time.time())}-", dir=runs))
        log = Path(log).resolve() if log else scratch / "sim.log"
        results = Path(results).resolve() if results else scratch / "results.xml"
        for path in (log, results):
            path.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)

        command = [str(self.binary)]
        trace = None
        if self.waves:
            trace = Path(waves).resolve() if waves else scratch / f"{self.name}.{self.waves}"
            trace.parent.mkdir(parents=True, exist_ok=True)
            command += ["--trace", "--trace-file", str(trace)]

        started = time.monotonic()
        ended = _simulate(command, env=_cocotb_env(self.name, module, testcase, seed, results, env or {}),
                          folder=scratch, log=log, progress=progress, verbose=verbose, timeout=timeout)
        result = Result(tests=_tests(results), seed=seed, seconds=time.monotonic() - started, log=log, waves=trace)
        self._judge(result, ended, module=module, testcase=testcase, timeout=timeout)
        if trace is None and log.parent != scratch and results.parent != scratch:
            shutil.rmtree(scratch, ignore_errors=True)
        return result

    def _judge(self, result, ended, *, module, testcase, timeout):
        """Raise :class:`SimulationFailed` unless every test passed and the simulator ended by itself."""
        text = result.log.read_text(encoding="utf-8", errors="replace").splitlines()
        failed = [test for test in result.tests if not test.passed]
        assertion = _assertion(text)
        if ended is None:
            reason = f"The simulation of {self.name} was stopped after {timeout:g} s without an end."
        elif assertion:
            reason = f"Assertion failed in the hardware of {self.name}: {assertion}"
        elif failed:
            others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            reason = f"Test {failed[0].name} failed on {self.name}{others}: {failed[0].message}"
        elif ended != 0:
            reason = f"The simulator of {self.name} ended with status {ended} in the middle of {module}."
            if broken := _exception(text):
                reason = f"{module} could not be run on {self.name}: {broken}"
        elif not result.tests:
            wanted = f" named {testcase!r}" if testcase else ""
            reason = f"{module} has no cocotb test{wanted}."
        else:
            return
        raise SimulationFailed(reason, lines=_relevant(text), log=result.log, seed=result.seed, result=result)


def build(component, *, name, waves=False, status: Callable[[str, int, int], None] | None = None):
    """Build ``component`` unless that was done before, and return a :class:`Build`.

    Parameters
    ----------
    component : :class:`amaranth.lib.wiring.Component`
        The design.
    name : str
        Name of the top module, which cocotb's log shows.
    waves : bool
        Make a simulator that records every signal: FST where zlib and lz4 can be compiled against, else VCD. It is
        slower, and is kept apart from the other.
    status : callable or None
        Receives ``(what, done, total)`` as the build goes on.

    Raises
    ------
    BuildFailed
        If Verilator or the compiler fails.
    ToolMissing
        If there is no Verilator or no compiler.
    """
    text = emit.verilog(component, name=name)
    verilator, compiler = find_verilator(), find_compiler()
    trace = _waves_format() if waves else None
    key = _digest(text, name, verilator.version, str(verilator.root), compiler.version, _VERILATOR_OPTIONS,
                  _WAVES_OPTIONS, _COMPILE_OPTIONS, _FAST, _SLOW, _RUNTIME, trace, package_version("cocotb"),
                  str(cocotb_config.libs_dir))
    folder = build_root() / "sim" / f"{name}-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / "complete.json"
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if stamp.is_file() and (folder / "simulator").is_file():
            seconds = json.loads(stamp.read_text())["seconds"]
            return Build(name, folder, trace, reused=True, seconds=seconds)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        started = time.monotonic()
        _verilate(folder, text, name=name, trace=trace, status=status or (lambda what, done, total: None))
        seconds = time.monotonic() - started
        # The stamp comes last and at once: without it the folder counts as never built.
        new = folder / "complete.json.new"
        new.write_text(json.dumps({"name": name, "seconds": round(seconds, 2)}))
        new.replace(stamp)
    return Build(name, folder, trace, reused=False, seconds=seconds)


# Building

def _verilate(folder, text, *, name, trace, status):
    """Verilog to ``folder/simulator``."""
    verilator = find_verilator()
    (folder / f"{name}.v").write_text(text)
    (folder / "ports.vlt").write_text(f'`verilator_config\npublic_flat_rw -module "{name}" -port "*"\n')
    status("verilate", 0, 1)
    tracing = (f"--trace-{trace}", *_WAVES_OPTIONS) if trace else ()
    # Relative names, so that messages about the design say `queue.v:12`.
    _execute([verilator.path, *_VERILATOR_OPTIONS, *tracing, "--top-module", name, "-Mdir", "cpp",
              "ports.vlt", f"{name}.v"], env=verilator.env(), folder=folder, log=folder / "verilator.log")
    plan = json.loads((folder / "cpp" / "Vtop.json").read_text())
    sources = plan["sources"]

    include = verilator.root / "include"
    options = [*_COMPILE_OPTIONS, f"-I{include}", f"-I{include / 'vltstd'}", "-DVERILATOR=1", "-DVM_COVERAGE=0",
               "-DVM_SC=0", "-DVM_TIMING=0", f"-DVM_TRACE={int(bool(trace))}",
               *(f"-DVM_TRACE_{kind}={int(trace == kind.lower())}" for kind in ("FST", "VCD", "SAIF"))]
    runtime = _runtime(sources["global"], options, status=status)
    main = cocotb_config.share_dir / "lib" / "verilator" / "verilator.cpp"
    objects = []
    for level, group in ((_FAST, "classes_fast"), (_FAST, "support_fast"), (_SLOW, "classes_slow"),
                         (_SLOW, "support_slow")):
        objects += [(Path(source), level) for source in sources[group]]
    objects.append((main, _FAST))
    # The longest first: the last one to end is then short.
    objects.sort(key=lambda item: -item[0].stat().st_size)
    jobs = [(source, [*options, level, "-I", str(folder / "cpp")], folder / f"{source.stem}.o")
            for source, level in objects]
    _compile(jobs, log=folder / "compile.log", status=status)

    status("link", 0, 1)
    libs = cocotb_config.libs_dir
    _execute([*find_compiler().command, "-o", "simulator", *(job[2] for job in jobs), *runtime, f"-L{libs}",
              f"-Wl,-rpath,{libs}", "-lcocotbvpi_verilator", "-pthread",
              *(("-lz", "-llz4") if trace == "fst" else ())], folder=folder, log=folder / "link.log")
    for job in jobs:
        job[2].unlink()
    status("link", 1, 1)


def _runtime(sources, options, *, status):
    """Objects of Verilator's own library, compiled once for all designs."""
    options = [*options, _RUNTIME]
    key = _digest(sources, options, find_verilator().version, find_compiler().version)
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


def _compile(jobs, *, log, status):
    """Run ``(source, options, object)`` on all cores; the first failure stops the rest."""
    compiler = find_compiler().command
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = [pool.submit(_execute, [*compiler, *options, "-c", str(source), "-o", str(made)],
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


def _execute(command, *, folder, log, env=None):
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
def _waves_format():
    """FST where its writer can be compiled here; it needs the headers of zlib and lz4."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text("#include <zlib.h>\n#include <lz4.h>\nint main() { return zlibVersion() == nullptr; }\n")
        probe = subprocess.run([*find_compiler().command, str(source), "-o", str(source.with_suffix("")), "-lz",
                                "-llz4"], capture_output=True, check=False)
    return "fst" if probe.returncode == 0 else "vcd"


def _digest(*parts):
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


# Running

def _cocotb_env(top, module, testcase, seed, results, extra):
    """Environment of the simulator, from which cocotb learns what to run."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("COCOTB_TEST", "COCOTB_RESULTS", "GPI_", "PYGPI_"))}
    env.update({
        "COCOTB_TOPLEVEL": top,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "COCOTB_ANSI_OUTPUT": "0",
        "TOPLEVEL_LANG": "verilog",
        "GPI_USERS": f"{_libpython()};{cocotb_config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path),
        "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), str(cocotb_config.libs_dir))),
    })
    if testcase is not None:
        names = [testcase] if isinstance(testcase, str) else list(testcase)
        # A parametrized test is called `name/parameter=value`.
        env["COCOTB_TEST_FILTER"] = rf"\.({'|'.join(map(re.escape, names))})(/.*)?$"
    env.update({key: str(value) for key, value in extra.items()})
    return env


@cache
def _libpython():
    path = find_libpython.find_libpython()
    if path is None:
        raise ToolMissing("This Python has no shared library, which the simulator must load; use your system's "
                          "Python, or build yours with --enable-shared (pyenv: PYTHON_CONFIGURE_OPTS).")
    return path


def _simulate(command, *, env, folder, log, progress, verbose, timeout):
    """Run the simulator and return its exit status, or None where its time was up."""
    deadline = None if timeout is None else time.monotonic() + timeout
    listen, tell = os.pipe()
    with open(log, "wb") as stream, selectors.DefaultSelector() as selector, open(listen, "rb", buffering=0) as told:
        child = subprocess.Popen(command, cwd=folder, env={**env, "DMACE_PROGRESS_FD": str(tell)}, pass_fds=(tell,),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.close(tell)
        try:
            selector.register(child.stdout, selectors.EVENT_READ, "log")
            selector.register(told, selectors.EVENT_READ, "progress")
            rest = b""
            while selector.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                for key, _ in selector.select(left):
                    data = os.read(key.fd, 65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data == "log":
                        stream.write(data)
                        if verbose:
                            sys.stderr.write(data.decode(errors="replace"))
                            sys.stderr.flush()
                    else:
                        *lines, rest = (rest + data).split(b"\n")
                        for line in lines if progress else ():
                            progress(json.loads(line))
            return child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()


def _tests(results):
    """Outcome of each test in a JUnit file of cocotb; empty where the simulator died before writing it."""
    try:
        root = ElementTree.parse(results).getroot()
    except (OSError, ElementTree.ParseError):
        return ()
    tests = []
    for case in root.iter("testcase"):
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        message = "" if bad is None else (bad.get("message") or bad.text or bad.tag).strip()
        tests.append(TestResult(
            name=case.get("name"), passed=bad is None, skipped=case.find("skipped") is not None,
            sim_ns=float(case.get("sim_time_ns") or 0), seconds=float(case.get("time") or 0), message=message))
    return tuple(tests)


def _assertion(text):
    """Place and message of the first assertion that Verilator reported in the lines of a log."""
    for line in text:
        if found := re.match(r"(?P<message>.*?)\[(?P<time>\d+)\] %Error: (?P<place>[^:]+:\d+): Assertion failed", line):
            message = found["message"].strip() or "no message"
            return f"{message} ({found['place']}, at {int(found['time']) / 1000:g} ns)"
    return None


def _exception(text):
    """Last line of the last Python traceback in the lines of a log."""
    begin = max((number for number, line in enumerate(text) if "Traceback (most recent call last)" in line), default=None)
    if begin is None:
        return None
    return next((line.strip() for line in text[begin + 1:] if re.search(r"\b\w*(Error|Exception)\b", line)), None)


def _relevant(text):
    """The end of a log, without cocotb's table of results."""
    lines = [line.rstrip() for line in text if line.strip() and not re.search(r"(\*{10})|(\*\* )", line)]
    return lines[-12:]


def _forget_old(runs):
    """Keep the newest runs only; one that others are in is younger than a day."""
    old = sorted(runs.iterdir(), key=lambda path: path.name)[:-_KEPT_RUNS]
    for path in old:
        if time.time() - path.stat().st_mtime > 600:
            shutil.rmtree(path, ignore_errors=True)
