# SPDX-License-Identifier: Apache-2.0
"""Base of the drivers: access to registers by name, over any bus.

The names and bits come from a register map. Nothing here knows about simulation.
"""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from hw.regs import REFUSED_WORD, REFUSED_WRITE, RegisterMap

__all__ = ["Bus", "Lock", "RegisterDriver", "wait"]

_Result = TypeVar("_Result")


class Bus(Protocol):
    """32-bit registers at byte offsets."""

    async def read(self, offset: int) -> int: ...

    async def write(self, offset: int, value: int) -> None: ...


Lock = Callable[[], AbstractAsyncContextManager[Any]]
"""Makes what is held around sequences of accesses that belong together, where several tasks use a driver."""


def wait(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Result of a driver's coroutine whose bus never waits for anything else."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
    coroutine.close()
    raise RuntimeError("A driver waits for something else than its bus")


class RegisterDriver:
    """Reads and writes the registers of one engine.

    Parameters
    ----------
    bus : :class:`Bus`
        Access to the registers.
    register_map : :class:`RegisterMap`
        With constant registers ``ID`` and ``VERSION``.
    lock : callable returning an async context manager, optional
        Held around sequences of accesses that belong together, where several tasks use the driver.
    """

    def __init__(self, bus: Bus, register_map: RegisterMap, *, lock: Lock = nullcontext) -> None:
        self.bus, self.map, self._lock = bus, register_map, lock
        self._named = {register.name: register for register in register_map.registers}

    async def read(self, register: str) -> dict[str, int]:
        """Fields of a register, by name."""
        described = self._named[register]
        return described.unpack(await self.bus.read(described.offset))

    async def write(self, register: str, /, **fields: int) -> None:
        """Write a register; fields that are not named become 0."""
        described = self._named[register]
        await self.bus.write(described.offset, described.pack(**fields))

    async def _write_pair(self, name: str, value: int) -> None:
        await self.write(f"{name}_LO", value=value & 0xFFFF_FFFF)
        await self.write(f"{name}_HI", value=value >> 32)

    async def _check_identity(self, *sizes: str) -> None:
        """Raise RuntimeError unless ID, VERSION and the registers of sizes are as the map has them."""
        names = ("ID", "VERSION")
        known = [self.map[name].reset for name in names]
        read = [(await self.read(name))["value"] for name in names]
        if read != known:
            raise RuntimeError(f"ID and VERSION are {read[0]:#x} and {read[1]}, "
                               f"not {known[0]:#x} and {known[1]}")
        expected: dict[str, int] = {}
        found: dict[str, int] = {}
        for name in sizes:
            expected |= self.map[name].unpack(self.map[name].reset)
            found |= await self.read(name)
        if found != expected:
            raise RuntimeError(f"The engine's sizes are {found}, not {expected}")

    async def refused_write(self) -> str | None:
        """The first write refused since the last call, as a sentence, or None; the call clears it."""
        async with self._lock():
            fields = await self.read(REFUSED_WRITE)
            if not fields["valid"]:
                return None
            word = (await self.read(REFUSED_WORD))["word"]
            await self.write(REFUSED_WRITE, valid=1)
        register = next(register for register in self.map.registers if register.offset == fields["offset"])
        return f"The write of {word:#x} to {register.name} was refused: {register.illegal(word) or register.guard}"

    async def enable_interrupts(self, **sources: bool) -> None:
        """Let these sources, and no others, drive irq."""
        await self.write("IRQ_ENABLE", **{name: int(enable) for name, enable in sources.items()})

    async def interrupts(self) -> dict[str, int]:
        return await self.read("IRQ_STATUS")

    async def acknowledge(self, **sources: bool) -> None:
        """Clear these sources."""
        await self.write("IRQ_STATUS", **{name: int(clear) for name, clear in sources.items()})
