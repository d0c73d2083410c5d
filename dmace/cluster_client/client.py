# SPDX-License-Identifier: Apache-2.0
"""A rank's connection to the cluster: groups, and collectives that complete asynchronously."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dmace.runtime.errors import DmaceError

from .memory import RankMemory
from .protocol import LONGEST, VERSION, Command, Disconnected, Message, Result, Transfer, decode, encode, receive

__all__ = ["ClusterClient", "Completion", "NoSuchGroup"]

Completion = Callable[[Result | DmaceError], None]
"""Receives the result of a collective, or its failure, on the client's thread."""


class NoSuchGroup(DmaceError):
    """Ranks that are no group of a communicator."""


@dataclass
class _Posted:
    command: Command | Transfer
    completion: Completion
    deadline: float
    timeout: float


class ClusterClient:
    """Connect a rank to a cluster; returns when all ranks have connected. Threads may share it.

    Parameters
    ----------
    path : str
        Of the cluster's socket.
    rank, size : int
    timeout : float
        Seconds until all ranks have connected and the accelerators are ready, which includes building the simulator.

    Attributes
    ----------
    memory : :class:`RankMemory`
        This rank's.
    shape : tuple of int
        Of the torus.
    communicators : list of dict
    puts : bool
        As in the welcome of :mod:`~.protocol`.
    """

    def __init__(self, path: str, rank: int, size: int, *, timeout: float) -> None:
        self.rank, self.size = rank, size
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            welcome, descriptor = self._greet(path, timeout)
        except BaseException:
            self._socket.close()
            raise
        self.shape = tuple(welcome["shape"])
        self.communicators: list[dict[str, Any]] = welcome["communicators"]
        self.puts: bool = welcome["puts"]
        self.memory = RankMemory(descriptor, welcome["memory"], self._check)
        self._socket.settimeout(None)
        self._lock = threading.Lock()
        self._posted: dict[int, _Posted] = {}
        self._next = 0
        self._ended: DmaceError | None = None
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"dmace rank {rank}", daemon=True)
        self._thread.start()

    def _greet(self, path: str, timeout: float) -> tuple[Message, int]:
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path)
            self._socket.send(encode({"type": "hello", "version": VERSION, "rank": self.rank, "size": self.size}))
            packet, descriptors, _, _ = socket.recv_fds(self._socket, LONGEST, 1)
        except TimeoutError:
            raise DmaceError(f"The cluster at {path} was not ready for rank {self.rank} within {timeout:g} s."
                             ) from None
        except OSError as error:
            raise DmaceError(f"Rank {self.rank} cannot connect to a cluster at {path}: {error.strerror or error}.",
                             error.errno or 0) from None
        if not packet:
            raise DmaceError(f"The cluster at {path} has ended before all ranks had connected.")
        welcome = decode(packet)
        if welcome["type"] == "refused":
            raise DmaceError(f"The cluster has refused rank {self.rank}: {welcome['reason']}")
        return welcome, descriptors[0]

    # Groups

    def open_group(self, name: str, ranks: Sequence[int]) -> int:
        """Announce a group and return the number of its communicator.

        Raises
        ------
        NoSuchGroup
            If these ranks are no communicator's group.
        """
        for number, communicator in enumerate(self.communicators):
            if list(ranks) in communicator["groups"]:
                self._send({"type": "group", "name": name, "communicator": number, "ranks": list(ranks)})
                return number
        shape = "x".join(map(str, self.shape))
        known = [group for communicator in self.communicators for group in communicator["groups"]]
        raise NoSuchGroup(f"Ranks {', '.join(map(str, ranks))} are no group of a cluster of shape {shape}, which has "
                         f"{', '.join('(' + ' '.join(map(str, group)) + ')' for group in known[:16])}"
                         f"{' and others' if len(known) > 16 else ''}.")

    # Collectives

    def post(self, completion: Completion, *, timeout: float, **fields: Any) -> None:
        """Post a collective and return at once.

        Parameters
        ----------
        completion : callable
            Called exactly once, on the client's thread.
        timeout : float
            Seconds until it fails here, and its group on all ranks.
        **fields
            Of :class:`~.protocol.Command`, but for the number.

        Raises
        ------
        DmaceError
            If the rank has left, or the cluster has ended; then ``completion`` is not called.
        """
        self._post_as(Command, completion, timeout, fields)

    def post_transfer(self, completion: Completion, *, timeout: float, **fields: Any) -> None:
        """As :meth:`post`, for a :class:`~.protocol.Transfer`."""
        self._post_as(Transfer, completion, timeout, fields)

    def _post_as(self, kind: type[Command] | type[Transfer], completion: Completion, timeout: float,
                 fields: dict[str, Any]) -> None:
        with self._lock:
            self._raise_if_ended()
            number = self._next
            self._next += 1
            command = kind(number=number, **fields)
            packet = encode(command.message())
            self._posted[number] = _Posted(command, completion, time.monotonic() + timeout, timeout)
            try:
                self._socket.send(packet)
            except OSError:
                pass    # the receiving thread reports it to all that wait
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"x")

    def _send(self, message: Message) -> None:
        with self._lock:
            self._raise_if_ended()
            try:
                self._socket.send(encode(message))
            except OSError:
                raise self._lost() from None

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise DmaceError(str(self._ended), self._ended.code)

    def _check(self) -> None:
        with self._lock:
            self._raise_if_ended()

    def _lost(self) -> DmaceError:
        return DmaceError(f"The process of the cluster has ended, or rank {self.rank}'s connection to it.")

    # The receiving thread

    def _run(self) -> None:
        while self._ended is None:
            with self._lock:
                first = min((posted.deadline for posted in self._posted.values()), default=None)
            wait = None if first is None else max(0.0, first - time.monotonic())
            ready, _, _ = select.select([self._socket, self._wake_receiver], [], [], wait)
            if self._wake_receiver in ready:
                self._wake_receiver.recv(4096)
            try:
                if self._socket in ready:
                    self._handle(receive(self._socket))
                self._check_deadlines()
            except Disconnected:
                self._end(self._lost())
            except DmaceError as error:
                self._end(error)
        self._socket.close()

    def _handle(self, message: Message) -> None:
        if message["type"] == "refused":
            raise DmaceError(f"The cluster has refused rank {self.rank}: {message['reason']}")
        with self._lock:
            posted = self._posted.pop(message["number"], None)
        if posted is not None:
            posted.completion(Result.of(message) if message["type"] == "done" else DmaceError(message["reason"]))

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        with self._lock:
            expired = [posted for posted in self._posted.values() if posted.deadline <= now]
            if not expired:
                return
            first = expired[0]
            error = DmaceError(f"{first.command.collective} of group {first.command.group} has not completed at rank "
                               f"{self.rank} within {first.timeout:g} s.")
            with contextlib.suppress(OSError):
                self._socket.send(encode({"type": "abort", "reason": str(error)}))
        self._end(error)

    def _end(self, error: DmaceError) -> None:
        """All that wait fail, and so does every later call."""
        with self._lock:
            if self._ended is None:
                self._ended = error
            waiting, self._posted = list(self._posted.values()), {}
        for posted in waiting:
            posted.completion(error)

    def close(self, *, leave: bool = True) -> None:
        """Leave the cluster; collectives in progress fail at this rank. A second call does nothing.

        Parameters
        ----------
        leave : bool
            False: only end the connection, as when the process ends.
        """
        if self._ended is None:
            if leave:
                with contextlib.suppress(DmaceError):
                    self._send({"type": "leave"})
            self._end(DmaceError(f"Rank {self.rank} has left the cluster."))
            with contextlib.suppress(OSError):
                self._wake_sender.send(b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join()
            self._wake_sender.close()
            self._wake_receiver.close()
