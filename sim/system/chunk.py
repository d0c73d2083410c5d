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


class Chunk:
    """
    Attributes
    ----------
    operation, index
        The collective that it belongs to, and its number there: the same on all ranks.
    key : tuple
        Of age: smaller ones go first.
    turn : int
        The lower, the earlier it began on this rank.
    fsm : int
        The FSM in charge of it, where their number is limited.
    leg, sent, came : int
        Phase; grains of it that have been chosen, and that have come.
    granted : int or None
        Receives that the neighbour has granted; None where none are needed.
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
        "number",
        "offered",
        "operation",
        "route",
        "safe",
        "sent",
        "turn",
    )

    def __init__(self, endpoint: _Owner, operation: Operation, index: int, route: Route, key: tuple[float, ...],
                 number: int) -> None:
        self.endpoint, self.operation, self.index, self.route = endpoint, operation, index, route
        self.key, self.number, self.turn = key, number, number
        self.fsm, self.leg, self.sent, self.came, self.safe = 0, -1, 0, 0, 0
        self.granted: int | None = None
        self.grains: tuple[Grain, ...] = ()
        self.inside, self.offered = False, False

    def take(self) -> Taken:
        """The next grain, for a port: it has been chosen."""
        return self.endpoint.take(self)
