# SPDX-License-Identifier: Apache-2.0
"""Server of perftest's clients (``ib_write_bw`` and so on, version 6): the exchange over TCP that sets a connection up.

::

    with PerftestServer(Tool.WRITE_BW, connect) as server:      # ib_write_bw -p {server.port} 127.0.0.1
        while not server.done:
            server.poll()

``connect`` opens the queue pair to the client's :class:`Keys`, and returns its own. The server responds to each message
with one of the same size, and so leaves all options, such as the path MTU, to the client. It has no data path.
"""

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Self

from hw.errors import UserError

__all__ = ["Keys", "PerftestFailed", "PerftestServer", "Tool"]

_VERSION, _NUMBER, _MTU, _REPORT, _DONE = 16, 4, 2, 8, 5
_REPORTS = 5
_KEYS = 108
_FORM = re.compile(rb"([0-9a-f]{4}):([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{8}):([0-9a-f]{16}):"
                   rb"((?:[0-9a-f]{2}:){16})([0-9a-f]{8}):\0")


class PerftestFailed(UserError):
    """A client's message is not that of perftest 6."""

    status = 1


class Tool(IntEnum):
    """Programs, in the order of the guest's command ``perftest``."""

    WRITE_BW = 0
    WRITE_LAT = 1
    READ_BW = 2
    READ_LAT = 3

    @property
    def bandwidth(self) -> bool:
        """Whether it measures bandwidth."""
        return self in (Tool.WRITE_BW, Tool.READ_BW)


@dataclass(frozen=True, kw_only=True)
class Keys:
    """One end of a connection.

    Parameters
    ----------
    qpn, psn : int
        24 bits.
    reads : int
        READs that this end accepts in flight.
    rkey, address : int
        Of its memory.
    gid : bytes
        16 bytes: an IPv6 address, or ::ffff: and an IPv4 address.
    """

    qpn: int
    psn: int
    reads: int
    rkey: int
    address: int
    gid: bytes

    def encode(self) -> bytes:
        """The message, of 108 bytes: LID, READs, QPN, PSN, R_Key, address, GID, SRQ number."""
        gid = "".join(f"{byte:02x}:" for byte in self.gid)
        return (f"0000:{self.reads:04x}:{self.qpn:06x}:{self.psn:06x}:{self.rkey:08x}:{self.address:016x}:{gid}"
                f"{0:08x}:\0").encode()

    @staticmethod
    def decode(message: bytes) -> "Keys":
        """Keys of a message. Raises :class:`PerftestFailed`."""
        found = _FORM.fullmatch(message)
        if found is None:
            raise PerftestFailed(f"A client's keys have the form of perftest 6 with a GID, not {message!r}.")
        reads, qpn, psn, rkey, address = (int(text, 16) for text in found.groups()[1:6])
        return Keys(qpn=qpn, psn=psn, reads=reads, rkey=rkey, address=address,
                    gid=bytes.fromhex(found[7].decode().replace(":", "")))


class PerftestServer:
    """Server of one client, at a free port of the loopback.

    Parameters
    ----------
    tool : Tool
    connect : callable
        From the client's keys to its own, once the queue pair is open. Default of the client's path MTU: the port's.

    Attributes
    ----------
    port : int
    ready : bool
        The client has begun, or is about to.
    done : bool
        The exchange has ended.
    client : Keys or None
    """

    def __init__(self, tool: Tool, connect: Callable[[Keys], Keys]) -> None:
        self._tool, self._connect = tool, connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.ready = self.done = False
        self.client: Keys | None = None
        self._own: Keys | None = None
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._exchange = self._messages()
        self._wanted = next(self._exchange)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for one in (self._listener, self._socket):
            if one is not None:
                one.close()

    def poll(self) -> None:
        """Take what has arrived, and respond. Raises :class:`PerftestFailed`."""
        try:
            if self._socket is None:
                self._socket, _ = self._listener.accept()
                self._socket.setblocking(False)
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self._buffer += data
        while not self.done and len(self._buffer) >= self._wanted:
            self._advance()
        if not data and not self.done:
            raise PerftestFailed(f"The client has closed the connection after {len(self._buffer)} of {self._wanted} "
                                 f"bytes of a message.")

    def _advance(self) -> None:
        try:
            self._wanted = next(self._exchange)
        except StopIteration:
            self.done = True

    def _messages(self) -> Iterator[int]:
        """Bytes of each message, in order; resumed when they have arrived."""
        for size in (_VERSION, _NUMBER, _NUMBER, _MTU):         # cycle buffer and cache line in between
            yield size
            self._respond(self._take(size))
        # The first message of a latency test is repeated; the latter two follow RTR and RTS.
        for _ in range(3 if self._tool.bandwidth else 4):
            yield _KEYS
            self._respond(self._keys(self._take(_KEYS)).encode())
        self.ready = True
        if self._tool is Tool.WRITE_LAT:
            return
        if self._tool.bandwidth:
            yield _KEYS
            self._respond(self._keys(self._take(_KEYS)).encode())
            for _ in range(_REPORTS):
                yield _REPORT
                self._respond(self._take(_REPORT))
        yield _KEYS
        self._respond(self._keys(self._take(_KEYS)).encode())
        yield _DONE
        if self._take(_DONE) != b"done\0":
            raise PerftestFailed("The last message of a client is not \"done\".")

    def _keys(self, message: bytes) -> Keys:
        keys = Keys.decode(message)
        if self._own is None:
            self.client, self._own = keys, self._connect(keys)
        elif keys != self.client:
            raise PerftestFailed("A client's keys have changed.")
        return self._own

    def _take(self, size: int) -> bytes:
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _respond(self, message: bytes) -> None:
        assert self._socket is not None
        self._socket.sendall(message)
