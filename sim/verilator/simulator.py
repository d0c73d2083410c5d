# SPDX-License-Identifier: Apache-2.0
"""A built simulator, and what a run of cocotb tests on it gives.

The simulator is a process of its own: its output goes to a log, its progress to a callback, its failures
become one exception that says in a sentence what went wrong.
"""

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import find_libpython
from cocotb_tools import config as cocotb_config

from hw.errors import UserError
from sim.verilator.toolchain import ToolMissing

__all__ = ["Build", "Result", "SimulationFailed", "TestResult"]

_KEPT_RUNS = 8

Progress = Callable[[dict[str, Any]], None]
"""Receives each dict that a test passes to :func:`sim.progress.report`."""


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

    def __init__(self, reason: str, *, lines: Iterable[str] = (), log: Path, seed: int,
                 result: "Result | None" = None) -> None:
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
    """Result of a run."""

    tests: tuple[TestResult, ...]
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
    def binary(self) -> Path:
        """The simulator; it needs cocotb's environment, see :meth:`run`."""
        return self.folder / "simulator"

    def run(self, module: str, *, testcase: str | Sequence[str] | None = None, env: Mapping[str, object] | None = None,
            seed: int | None = None, log: str | Path | None = None, results: str | Path | None = None,
            waves: str | Path | None = None, progress: Progress | None = None, verbose: bool = False,
            timeout: float | None = None) -> Result:
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
            Where to write the log, the JUnit results and the trace. Without them they go to a folder of this
            run below the build; the last few are kept.
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
        _remove_old(runs)
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
        seconds = time.monotonic() - started
        result = Result(tests=_tests(results), seed=seed, seconds=seconds, log=log, waves=trace)
        self._judge(result, ended, module=module, testcase=testcase, timeout=timeout)
        if not any(scratch.iterdir()):
            scratch.rmdir()
        return result

    def _judge(self, result: Result, ended: int | None, *, module: str, testcase: str | Sequence[str] | None,
               timeout: float | None) -> None:
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
            message = failed[0].message.partition("\n")[0]
            reason = f"Test {failed[0].name} failed on {self.name}{others}: {message}"
        elif not result.tests and (broken := _exception(text)):
            reason = f"{module} could not be run on {self.name}: {broken}"
        elif ended != 0:
            reason = f"The simulator of {self.name} ended with status {ended} in the middle of {module}."
        elif not result.tests:
            wanted = f" named {testcase!r}" if testcase else ""
            reason = f"{module} has no cocotb test{wanted}."
        else:
            return
        raise SimulationFailed(reason, lines=_relevant(text), log=result.log, seed=result.seed, result=result)


def _cocotb_env(top: str, module: str, testcase: str | Sequence[str] | None, seed: int, results: Path,
                extra: Mapping[str, object]) -> dict[str, str]:
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
def _libpython() -> str:
    path = find_libpython.find_libpython()
    if path is None:
        raise ToolMissing("This Python has no shared library, which the simulator must load; use your "
                          "system's Python, or build yours with --enable-shared.")
    return path


def _simulate(command: Sequence[str], *, env: Mapping[str, str], folder: Path, log: Path, progress: Progress | None,
              verbose: bool, timeout: float | None) -> int | None:
    """Run the simulator and return its exit status, or None where its time was up."""
    deadline = None if timeout is None else time.monotonic() + timeout
    listen, notify = os.pipe()
    with (open(log, "wb") as stream, open(listen, "rb", buffering=0) as reports,
          selectors.DefaultSelector() as selector):
        try:
            child = subprocess.Popen(command, cwd=folder, env={**env, "DMACE_PROGRESS_FD": str(notify)},
                                     pass_fds=(notify,), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT)
        finally:
            os.close(notify)
        assert child.stdout is not None
        try:
            selector.register(child.stdout, selectors.EVENT_READ, "log")
            selector.register(reports, selectors.EVENT_READ, "progress")
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
                        if progress:
                            for line in lines:
                                progress(json.loads(line))
            return child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()


def _tests(results: Path) -> tuple[TestResult, ...]:
    """Outcome of each test in a JUnit file of cocotb; empty where the simulator died before writing it."""
    try:
        root = ElementTree.parse(results).getroot()
    except (OSError, ElementTree.ParseError):
        return ()
    tests = []
    for case in root.iter("testcase"):
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        properties = {item.get("name"): item.get("value") for item in case.iter("property")}
        tests.append(TestResult(
            name=case.get("name", ""),
            passed=bad is None,
            skipped=case.find("skipped") is not None,
            sim_ns=float(properties.get("sim_time_duration") or 0),
            seconds=float(case.get("time") or 0),
            message="" if bad is None else (bad.get("message") or bad.text or bad.tag).strip(),
        ))
    return tuple(tests)


def _assertion(text: Sequence[str]) -> str | None:
    """Place and message of the first assertion that Verilator reported in the lines of a log."""
    reported = re.compile(r"(?P<message>.*?)\[(?P<time>\d+)\] %Error: (?P<place>[^:]+:\d+): "
                          r"Assertion failed in (?P<scope>[^:]+)")
    for line in text:
        if found := reported.match(line):
            message = found["message"].strip() or "an assertion without a message"
            return f"{message} (in {found['scope']}, {found['place']}, at {int(found['time']) / 1000:g} ns)"
    return None


def _exception(text: Sequence[str]) -> str | None:
    """Last line of the last Python traceback in the lines of a log."""
    begins = [number for number, line in enumerate(text) if "Traceback (most recent call last)" in line]
    after = text[begins[-1] + 1:] if begins else ()
    # Lines of the traceback are indented, the exception is not.
    return next((line.strip() for line in after if re.match(r"\w[\w.]*(:|$)", line)), None)


def _relevant(text: Sequence[str]) -> list[str]:
    """The end of a log, without cocotb's greeting and its table of results."""
    noise = re.compile(r"\*{10}|\*\* | gpi  +| pygpi  +| cocotb.initialize +|Verilog \$finish")
    lines = [line.rstrip() for line in text if line.strip() and not noise.search(line)]
    # cocotb puts 50 columns before each message; keep time and level.
    lines = [re.sub(r"^ *([\d.]+ns) (\w+) +[\w.]+ +", r"\1 \2  ", line) for line in lines]
    return [re.sub(r"^ {56}", "  ", line) for line in lines[-12:]]


def _remove_old(runs: Path) -> None:
    """Keep the newest runs and those that may be in progress; the folders are named after their start."""
    for path in sorted(runs.iterdir())[:-_KEPT_RUNS]:
        if time.time() - int(path.name.partition("-")[0]) > 3600:
            shutil.rmtree(path, ignore_errors=True)
