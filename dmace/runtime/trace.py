# SPDX-License-Identifier: Apache-2.0
"""Requests over time, as the host sees them, in the trace event format that Chrome and Perfetto show."""

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .queue import Queue

__all__ = ["Trace", "TracedRequest"]


class TracedRequest(NamedTuple):
    """One request; times are nanoseconds of the monotonic clock, ``completed`` when the host has seen it, or None."""

    queue: int
    number: int
    length: int
    posted: int
    completed: int | None


class Trace:
    """Records requests; any thread may post."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._lock = threading.Lock()
        self._posted: dict[tuple[int, int], tuple[int, int]] = {}
        self._completed: dict[tuple[int, int], int] = {}

    def posted(self, queue: "Queue", number: int, length: int, now: int) -> None:
        with self._lock:
            self._posted[queue.number, number] = length, now

    def completed(self, queue: "Queue", number: int, now: int) -> None:
        with self._lock:
            self._completed.setdefault((queue.number, number), now)

    def requests(self) -> list[TracedRequest]:
        """Those posted while the trace was on, in order."""
        with self._lock:
            return [TracedRequest(queue, number, length, posted, self._completed.get((queue, number)))
                    for (queue, number), (length, posted) in self._posted.items()]

    def write(self, path: Path) -> None:
        """Write JSON that chrome://tracing and Perfetto open: a row per queue."""
        events: list[dict[str, object]] = [
            {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": self.device}}]
        for one in self.requests():
            row = {"pid": 1, "tid": one.queue, "cat": "request", "id": f"{one.queue}.{one.number}",
                   "name": f"{one.length:,} bytes"}
            events.append(row | {"ph": "b", "ts": one.posted / 1000,
                                 "args": {"number": one.number, "bytes": one.length}})
            if one.completed is not None:
                events.append(row | {"ph": "e", "ts": one.completed / 1000})
        path.write_text(json.dumps({"traceEvents": events}, indent=1), encoding="utf-8")
