# SPDX-License-Identifier: Apache-2.0
"""The C++ bench of the trigger unit, built once for each configuration and called through ctypes."""

import ctypes
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hw.triggers.config import TriggerConfig
from sim.triggers.probed import ProbedTriggers
from sim.verilator.build import Status
from sim.verilator.design import Design
from sim.verilator.program import Program, build_program

__all__ = ["Event", "Rates", "Row", "Stimulus", "TriggerBench", "build_bench"]

Row = tuple[int, int, int, int]
"""Kind, detail, and 128 bits of data, low half first; the details are described in ``bench.cpp``."""


class Stimulus(IntEnum):
    """Kinds of items that are fed."""

    ADDRESS = 0
    BEAT = 1
    TICK = 2
    PAGES = 3
    RESET = 4
    SELECT = 5


class Event(IntEnum):
    """Kinds of events, which are recorded in the order in which they take effect on the table."""

    VERDICT = 0
    LEFT = 1
    BUSY = 2
    PAGES = 3
    SELECTED = 4
    POSTED = 5
    RESPONSE = 6
    PORT = 7
    REFUSAL = 8
    ROW = 9
    OVERFLOW = 10


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Probability of a transfer per cycle of each channel; ``refuse`` of a posted word, ``drain`` of each queue.

    ``delay``: cycles, 0 to 2, until a posted word changes ``free``.
    """

    address: float = 1.0
    beat: float = 1.0
    response: float = 1.0
    local: float = 1.0
    remote: float = 1.0
    post: float = 1.0
    refuse: float = 0.0
    drain: float = 1.0
    delay: int = 0


class _Rates(ctypes.Structure):
    _fields_ = [(one.name, ctypes.c_uint32 if one.name == "delay" else ctypes.c_double) for one in fields(Rates)]


_Handle, _Number = ctypes.c_void_p, ctypes.c_uint64
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "create": (_Handle, _Number, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32), "destroy": (None, _Handle),
    "rates": (None, _Handle, ctypes.POINTER(_Rates)), "feed": (None, _Handle, ctypes.c_void_p, _Number),
    "run": (_Number, _Handle, _Number, _Number),
    "events": (_Number, _Handle, ctypes.POINTER(ctypes.c_void_p)), "ticked": (_Number, _Handle),
    "fired": (_Number, _Handle),
}


class TriggerBench:
    """A simulated trigger unit, after ``rst``.

    Parameters
    ----------
    program : Program
        From :func:`build_bench`.
    config : TriggerConfig
    seed : int
    capacity : int
        Entries of each engine's queue, at least 4.
    """

    def __init__(self, program: Program, config: TriggerConfig, *, seed: int, capacity: int = 8) -> None:
        loaded = ctypes.CDLL(str(program.path))
        self._call: dict[str, Any] = {}
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = self._call[name] = loaded[f"bench_{name}"]
            function.restype, function.argtypes = result, arguments
        self._handle = self._call["create"](seed, config.dma_pages, config.read_latency, capacity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._call["destroy"](self._handle)

    @property
    def ticked(self) -> int:
        """Strobes of accepted ticks."""
        count: int = self._call["ticked"](self._handle)
        return count

    @property
    def fired(self) -> int:
        """Strobes of posted firings."""
        count: int = self._call["fired"](self._handle)
        return count

    def set_rates(self, rates: Rates) -> None:
        self._call["rates"](self._handle, _Rates(*(getattr(rates, one.name) for one in fields(Rates))))

    def feed(self, rows: Iterable[Row]) -> None:
        """Append items of stimulus; those of one channel are offered in order."""
        flat = array("Q")
        for row in rows:
            flat.extend(row)
        self._call["feed"](self._handle, flat.buffer_info()[0], len(flat) // 4)

    def run(self, cycles: int, least: int) -> int:
        """Run while ``least`` addresses, beats and ticks remain, for ``cycles`` at most; returns the cycles."""
        count: int = self._call["run"](self._handle, cycles, least)
        return count

    def events(self) -> Iterator[Row]:
        """Events of the last run."""
        rows = ctypes.c_void_p()
        count = self._call["events"](self._handle, ctypes.byref(rows))
        flat = array("Q")
        if count:
            flat.frombytes(ctypes.string_at(rows.value or 0, 32 * count))
        numbers = iter(flat)
        return zip(numbers, numbers, numbers, numbers, strict=True)


def build_bench(config: TriggerConfig, *, status: Status | None = None) -> Program:
    """Build the bench of ``TriggerUnit(config)`` unless that was done before."""
    here = Path(__file__).parent
    return build_program(Design(ProbedTriggers, config), name="trigger_bench", main=here / "bench.cpp",
                         sources=(here.parent / "cpp" / "memory.h",), includes=(here.parent / "cpp",), shared=True,
                         status=status)
