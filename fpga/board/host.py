# SPDX-License-Identifier: Apache-2.0
"""A board seen from its host: words, bytes, registers and doorbells over any transport.

Nothing here knows what carries the bytes: a :class:`Transport` is a serial port, a pseudo-terminal or a simulation.
"""

import struct
from collections.abc import Sequence
from typing import Protocol, Self

from dmace.drivers.registers import RegisterDriver, wait
from hw.dma_engine.config import PRESETS as DMA_PRESETS
from hw.errors import UserError

from . import registers
from .core import DESIGNS, BoardConfig
from .protocol import (
    HEADER_BYTES,
    MAX_WORDS,
    RESPONSE_SYNC,
    Operation,
    Response,
    Space,
    Status,
    parse_response,
    request,
    response_length,
)

__all__ = ["Board", "BoardError", "EngineBus", "Transport", "wait"]

TRIES = 3


class BoardError(UserError):
    """A board does not respond, or its response is invalid."""

    status = 1


class Transport(Protocol):
    """Bytes to and from a board."""

    def write(self, data: bytes) -> None: ...

    def read(self, count: int) -> bytes:
        """Up to ``count`` bytes; fewer if they do not arrive in time."""


class Board:
    """Reads and writes a board's words.

    Parameters
    ----------
    transport : :class:`Transport`

    Attributes
    ----------
    config : :class:`BoardConfig`
        The board's configuration, which :meth:`open` reads from it.
    sent_again : int
        Requests that were sent more than once.
    """

    config: BoardConfig
    panel: RegisterDriver

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.sent_again = 0
        self._sequence = 0

    def open(self) -> Self:
        """Ask what is there; returns ``self``."""
        self._exchange(Operation.HELLO)
        identity, version = self.read_words(0, 2)
        if (identity, version) != (registers.ID, registers.VERSION):
            raise BoardError(f"The board says {identity:#x}, version {version}, not {registers.ID:#x}, "
                             f"version {registers.VERSION}; build and load it again.")
        self.panel = RegisterDriver(EngineBus(self, Space.BOARD, 0), registers.register_map(BoardConfig()))
        design = wait(self.panel.read("DESIGN"))
        self.config = BoardConfig(
            design=DESIGNS[design["kind"]], preset=list(DMA_PRESETS)[design["preset"]],
            endpoints=design["endpoints"], memory=1 << design["memory_bits"],
            clock_hz=wait(self.panel.read("CLOCK"))["value"])
        return self

    # Words

    def read_words(self, address: int, count: int) -> list[int]:
        """List of ``count`` words from an address that is a multiple of 4."""
        found: list[int] = []
        while len(found) < count:
            at = address + 4 * len(found)
            step = min(MAX_WORDS, count - len(found))
            found += self._exchange(Operation.READ, at, count=step).words
        return found

    def write_words(self, address: int, words: Sequence[int]) -> None:
        """Write words from an address that is a multiple of 4."""
        for first in range(0, len(words), MAX_WORDS):
            self._exchange(Operation.WRITE, address + 4 * first, words=words[first:first + MAX_WORDS])

    # Memory

    def read_memory(self, endpoint: int, offset: int, count: int) -> bytes:
        """``count`` bytes of an endpoint's memory."""
        self._check_memory(endpoint, offset, count)
        first, last = offset & ~3, (offset + count + 3) & ~3
        words = self.read_words(self._address(Space.MEMORY, endpoint, first), (last - first) // 4)
        return struct.pack(f"<{len(words)}I", *words)[offset - first:offset - first + count]

    def write_memory(self, endpoint: int, offset: int, data: bytes) -> None:
        """Write bytes to an endpoint's memory; what shares a word with them at either end is read and kept."""
        if not data:
            return
        self._check_memory(endpoint, offset, len(data))
        first, end = offset & ~3, offset + len(data)
        head = self.read_memory(endpoint, first, offset - first) if offset != first else b""
        tail = self.read_memory(endpoint, end, -end % 4) if end % 4 else b""
        data = head + bytes(data) + tail
        self.write_words(self._address(Space.MEMORY, endpoint, first), struct.unpack(f"<{len(data) // 4}I", data))

    def store(self, endpoint: int, address: int, data: bytes) -> None:
        """Store 4, 8 or 16 bytes to a doorbell at once, as a GPU thread does."""
        if len(data) not in (4, 8, 16) or address % len(data):
            raise ValueError(f"A store has 4, 8 or 16 bytes at a multiple of its length, not {len(data)} "
                             f"at {address:#x}")
        self.write_words(self._address(Space.DOORBELLS, endpoint, address),
                         struct.unpack(f"<{len(data) // 4}I", data))

    def stopwatch(self) -> int:
        """Cycles from the doorbell last rung to the last response to a write."""
        began, ended = [wait(self.panel.read(name))["value"] for name in ("BEGAN", "ENDED")]
        return (ended - began) % (1 << 32)

    def _check_memory(self, endpoint: int, offset: int, count: int) -> None:
        if not 0 <= endpoint < self.config.endpoints:
            raise UserError(f"The board has endpoints 0 to {self.config.endpoints - 1}, not {endpoint}.")
        if offset < 0 or count < 0 or offset + count > self.config.memory:
            raise UserError(f"The board's memory has {self.config.memory:,} bytes, and {offset:#x} to "
                            f"{offset + count:#x} is not within it.")

    @staticmethod
    def _address(space: Space, endpoint: int, offset: int) -> int:
        return space << 28 | endpoint << 24 | offset

    # Frames

    def _exchange(self, operation: Operation, address: int = 0, *, words: Sequence[int] = (),
                  count: int | None = None) -> Response:
        self._sequence = (self._sequence + 1) % 256
        frame = request(self._sequence, operation, address, words=words, count=count)
        for attempt in range(TRIES):
            self.sent_again += attempt > 0
            self.transport.write(frame)
            response = self._response()
            if response is None:
                continue
            if response.status != Status.OK:
                raise BoardError(f"The board returned {_name(response.status)} for {operation.name} at "
                                 f"{address:#010x}.")
            return response
        raise BoardError(f"The board does not respond (tried {TRIES} times); is it loaded, and is this its port?")

    def _response(self) -> Response | None:
        """The response to the latest request, or None if no complete one arrived in time."""
        while True:
            first = self.transport.read(1)
            if not first:
                return None
            if first[0] != RESPONSE_SYNC:
                continue
            header = first + self.transport.read(HEADER_BYTES - 1)
            if len(header) < HEADER_BYTES:
                return None
            rest = self.transport.read(response_length(header) - HEADER_BYTES)
            if len(rest) < response_length(header) - HEADER_BYTES:
                return None
            response = parse_response(header + rest)
            if response is None or response.sequence == self._sequence:
                return response


class EngineBus:
    """Registers and doorbells of one endpoint, as the drivers of ``sim`` want them.

    Writes to consecutive registers are sent together, before anything is read or stored.
    """

    def __init__(self, board: Board, space: Space, endpoint: int) -> None:
        self.board, self.endpoint = board, endpoint
        self._base = space << 28 | endpoint << 24
        self._first = 0
        self._words: list[int] = []

    async def read(self, offset: int) -> int:
        self.flush()
        return self.board.read_words(self._base | offset, 1)[0]

    async def write(self, offset: int, value: int) -> None:
        if self._words and (offset != self._first + 4 * len(self._words) or len(self._words) == MAX_WORDS):
            self.flush()
        if not self._words:
            self._first = offset
        self._words.append(value)

    async def store(self, address: int, data: bytes) -> None:
        self.flush()
        self.board.store(self.endpoint, address, data)

    def flush(self) -> None:
        """Send the writes that are waiting."""
        if self._words:
            words = self._words
            self._words = []
            self.board.write_words(self._base | self._first, words)


def _name(status: int) -> str:
    try:
        return Status(status).name
    except ValueError:
        return f"status {status}"
