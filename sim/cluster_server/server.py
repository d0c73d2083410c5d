# SPDX-License-Identifier: Apache-2.0
"""The process of a cluster: one thread reads and writes messages, another one runs the accelerators."""

import contextlib
import os
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from dmace.cluster_client.protocol import VERSION, Command, Disconnected, Message, Result, Transfer, encode, receive
from dmace.runtime.errors import DmaceError
from hw.errors import UserError
from sim.ace.shared_library import ClusterFailed
from sim.cluster_server.accelerators import Accelerators, rank_memory
from sim.cluster_server.groups import Group, GroupFailed, Matched, Paired, PeerLeft

__all__ = ["Session"]


class _Stopped(Exception):
    """No rank is left to wait for the collective in progress."""


@dataclass(eq=False)
class _Peer:
    """A connection; ``rank`` is -1 before its hello."""

    connection: socket.socket
    rank: int = -1
    outgoing: deque[bytes] = field(default_factory=deque)


class Session:
    """A cluster from the first rank's connection to the end of the last one.

    Parameters
    ----------
    listener : socket
        Ranks connect to it.
    shape : tuple of int
        Of the torus.
    memory : int
        Bytes of each rank's memory.
    make : callable
        Makes :class:`Accelerators` from the descriptors of the ranks' memories.
    wait : float or None
        Seconds until the first rank must have connected; None: for ever.
    """

    def __init__(self, listener: socket.socket, shape: Sequence[int], memory: int,
                 make: Callable[[list[int]], Accelerators], *, wait: float | None = None) -> None:
        self._listener, self._shape, self._memory, self._make = listener, tuple(shape), memory, make
        self._size = prod(shape)
        self._descriptors: list[int] = []
        self._wait = wait
        self._peers: dict[int, _Peer] = {}
        self._groups: dict[str, Group] = {}
        self._left: dict[int, str] = {}
        self._failure: str | None = None
        self._communicators: list[Message] | None = None
        self._puts = False
        self._jobs: queue.SimpleQueue[Matched | Paired | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stopping = self._welcomed = False
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> bool:
        """Serve until all ranks have left; False if none has connected in time."""
        self._descriptors = [rank_memory(rank, self._memory) for rank in range(self._size)]
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._drain)
        worker = threading.Thread(target=self._work, name="accelerators", daemon=True)
        begun, deadline = False, None if self._wait is None else time.monotonic() + self._wait
        interrupted = True
        try:
            worker.start()
            while not begun or self._peers:
                begun = begun or bool(self._peers)
                for key, events in self._selector.select(None if deadline is None or begun else 1.0):
                    if isinstance(key.data, _Peer):
                        self._serve(key.data, events)
                    else:
                        key.data()
                if not begun and deadline is not None and time.monotonic() > deadline:
                    break
            interrupted = False
            return begun
        finally:
            self._stopping = True
            self._jobs.put(None)
            # After a signal the process ends, and nothing waits for a build.
            if not interrupted:
                worker.join()
            for key in list(self._selector.get_map().values()):
                if isinstance(key.data, _Peer):
                    key.data.connection.close()
            self._selector.close()
            for one in (self._wake_receiver, self._wake_sender):
                one.close()
            for descriptor in self._descriptors:
                os.close(descriptor)

    # The thread of the accelerators

    def _work(self) -> None:
        try:
            accelerators = self._make(self._descriptors)
            communicators, puts = accelerators.communicators(), accelerators.puts
        except UserError as error:
            reason = f"The accelerators are not available: {error}"
            self._later(lambda: self._fail(reason))
            return
        except Exception as error:
            reason = f"The accelerators are not available: {type(error).__name__}: {error}"
            self._later(lambda: self._fail(reason))
            return
        self._later(lambda: self._ready(communicators, puts))
        try:
            while (matched := self._jobs.get()) is not None and not self._stopping:
                self._run(accelerators, matched)
        except _Stopped:
            pass
        finally:
            accelerators.close()

    def _run(self, accelerators: Accelerators, matched: Matched | Paired) -> None:
        if self._failure is not None:
            self._later(lambda: self._failed(matched, self._failure or ""))
            return
        try:
            if isinstance(matched, Paired):
                result = accelerators.transfer(matched, self._still_wanted)
            else:
                result = accelerators.run(matched, self._still_wanted)
        except _Stopped:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._later(lambda: self._failed(matched, reason))
            if isinstance(error, ClusterFailed) or not isinstance(error, UserError):
                self._later(lambda: self._fail(f"The cluster has failed before: {reason}"))
        else:
            self._later(lambda: self._done(matched, result))

    def _still_wanted(self, cycle: int) -> None:
        if self._stopping:
            raise _Stopped

    def _later(self, event: Callable[[], None]) -> None:
        """Let the other thread call it."""
        self._events.put(event)
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"x")

    # The thread of the messages

    def _drain(self) -> None:
        self._wake_receiver.recv(4096)
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            event()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._selector.register(connection, selectors.EVENT_READ, _Peer(connection))

    def _serve(self, peer: _Peer, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._handle(peer, receive(peer.connection))
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
        except Disconnected:
            self._gone(peer, f"Rank {peer.rank} has ended without leaving the cluster.")
        except (UserError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, UserError) else f"A message is malformed: {error!r}."
            with contextlib.suppress(OSError):
                peer.connection.send(encode({"type": "refused", "reason": reason}))
            self._gone(peer, f"Rank {peer.rank} was refused: {reason}")

    def _handle(self, peer: _Peer, message: Message) -> None:
        kind = message["type"]
        if peer.rank < 0:
            if kind != "hello":
                raise DmaceError(f"The first message must be hello, not {kind}.")
            self._hello(peer, message)
        elif kind == "group":
            self._open_group(peer.rank, message)
        elif kind == "collective":
            self._post(peer.rank, Command.of(message))
        elif kind == "transfer":
            self._post(peer.rank, Transfer.of(message))
        elif kind == "leave":
            self._gone(peer, f"Rank {peer.rank} has left the cluster.", left=True)
        elif kind == "abort":
            self._gone(peer, f"Rank {peer.rank} has ended: {message['reason']}")
        else:
            raise DmaceError(f"There is no message {kind!r}.")

    def _hello(self, peer: _Peer, message: Message) -> None:
        rank, size = int(message["rank"]), int(message["size"])
        if message["version"] != VERSION:
            raise DmaceError(f"The cluster's protocol has version {VERSION}, not {message['version']}.")
        if size != self._size or not 0 <= rank < size:
            raise DmaceError(f"The cluster has ranks 0 to {self._size - 1}, not rank {rank} of {size}.")
        if rank in self._peers or rank in self._left:
            raise DmaceError(f"Rank {rank} has connected already.")
        if self._failure is not None:
            raise DmaceError(self._failure)
        if self._left:
            raise DmaceError(next(iter(self._left.values())))
        peer.rank = rank
        self._peers[rank] = peer
        self._welcome()

    def _ready(self, communicators: list[Message], puts: bool) -> None:
        self._communicators, self._puts = communicators, puts
        self._welcome()

    def _welcome(self) -> None:
        """When all ranks are there and the accelerators are ready."""
        if self._communicators is None or len(self._peers) < self._size:
            return
        self._welcomed = True
        # Later connections are of the next session.
        self._selector.unregister(self._listener)
        for rank, peer in self._peers.items():
            welcome = {"type": "welcome", "version": VERSION, "shape": self._shape, "memory": self._memory,
                       "communicators": self._communicators, "puts": self._puts}
            with contextlib.suppress(OSError):
                socket.send_fds(peer.connection, [encode(welcome)], [self._descriptors[rank]])

    def _open_group(self, rank: int, message: Message) -> None:
        name, communicator, ranks = str(message["name"]), int(message["communicator"]), list(message["ranks"])
        known = self._groups.get(name)
        if known is not None:
            if known.communicator != communicator or list(known.ranks) != ranks:
                raise DmaceError(f"Group {name} has ranks {list(known.ranks)}, and not {ranks}.")
            return
        communicators = self._communicators or []
        if (not 0 <= communicator < len(communicators) or ranks not in communicators[communicator]["groups"]
                or rank not in ranks):
            raise DmaceError(f"Communicator {communicator} has no group of ranks {ranks} with rank {rank}.")
        group = self._groups[name] = Group(name, communicator, ranks)
        for gone, reason in self._left.items():
            if gone in ranks:
                group.fail(reason)

    def _post(self, rank: int, command: Command | Transfer) -> None:
        group = self._groups.get(command.group)
        if group is None or rank not in group.ranks:
            raise DmaceError(f"Rank {rank} is in no group {command.group!r}.")
        if self._failure is not None:
            group.fail(self._failure)
        try:
            matched: Matched | Paired | None
            if isinstance(command, Command):
                matched = group.post(rank, command)
            elif not self._puts:
                raise DmaceError("A cluster without puts has no transfers between two ranks.")
            else:
                matched = group.post_transfer(rank, command)
        except PeerLeft as error:
            self._send(rank, {"type": "failed", "number": command.number, "reason": str(error)})
        except GroupFailed as error:
            if group.failure is not None:
                self._send(rank, {"type": "failed", "number": command.number, "reason": str(error)})
            self._fail_group(group, str(error))
        except DmaceError as error:
            self._send(rank, {"type": "failed", "number": command.number, "reason": str(error)})
            self._fail_group(group, f"Rank {rank} of group {group.name} has posted a wrong command: {error}")
        else:
            if matched is not None:
                self._jobs.put(matched)

    def _done(self, matched: Matched | Paired, result: Result) -> None:
        for rank, number in matched.numbers():
            self._send(rank, result.message(number))

    def _failed(self, matched: Matched | Paired, reason: str) -> None:
        for rank, number in matched.numbers():
            self._send(rank, {"type": "failed", "number": number, "reason": reason})

    def _fail_group(self, group: Group, reason: str) -> None:
        for rank, number in group.fail(reason):
            self._send(rank, {"type": "failed", "number": number, "reason": reason})

    def _fail(self, reason: str) -> None:
        """The accelerators cannot be used."""
        self._failure = reason
        for group in self._groups.values():
            self._fail_group(group, reason)
        if not self._welcomed:
            self._refuse_all(reason)

    def _refuse_all(self, reason: str) -> None:
        while self._peers:
            _, peer = self._peers.popitem()
            with contextlib.suppress(OSError):
                peer.connection.send(encode({"type": "refused", "reason": reason}))
            self._gone(peer, reason)

    def _gone(self, peer: _Peer, reason: str, *, left: bool = False) -> None:
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if peer.rank < 0:
            return
        self._left[peer.rank] = reason
        self._peers.pop(peer.rank, None)
        for group in self._groups.values():
            if peer.rank not in group.ranks:
                continue
            if not left:
                self._fail_group(group, reason)
                continue
            for rank, number in group.leave(peer.rank, reason):
                self._send(rank, {"type": "failed", "number": number, "reason": reason})
        if not self._welcomed:
            self._refuse_all(reason)

    def _send(self, rank: int, message: Message) -> None:
        peer = self._peers.get(rank)
        if peer is not None:
            peer.outgoing.append(encode(message))
            self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        """Send what the connection takes without waiting for its rank."""
        try:
            while peer.outgoing:
                peer.connection.send(peer.outgoing[0], socket.MSG_DONTWAIT)
                peer.outgoing.popleft()
        except BlockingIOError:
            pass
        except OSError:
            peer.outgoing.clear()   # its end is read next
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outgoing else 0)
        if self._selector.get_key(peer.connection).events != wanted:
            self._selector.modify(peer.connection, wanted, peer)
