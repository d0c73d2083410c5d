# SPDX-License-Identifier: Apache-2.0
"""The clock and the reset of the engine on a card with two clocks: ``engine_clk`` and ``engine_rst``."""

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer

__all__ = ["EngineClock"]

START_CYCLES = 8
"""Length of the first reset."""


class EngineClock:
    """Any frequency, and a phase that changes on request.

    Parameters
    ----------
    dut : handle
        A card with ``two_clocks``.
    mhz : int
        Frequency.
    rng : :class:`random.Random`
        Of phases.

    Attributes
    ----------
    period : int
        In ps, even.
    """

    def __init__(self, dut: Any, mhz: int, rng: random.Random) -> None:
        self._dut, self._rng = dut, rng
        self.period = round(500_000 / mhz) * 2
        self._clock: Clock | None = None
        dut.engine_clk.value, dut.engine_rst.value = 0, 1
        cocotb.start_soon(self._begin())

    async def _begin(self) -> None:
        await self.shift()
        await self.reset(START_CYCLES)

    async def shift(self, phase: float | None = None) -> None:
        """Another phase: random, or this part of a period, by one cycle that is longer than the others."""
        if self._clock is not None:
            await RisingEdge(self._dut.engine_clk)
            await Timer(self.period // 2 - 2, "ps")
            self._clock.stop()
            self._dut.engine_clk.value = 0
        phase = self._rng.random() if phase is None else phase
        await Timer(self.period // 2 + 2 + 2 * round(phase * self.period / 2), "ps")
        self._clock = Clock(self._dut.engine_clk, self.period, unit="ps")
        self._clock.start(start_high=True)

    async def reset(self, cycles: int) -> None:
        """Assert ``engine_rst`` for some cycles of the engine's clock."""
        await RisingEdge(self._dut.engine_clk)
        self._dut.engine_rst.value = 1
        await ClockCycles(self._dut.engine_clk, cycles)
        self._dut.engine_rst.value = 0
