# SPDX-License-Identifier: Apache-2.0
"""The life of each segment, put together from the engine's events."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["STAGES", "STALLS", "Event", "Lifecycles", "Segment", "Span"]

STAGES = (
    ("check, reserve", "scheduled", "read"),
    ("read", "read", "arrived"),
    ("wait", "arrived", "write"),
    ("write", "write", "done"),
    ("retire", "done", "retired"),
)
"""Stages of a segment, each between two of its events."""

STALLS = ("read_stall", "write_stall")


class Event(NamedTuple):
    """Something that happened; ``fields`` by name."""

    cycle: int
    kind: str
    fields: dict[str, int]


@dataclass
class Segment:
    """Recorded events of a segment; ``at`` is kind of event -> cycle."""

    number: int
    queue: int
    index: int
    at: dict[str, int] = field(default_factory=dict)
    tag: int | None = None
    bytes: int = 0
    status: int = 0


@dataclass
class Span:
    """A time between two events; ``end`` is None before the second event."""

    what: int
    begin: int
    end: int | None = None


class Lifecycles:
    """Events put together.

    Parameters
    ----------
    events : sequence of :class:`Event`
        In the order of time, from the engine's reset on.
    queue_bits : int
        Bits of a queue's number.

    Attributes
    ----------
    segments : list of :class:`Segment`
    requests : list of :class:`Span`
        Of the queue ``what``, from the doorbell to its being counted.
    words : list of :class:`Span`
        Completion words of the writer ``what``, from their way to W to their response.
    marks : list of :class:`Event`
        ``dropped`` and ``failed``.
    stalls : dict
        ``"read_stall"`` and ``"write_stall"`` -> list of ``[first cycle, last cycle]``.
    levels : list of (int, int, int)
        Cycle, segments in flight, slots of the buffer reserved; where either changed.
    """

    def __init__(self, events: Sequence[Event], queue_bits: int) -> None:
        self.queue_bits = queue_bits
        self.segments: list[Segment] = []
        self.requests: list[Span] = []
        self.words: list[Span] = []
        self.marks: list[Event] = []
        self.levels: list[tuple[int, int, int]] = []
        self.stalls: dict[str, list[list[int]]] = {kind: [] for kind in STALLS}
        self.last = events[-1].cycle if events else 0
        self._placed: dict[tuple[int, int], Segment] = {}
        self._tagged: dict[int, Segment] = {}
        self._open_requests: defaultdict[int, deque[Span]] = defaultdict(deque)
        self._open_words: defaultdict[int, deque[Span]] = defaultdict(deque)
        self._flying = self._slots = 0
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        cycle, kind, fields = event
        if kind == "posted":
            self._open(self.requests, self._open_requests, fields["queue"], cycle)
        elif kind == "ended":
            self._close(self._open_requests, fields["queue"], cycle)
        elif kind == "word":
            self._open(self.words, self._open_words, fields["writer"], cycle)
        elif kind == "written":
            self._close(self._open_words, fields["writer"], cycle)
        elif kind in self.stalls:
            spans = self.stalls[kind]
            if spans and spans[-1][1] == cycle - 1:
                spans[-1][1] = cycle
            else:
                spans.append([cycle, cycle])
        elif kind in ("dropped", "failed"):
            self.marks.append(event)
        elif kind == "freed":
            self._level(cycle, slots=-1)
        else:
            self._take_segment(cycle, kind, fields)

    def _take_segment(self, cycle: int, kind: str, fields: dict[str, int]) -> None:
        if kind == "scheduled":
            segment = Segment(len(self.segments), fields["queue"], fields["index"])
            self.segments.append(segment)
            self._placed[segment.queue, segment.index] = segment
        elif "queue" in fields:
            segment = self._placed[fields["queue"], fields["index"]]
        else:
            segment = self._tagged[fields["tag"]]
        segment.at[kind] = cycle
        segment.status = fields.get("status", segment.status)
        if kind == "read":
            segment.tag, segment.bytes = fields["tag"], fields["size"] + 1
            self._tagged[segment.tag] = segment
            self._level(cycle, flying=1, slots=fields["beats"])
        elif kind == "done":
            del self._tagged[fields["tag"]]
            self._level(cycle, flying=-1)

    def _open(self, spans: list[Span], open_: dict[int, deque[Span]], what: int, cycle: int) -> None:
        spans.append(Span(what, cycle))
        open_[what].append(spans[-1])

    def _close(self, open_: dict[int, deque[Span]], what: int, cycle: int) -> None:
        if open_[what]:
            open_[what].popleft().end = cycle

    def _level(self, cycle: int, *, flying: int = 0, slots: int = 0) -> None:
        self._flying, self._slots = self._flying + flying, self._slots + slots
        if self.levels and self.levels[-1][0] == cycle:
            self.levels.pop()
        self.levels.append((cycle, self._flying, self._slots))

    def stages(self, segment: Segment) -> Iterator[tuple[str, int, int]]:
        """``(stage, begin, end)`` of a segment, as far as it got; a rejected one goes from check to retire."""
        for stage, begin, end in STAGES:
            if "rejected" in segment.at:
                begin, end = (("rejected" if name in ("read", "done") else name) for name in (begin, end))
            if begin in segment.at and end in segment.at:
                yield stage, segment.at[begin], segment.at[end]
