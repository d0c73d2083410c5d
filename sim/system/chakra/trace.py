# SPDX-License-Identifier: Apache-2.0
"""A trace of one rank, from whichever file it was read: events, each after those that it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.workloads import Work

from .schema import NodeType

__all__ = ["Event", "Trace", "ordered"]

Key = TypeVar("Key", int, str)


@dataclass(frozen=True, kw_only=True)
class Event:
    """A node of a trace.

    Parameters
    ----------
    id : int
        As in the trace.
    type : NodeType
        COMP, COMM_COLL, COMM_SEND or COMM_RECV.
    layer, part : str
        What it belongs to, for tables.
    step : int
    needs : tuple of int
        Ids of events that must have ended.
    work : Work
        Of COMP.
    delay : bool
        COMP that takes time and not the processor.
    collective : Collective or None
        Of COMM_COLL.
    bytes : int
        Of a collective as :class:`~sim.system.workloads.Exchange` counts them, or of a message.
    pg_name : str
        Process group of a collective; empty for all ranks.
    comm_group : str
        ``all``, ``model`` or ``data`` in a trace of ours; else empty.
    root : int
        Global rank of the root of a broadcast or a reduce.
    priority : int
    peer, tag : int
        Global rank of the other side of a message, and the message's tag.
    """

    id: int
    type: NodeType
    layer: str = ""
    part: str = ""
    step: int = 0
    needs: tuple[int, ...] = ()
    work: Work = field(default_factory=Work)
    delay: bool = False
    collective: Collective | None = None
    bytes: int = 0
    pg_name: str = ""
    comm_group: str = ""
    root: int | None = None
    priority: int = 0
    peer: int = -1
    tag: int = 0


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Events of a rank.

    Parameters
    ----------
    path : Path
        File that it was read from, for messages.
    events : tuple of Event
        Each after those that it needs.
    groups : dict
        Process group -> global ranks; an empty tuple is all ranks.
    name, source : str
    steps, model_parallel : int
        As in :class:`~sim.system.graph.Graph`.
    """

    path: Path
    events: tuple[Event, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    name: str = ""
    source: str = ""
    steps: int = 1
    model_parallel: int = 1


def ordered(needs: Mapping[int, Sequence[int]], path: Path) -> list[int]:
    """Ids in the order of the file, but each after those that it needs.

    Raises
    ------
    UserError
        For a need that is not in the trace, and for nodes that need each other.
    """
    order: list[int] = []
    done: set[int] = set()
    opened: set[int] = set()
    for first in needs:
        stack = [first]
        while stack:
            one = stack[-1]
            if one in done:
                stack.pop()
                continue
            if one not in opened and (missing := [need for need in needs[one] if need not in needs]):
                raise UserError(f"{path}: node {one} needs a node {missing[0]}, which is not in the trace.")
            opened.add(one)
            waiting = [need for need in needs[one] if need not in done]
            if looped := [need for need in waiting if need in opened]:
                raise UserError(f"{path}: node {one} needs itself, by way of node {looped[0]}.")
            if waiting:
                # The first need on top, so that the order of the file is kept where it can be.
                stack += reversed(waiting)
            else:
                stack.pop()
                done.add(one)
                order.append(one)
    return order
