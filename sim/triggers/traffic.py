# SPDX-License-Identifier: Apache-2.0
"""Random stimulus of the trigger unit, and the operations that it stands for.

A plan of each counter, which follows the stimulus and not the hardware, makes most ticks acceptable.
"""

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hw.common.sizes import PAGE_BYTES
from hw.triggers.config import COUNTERS_PER_BLOCK, SLOT_BYTES, TriggerConfig
from hw.triggers.model import TriggerModel, halves
from hw.triggers.words import ArmWord, Mode, SlotField, TickWord
from sim.triggers.bench import Rates, Row, Stimulus

__all__ = ["Operation", "TriggerTraffic", "random_rates"]

_WORD = 16
_MASK = (1 << 64) - 1
_LARGEST = (1 << 20) - 1
_LONG_BURST = 32
_LOCAL, _REMOTE = 2, 3


class Operation(NamedTuple):
    """An operation that a source offers: a tick (``offset`` is -1), a store to a slot, or neither (``strobes`` is 0).

    ``response``: the ID of the burst that it ends, or -1.
    """

    block: int
    offset: int
    word: int
    strobes: int
    response: int = -1


@dataclass
class _Plan:
    mode: int = 0
    generation: int = 0
    threshold: int = 0
    remaining: int = 0


def random_rates(rng: random.Random) -> Rates:
    """Rates of a phase: all channels at full speed, or each at one of its own."""
    some = (0.05, 0.3, 0.7, 1.0)
    if rng.random() < 0.2:
        return Rates(delay=rng.randrange(3), drain=rng.choice((0.02, 0.3, 1.0)))
    return Rates(address=rng.choice(some), beat=rng.choice(some), response=rng.choice(some), local=rng.choice(some),
                 remote=rng.choice(some), post=rng.choice(some), refuse=rng.choice((0, 0, 0.05, 0.5)),
                 drain=rng.choice((0.005, 0.05, 0.3, 1.0)), delay=rng.randrange(3))


class TriggerTraffic:
    """Stimulus as rows, and per source the operations that the unit must take in this order.

    Parameters
    ----------
    config : TriggerConfig
    rng : random.Random
    """

    def __init__(self, config: TriggerConfig, rng: random.Random) -> None:
        self.config, self.rng = config, rng
        #: Stores, and ticks of local and of remote requests, under the numbers of their sources.
        self.operations: dict[int, deque[Operation]] = {0: deque(), _LOCAL: deque(), _REMOTE: deque()}
        self.ticks = 0
        self._plans = [[_Plan() for _ in range(COUNTERS_PER_BLOCK)] for _ in range(config.blocks)]
        self._hot = [range(COUNTERS_PER_BLOCK)] * config.blocks

    def begin_phase(self, model: TriggerModel) -> None:
        """Choose the counters of the next stimulus, and plan from their true state."""
        rng = self.rng
        for block in range(self.config.blocks):
            count = rng.choice((1, 2, 4, 16, 64))
            first = rng.randrange(COUNTERS_PER_BLOCK - count + 1)
            self._hot[block] = range(first, first + count)
            for index in self._hot[block]:
                state, plan = model.state(block, index), self._plans[block][index]
                plan.mode, plan.generation, plan.remaining = state.mode, state.generation, state.remaining

    def all_pages(self) -> Iterator[Row]:
        """Each block may post to most pages."""
        for block in range(self.config.blocks):
            yield self._pages(block, 0)

    def settings(self, cycles: int) -> Sequence[Row]:
        """Resets, pages and reads at random moments within about ``cycles``."""
        rng = self.rng
        rows: list[Row] = []
        for _ in range(rng.choice((0, 0, 0, 1, 2, 8))):
            wait, choice = rng.randrange(1 + cycles // 4) << 32, rng.random()
            block = rng.randrange(self.config.blocks)
            if choice < 0.25:
                rows.append((Stimulus.RESET, block | wait, 0, 0))
                if rng.random() < 0.2:
                    other = rng.randrange(self.config.blocks)
                    rows.append((Stimulus.RESET, other | rng.randrange(80) << 32, 0, 0))
            elif choice < 0.5:
                rows.append(self._pages(block, wait))
            else:
                for _ in range(rng.choice((1, 1, 3))):
                    rows.append((Stimulus.SELECT, rng.randrange(self.config.counters) | wait, 0, 0))
                    wait = rng.randrange(6) << 32
        return rows

    def _pages(self, block: int, wait: int) -> Row:
        mask = sum((self.rng.random() < 0.85) << page for page in range(self.config.pages))
        return Stimulus.PAGES, block | wait, mask & _MASK, mask >> 64

    def items(self, count: int) -> Iterator[Row]:
        """Bursts and ticks, ``count`` in total."""
        rng = self.rng
        preparing = rng.choice((0.05, 0.15, 0.3))
        for _ in range(count):
            block, choice = rng.randrange(self.config.blocks), rng.random()
            index = rng.choice(self._hot[block])
            if choice < preparing or (choice < 0.9 and self._plans[block][index].mode == Mode.DISARM):
                yield from self._preparation(block, index)
            elif choice < 0.5:
                yield from self._tick_burst(block)
            else:
                yield self._tick_item(block, rng.randrange(2))

    # -- Ticks.

    def _tick(self, block: int) -> int:
        rng, index = self.rng, self.rng.choice(self._hot[block])
        plan, choice = self._plans[block][index], rng.random()
        self.ticks += 1
        if plan.mode == Mode.SUM:
            value = rng.choice((0, 1, _LARGEST, rng.randrange(_LARGEST)))
        elif choice < 0.35:
            value = min(plan.remaining, _LARGEST)
        elif choice < 0.9:
            value = min(rng.choice((1, 1, 2, 3, 1 + rng.randrange(1 + plan.remaining))), plan.remaining, _LARGEST)
        else:
            value = rng.choice((0, min(plan.remaining + 1, _LARGEST), rng.randrange(1 << 20), _LARGEST))
        choice = rng.random()
        generation, anyone = plan.generation, int(choice > 0.8)
        if choice < 0.05:
            generation = rng.choice((plan.generation + 1, plan.generation - 1, rng.getrandbits(16))) & 0xFFFF
        elif anyone:
            generation = rng.getrandbits(16)
        if plan.mode in (Mode.ONCE, Mode.REPEAT) and (generation == plan.generation or anyone):
            self._advance(plan, value)
        tick = TickWord(index, anyone, int(rng.random() < 0.005), generation, value,
                        1 << rng.randrange(20) if rng.random() < 0.005 else 0)
        return tick.pack()

    @staticmethod
    def _advance(plan: _Plan, value: int) -> None:
        if value < plan.remaining:
            plan.remaining -= value
        elif value == plan.remaining and plan.mode == Mode.ONCE:
            plan.mode = Mode.DISARM
        elif value == plan.remaining:
            plan.generation, plan.remaining = (plan.generation + 1) & 0xFFFF, plan.threshold or 1

    def _tick_item(self, block: int, port: int) -> Row:
        word = self._tick(block)
        tick = TickWord.unpack(word)
        bits = self.config.counter_bits
        malformed = tick.reserved or tick.reserved_high
        payload = (tick.counter | block << 6 | tick.any << bits | tick.generation << bits + 1
                   | tick.value << bits + 17 | bool(malformed) << bits + 37)
        self.operations[_LOCAL + port].append(Operation(block, -1, word, 0xFF))
        return Stimulus.TICK, port, payload, 0

    def _tick_burst(self, block: int) -> Iterator[Row]:
        rng = self.rng
        beats, operations = [], []
        for _ in range(self._length()):
            low = self._tick(block) if rng.random() < 0.8 else 0
            high = self._tick(block) if rng.random() < 0.5 else 0
            strobes = 0xFFFF if rng.random() < 0.8 else rng.choice((0x00FF, 0xFF00, 0x00FF, 0, rng.getrandbits(16)))
            beats.append((low | high << 64, strobes))
            words = halves(low | high << 64, strobes)
            operations.append([Operation(block, -1, word, enabled) for word, enabled in words])
        yield from self._burst(block, rng.randrange(PAGE_BYTES // _WORD - len(beats) + 1),
                               beats, operations)

    # -- Preparation.

    def _preparation(self, block: int, index: int) -> Iterator[Row]:
        """Words and the arm word in one burst or in three, the arm word alone, or a random field."""
        rng = self.rng
        choice = rng.random()
        if choice < 0.04:
            fields = [(rng.randrange(PAGE_BYTES // _WORD), rng.getrandbits(128))]
        else:
            page, slot = self._page(block), index * SLOT_BYTES // _WORD
            arm = slot + SlotField.ARM, self._arm(block, index, page)
            if choice < 0.3:
                fields = [arm]
            else:
                if self._plans[block][index].mode != Mode.DISARM:
                    disarm = ArmWord.arm(mode=Mode.DISARM, page=0).pack()
                    yield from self._slot_burst(block, slot + SlotField.ARM, [disarm])
                fields = [(slot + number, self._word(block, index, page)) for number in range(2)] + [arm]
        if rng.random() < 0.3:
            for at, data in fields:
                yield from self._slot_burst(block, at, [data])
        else:
            yield from self._slot_burst(block, fields[0][0], [data for _, data in fields])

    def _slot_burst(self, block: int, first: int, words: list[int]) -> Iterator[Row]:
        rng = self.rng
        beats = [(word, 0xFFFF if rng.random() < 0.97 else rng.choice((0, 0xFF, rng.getrandbits(16))))
                 for word in words]
        operations = [[Operation(block, (first + number) * _WORD, data, strobes)] if strobes else []
                      for number, (data, strobes) in enumerate(beats)]
        yield from self._burst(self.config.blocks + block, first, beats, operations)

    def _page(self, block: int) -> int:
        rng, config = self.rng, self.config
        choice = rng.random()
        if choice < 0.15:
            return config.tick_page(block)
        return rng.randrange(config.pages) if choice < 0.95 else rng.randrange(256)

    def _word(self, block: int, index: int, page: int) -> int:
        """A word for a queue, or two ticks of counters above ``index``, so that chains end."""
        rng = self.rng
        if page != self.config.tick_page(block):
            return rng.getrandbits(128)
        word = 0
        for half in range(2):
            if index + 1 < COUNTERS_PER_BLOCK and rng.random() < 0.8:
                target = rng.randrange(index + 1, min(index + 5, COUNTERS_PER_BLOCK))
                anyone = rng.random() < 0.5
                tick = TickWord.add(target, rng.choice((1, 1, 2)),
                                    generation=None if anyone else self._plans[block][target].generation)
                word |= tick.pack() << 64 * half
        return word

    def _arm(self, block: int, index: int, page: int) -> int:
        rng, plan = self.rng, self._plans[block][index]
        mode = rng.choices(list(Mode), (5, 35, 40, 20))[0]
        choice = rng.random()
        threshold = (1 if choice < 0.4 else rng.randrange(2, 9) if choice < 0.8 else rng.randrange(1, 1 << 20)
                     if choice < 0.92 else (1 << 32) - 1 - rng.randrange(3) if choice < 0.95 else rng.getrandbits(32)
                     if choice < 0.98 else 0)
        generation = rng.choice((0, 0xFFFF, 0xFFFE, rng.getrandbits(16)))
        arm = ArmWord(threshold, generation, mode, rng.getrandbits(1), rng.getrandbits(1),
                      1 << rng.randrange(12) if rng.random() < 0.005 else 0, page,
                      1 << rng.randrange(56) if rng.random() < 0.005 else 0)
        plan.mode, plan.generation, plan.threshold, plan.remaining = mode, generation, threshold, threshold
        return arm.pack()

    # -- Bursts.

    def _length(self) -> int:
        choice = self.rng.random()
        return 1 if choice < 0.7 else self.rng.randrange(2, 5) if choice < 0.97 else self.rng.randrange(5, _LONG_BURST)

    def _burst(self, page: int, first: int, beats: list[tuple[int, int]],
               operations: list[list[Operation]]) -> Iterator[Row]:
        number = self.rng.getrandbits(self.config.doorbell_id_width)
        address = page * PAGE_BYTES + first * _WORD
        expected = [one for words in operations for one in words or [Operation(0, -1, 0, 0)]]
        expected[-1] = expected[-1]._replace(response=number)
        self.operations[0].extend(expected)
        yield Stimulus.ADDRESS, number | len(beats) - 1 << 16 | address << 32, 0, 0
        for position, (data, strobes) in enumerate(beats):
            last = position == len(beats) - 1
            yield Stimulus.BEAT, strobes | last << 16, data & _MASK, data >> 64
