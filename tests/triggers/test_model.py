# SPDX-License-Identifier: Apache-2.0
"""The golden model of the trigger counters, against cases of the contract that were worked out by hand."""

import pytest

from hw.triggers.config import TriggerConfig
from hw.triggers.model import CounterState, RefusedOperation, TriggerModel, halves
from hw.triggers.words import ArmWord, Mode, Refusal, SlotField, TickWord

CONFIG = TriggerConfig(blocks=2, dma_pages=3, ace_pages=2)
NONE, MALFORMED, IDLE, GENERATION, OVERFLOW, BUSY, PAGE, QUEUE = Refusal
FIRST, SECOND = 0xAAAA_0000_0000_0000_1111_2222_3333_4444, 0xBBBB_0000_0000_0000_FFFF_FFFF_FFFF_FFFF


class _Counter:
    """Counter 5 of block 1, which may post to pages 1 and 4."""

    def __init__(self):
        self.model = TriggerModel(CONFIG)
        self.model.pages[1] = 1 << 1 | 1 << 4

    def store(self, field, data, **options):
        return self.model.store_slot(1, 5 * 64 + 16 * field, data, **options)

    def arm(self, mode, threshold=0, generation=7, page=4, **options):
        return self.store(SlotField.ARM, ArmWord.arm(mode=mode, page=page, threshold=threshold, generation=generation,
                                                     **options).pack())

    def tick(self, value=1, generation=None):
        return self.model.tick(1, TickWord.add(5, value, generation=generation).pack())

    @property
    def state(self):
        return self.model.state(1, 5)

    @property
    def pending(self):
        return self.model.queued(1)


@pytest.fixture
def counter():
    return _Counter()


def test_once(counter):
    assert counter.store(0, FIRST) is NONE
    assert counter.arm(Mode.ONCE, 3) is NONE
    assert counter.state == CounterState(Mode.ONCE, 7, 3, 0)
    assert [counter.tick(2, 7), counter.pending] == [NONE, ()]
    assert [counter.tick(1, 7), counter.pending] == [NONE, (5,)]
    assert counter.tick(1, 7) is IDLE
    firing = counter.model.post(1)
    assert (firing.page, firing.words, firing.number, firing.refusal) == (4, (FIRST,), 7, NONE)
    assert counter.pending == () and counter.model.queued(0) == ()
    assert (counter.model.ticked, counter.model.fired, counter.model.refused) == (2, 1, 1)
    with pytest.raises(ValueError, match=r"^Block 1 has no pending firing$"):
        counter.model.post(1)


def test_threshold_of_one_and_the_largest(counter):
    assert counter.arm(Mode.ONCE, 1) is NONE and counter.tick() is NONE and counter.pending
    counter.model.reset(1)
    assert counter.arm(Mode.ONCE, (1 << 32) - 1) is NONE
    largest = (1 << 20) - 1
    for _ in range(1 << 12):
        assert counter.tick(largest) is NONE
    assert counter.state.remaining == (1 << 12) - 1 and not counter.pending
    assert counter.tick(1 << 12) is OVERFLOW
    assert counter.tick((1 << 12) - 1) is NONE and counter.pending


def test_repeat_has_three_firings_pending(counter):
    counter.store(0, FIRST)
    counter.arm(Mode.REPEAT, 2, generation=0xFFFE, stamp=True)
    for generation in (0xFFFE, 0xFFFF, 0):
        assert counter.tick(1, generation) is NONE
        assert counter.tick(1, generation) is NONE
        assert counter.tick(1, generation) is GENERATION
    assert counter.state == CounterState(Mode.REPEAT, 1, 2, 3)
    assert counter.tick(1) is NONE
    assert counter.tick(1) is OVERFLOW
    assert counter.state == CounterState(Mode.REPEAT, 1, 1, 3)
    assert [counter.model.post(1).number for _ in range(2)] == [0xFFFE, 0xFFFF]
    assert counter.tick(1) is NONE
    words = [counter.model.post(1).words[0] for _ in range(2)]
    stamps = [word >> 28 & (1 << 36) - 1 for word in words]
    assert stamps == [0, 1]
    keep = ~((1 << 64) - (1 << 28))
    assert all(word & keep == FIRST & keep for word in words)


def test_sum(counter):
    counter.store(0, FIRST), counter.store(1, SECOND)
    counter.arm(Mode.SUM, 12345, pair=True, stamp=True)
    assert counter.state == CounterState(Mode.SUM, 7, 0, 0)
    assert counter.tick(0) is NONE and not counter.pending
    assert counter.tick(5, 7) is NONE and counter.tick(6) is NONE and counter.tick(6, 8) is GENERATION
    assert counter.state == CounterState(Mode.SUM, 7, (1 << 32) - 11, 1)
    firing = counter.model.post(1)
    assert firing.number == 11
    assert firing.words == (FIRST, SECOND & ~((1 << 64) - (1 << 28)) | 11 << 28)
    largest = (1 << 20) - 1
    for _ in range(1 << 12):
        assert counter.tick(largest) is NONE
    assert counter.model.post(1).number == (11 + largest * (1 << 12)) % (1 << 32)
    assert counter.tick(1 << 12) is NONE
    assert counter.model.post(1).number == 11
    assert counter.tick() is NONE and counter.pending == (5,)


def test_stamp_of_a_chain(counter):
    tick = TickWord.add(6, 0, generation=3).pack()
    counter.store(0, tick)
    counter.arm(Mode.SUM, page=CONFIG.tick_page(1), stamp=True)
    counter.tick(9)
    (word,) = counter.model.post(1).words
    assert halves(word) == [(tick & (1 << 28) - 1 | 9 << 28, 0xFF)]


def test_preparation_is_refused_while_a_firing_is_pending(counter):
    counter.store(0, FIRST)
    assert counter.arm(Mode.ONCE, 1) is NONE
    assert counter.store(0, SECOND) is BUSY and counter.store(1, SECOND) is BUSY
    assert counter.arm(Mode.REPEAT, 9) is NONE
    assert counter.arm(Mode.ONCE, 1) is NONE
    counter.tick()
    for store in (lambda: counter.store(0, SECOND), lambda: counter.arm(Mode.ONCE, 1), lambda: counter.arm(0)):
        assert store() is BUSY
    assert counter.model.post(1).words == (FIRST,)
    assert counter.store(0, SECOND) is NONE and counter.store(1, SECOND) is NONE


def test_disarm(counter):
    counter.arm(Mode.REPEAT, 4)
    assert counter.tick(1) is NONE
    assert counter.arm(Mode.DISARM) is NONE
    assert counter.state.mode is Mode.DISARM
    assert counter.tick(3) is IDLE and counter.store(0, 0) is NONE
    counter.arm(Mode.REPEAT, 4)
    assert counter.tick(3) is NONE and not counter.pending


@pytest.mark.parametrize("word", [1 << 7, *(1 << bit for bit in range(44, 64))])
def test_malformed_tick(counter, word):
    counter.arm(Mode.ONCE, 3)
    assert counter.model.tick(1, TickWord.add(5).pack() | word) is MALFORMED
    assert counter.model.tick(1, TickWord.add(5).pack()) is NONE
    assert counter.model.first_refusal == RefusedOperation(1, 5, MALFORMED)


def test_malformed_stores(counter):
    counter.arm(Mode.ONCE, 3)
    assert counter.model.tick(1, TickWord.add(5).pack(), 0x7F) is MALFORMED
    assert counter.model.tick(2, TickWord.add(5).pack()) is MALFORMED
    assert counter.store(0, FIRST, strobes=0x7FFF) is MALFORMED
    assert counter.store(3, FIRST) is MALFORMED
    for mode in (Mode.ONCE, Mode.REPEAT):
        assert counter.arm(mode, 0) is MALFORMED
    good = ArmWord.arm(mode=Mode.ONCE, page=4, threshold=1).pack()
    for bit in (*range(52, 64), *range(72, 128)):
        assert counter.store(SlotField.ARM, good | 1 << bit) is MALFORMED
    assert counter.state == CounterState(Mode.ONCE, 7, 3, 0)
    assert counter.store(0, FIRST, strobes=0) is NONE


def test_empty_halves():
    low, high = TickWord.add(1).pack(), TickWord.add(2).pack()
    assert halves(low | high << 64) == [(low, 0xFF), (high, 0xFF)]
    assert halves(high << 64) == [(high, 0xFF)] and halves(low) == [(low, 0xFF)] and halves(0) == []
    assert halves(low | high << 64, 0xFF00) == [(high, 0xFF)]
    assert halves(0, 0x0100) == [(0, 1)]


def test_pages_are_checked_when_a_firing_leaves(counter):
    counter.arm(Mode.REPEAT, 1, page=4)
    counter.tick(), counter.tick()
    assert counter.model.post(1).refusal is NONE
    counter.model.pages[1] = 1 << 1
    firing = counter.model.post(1)
    assert firing.refusal is PAGE and firing.words == ()
    assert counter.model.first_refusal == RefusedOperation(1, 5, PAGE) and counter.model.fired == 1


@pytest.mark.parametrize(("page", "code"), [
    (0, PAGE), (1, NONE), (4, NONE), (5, PAGE), (6, NONE), (7, PAGE), (8, PAGE), (255, PAGE)])
def test_pages(counter, page, code):
    counter.arm(Mode.ONCE, 1, page=page)
    counter.tick()
    assert counter.model.post(1).refusal is code


def test_firings_leave_in_order(counter):
    for index in (9, 5, 7):
        counter.model.store_slot(1, 64 * index + 32, ArmWord.arm(mode=Mode.REPEAT, page=1, threshold=1).pack())
    for index in (9, 5, 9, 7, 5):
        counter.model.tick(1, TickWord.add(index).pack())
    assert [counter.model.post(1).counter for _ in range(5)] == [9, 5, 7, 9, 5]


def test_reset(counter):
    counter.store(0, FIRST)
    counter.arm(Mode.REPEAT, 1)
    counter.tick(), counter.tick()
    counter.model.begin_reset(1)
    assert counter.pending == () and counter.state == CounterState(Mode.DISARM, 0, 0, 0)
    assert counter.tick() is IDLE and counter.arm(Mode.ONCE, 1) is IDLE and counter.store(0, SECOND) is IDLE
    assert counter.model.tick(1, 1 << 7) is MALFORMED
    counter.model.end_reset(1)
    assert counter.tick() is IDLE
    assert counter.arm(Mode.ONCE, 1, pair=True) is NONE and counter.tick() is NONE
    assert counter.model.post(1).words == (0, 0)


def test_blocks_are_independent(counter):
    counter.arm(Mode.ONCE, 2)
    assert counter.model.tick(0, TickWord.add(5).pack()) is IDLE
    counter.model.reset(0)
    assert counter.state.remaining == 2


def test_first_refusal_is_kept(counter):
    counter.tick()
    counter.arm(Mode.ONCE, 1, page=1), counter.tick()
    counter.model.queue_refused(counter.model.post(1))
    assert counter.model.first_refusal == RefusedOperation(1, 5, IDLE) and counter.model.refused == 2
    counter.model.clear_refusal()
    counter.arm(Mode.ONCE, 1, page=1), counter.tick()
    counter.model.queue_refused(counter.model.post(1))
    assert counter.model.first_refusal == RefusedOperation(1, 5, QUEUE)
