# SPDX-License-Identifier: Apache-2.0
"""A board as a device of the runtime: ``dmace.open("uart:/dev/ttyUSB0")``.

Its card is the DMA engine of the first endpoint alone: registers at the beginning of BAR 0 and all ones behind them, no
interrupts. Memory is that of the board, in pages, the first free ones that suffice.
"""

import contextlib
import errno
from collections.abc import Callable

from dmace.drivers.dma import DmaDriver
from dmace.runtime.errors import DmaceError
from hw.dma_engine.config import PRESETS
from hw.endpoint.registers import WINDOWS
from hw.errors import UserError
from hw.regs import Access

from .core import BoardConfig
from .host import Board, BoardError, EngineBus, wait
from .protocol import Space
from .serial_port import SerialPort

__all__ = ["BoardTransport", "open_board"]

_ENGINE_BYTES = WINDOWS["ACE"]
_AGREEMENTS = 16


class BoardTransport:
    """:class:`dmace.runtime.transport.HostTransport` over a board with a DMA engine.

    Parameters
    ----------
    board : :class:`Board`
        It is open.
    close : callable
        Closes what carries the board's bytes.
    """

    name = "uart"

    def __init__(self, board: Board, close: Callable[[], None] = lambda: None) -> None:
        if board.config.design not in ("dma", "endpoint"):
            raise BoardError(f"The board's design is {board.config.design}, which has no DMA engine.")
        self.board, self._close = board, close
        self._registers = Space.REGISTERS << 28
        self._free = [(0, board.config.memory)]     # addresses and lengths, in order, never adjacent
        self._words: dict[int, bytes] = {}          # addresses of 8 bytes, and what was there
        self._bus = EngineBus(board, Space.REGISTERS, 0)
        # Registers are those of every engine; only sizes differ, which are read from it.
        self._driver = DmaDriver(self._bus, PRESETS["wide"])

    # Registers and doorbells

    def read(self, offset: int) -> int:
        if not 0 <= offset < _ENGINE_BYTES:
            return 0xFFFF_FFFF
        return self.board.read_words(self._registers | offset, 1)[0]

    def write(self, offset: int, value: int) -> None:
        if 0 <= offset < _ENGINE_BYTES:
            self.board.write_words(self._registers | offset, [value])

    def store(self, offset: int, data: bytes) -> None:
        self.board.store(0, offset, data)

    # Memory

    def allocate(self, length: int) -> int:
        for number, (address, free) in enumerate(self._free):
            if free >= length:
                self._free[number:number + 1] = [(address + length, free - length)] if free > length else []
                return address
        largest = max((free for _, free in self._free), default=0)
        raise DmaceError(f"The board's memory has {self.board.config.memory:,} bytes, of which {largest:,} are free in "
                         f"one piece, not {length:,}.", errno.ENOMEM)

    def release(self, address: int, length: int) -> None:
        spans = sorted([*self._free, (address, length)])
        joined = [spans[0]]
        for start, size in spans[1:]:
            last, before = joined[-1]
            if start < last + before:
                raise DmaceError(f"The board's memory from {address:#x} to {address + length:#x} is not allocated.",
                                 errno.EINVAL)
            if start == last + before:
                joined[-1] = (last, before + size)
            else:
                joined.append((start, size))
        self._free = joined

    def load(self, address: int, length: int) -> bytes:
        """Bytes of the memory; 8 aligned ones, which may be a completion word, as they were at one time."""
        found = self.board.read_memory(0, address, length)
        if length != 8 or address % 8:
            return found
        # The line carries two words, and the engine may write both in between. What was there before was whole.
        for _ in range(_AGREEMENTS):
            if found == self._words.get(address):
                break
            self._words[address], found = found, self.board.read_memory(0, address, 8)
        else:
            del self._words[address]
            raise BoardError(f"The 8 bytes at {address:#x} of the board change faster than the line can read them.")
        return found

    def save(self, address: int, data: bytes) -> None:
        self._words.clear()
        self.board.write_memory(0, address, data)

    # The engine as a whole

    def reset(self) -> None:
        """Reset queues, tables and registers, one after the other; counters of the engine stay."""
        sizes = wait(self._driver.read("SIZES"))
        for queue in range(1 << sizes["queue_bits"]):
            wait(self._driver.reset(queue))
            while wait(self._driver.state(queue)).resetting:
                pass
            # A descriptor ring keeps its part of the descriptor buffer until its queue has another mode.
            wait(self._driver.configure_queue(queue))
        for region in range(1 << sizes["region_bits"]):
            wait(self._driver.define_region(region, base=0, length=0, valid=False))
        sizes = wait(self._driver.read("SIZES_2"))
        for page in range(1 << sizes["page_bits"]):
            wait(self._driver.define_page(page, None))
        for connection in range(1 << sizes["connection_bits"]):
            wait(self._driver.define_connection(connection, base=0, rc=0, valid=False))
        wait(self._driver.quiesce())
        while wait(self._driver.pop_log()):
            pass
        for register in self._driver.map.registers:
            if any(field.access is Access.RW for field in register.fields):
                wait(self._bus.write(register.offset, register.reset))
        wait(self._driver.acknowledge(error=True, completion=True, register=True))
        self._bus.flush()
        self._words.clear()

    def close(self) -> None:
        """Reset the engine, if the board still responds, and close the line."""
        try:
            with contextlib.suppress(UserError):
                self.reset()
        finally:
            self._close()


def open_board(name: str) -> BoardTransport:
    """The board at a serial port, ``/dev/ttyUSB0`` or ``/dev/ttyUSB0,baud=115200``.

    Raises
    ------
    DmaceError
        If the option is wrong.
    UserError
        If the port cannot be opened, or no board with a DMA engine is there.
    """
    path, comma, option = name.partition(",")
    key, _, text = option.partition("=")
    baud = int(text) if text.isdecimal() else 0
    if comma and (key != "baud" or not 300 <= baud <= 12_000_000):
        raise DmaceError(f"A board has the option baud=RATE, from 300 to 12000000, not {option!r}.")
    port = SerialPort(path, baud if comma else BoardConfig().baud)
    try:
        return BoardTransport(Board(port).open(), port.close)
    except BaseException:
        port.close()
        raise
