# SPDX-License-Identifier: Apache-2.0
"""A trace of the engine: its event ports recorded, and written to a file for Perfetto.

::

    recorder = Recorder(bench)
    ...
    recorder.write("trace.json")        # for https://ui.perfetto.dev or chrome://tracing

A cycle is a microsecond in the file.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cocotb
from cocotb.triggers import RisingEdge

from hw.dma_engine.instruments.events import EVENTS
from hw.dma_engine.words import Status
from sim.dma.lifecycles import STALLS, Event, Lifecycles, Span

if TYPE_CHECKING:
    from sim.dma.testbench import DmaTestbench

__all__ = ["Recorder", "chrome"]

Trace = dict[str, Any]
"""A trace event of Chrome."""


class Recorder:
    """Sample the event ports in every cycle.

    Parameters
    ----------
    bench : :class:`sim.dma.testbench.DmaTestbench`
        Whose engine to watch.

    Attributes
    ----------
    events : list of :class:`Event`
    """

    def __init__(self, bench: "DmaTestbench") -> None:
        self.bench = bench
        self.events: list[Event] = []
        self._task = cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        dut, edge = self.bench.dut, RisingEdge(self.bench.dut.clk)
        ports = [(kind, getattr(dut, f"events__{kind}__valid"),
                  [(name, getattr(dut, f"events__{kind}__{name}")) for name in fields])
                 for kind, fields in EVENTS.items()]
        while True:
            await edge
            for kind, valid, fields in ports:
                if int(valid.value):
                    self.events.append(Event(self.bench.cycle, kind,
                                             {name: int(port.value) for name, port in fields}))

    def write(self, path: str | Path) -> None:
        """Write what happened so far as Chrome's trace events, in JSON."""
        made = chrome(Lifecycles(self.events, self.bench.config.queue_bits))
        Path(path).write_text(json.dumps(made) + "\n", encoding="utf-8")


ENGINE, QUEUES = 1, 2
"""Processes of the trace: the engine's stages, and its queues."""


def chrome(lifecycles: Lifecycles) -> dict[str, Any]:
    """Trace events of Chrome: an object for JSON."""
    made = [_name(ENGINE, "stages"), _name(QUEUES, "queues")]
    queues = {segment.queue for segment in lifecycles.segments} | {span.what for span in lifecycles.requests}
    made += [_name(QUEUES, f"queue {queue}", thread=queue + 1) for queue in sorted(queues)]
    made += [_name(ENGINE, kind.replace("_", " "), thread=number + 1) for number, kind in enumerate(STALLS)]
    timed = []
    for segment in lifecycles.segments:
        arguments = {"queue": segment.queue, "index": segment.index, "tag": segment.tag, "bytes": segment.bytes,
                     "status": _status(segment.status)}
        for stage, begin, end in lifecycles.stages(segment):
            timed += _slice(ENGINE, stage, f"segment {segment.number}", begin, end, arguments)
        end = segment.at.get("retired", lifecycles.last)
        timed += _slice(QUEUES, f"queue {segment.queue} segments", f"segment {segment.number}",
                        segment.at["scheduled"], end, arguments)
    for number, span in enumerate(lifecycles.requests):
        timed += _slice(QUEUES, f"queue {span.what} requests", f"request {number}", span.begin, _end(span, lifecycles),
                        {"ended": span.end is not None})
    for number, span in enumerate(lifecycles.words):
        timed += _slice(ENGINE, "completion words", f"word {number}", span.begin, _end(span, lifecycles),
                        _writer(span.what, lifecycles.queue_bits))
    for event in lifecycles.marks:
        name = _status(event.fields["status"]) if "status" in event.fields else "dropped"
        timed.append({"ph": "i", "s": "t", "pid": QUEUES, "tid": event.fields["queue"] + 1, "ts": event.cycle,
                      "name": name, "cat": event.kind})
    for number, kind in enumerate(STALLS):
        timed += [{"ph": "X", "pid": ENGINE, "tid": number + 1, "ts": begin, "dur": end + 1 - begin, "cat": "stall",
                   "name": kind.replace("_", " ")} for begin, end in lifecycles.stalls[kind]]
    for cycle, flying, slots in lifecycles.levels:
        timed += [_counter("segments in flight", cycle, flying), _counter("buffer beats reserved", cycle, slots)]
    return {"traceEvents": made + sorted(timed, key=lambda event: event["ts"]), "displayTimeUnit": "ms",
            "otherData": {"unit": "1 us is a clock cycle"}}


def _writer(number: int, queue_bits: int) -> dict[str, Any]:
    """Arguments for a completion word, from the lower part of its AXI ID."""
    kind = "notice" if number >> (queue_bits + 1) else ("SC", "RC")[number & 1]
    return {"queue": number >> 1 & ((1 << queue_bits) - 1), "kind": kind}


def _end(span: Span, lifecycles: Lifecycles) -> int:
    return lifecycles.last if span.end is None else span.end


def _status(number: int) -> str:
    return Status(number).name


def _name(process: int, name: str, *, thread: int | None = None) -> Trace:
    kind = "process_name" if thread is None else "thread_name"
    return {"ph": "M", "pid": process, "tid": thread or 0, "name": kind, "args": {"name": name}}


def _slice(process: int, track: str, number: str, begin: int, end: int, arguments: dict[str, Any]) -> list[Trace]:
    """Segments overlap, so their slices are asynchronous: a viewer puts those of one name beside each other."""
    common = {"pid": process, "tid": 0, "cat": track, "name": track, "id": number}
    return [common | {"ph": "b", "ts": begin, "args": arguments}, common | {"ph": "e", "ts": end}]


def _counter(name: str, cycle: int, value: int) -> Trace:
    return {"ph": "C", "pid": ENGINE, "tid": 0, "ts": cycle, "name": name, "args": {"value": value}}
