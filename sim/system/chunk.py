# SPDX-License-Identifier: Apache-2.0
"""A chunk of a collective at a rank, with its progress through the phases of its route."""

from typing import Protocol

from .operation import Operation
from .port import Taken
from .routes import Grain, Route

__all__ = ["Chunk"]


class _Owner(Protocol):
    """The endpoint that moves the chunk."""

    def take(self, chunk: "Chunk") -> Taken:
        ...

    def source(self, chunk: "Chunk") -> int | None:
        ...


class Chunk:
    """
    Attributes
    ----------
    operation, index
        The chunk's collective, and its number in it, which is the same on all ranks.
    key : tuple
        Age; a smaller key has priority.
    turn : int
        Order of starts on this rank.
    fsm : int
        The chunk's FSM, if their number is limited.
    leg, sent, came, stored : int
        Phase; grains of it that were granted, that have arrived so far that they may be forwarded, and completely.
    granted : int or None
        Receives that the neighbour has granted; None if no GRANTs are needed.
    whole, opened, marks : bool, bool, int
        All of it has been filled; else, the first ``marks + 1`` sends may begin if ``opened``, and ``marks`` receives
        be granted.
    parted : bool
        The part that need not wait for the last receive is drained.
    """

    __slots__ = (
        "came",
        "endpoint",
        "fsm",
        "grains",
        "granted",
        "index",
        "inside",
        "key",
        "leg",
        "marks",
        "number",
        "offered",
        "opened",
        "operation",
        "parted",
        "route",
        "safe",
        "sent",
        "stored",
        "turn",
        "whole",
    )

    def __init__(self, endpoint: _Owner, operation: Operation, index: int, route: Route, key: tuple[float, ...],
                 number: int) -> None:
        self.endpoint, self.operation, self.index, self.route = endpoint, operation, index, route
        self.key, self.number, self.turn = key, number, number
        self.fsm, self.leg, self.sent, self.came, self.stored, self.safe = 0, -1, 0, 0, 0, 0
        self.granted: int | None = None
        self.grains: tuple[Grain, ...] = ()
        self.inside, self.offered = False, False
        self.whole, self.opened, self.marks, self.parted = True, False, 0, False

    def permits(self, send: int) -> bool:
        """Whether a send of the first phase may begin before the end of the fill, or after it."""
        return self.whole or (self.opened and send <= self.marks)

    def mark(self) -> None:
        """A fill with a mark has ended: see :data:`hw.ace.words.TRANSFER_FIELDS`."""
        if self.marks and not self.opened:
            self.opened = True
        else:
            self.marks = 2 * self.marks + 1

    @property
    def source(self) -> int | None:
        """Bytes from the begin of the SRAM to its next grain; None without an SRAM."""
        return self.endpoint.source(self)

    def take(self) -> Taken:
        """Next grain for a port, which was granted."""
        return self.endpoint.take(self)
