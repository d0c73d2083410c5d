# SPDX-License-Identifier: Apache-2.0
"""A serial port of this machine, which boards are at."""

import errno
import os
from typing import Self

from hw.errors import UserError

__all__ = ["TIMEOUT_S", "SerialPort"]

TIMEOUT_S = 0.5


class SerialPort:
    """:class:`fpga.board.host.Transport` over a serial port or a pseudo-terminal.

    Parameters
    ----------
    name : str
        Like ``/dev/ttyUSB0``.
    baud : int

    Raises
    ------
    UserError
        If it cannot be opened.
    """

    def __init__(self, name: str, baud: int) -> None:
        try:
            import serial
        except ModuleNotFoundError:
            raise UserError("A serial port needs the package pyserial; `pip install -e .[fpga]` installs it.") from None
        try:
            self._port = serial.Serial(name, baud, timeout=TIMEOUT_S, write_timeout=10, exclusive=True)
            self._port.reset_input_buffer()
        except (OSError, ValueError) as error:
            raise UserError(f"{name} cannot be opened: {_reason(error)}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._port.close()

    def write(self, data: bytes) -> None:
        self._port.write(data)

    def read(self, count: int) -> bytes:
        data: bytes = self._port.read(count)
        return data


def _reason(error: OSError | ValueError) -> str:
    # The exceptions of pyserial have sentences of their own, with the name in them again.
    number = getattr(error, "errno", None)
    if number == errno.EAGAIN:
        return "another program uses it"
    return os.strerror(number) if number else str(error)
