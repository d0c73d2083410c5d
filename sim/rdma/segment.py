# SPDX-License-Identifier: Apache-2.0
"""The Ethernet segment between a virtual machine and a station of ours, on a UNIX socket.

QEMU's ``-netdev stream`` sends each frame behind its length, 4 bytes with the highest first.
"""

import select
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hw.errors import UserError
from sim.rdma.connection import Station
from sim.rdma.neighbours import is_request, reply
from sim.rdma.packets import addressed_to, checksum

__all__ = ["Segment", "SegmentClosed", "datagram", "payload_of"]

_LENGTH = struct.Struct(">I")
_LONGEST = 1 << 16


class SegmentClosed(UserError):
    """The other end has closed the segment, or never connected."""

    status = 1


def datagram(source: Station, destination: Station, ports: tuple[int, int], data: bytes) -> bytes:
    """A frame with a UDP datagram over IPv4, without UDP checksum; ``ports``: source and destination."""
    udp = struct.pack(">HHHH", *ports, 8 + len(data), 0) + data
    fields = (0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17)
    addresses = source.ip + destination.ip
    header = struct.pack(">BBHHHBBH", *fields, checksum(struct.pack(">BBHHHBBH", *fields, 0) + addresses)) + addresses
    return destination.mac + source.mac + b"\x08\x00" + header + udp


def payload_of(frame: bytes, port: int) -> bytes | None:
    """Data of a UDP datagram over IPv4 to ``port``; None for any other frame."""
    if frame[12:15] != b"\x08\x00\x45" or frame[23:24] != b"\x11" or frame[36:38] != struct.pack(">H", port):
        return None
    (length,) = struct.unpack_from(">H", frame, 38)
    return frame[42:34 + length]


class Segment:
    """Our end of the segment, with a station that responds to requests for its Ethernet address, in any VLAN.

    Parameters
    ----------
    path : Path
        The socket, on which it listens.
    station : Station
    addresses : sequence of bytes
        Further IP addresses of the station.

    Attributes
    ----------
    drop_sent, drop_received : callable
        From a frame to whether it is dropped; default: none is. ARP and neighbour discovery are not
        subject to them.
    observe : callable
        Receives ``(sent, frame)`` for each frame that reaches the segment, before it is dropped.
    counts : Counter
        ``sent``, ``received``, ``dropped_sent``, ``dropped_received``, ``replies`` to ARP and neighbour
        discovery.
    """

    def __init__(self, path: Path, station: Station, addresses: Sequence[bytes] = ()) -> None:
        self.station, self._addresses = station, (station.ip, *addresses)
        self.drop_sent: Callable[[bytes], bool] = lambda frame: False
        self.drop_received: Callable[[bytes], bool] = lambda frame: False
        self.observe: Callable[[bool, bytes], None] = lambda sent, frame: None
        self.counts: Counter[str] = Counter()
        self._listener: socket.socket | None = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for one in (self._listener, self._socket):
            if one is not None:
                one.close()

    def accept(self, timeout: float) -> None:
        """Wait for the other end, in seconds. Raises :class:`SegmentClosed` if it does not connect."""
        assert self._listener is not None
        self._listener.settimeout(timeout)
        try:
            self._socket, _ = self._listener.accept()
        except TimeoutError:
            raise SegmentClosed(f"Nothing has connected to the segment within {timeout:g} seconds.") from None
        self._listener.close()
        self._listener = None

    def send(self, frame: bytes) -> None:
        """Send a frame to the other end."""
        self.observe(True, frame)
        if self.drop_sent(frame):
            self.counts["dropped_sent"] += 1
            return
        self.counts["sent"] += 1
        self._write(frame)

    def _write(self, frame: bytes) -> None:
        if self._socket is None:
            raise SegmentClosed("Nothing is connected to the segment.")
        self._socket.setblocking(True)
        try:
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
        except OSError:
            raise SegmentClosed("The other end has closed the segment.") from None

    def receive(self, timeout: float) -> bytes | None:
        """The next frame for the station, or None after ``timeout`` seconds without one."""
        end = time.monotonic() + timeout
        while not self._frames:
            left = end - time.monotonic()
            if self._socket is None:
                raise SegmentClosed("Nothing is connected to the segment.")
            if not select.select([self._socket], [], [], max(0.0, left))[0]:
                return None
            self._read()
        return self._frames.popleft()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            raise SegmentClosed("The other end has closed the segment.")
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= 4:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            if length > _LONGEST:
                raise SegmentClosed(f"A frame of {length} bytes is no Ethernet frame; the other end is not QEMU.")
            if len(self._buffer) - at - 4 < length:
                break
            self._take(bytes(self._buffer[at + 4:at + 4 + length]))
            at += 4 + length
        del self._buffer[:at]

    def _take(self, frame: bytes) -> None:
        if is_request(frame):
            response = reply(frame, self.station.mac, self._addresses)
            if response is not None:
                self.counts["replies"] += 1
                self._write(response)
        elif addressed_to(frame, self.station.mac):
            self.observe(False, frame)
            if self.drop_received(frame):
                self.counts["dropped_received"] += 1
            else:
                self.counts["received"] += 1
                self._frames.append(frame)
