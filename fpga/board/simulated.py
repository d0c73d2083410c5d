# SPDX-License-Identifier: Apache-2.0
"""A board in simulation: cocotbext-uart drives the serial line, and the host's code runs in a thread beside it."""

import logging
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import cocotb
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, SimTimeoutError, with_timeout
from cocotbext.uart import UartSink, UartSource

from .core import BoardConfig
from .host import Board

__all__ = ["run"]

_Result = TypeVar("_Result")

# cocotbext-uart uses deprecated parts of cocotb, whose version is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")


class SimulatedLine:
    """:class:`fpga.board.host.Transport` over a UART of the simulation. Called from a bridged thread.

    Parameters
    ----------
    dut : handle
        Top with ``rx`` and ``tx``.
    baud : int
    """

    def __init__(self, dut: Any, baud: int) -> None:
        for name in ("rx", "tx"):
            logging.getLogger(f"cocotb.{getattr(dut, name)._path}").setLevel(logging.ERROR)
        self.source, self.sink = UartSource(dut.rx, baud=baud, bits=8), UartSink(dut.tx, baud=baud, bits=8)
        self.timeout = 200 * 10**9 // baud
        #: Called with each frame to send; what it returns is sent.
        self.spoil: Callable[[bytes], bytes] | None = None

    @resume
    async def write(self, data: bytes) -> None:
        if self.spoil is not None:
            data = self.spoil(data)
        await self.source.write(data)
        await self.source.wait()

    @resume
    async def read(self, count: int) -> bytes:
        while self.sink.count() < count:
            self.sink.sync.clear()
            try:
                await with_timeout(self.sink.sync.wait(), self.timeout, "ns")
            except SimTimeoutError:
                break
        return bytes(self.sink.read_nowait(min(count, self.sink.count())))


async def run(dut: Any, config: BoardConfig, job: Callable[[Board, SimulatedLine], _Result], *,
              reset: bool = False) -> _Result:
    """Run ``job(board, line)`` in a thread, with the board opened; returns what it returns.

    Parameters
    ----------
    dut : handle
        A :class:`fpga.board.core.BoardCore`.
    config : :class:`fpga.board.core.BoardConfig`
    job : callable
    reset : bool
        Hold the reset at first; a netlist has none.
    """
    Clock(dut.clk, round(10**12 / config.clock_hz / 2) * 2, "ps").start()
    line = SimulatedLine(dut, config.baud)
    if reset:
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
    await ClockCycles(dut.clk, 600)

    @bridge
    def host() -> _Result:
        return job(Board(line).open(), line)

    return await host()


def plain(test: Callable[[Board, SimulatedLine], object]) -> Any:
    """A cocotb test of a function ``test(board, line)``, over the board that ``$DMACE_BOARD`` names."""
    import json
    import os

    @cocotb.test(name=test.__name__)
    async def body(dut: Any) -> None:
        await run(dut, BoardConfig(**json.loads(os.environ["DMACE_BOARD"])), test)

    return body
