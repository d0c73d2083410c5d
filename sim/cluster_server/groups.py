# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks, and the commands that belong together: the k-th of each rank is one collective."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dmace.cluster_client.protocol import Command, Transfer
from dmace.runtime.errors import DmaceError
from hw.ace.collectives import COLLECTIVES, Collective
from hw.ace.numerics.formats import DType, Reduction

__all__ = ["Group", "GroupFailed", "Matched", "Paired", "PeerLeft"]

_COMMON = ("collective", "dtype", "op", "count", "root", "widen", "ordered")
"""Fields of a command that are the same on all ranks, in the order in which a difference is reported."""


class GroupFailed(DmaceError):
    """A group whose ranks do not agree, or of which a rank is missing; every collective of it fails."""


class PeerLeft(DmaceError):
    """A command needs a rank that has left; others of its group may complete."""


@dataclass(frozen=True)
class Matched:
    """A collective that all ranks of a group have posted: their commands, by rank in the group."""

    group: "Group"
    commands: tuple[Command, ...]

    def numbers(self) -> list[tuple[int, int]]:
        """Rank of the cluster, and number of its command."""
        return [(rank, command.number) for rank, command in zip(self.group.ranks, self.commands, strict=True)]

    @property
    def count(self) -> int:
        """As the commands of the accelerators have it."""
        first = self.commands[0]
        if first.extents is None:
            return first.count
        return max(count for command in self.commands if command.extents is not None
                   for side in (command.extents.send, command.extents.receive) for count, _ in side)


@dataclass(frozen=True)
class Paired:
    """A send and the receive that belongs to it, by rank of the cluster."""

    group: "Group"
    source: int
    target: int
    send: Transfer
    receive: Transfer

    def numbers(self) -> list[tuple[int, int]]:
        """Rank of the cluster, and number of its transfer."""
        return [(self.source, self.send.number), (self.target, self.receive.number)]


class Group:
    """A group.

    Parameters
    ----------
    name : str
    communicator : int
    ranks : sequence of int
        Ranks of the cluster, in the order of their ranks in the group.

    Attributes
    ----------
    failure : str or None
        Why its collectives fail, as a sentence.
    """

    def __init__(self, name: str, communicator: int, ranks: Sequence[int]) -> None:
        self.name, self.communicator, self.ranks = name, communicator, tuple(ranks)
        self.failure: str | None = None
        self._posted: dict[int, deque[Command]] = {rank: deque() for rank in self.ranks}
        self._transfers: list[tuple[int, Transfer]] = []
        self._left: dict[int, str] = {}

    def post(self, rank: int, command: Command) -> Matched | None:
        """Add a rank's command; the collective that is complete with it, or None.

        Raises
        ------
        GroupFailed
            If the group has failed, or its ranks have posted different collectives.
        PeerLeft
            If a rank that is needed has left.
        DmaceError
            If the command is wrong by itself.
        """
        if self._left:
            raise PeerLeft(next(iter(self._left.values())))
        if self.failure is not None:
            raise GroupFailed(self.failure)
        _check(command, len(self.ranks))
        self._posted[rank].append(command)
        if not all(self._posted.values()):
            return None
        commands = tuple(self._posted[one][0] for one in self.ranks)
        if why := self._difference(commands):
            raise GroupFailed(why)
        for waiting in self._posted.values():
            waiting.popleft()
        return Matched(self, commands)

    def post_transfer(self, rank: int, transfer: Transfer) -> Paired | None:
        """Add a send or a receive; the pair that is complete with it, or None. Raises as :meth:`post`."""
        if self.failure is not None:
            raise GroupFailed(self.failure)
        lowest = 0 if transfer.sends else -1
        if not lowest <= transfer.peer < len(self.ranks):
            raise DmaceError(f"The peer of a {transfer.collective} must be a rank from {lowest} to "
                             f"{len(self.ranks) - 1} of the group, not {transfer.peer}.")
        if transfer.offset < 0 or transfer.length < 0:
            raise DmaceError(f"Offset and length of a {transfer.collective} must not be negative, but are "
                             f"{transfer.offset} and {transfer.length}.")
        if transfer.peer >= 0 and (reason := self._left.get(self.ranks[transfer.peer])):
            raise PeerLeft(reason)
        for index, (other, waiting) in enumerate(self._transfers):
            if waiting.sends == transfer.sends or waiting.tag != transfer.tag:
                continue
            (source, send), (target, receive) = ((rank, transfer), (other, waiting)) if transfer.sends else (
                (other, waiting), (rank, transfer))
            if self.ranks[send.peer] != target or receive.peer not in (-1, self.ranks.index(source)):
                continue
            if send.length != receive.length:
                self._transfers.append((rank, transfer))
                raise GroupFailed(f"Rank {source} of group {self.name} sends {send.length} bytes to rank {target}, "
                                  f"which receives {receive.length}.")
            del self._transfers[index]
            return Paired(self, source, target, send, receive)
        self._transfers.append((rank, transfer))
        return None

    def leave(self, rank: int, reason: str) -> list[tuple[int, int]]:
        """A rank has left: rank and number of the commands that wait for it. Transfers between others continue.

        Of a rank that leaves and a failure, the first one is reported from then on.
        """
        if self.failure is None:
            self._left[rank] = reason
        peer = self.ranks.index(rank)
        kept = [(other, one) for other, one in self._transfers if other != rank and one.peer != peer]
        ended = [(other, one.number) for other, one in self._transfers if (other, one) not in kept]
        ended += [(other, command.number) for other, commands in self._posted.items() for command in commands]
        self._transfers = kept
        for commands in self._posted.values():
            commands.clear()
        return ended

    def fail(self, reason: str) -> list[tuple[int, int]]:
        """Let the group fail: rank and number of the commands that wait for other ranks."""
        if self.failure is None:
            self.failure = reason
        waiting = [(rank, command.number) for rank, commands in self._posted.items() for command in commands]
        waiting += [(rank, transfer.number) for rank, transfer in self._transfers]
        for commands in self._posted.values():
            commands.clear()
        self._transfers.clear()
        return waiting

    def _difference(self, commands: Sequence[Command]) -> str | None:
        first = commands[0]
        for command, rank in zip(commands, self.ranks, strict=True):
            for name in _COMMON:
                if name == "count" and command.extents is not None:
                    continue
                if getattr(command, name) != getattr(first, name):
                    return (f"Ranks of group {self.name} have posted different collectives: rank {self.ranks[0]} "
                            f"{_described(first)}, and rank {rank} {_described(command)}.")
            if (command.extents is None) != (first.extents is None):
                return f"Ranks {self.ranks[0]} and {rank} of group {self.name} must both give extents, or none of them."
        return self._unequal_parts(commands) if first.extents is not None else None

    def _unequal_parts(self, commands: Sequence[Command]) -> str | None:
        info = COLLECTIVES[Collective[commands[0].collective]]
        for source, sender in enumerate(commands):
            for target, receiver in enumerate(commands):
                if sender.extents is None or receiver.extents is None:
                    continue
                sent = sender.extents.send[target if info.sends_blocks else 0][0]
                received = receiver.extents.receive[source if info.receives_blocks else 0][0]
                if sent != received:
                    return (f"In {commands[0].collective} of group {self.name}, rank {self.ranks[source]} sends {sent} "
                            f"elements to rank {self.ranks[target]}, which receives {received}.")
        return None


def _described(command: Command) -> str:
    details = [f"{command.count} x {command.dtype}", command.op, f"root {command.root}",
               *(["widened"] if command.widen else []), *(["in rank order"] if command.ordered else [])]
    return f"{command.collective} ({', '.join(details)})"


def _check(command: Command, ranks: int) -> None:
    for name, kind, value in (("collective", Collective, command.collective), ("dtype", DType, command.dtype),
                              ("op", Reduction, command.op)):
        if value not in kind.__members__:
            raise DmaceError(f"The {name} of a command must be one of {', '.join(kind.__members__)}, not {value!r}.")
    if not 0 <= command.root < ranks:
        raise DmaceError(f"The root of a command must be a rank from 0 to {ranks - 1} of the group, not "
                         f"{command.root}.")
    if command.extents is None:
        return
    info = COLLECTIVES[Collective[command.collective]]
    if not info.varying:
        raise DmaceError(f"{command.collective} has no parts of different lengths.")
    for side, blocks, parts in (("send", info.sends_blocks, command.extents.send),
                                ("receive", info.receives_blocks, command.extents.receive)):
        if len(parts) != (expected := ranks if blocks else 1):
            raise DmaceError(f"The {side} buffer of {command.collective} must have {expected} parts, not {len(parts)}.")
