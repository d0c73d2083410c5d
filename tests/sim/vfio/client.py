# SPDX-License-Identifier: Apache-2.0
"""A vfio-user client in Python: what QEMU sends, and what it never would."""

import json
import os
import socket
import struct
from pathlib import Path

HEADER = struct.Struct("<HHIII")
VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION_INFO = 1, 2, 3, 4, 5
GET_IRQ_INFO, SET_IRQS, REGION_READ, REGION_WRITE, RESET = 7, 8, 9, 10, 13
NO_REPLY, ERROR = 1 << 4, 1 << 5
BAR0, BAR2, CONFIG = 0, 2, 7
MSIX, TRIGGER_EVENTFD, TRIGGER_NONE = 2, 0x24, 0x21
COMMAND, DEVICE_CONTROL = 0x04, 0x78


class Refused(Exception):
    """The server has replied with an error; the argument is its number."""


class Client:
    """One connection. Methods named like commands raise :class:`Refused`."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self._id = 0

    def close(self) -> None:
        self.socket.close()

    def send(self, command: int, body: bytes = b"", fds=(), flags: int = 0) -> int:
        self._id = (self._id + 1) & 0xFFFF
        header = HEADER.pack(self._id, command, HEADER.size + len(body), flags, 0)
        socket.send_fds(self.socket, [header + body], list(fds))
        return self._id

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def reply(self) -> tuple[int, int, int, bytes]:
        """Number, command, errno and body of the next reply."""
        number, command, size, flags, error = HEADER.unpack(self.receive(HEADER.size))
        assert flags & 0xF == 1 and bool(flags & ERROR) == bool(error)
        return number, command, error, self.receive(size - HEADER.size)

    def call(self, command: int, body: bytes = b"", fds=()) -> bytes:
        sent = self.send(command, body, fds)
        number, replied, error, body = self.reply()
        assert (number, replied) == (sent, command)
        if error:
            raise Refused(error)
        return body

    def version(self) -> dict:
        body = self.call(VERSION, struct.pack("<2H", 0, 0) + b'{"capabilities": {}}\0')
        assert struct.unpack_from("<2H", body) == (0, 0)
        return json.loads(body[4:].rstrip(b"\0"))

    def dma_map(self, address: int, size: int, fd: int | None = None, *, offset: int = 0, rights: int = 3) -> None:
        self.call(DMA_MAP, struct.pack("<2I3Q", 32, rights, offset, address, size), () if fd is None else (fd,))

    def dma_unmap(self, address: int, size: int, flags: int = 0) -> None:
        self.call(DMA_UNMAP, struct.pack("<2I2Q", 24, flags, address, size))

    def read(self, region: int, offset: int, count: int = 4) -> int:
        body = self.call(REGION_READ, struct.pack("<Q2I", offset, region, count))
        assert struct.unpack_from("<Q2I", body) == (offset, region, count)
        return int.from_bytes(body[16:16 + count], "little")

    def write(self, region: int, offset: int, value: int | bytes, count: int = 4) -> None:
        data = value if isinstance(value, bytes) else value.to_bytes(count, "little")
        self.call(REGION_WRITE, struct.pack("<Q2I", offset, region, len(data)) + data)

    def set_irqs(self, first: int, fds, flags: int = TRIGGER_EVENTFD, count: int | None = None,
                 index: int = MSIX) -> None:
        self.call(SET_IRQS, struct.pack("<5I", 20, flags, index, first, len(fds) if count is None else count), fds)

    def enable(self) -> None:
        """Memory, bus mastering and extended tags."""
        self.write(CONFIG, COMMAND, 6, 2)
        self.write(CONFIG, DEVICE_CONTROL, 0x2850 | 1 << 8, 2)


def memory(size: int) -> int:
    """Descriptor of shared memory."""
    fd = os.memfd_create("memory")
    os.ftruncate(fd, size)
    return fd
