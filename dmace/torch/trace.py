# SPDX-License-Identifier: Apache-2.0
"""Collectives as tracks of a trace, alone or beside those of ``torch.profiler``, for Perfetto and Chrome."""

import json
import os
from pathlib import Path
from typing import Any

from dmace.runtime.errors import DmaceError

from .stats import Record, stats

__all__ = ["write_trace"]

_TRACKS = (1_000_001, "dmace: from post to completion"), (1_000_002, "dmace: on the accelerators")
"""Numbers, among those of threads, and names."""


def write_trace(path: str | Path, *, beside: str | Path | None = None, clock_mhz: float = 250,
                process: int | None = None, label: str = "") -> int:
    """Write the collectives of :func:`~.stats.stats` as JSON in Chrome's format.

    They are two tracks of this process: one with the times of this machine, from the post of a collective until it has
    completed, and one on which a collective that begins at the same time lasts as long as it would on accelerators.

    Parameters
    ----------
    path : path
    beside : path, optional
        A trace that ``torch.profiler`` or this function has written, whose tracks are written, too. It may be ``path``.
    clock_mhz : float
        Clock frequency of the accelerators.
    process : int, optional
        Number of the process in the trace; by default this one's, as in the profiler's traces.
    label : str
        Name of the process in the trace, such as ``rank 3``.

    Returns
    -------
    int
        Number of collectives.

    Raises
    ------
    DmaceError
        If ``beside`` cannot be read or is no such trace, or the clock's frequency is not positive.
    """
    if not clock_mhz > 0:
        raise DmaceError(f"The clock frequency of a trace must be positive, not {clock_mhz} MHz.")
    whole: dict[str, Any] = {"traceEvents": [], "baseTimeNanoseconds": 0} if beside is None else _read(beside)
    base = int(whole.get("baseTimeNanoseconds", 0))
    number = os.getpid() if process is None else process
    records = stats().records
    events: list[dict[str, Any]] = [_metadata("process_name", number, 0, label)] if label else []
    events += [_metadata("thread_name", number, track, name) for track, name in _TRACKS]
    for one in records:
        for (track, _), seconds in zip(_TRACKS, (one.seconds, one.result.cycles / (clock_mhz * 1e6)), strict=True):
            events.append({"ph": "X", "cat": "dmace", "name": one.collective, "pid": number, "tid": track,
                           "ts": (one.begun - base) / 1000, "dur": seconds * 1e6, "args": _details(one)})
    whole["traceEvents"] += events
    Path(path).write_text(json.dumps(whole), encoding="utf-8")
    return len(records)


def _read(path: str | Path) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DmaceError(f"{path} cannot be read as a trace: {error}.") from None
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise DmaceError(f"{path} is no trace: it has no list traceEvents.")
    return found


def _metadata(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _details(one: Record) -> dict[str, Any]:
    result = one.result
    return {"type": one.dtype, "ranks": one.ranks, "bytes sent": one.bytes, "cycles": result.cycles,
            "memory read": result.read_bytes, "memory written": result.written_bytes,
            "link payload": result.payload_bytes, "link headers": result.header_bytes,
            "lost packets": result.lost_packets}
