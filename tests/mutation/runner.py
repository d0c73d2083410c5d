# SPDX-License-Identifier: Apache-2.0
"""The fast set against mutants, each in a process of its own with limits of processor time and memory."""

import hashlib
import json
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sim.verilator.store import digest
from sim.verilator.toolchain import build_root
from tests.mutation import ace_errors, ace_runs, fast_set
from tests.mutation.designs import Ready
from tests.mutation.fast_set import Test
from tests.mutation.schemata import SELECTION

__all__ = ["BrokenSet", "Original", "Verdict", "run_mutant"]

ROOT = Path(__file__).resolve().parents[2]

ORIGINAL = 0

SLOWEST = 4
"""Processor time of a mutant's run, as a multiple of the original's, after which it counts as a hang."""

LEAST_LIMIT = 8
MEMORY = 6 << 30


class BrokenSet(Exception):
    """The fast set fails on the original, or a run could not be made."""


@dataclass(frozen=True)
class Verdict:
    """Result of a mutant: the run that failed and why, or two empty strings if none did."""

    number: int
    test: str
    reason: str
    seconds: float

    @property
    def killed(self) -> bool:
        return bool(self.test)


class Original:
    """Measurements and processor seconds of the original in each run, made when they are first needed, and kept for
    equal simulators and runs.

    Parameters
    ----------
    ready : :class:`Ready`
    status : callable
        Receives a line for each run that is made.
    """

    def __init__(self, ready: Ready, *, status: Callable[[str], object] = print) -> None:
        self._ready, self._status = ready, status
        self._path = build_root() / "mutants" / f"original-{ready.engine}-{_digest(ready)}.json"
        self._found: dict[str, tuple[float, float]] = \
            json.loads(self._path.read_text(encoding="utf-8")) if self._path.is_file() else {}

    def measure(self, test: Test) -> tuple[float, float]:
        """``(measurement, seconds)`` of a run. Raises :class:`BrokenSet` if it fails."""
        if test.name not in self._found:
            result = _in_child(self._ready, ORIGINAL, test, None, limit=600)
            if "value" not in result:
                raise BrokenSet(f"The run {test.name!r} fails on the original: {result['reason']}")
            self._status(f"{test.name}: {result['seconds']} s on the original")
            self._found[test.name] = result["value"], result["seconds"]
            self._path.write_text(json.dumps(self._found, indent=1), encoding="utf-8")
        return self._found[test.name]


def _digest(ready: Ready) -> str:
    """Short name of the simulators and of all sources that the runs may use."""
    sources = [path for folder in ("sim", "hw", "dmace", "tests/dma_engine") for path in (ROOT / folder).rglob("*.py")]
    texts = [Path(module.__file__).read_text(encoding="utf-8") for module in (fast_set, ace_runs, ace_errors)]
    return digest(ready.key, texts, [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(sources)])


def run_mutant(ready: Ready, number: int, tests: Sequence[Test], original: Original) -> Verdict:
    """Run the fast set with a mutant until something fails."""
    total = 0.0
    for test in tests:
        value, seconds = original.measure(test)
        result = _in_child(ready, number, test, value, limit=max(LEAST_LIMIT, int(SLOWEST * seconds) + 1))
        total += result["seconds"]
        if "value" not in result:
            return Verdict(number, test.name, result["reason"], total)
    return Verdict(number, "", "", total)


def _in_child(ready: Ready, number: int, test: Test, value: float | None, *, limit: int) -> dict:
    """``{"value", "seconds"}`` of a run, or ``{"reason", "seconds"}`` if it failed, was stopped or crashed."""
    listen, notify = os.pipe()
    before = _children_seconds()
    child = os.fork()
    if child == 0:
        os.close(listen)
        _run_and_exit(ready, number, test, value, notify, limit)
    os.close(notify)
    with open(listen, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    seconds = round(_children_seconds() - before, 2)
    if data:
        return {**json.loads(data), "seconds": seconds}
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        reason = f"no end within {limit} s of processor time" if name in ("SIGXCPU", "SIGKILL") else f"ended by {name}"
        return {"reason": reason, "seconds": seconds}
    return {"reason": f"ended with status {os.WEXITSTATUS(status)} without a result", "seconds": seconds}


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_and_exit(ready: Ready, number: int, test: Test, value: float | None, notify: int, limit: int) -> None:
    """The child: never returns."""
    try:
        os.environ[SELECTION] = str(number)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(silence, stream)
        # Limits of this process, and of the simulator that it starts.
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        if number != ORIGINAL:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        began = time.monotonic()
        try:
            result: dict = {"value": test.call(ready, value)}
        except BaseException as error:
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
            result = {"reason": text[:300]}
            if os.environ.get("DMACE_TRACE"):
                result["trace"] = traceback.format_exc()
        result["wall"] = round(time.monotonic() - began, 1)
        with suppress(BrokenPipeError), open(notify, "wb") as stream:
            stream.write(json.dumps(result).encode())
    finally:
        os._exit(0)
