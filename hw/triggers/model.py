# SPDX-License-Identifier: Apache-2.0
"""Golden model of the trigger counters: atomic operations, in the order in which they are called.

The hardware chooses the order of operations of different sources; a comparison applies the same order here.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from .config import COUNTERS_PER_BLOCK, MOST_DUE, SLOT_BYTES, TriggerConfig
from .words import ArmWord, Mode, Refusal, SlotField, TickWord

__all__ = ["CounterState", "Firing", "RefusedOperation", "TriggerModel", "halves"]

_STAMP_LSB, _STAMP_BITS = 28, 36


class CounterState(NamedTuple):
    """Visible state of a counter. ``remaining`` and ``generation`` have a meaning while the counter is armed: the count
    until it fires, of SUM the negative sum modulo 2^32."""

    mode: Mode
    generation: int
    remaining: int
    due: int


class RefusedOperation(NamedTuple):
    """An operation or a firing without effect."""

    block: int
    counter: int
    code: Refusal


class Firing(NamedTuple):
    """A firing that left its counter: 128-bit ``words`` for page ``page``, the stamp included; none if the page is
    refused. Words for the block's own tick page are stores to it, see :func:`halves`."""

    block: int
    counter: int
    page: int
    words: tuple[int, ...]
    number: int
    refusal: Refusal


@dataclass
class _Counter:
    mode: Mode = Mode.DISARM
    generation: int = 0
    threshold: int = 0
    counted: int = 0
    page: int = 0
    pair: bool = False
    stamp: bool = False
    words: list[int] = field(default_factory=lambda: [0, 0])
    #: Numbers of the pending firings, oldest first; SUM has at most one, whose number is known when it is posted.
    pending: list[int] = field(default_factory=list)


def halves(data: int, strobes: int = 0xFFFF) -> list[tuple[int, int]]:
    """Words that a 16-byte store to a tick page holds, and their strobes: its halves but for empty ones."""
    both = [(data >> 64 * half & (1 << 64) - 1, strobes >> 8 * half & 0xFF) for half in range(2)]
    return [(word, enabled) for word, enabled in both if enabled and not (enabled == 0xFF and word == 0)]


class TriggerModel:
    """All blocks of an endpoint. Each method is one operation; those that can be refused return a :class:`Refusal`.

    Parameters
    ----------
    config : :class:`TriggerConfig`
        Sizes.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        self.ticked = self.fired = self.refused = 0
        self.first_refusal: RefusedOperation | None = None
        #: Pages to which each block may post, as a mask.
        self.pages = [0] * config.blocks
        self.resetting = [False] * config.blocks
        self._counters = [[_Counter() for _ in range(COUNTERS_PER_BLOCK)] for _ in range(config.blocks)]
        self._queues: list[deque[int]] = [deque() for _ in range(config.blocks)]

    def state(self, block: int, counter: int) -> CounterState:
        """State of a counter, as the registers show it."""
        found = self._counters[block][counter]
        left = -found.counted if found.mode is Mode.SUM else found.threshold - found.counted
        return CounterState(found.mode, found.generation, left & 0xFFFF_FFFF, len(found.pending))

    def queued(self, block: int) -> tuple[int, ...]:
        """Counters of a block with pending firings, in the order in which they are posted."""
        return tuple(self._queues[block])

    def tick(self, block: int, word: int, strobes: int = 0xFF) -> Refusal:
        """Add the value of an 8-byte word to a counter of ``block``, which may be beyond the blocks."""
        tick = TickWord.unpack(word)
        if block >= self.config.blocks or strobes != 0xFF or tick.reserved or tick.reserved_high:
            return self._refuse(block % self.config.blocks, tick.counter, Refusal.MALFORMED)
        code = self._add(block, tick)
        if code is Refusal.NONE:
            self.ticked += 1
            return code
        return self._refuse(block, tick.counter, code)

    def _add(self, block: int, tick: TickWord) -> Refusal:
        counter = self._counters[block][tick.counter]
        if self.resetting[block] or counter.mode is Mode.DISARM:
            return Refusal.IDLE
        if not tick.any and tick.generation != counter.generation:
            return Refusal.GENERATION
        total = counter.counted + tick.value
        if counter.mode is Mode.SUM:
            counter.counted = total
            if tick.value and not counter.pending:
                self._fire(block, tick.counter, 0)
            return Refusal.NONE
        reached = total == counter.threshold
        if total > counter.threshold or (reached and len(counter.pending) == MOST_DUE):
            return Refusal.OVERFLOW
        counter.counted = total
        if reached:
            self._fire(block, tick.counter, counter.generation)
            if counter.mode is Mode.ONCE:
                counter.mode = Mode.DISARM
            else:
                counter.counted, counter.generation = 0, (counter.generation + 1) & 0xFFFF
        return Refusal.NONE

    def _fire(self, block: int, index: int, number: int) -> None:
        pending = self._counters[block][index].pending
        pending.append(number)
        if len(pending) == 1:
            self._queues[block].append(index)

    def store_slot(self, block: int, offset: int, data: int, strobes: int = 0xFFFF) -> Refusal:
        """A 16-byte store at ``offset`` of the preparation page."""
        index, part = divmod(offset // 16, SLOT_BYTES // 16)
        if not strobes:
            return Refusal.NONE
        code = self._prepare(block, index, part, data) if strobes == 0xFFFF else Refusal.MALFORMED
        return self._refuse(block, index, code) if code is not Refusal.NONE else code

    def _prepare(self, block: int, index: int, part: int, data: int) -> Refusal:
        counter = self._counters[block][index]
        if part > SlotField.ARM:
            return Refusal.MALFORMED
        arm = ArmWord.unpack(data)
        if part == SlotField.ARM and (arm.reserved or arm.reserved_high or (
                arm.mode in (Mode.ONCE, Mode.REPEAT) and not arm.threshold)):
            return Refusal.MALFORMED
        if self.resetting[block]:
            return Refusal.IDLE
        if counter.pending:
            return Refusal.BUSY
        if part != SlotField.ARM:
            if counter.mode is not Mode.DISARM:
                return Refusal.BUSY
            counter.words[part] = data
            return Refusal.NONE
        counter.mode, counter.generation, counter.page = Mode(arm.mode), arm.generation, arm.page
        counter.threshold, counter.counted = arm.threshold, 0
        counter.pair, counter.stamp = bool(arm.pair), bool(arm.stamp)
        return Refusal.NONE

    def _may_post(self, block: int, page: int) -> bool:
        if page >= self.config.pages:
            return page == self.config.tick_page(block)
        return bool(self.pages[block] >> page & 1)

    def post(self, block: int) -> Firing:
        """The oldest pending firing of a block leaves its counter. Raises :class:`ValueError` if there is none."""
        if not self._queues[block]:
            raise ValueError(f"Block {block} has no pending firing")
        index = self._queues[block].popleft()
        counter = self._counters[block][index]
        number = counter.pending.pop(0)
        if counter.mode is Mode.SUM:
            number = counter.counted & 0xFFFF_FFFF
        if counter.pending:
            self._queues[block].append(index)
        if not self._may_post(block, counter.page):
            self._refuse(block, index, Refusal.PAGE)
            return Firing(block, index, counter.page, (), number, Refusal.PAGE)
        words = counter.words[:1 + counter.pair]
        if counter.stamp:
            words[-1] = words[-1] & ~((1 << _STAMP_BITS) - 1 << _STAMP_LSB) | number << _STAMP_LSB
        self.fired += 1
        return Firing(block, index, counter.page, tuple(words), number, Refusal.NONE)

    def queue_refused(self, firing: Firing) -> None:
        """The queue refused a word of a firing."""
        self._refuse(firing.block, firing.counter, Refusal.QUEUE)

    def begin_reset(self, block: int) -> None:
        """Discard all counts, words and pending firings of a block; refuse its operations until :meth:`end_reset`."""
        self.resetting[block] = True
        self._counters[block] = [_Counter() for _ in range(COUNTERS_PER_BLOCK)]
        self._queues[block].clear()

    def end_reset(self, block: int) -> None:
        self.resetting[block] = False

    def reset(self, block: int) -> None:
        """A reset of a block without any operation during it."""
        self.begin_reset(block)
        self.end_reset(block)

    def clear_refusal(self) -> None:
        self.first_refusal = None

    def _refuse(self, block: int, counter: int, code: Refusal) -> Refusal:
        self.refused += 1
        if self.first_refusal is None:
            self.first_refusal = RefusedOperation(block, counter, code)
        return code
