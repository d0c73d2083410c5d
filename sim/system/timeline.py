# SPDX-License-Identifier: Apache-2.0
"""Runs as a trace for https://ui.perfetto.dev or chrome://tracing: a process for each endpoint.

The processor is a thread; collectives and messages are asynchronous slices, so that those in flight together lie below
each other. Ranks that differ have a processor and a name each.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .graph import Kind
from .training import Run

__all__ = ["chrome", "write"]

PROCESSOR, WAITING = 1, 2


def chrome(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Trace events of Chrome for runs by name, an object for JSON. Times are in microseconds."""
    events = []
    for number, (name, run) in enumerate(runs.items(), 1):
        events.append(_name("process_name", number, 0, name))
        for rank in run.graph.ranks or [None]:
            of = "" if rank is None else f"rank {rank}: "
            events += [_name("thread_name", number, PROCESSOR + _first(rank), f"{of}compute"),
                       _name("thread_name", number, WAITING + _first(rank), f"{of}waiting for")]
        timed: list[dict[str, Any]] = []
        for span in run.spans:
            node, begin, end = span.node, span.begin * 1e6, span.end * 1e6
            label = f"{node.layer} {node.part}".strip()
            thread = _first(node.rank)
            if node.kind == Kind.COMPUTE:
                timed.append({"ph": "X", "pid": number, "tid": PROCESSOR + thread, "name": label, "ts": begin,
                              "dur": end - begin,
                              "args": {"step": node.step, "memory_bytes": node.work.memory_bytes}})
                if span.culprit is not None:
                    culprit = run.spans[span.culprit].node
                    waited = span.waited * 1e6
                    timed.append({"ph": "X", "pid": number, "tid": WAITING + thread, "ts": begin - waited,
                                  "dur": waited, "name": f"{culprit.layer} {culprit.part}".strip(), "args": {}})
            elif node.exchange is not None or node.transfer is not None:
                name_of = "send" if node.exchange is None else node.exchange.collective.name.lower()
                of = "" if node.rank is None else f"rank {node.rank}: "
                common = {"pid": number, "tid": 0, "cat": "send" if node.exchange is None else "collective",
                          "id": node.number, "name": f"{of}{label}: {name_of}"}
                arguments = {"step": node.step} | (
                    {"bytes": node.exchange.bytes, "group": node.exchange.group, "ranks": list(node.exchange.ranks)}
                    if node.exchange is not None else vars(node.transfer))
                timed += [common | {"ph": "b", "ts": begin, "args": arguments}, common | {"ph": "e", "ts": end}]
        events += sorted(timed, key=lambda event: event["ts"])
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _first(rank: int | None) -> int:
    """Number of the first of a rank's threads, less one."""
    return 2 * (rank or 0)


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def write(path: str | Path, runs: Mapping[str, Run]) -> None:
    """Write the trace of runs by name."""
    Path(path).write_text(json.dumps(chrome(runs)) + "\n", encoding="utf-8")
