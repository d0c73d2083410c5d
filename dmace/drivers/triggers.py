# SPDX-License-Identifier: Apache-2.0
"""Driver of the trigger counters of an endpoint: registers of privileged software, and the stores of a tenant."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

from dmace.drivers.ace import AceBus
from dmace.drivers.registers import Bus, Lock, RegisterDriver
from hw.common.sizes import PAGE_BYTES, is_integer
from hw.regs import RegisterMap
from hw.triggers.config import COUNTERS_PER_BLOCK, SLOT_BYTES, TriggerConfig
from hw.triggers.words import ArmWord, Mode, Refusal, SlotField, TickWord

__all__ = ["CounterState", "RefusedTrigger", "StoredWord", "TriggerDriver"]

_WORD_BYTES = 16
"""Bytes of a store to a doorbell."""


class StoredWord(Protocol):
    """A word that a page accepts: a request, a command, a tick."""

    def to_bytes(self) -> bytes: ...


class CounterState(NamedTuple):
    """A counter, as TRIGGER_STATE and TRIGGER_REMAINING show it."""

    mode: Mode
    pending: int
    generation: int
    remaining: int

    @property
    def total(self) -> int:
        """The sum of all values modulo 2 ** 32, of a counter in mode SUM."""
        return -self.remaining % (1 << 32)


class RefusedTrigger(NamedTuple):
    """A refused tick, store of preparation or firing."""

    block: int
    counter: int
    code: Refusal


class TriggerDriver(RegisterDriver):
    """The part of :class:`dmace.drivers.endpoint.EndpointDriver` that concerns trigger counters.

    A refused store raises nothing: see :meth:`refused_trigger`. Raises ValueError for a block, counter or word that
    cannot be.

    Parameters
    ----------
    bus : :class:`dmace.drivers.registers.Bus`
        Access to the endpoint's own registers.
    register_map : :class:`RegisterMap`
        The endpoint's own.
    triggers : TriggerConfig
    doorbells : :class:`dmace.drivers.ace.AceBus`
        Access to all doorbell pages.
    lock : callable returning an async context manager, optional
    """

    def __init__(self, bus: Bus, register_map: RegisterMap, triggers: TriggerConfig, doorbells: AceBus, *,
                 lock: Lock = nullcontext) -> None:
        super().__init__(bus, register_map, lock=lock)
        self._triggers, self._doorbells = triggers, doorbells

    def _check_counter(self, block: int, counter: int = 0) -> None:
        for name, value, last in (("Block", block, self._triggers.blocks - 1),
                                  ("Counter", counter, COUNTERS_PER_BLOCK - 1)):
            if not is_integer(value, 0, last):
                raise ValueError(f"{name} must be an integer from 0 to {last}, not {value!r}")

    # Privileged software

    async def assign_block(self, block: int, pages: Iterable[int]) -> None:
        """Let a block's counters post to these doorbell pages, and to its own tick page, and to no others.

        Pages count from the first one of the endpoint: queues of the DMA engine, then those of the accelerator.
        """
        self._check_counter(block)
        mask = 0
        for page in pages:
            if not is_integer(page, 0, self._triggers.pages - 1):
                raise ValueError(f"Page must be an integer from 0 to {self._triggers.pages - 1}, not {page!r}")
            mask |= 1 << page
        async with self._lock():
            for number in range(-(-self._triggers.pages // 32)):
                await self.write(f"TRIGGER_PAGES_{number}", pages=mask >> 32 * number & 0xFFFF_FFFF)
            await self.write("TRIGGER_COMMIT", block=block)

    async def reset_block(self, block: int) -> None:
        """Discard all counts and pending firings of a block; returns after its last word has been posted."""
        self._check_counter(block)
        await self.write("TRIGGER_RESET", block=block)
        while (await self.read("TRIGGER_BUSY"))["blocks"] >> block & 1:
            pass

    async def read_counter(self, block: int, counter: int) -> CounterState:
        """:class:`CounterState` of a counter, consistent in itself."""
        self._check_counter(block, counter)
        async with self._lock():
            await self.write("TRIGGER_SELECT", counter=block * COUNTERS_PER_BLOCK + counter)
            while not (state := await self.read("TRIGGER_STATE"))["valid"]:
                pass
            remaining = (await self.read("TRIGGER_REMAINING"))["value"]
        return CounterState(Mode(state["mode"]), state["due"], state["generation"], remaining)

    async def refused_trigger(self) -> RefusedTrigger | None:
        """The first refusal since the last call, or None; the call clears it."""
        async with self._lock():
            fields = await self.read("TRIGGER_REFUSED")
            if not fields["valid"]:
                return None
            await self.write("TRIGGER_REFUSED", valid=1)
        return RefusedTrigger(fields["block"], fields["counter"], Refusal(fields["code"]))

    # A tenant with the block's pages

    async def tick(self, block: int, *ticks: TickWord, offset: int = 0, **options: Any) -> None:
        """Store ticks: pairs of them as 16 bytes, a single one as 8; ``offset`` is in the page, options are for the
        bus."""
        self._check_counter(block)
        page = self._triggers.tick_page(block) * PAGE_BYTES
        align = _WORD_BYTES if len(ticks) > 1 else _WORD_BYTES // 2
        if not is_integer(offset, 0, PAGE_BYTES - 1) or offset % align:
            raise ValueError(f"Offset of ticks must be a multiple of {align} in the page, not {offset!r}")
        for first in range(0, len(ticks), 2):
            data = b"".join(tick.to_bytes() for tick in ticks[first:first + 2])
            await self._doorbells.store(page + offset, data, **options)

    async def prepare(self, block: int, counter: int, words: Sequence[StoredWord], **options: Any) -> None:
        """Store the one or two words that a counter posts; the counter must not be armed.

        A word of 8 bytes, for instance a tick or a ring's tail, is extended by zeros.
        """
        self._check_counter(block, counter)
        if not 1 <= len(words) <= 2:
            raise ValueError(f"A counter posts one or two words, not {len(words)}")
        for field, word in zip((SlotField.FIRST_WORD, SlotField.SECOND_WORD), words, strict=False):
            data = word.to_bytes()
            if len(data) not in (_WORD_BYTES // 2, _WORD_BYTES):
                raise ValueError(f"A word of a counter must have 8 or 16 bytes, not {len(data)}")
            await self._store_slot(block, counter, field, data.ljust(_WORD_BYTES, b"\0"), **options)

    async def arm(self, block: int, counter: int, word: ArmWord, **options: Any) -> None:
        """Store the arm word of a counter."""
        self._check_counter(block, counter)
        await self._store_slot(block, counter, SlotField.ARM, word.to_bytes(), **options)

    async def _store_slot(self, block: int, counter: int, field: SlotField, data: bytes, **options: Any) -> None:
        page = self._triggers.preparation_page(block) * PAGE_BYTES
        await self._doorbells.store(page + counter * SLOT_BYTES + field * _WORD_BYTES, data, **options)
