# SPDX-License-Identifier: Apache-2.0
"""Traces of all ranks as one :class:`~sim.system.graph.Graph`.

If all ranks do the same, and collectives are of all ranks or of our own groups, a node stands for all. Otherwise each
node names its rank, and this module matches what ranks do together: the n-th COMM_SEND of a pair of ranks and a tag
with the n-th COMM_RECV, and the n-th collective of a process group on each of its ranks.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

from hw.errors import UserError
from sim.system.graph import Graph, Kind, Node, Transfer
from sim.system.workloads import Exchange, Work

from . import groups
from .schema import NodeType
from .shapes import fitting, is_torus
from .trace import Event, Trace

__all__ = ["graph_of"]

Where = tuple[int, int]
"""A rank, and the position of an event in its trace."""


def graph_of(traces: Sequence[Trace], shape: Sequence[int] | None,
             extra: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """:class:`Graph` of the traces of ranks 0, 1, ...; of one trace: all ranks do as it says.

    Parameters
    ----------
    traces : sequence of Trace
    shape : sequence of int or None
        Ranks along each dimension; None: any.
    extra : dict or None
        Process groups of a communicator file.

    Raises
    ------
    UserError
        If ranks are missing, or do not match.
    """
    first = traces[0]
    plain = _plain(first)
    if all(_plain(trace) == plain for trace in traces[1:]) and _same(traces, extra or {}):
        return _symmetric(first)
    if len(traces) == 1 and (shape is None or prod(shape) != 1):
        raise UserError(f"{first.path} is the trace of one rank, and has messages or process groups; name all traces "
                        "by chakra:PREFIX.")
    return _Joined(traces, shape, extra or {}).graph()


def _plain(trace: Trace) -> list[Event]:
    """Events with their positions for ids, as writers may number each rank's nodes in their own way."""
    places = {event.id: place for place, event in enumerate(trace.events)}
    return [replace(event, id=place, needs=tuple(sorted(places[need] for need in event.needs)))
            for place, event in enumerate(trace.events)]


def _same(traces: Sequence[Trace], extra: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether no event depends on the rank that has it."""
    every = tuple(range(len(traces)))
    for event in traces[0].events:
        if event.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            return False
        if event.type != NodeType.COMM_COLL or event.comm_group:
            continue
        for trace in traces:
            ranks = {**trace.groups, **extra}.get(event.pg_name, () if event.pg_name in ("", "0") else None)
            if ranks is None or (ranks and tuple(sorted(ranks)) != every):
                return False
    return True


def _symmetric(trace: Trace) -> Graph:
    nodes: list[Node] = []
    numbers: dict[int, int] = {}
    previous: int | None = None
    for event in trace.events:
        after = tuple(sorted({numbers[need] for need in event.needs}))
        node = _node(event, len(nodes), after, previous)
        if node.kind == Kind.COMPUTE:
            previous = node.number
        elif event.collective is not None:
            node = replace(node, exchange=Exchange(collective=event.collective, bytes=event.bytes,
                                                   group=event.comm_group or "all", root=event.root))
        numbers[event.id] = node.number
        nodes.append(node)
    return Graph(nodes=tuple(nodes), **_common(trace))


def _common(trace: Trace) -> dict[str, Any]:
    return {"name": trace.name, "steps": trace.steps, "model_parallel": trace.model_parallel,
            "source": trace.source or f"Chakra trace {trace.path.name}"}


def _node(event: Event, number: int, after: tuple[int, ...], previous: int | None, rank: int | None = None) -> Node:
    common: dict[str, Any] = {"number": number, "layer": event.layer, "part": event.part, "step": event.step,
                              "rank": rank}
    if event.type == NodeType.COMP and not event.delay:
        # A processor computes one node at a time, in the order of the trace.
        return Node(kind=Kind.COMPUTE, work=event.work, previous=previous,
                    after=tuple(need for need in after if need != previous), **common)
    if event.type == NodeType.COMM_COLL:
        return Node(kind=Kind.COLLECTIVE, priority=event.priority, after=after, **common)
    if event.type == NodeType.COMM_SEND:
        return Node(kind=Kind.SEND, transfer=Transfer(target=event.peer, bytes=event.bytes), after=after, **common)
    # A receive takes no time of its own, but waits for the send.
    work = event.work if event.type == NodeType.COMP else Work(seconds=0.0)
    return Node(kind=Kind.DELAY, work=work, after=after, **common)


@dataclass
class _Unit:
    """Events that have their place in the order together: one, or a collective of all its ranks."""

    members: list[Where]
    needs: set[int]
    exchange: Exchange | None = None


class _Joined:
    def __init__(self, traces: Sequence[Trace], shape: Sequence[int] | None,
                 extra: Mapping[str, tuple[int, ...]]) -> None:
        self.traces, self.count = traces, len(traces)
        self.shape = tuple(shape) if shape else None
        if self.shape and prod(self.shape) != self.count:
            raise UserError(f"there are traces of {self.count} ranks, {traces[0].path} and so on, and "
                            f"{'x'.join(map(str, self.shape))} are {prod(self.shape)}.")
        self.groups = groups.merged(((trace.path, {**trace.groups, **extra}) for trace in traces), self.count)
        self.units: list[_Unit] = []
        self.unit_of: dict[Where, int] = {}

    def graph(self) -> Graph:
        collectives: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for rank, trace in enumerate(self.traces):
            for place, event in enumerate(trace.events):
                if event.type == NodeType.COMM_COLL:
                    collectives[self.name(rank, event)][rank].append(place)
                else:
                    self.unit([(rank, place)])
        self.check_shape(set(collectives))
        for name, places in collectives.items():
            self.match(name, places)
        self.depend()
        self.messages()
        return self.numbered(self.order())

    def unit(self, members: list[Where], exchange: Exchange | None = None) -> None:
        for member in members:
            self.unit_of[member] = len(self.units)
        self.units.append(_Unit(members, set(), exchange))

    def event(self, where: Where) -> Event:
        return self.traces[where[0]].events[where[1]]

    def place(self, where: Where) -> str:
        return f"{self.traces[where[0]].path}: node {self.event(where).id}"

    def name(self, rank: int, event: Event) -> str:
        """Name of a collective's group; of our own ones that the group's dimensions follow from."""
        if event.comm_group:
            return f"comm_group {event.comm_group}"
        where = f"{self.traces[rank].path}: node {event.id}"
        if rank not in groups.resolve(event.pg_name, self.groups, self.count, where):
            raise UserError(f"{where}: rank {rank} is not in process group {event.pg_name!r}.")
        return event.pg_name

    def ranks(self, name: str) -> tuple[int, ...]:
        if name.startswith("comm_group "):
            return tuple(range(self.count))
        return groups.resolve(name, self.groups, self.count, "the traces")

    def check_shape(self, names: set[str]) -> None:
        used = sorted({tuple(sorted(self.ranks(name))) for name in names})
        for ranks in used:
            if self.shape is None or is_torus(ranks, self.shape):
                continue
            name = next(name for name in sorted(names) if tuple(sorted(self.ranks(name))) == ranks)
            fits = fitting(used, self.count)
            hint = f"on {'x'.join(map(str, fits))} all groups are." if fits else \
                "there is no shape on which all groups of the traces are."
            raise UserError(f"process group {name!r} of ranks {', '.join(map(str, ranks))} is no ring or torus along "
                            f"dimensions of {'x'.join(map(str, self.shape))}; {hint}")

    def match(self, name: str, places: Mapping[int, list[int]]) -> None:
        """Collectives of a group: the n-th on each of its ranks is one."""
        ranks = sorted(self.ranks(name))
        most = max(places, key=lambda rank: len(places[rank]))
        for rank in ranks:
            mine = places.get(rank, [])
            for number, (own, other) in enumerate(zip(mine, places[most], strict=False)):
                one, first = self.event((rank, own)), self.event((most, other))
                if (one.collective, one.bytes, one.root) != (first.collective, first.bytes, first.root):
                    raise UserError(f"collective {number} of {self.called(name)} is {_spoken(one)} at "
                                    f"{self.place((rank, own))}, and {_spoken(first)} at {self.place((most, other))}.")
            if len(mine) != len(places[most]):
                raise UserError(f"rank {rank} takes part in {len(mine)} collectives of {self.called(name)}, and rank "
                                f"{most} in {len(places[most])}.")
        for number in range(len(places[most])):
            members = [(rank, places[rank][number]) for rank in ranks]
            event = self.event(members[0])
            assert event.collective is not None
            whole = len(ranks) == self.count
            self.unit(members, Exchange(collective=event.collective, bytes=event.bytes,
                                        group=event.comm_group or "all", ranks=() if whole else tuple(ranks),
                                        root=event.root))

    def called(self, name: str) -> str:
        return name if name.startswith("comm_group ") else f"process group {name or '0'!r}"

    def depend(self) -> None:
        for rank, trace in enumerate(self.traces):
            places = {event.id: place for place, event in enumerate(trace.events)}
            for place, event in enumerate(trace.events):
                self.units[self.unit_of[rank, place]].needs |= {
                    self.unit_of[rank, places[need]] for need in event.needs}

    def messages(self) -> None:
        sends: dict[tuple[int, int, int], list[Where]] = defaultdict(list)
        for rank, trace in enumerate(self.traces):
            for place, event in enumerate(trace.events):
                if event.type in (NodeType.COMM_SEND, NodeType.COMM_RECV) and not (
                        0 <= event.peer < self.count and event.peer != rank):
                    raise UserError(f"{self.place((rank, place))}: rank {rank} cannot exchange messages with rank "
                                    f"{event.peer}; there are ranks 0 to {self.count - 1}.")
                if event.type == NodeType.COMM_SEND:
                    sends[rank, event.peer, event.tag].append((rank, place))
        taken: dict[tuple[int, int, int], int] = defaultdict(int)
        for rank, trace in enumerate(self.traces):
            for place, event in enumerate(trace.events):
                if event.type != NodeType.COMM_RECV:
                    continue
                key = event.peer, rank, event.tag
                if taken[key] >= len(sends[key]):
                    raise UserError(f"{self.place((rank, place))} receives from rank {event.peer} with tag "
                                    f"{event.tag}, and {self.traces[event.peer].path} has no such COMM_SEND"
                                    f"{' left' if taken[key] else ''}.")
                sent = sends[key][taken[key]]
                taken[key] += 1
                if self.event(sent).bytes != event.bytes:
                    raise UserError(f"{self.place((rank, place))} receives {event.bytes} bytes, and "
                                    f"{self.place(sent)} sends {self.event(sent).bytes}.")
                self.units[self.unit_of[rank, place]].needs.add(self.unit_of[sent])
        for (rank, target, tag), every in sends.items():
            if taken[rank, target, tag] < len(every):
                raise UserError(f"{self.place(every[taken[rank, target, tag]])} sends to rank {target} with tag {tag}, "
                                f"and {self.traces[target].path} has no such COMM_RECV"
                                f"{' left' if taken[rank, target, tag] else ''}.")

    def order(self) -> list[int]:
        """Units, each after those that it needs, and computation in the order of the traces if it can be."""
        in_order = [set(unit.needs) for unit in self.units]
        for rank, trace in enumerate(self.traces):
            last: int | None = None
            for place, event in enumerate(trace.events):
                if event.type == NodeType.COMP and not event.delay:
                    number = self.unit_of[rank, place]
                    in_order[number] |= set() if last is None else {last}
                    last = number
        made = self.sorted(in_order)
        return made if len(made) == len(self.units) else self.acyclic()

    def acyclic(self) -> list[int]:
        needs = [unit.needs for unit in self.units]
        made = self.sorted(needs)
        if len(made) == len(self.units):
            return made
        left = set(range(len(self.units))) - set(made)
        path = [min(left)]
        while path[-1] not in path[:-1]:
            path.append(min(needs[path[-1]] & left))
        loop = path[path.index(path[-1]):]
        spoken = ", which needs ".join(self.place(self.units[number].members[0]) for number in loop[:6])
        raise UserError(f"ranks wait for each other: {spoken}{', and so on' if len(loop) > 6 else ''}.")

    def sorted(self, needs: Sequence[set[int]]) -> list[int]:
        users: dict[int, list[int]] = defaultdict(list)
        missing = [len(its) for its in needs]
        for number, its in enumerate(needs):
            for need in its:
                users[need].append(number)
        key = [(min(place for _, place in unit.members), unit.members[0][0]) for unit in self.units]
        ready = [(*key[number], number) for number, count in enumerate(missing) if not count]
        heapify(ready)
        made: list[int] = []
        while ready:
            number = heappop(ready)[-1]
            made.append(number)
            for user in users[number]:
                missing[user] -= 1
                if not missing[user]:
                    heappush(ready, (*key[user], user))
        return made

    def numbered(self, order: Sequence[int]) -> Graph:
        numbers: dict[Where, int] = {}
        nodes: list[Node] = []
        previous: dict[int, int] = {}
        ids = [{event.id: place for place, event in enumerate(trace.events)} for trace in self.traces]
        for unit in (self.units[number] for number in order):
            for where in unit.members:
                rank, event = where[0], self.event(where)
                after = {numbers[rank, ids[rank][need]] for need in event.needs}
                if event.type == NodeType.COMM_RECV:
                    after |= {numbers[self.units[need].members[0]] for need in unit.needs
                              if self.event(self.units[need].members[0]).type == NodeType.COMM_SEND}
                node = _node(event, len(nodes), tuple(sorted(after)), previous.get(rank), rank)
                if node.kind == Kind.COMPUTE:
                    previous[rank] = node.number
                elif unit.exchange is not None:
                    node = replace(node, exchange=unit.exchange)
                numbers[where] = node.number
                nodes.append(node)
        return Graph(nodes=tuple(nodes), **_common(self.traces[0]))


def _spoken(event: Event) -> str:
    assert event.collective is not None
    root = "" if event.root is None else f" with root {event.root}"
    return f"{event.collective.name} of {event.bytes} bytes{root}"
