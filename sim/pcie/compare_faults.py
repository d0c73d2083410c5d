# SPDX-License-Identifier: Apache-2.0
"""Faults of ``dmace compare pcie``: pages whose reads fail, in ways that change, and the hard block's own time-out."""

import random
from collections import Counter
from typing import TYPE_CHECKING

import cocotb
from cocotb.triggers import ClockCycles

from hw.common.sizes import PAGE_BYTES
from sim.pcie.faults import Fault, Injection

if TYPE_CHECKING:
    from sim.pcie.card import CardSystem
    from sim.pcie.compare_layout import Memories

__all__ = ["TIMEOUT_CYCLES", "Expiry", "FaultyPages", "counter_limits", "fault_of"]

TIMEOUT_CYCLES = 2_500
"""``COMPLETION_TIMEOUT``; every read that completes does so in half of this time."""

_SLVERR = (Fault.COMPLETER_ABORT, Fault.POISONED, Fault.NO_DATA, Fault.WRONG_BYTE_COUNT, Fault.WRONG_LOWER_ADDRESS,
           Fault.WRONG_ATTRIBUTES, Fault.DROPPED)
_WEIGHTS = (4, 4, 2, 2, 2, 2, 1)
"""Those that lead to time-outs are rare, for they take long."""
_MALFORMED = (Fault.NO_DATA, Fault.WRONG_BYTE_COUNT, Fault.WRONG_LOWER_ADDRESS, Fault.WRONG_ATTRIBUTES)


def fault_of(response: str, rng: random.Random) -> Fault:
    """A fault that becomes this response, "SLVERR" or "DECERR"."""
    return Fault.UNSUPPORTED_REQUEST if response == "DECERR" else rng.choices(_SLVERR, _WEIGHTS)[0]


def counter_limits(injected: Counter[Fault]) -> dict[str, tuple[int, int]]:
    """Least and greatest value of the adapter's counters after these faults.

    A copy with another tag may be one of a completion with a fault. A request that the hard block times out counts as
    malformed. Completions of a request after the one that made it fail are unexpected.
    """
    copies, late = injected[Fault.UNEXPECTED_TAG], injected[Fault.DUPLICATE]
    silent = sum(injected[fault] for fault in (Fault.DROPPED, *_MALFORMED))
    malformed = sum(injected[fault] for fault in _MALFORMED)
    return {
        "UNSUPPORTED": (injected[Fault.UNSUPPORTED_REQUEST], injected[Fault.UNSUPPORTED_REQUEST]),
        "ABORTED": (injected[Fault.COMPLETER_ABORT], injected[Fault.COMPLETER_ABORT]),
        "POISONED": (injected[Fault.POISONED], injected[Fault.POISONED]),
        "MALFORMED": (malformed, malformed + silent),
        "TIMED_OUT": (0, silent),
        "UNEXPECTED": (copies + late, copies + late + 8 * (silent + injected[Fault.POISONED])),
    }


class FaultyPages:
    """Pages whose reads all fail with one response.

    Parameters
    ----------
    memory : :class:`Memories`
    rng : :class:`random.Random`
    """

    def __init__(self, memory: "Memories", rng: random.Random) -> None:
        self._memory, self._rng = memory, rng
        self._pages: dict[int, tuple[str, bool, Injection]] = {}

    def fail(self, address: int, response: str, *, whole: bool = False) -> None:
        """Let all reads of the page of ``address`` have a fault, chosen at random, that becomes this response.

        ``whole``: from their first byte on. Else their first completions may be right.
        """
        page = address - address % PAGE_BYTES
        self.repair(page)
        completer, offset = self._memory.place(page)
        piece = 0 if whole else self._rng.choice((0, 0, 1, 3))
        injection = Injection(fault_of(response, self._rng), piece=piece, times=None,
                              addresses=range(offset, offset + PAGE_BYTES))
        completer.inject(injection)
        self._pages[page] = response, whole, injection

    def repair(self, address: int) -> None:
        """Let the page work again."""
        page = address - address % PAGE_BYTES
        if page in self._pages:
            *_, injection = self._pages.pop(page)
            self._memory.place(page)[0].withdraw(injection)

    def change(self) -> None:
        """Choose the faults again; the responses stay."""
        for page, (response, whole, _) in list(self._pages.items()):
            self.fail(page, response, whole=whole)

    def one(self, first: int, length: int, response: str, after: int) -> tuple[Injection, int]:
        """Let one read of these bytes fail, after ``after`` good ones."""
        completer, offset = self._memory.place(first)
        injection = Injection(fault_of(response, self._rng), piece=self._rng.choice((0, 0, 1, 3)), after=after,
                              addresses=range(offset, offset + length))
        completer.inject(injection)
        return injection, first

    def pending(self, injection: Injection, address: int) -> bool:
        """Whether the fault has not happened; it will not any more."""
        return self._memory.place(address)[0].withdraw(injection)

    def injected(self) -> Counter[Fault]:
        """Reads with each fault so far."""
        return sum((completer.injected for _, _, completer in self._memory.parts), Counter[Fault]())

    def extra(self, fault: Fault, number: int) -> list[tuple[Injection, int]]:
        """``number`` reads, somewhere, have a fault without effect; returns each with its memory's base."""
        found = []
        for _ in range(number):
            base, _, completer = self._rng.choice(self._memory.parts)
            injection = Injection(fault, piece=self._rng.randrange(3), after=self._rng.randrange(40),
                                  delay_ns=self._rng.randint(60_000, 90_000), extra_tag=self._rng.randint(64, 255))
            completer.inject(injection)
            found.append((injection, base))
        return found


class Expiry:
    """The hard block's time-out of requests: before, after or while the adapter's, but before it uses a tag again.

    Parameters
    ----------
    system : :class:`CardSystem`
    rng : :class:`random.Random`

    Attributes
    ----------
    count : int
        Requests that have timed out.
    """

    def __init__(self, system: "CardSystem", rng: random.Random) -> None:
        self._system, self._rng = system, rng
        self.count = 0
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        card, clock, step = self._system.card, self._system.dut.clk, TIMEOUT_CYCLES // 10
        # Tag -> its request, the age in steps, and the age at which it times out.
        seen: dict[int, tuple[object, int, int]] = {}
        while True:
            await ClockCycles(clock, step)
            for tag, request in enumerate(card.active_request):
                before, age, limit = seen.get(tag, (None, 0, 0))
                if request is None:
                    seen.pop(tag, None)
                elif before is not request:
                    seen[tag] = request, 0, self._rng.choice((7, 10, 15, 22, 30))
                elif age < limit:
                    seen[tag] = request, age + 1, limit
                else:
                    card.expire(tag)
                    self.count += 1
                    del seen[tag]
