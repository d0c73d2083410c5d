# SPDX-License-Identifier: Apache-2.0
"""TriggerTable: verdicts, rows and firings of random operations, and the extremes of counts."""

import random
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from hw.triggers.config import COUNTERS_PER_BLOCK, TriggerConfig
from hw.triggers.layouts import OpKind
from hw.triggers.model import TriggerModel
from hw.triggers.table import TriggerTable
from hw.triggers.words import ArmWord, Mode, Refusal, SlotField, TickWord
from tests.harness.cell import CellBench, run_bench

CONFIG = TriggerConfig(blocks=2, dma_pages=2, ace_pages=1)
PIPELINED = replace(CONFIG, pipelined=True)
LARGEST, MOST = (1 << 20) - 1, (1 << 32) - 1


both = pytest.mark.parametrize("config", [CONFIG, PIPELINED], ids=["plain", "pipelined"])


class _Operation(NamedTuple):
    kind: OpKind
    counter: int
    code: int
    fields: dict[str, Any]


class _Bench(CellBench):
    """One operation or one firing per cycle, compared with the golden model."""

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut, self.model, self.resetting = dut, TriggerModel(CONFIG), 0
        self.model.pages = [7, 7]
        #: Arm words of counters.
        self.arms = {}
        self.requested = deque([None] * dut.config.read_latency)
        self.found = self.left = None

    async def cycle(self, kind=None, counter=0, code=0, **fields):
        """One operation, or none, up to its verdict, which is returned."""
        await self.step(None if kind is None else _Operation(kind, counter, code, fields))
        for _ in range(self.dut.config.read_latency):
            await self.step()
        return self.found if kind is not None else None

    async def step(self, request=None, *, stalls=False):
        """Request an operation or the counter of a firing, and compare what was requested ``read_latency`` cycles
        before. ``stalls``: an operation waits while a firing leaves."""
        ctx, dut = self.ctx, self.dut
        operates = isinstance(request, _Operation)
        leaves = request is not None and not operates
        self.set(dut.ops.valid, operates or stalls)
        self.set(dut.leave.valid, leaves)
        if leaves:
            ctx.set(dut.leave.counter, request)
        elif operates:
            fields = {"kind": request.kind, "counter": request.counter, "code": request.code, "any": 0,
                      "generation": 0, "value": 0, "second": 0, "word": 0, **request.fields}
            for name, value in fields.items():
                ctx.set(getattr(dut.ops.payload, name), value)
        assert ctx.get(dut.ops.ready) != leaves
        self.requested.append(request)
        request, firing = self.requested.popleft(), None
        if isinstance(request, _Operation):
            self._check_operation(*request)
        else:
            assert not ctx.get(dut.due.valid) and not ctx.get(dut.words.valid)
        if request is not None and not isinstance(request, _Operation):
            firing = self._check_leave(*divmod(request, COUNTERS_PER_BLOCK))
        else:
            assert not ctx.get(dut.requeue)
        await self._tick(firing)

    def _check_operation(self, kind, counter, code, fields):
        block, index = divmod(counter, COUNTERS_PER_BLOCK)
        expected, queued = self._expected(kind, block, index, code, fields), self.model.queued(block)
        self.found = Refusal(self.ctx.get(self.dut.code))
        assert self.found is expected, (kind, counter, fields)
        self.seen[kind, self.found] += 1
        self._check_strobes(kind, block, index, self.found, queued, fields)

    def _check_leave(self, block, index):
        """The firing that leaves; None if a reset has begun since it was requested."""
        ctx, dut = self.ctx, self.dut
        if self.resetting >> block & 1:
            assert dut.config.read_latency and not ctx.get(dut.requeue)
            self.seen["discarded"] += 1
            return None
        assert self.model.queued(block)[0] == index
        state, arm = self.model.state(block, index), self.arms[block, index]
        again = state.due > 1
        assert ctx.get(dut.requeue) == again
        if again and dut.config.pipelined:
            assert [ctx.get(value) for value in (dut.due.block, dut.due.payload.index, dut.due.payload.page)] == [
                block, index, arm.page]
        self.seen["requeue" if again else "leave"] += 1
        return block * COUNTERS_PER_BLOCK + index, arm.page, arm.pair, arm.stamp, self.model.post(block).number

    def _expected(self, kind, block, index, code, fields):
        shown = self.dut.row
        before = self.model.state(block, index)
        if not self.resetting >> block & 1:
            assert (self.ctx.get(shown.mode), self.ctx.get(shown.due)) == (before.mode, before.due)
            if before.mode:
                assert (self.ctx.get(shown.generation), self.ctx.get(shown.remaining)) == (
                    before.generation, before.remaining)
        self.before = self.model.queued(block)
        if code:
            return Refusal(code)
        if kind is OpKind.TICK:
            return self.model.tick(block, TickWord(index, fields.get("any", 0), 0, fields.get("generation", 0),
                                                   fields["value"]).pack())
        if kind in (OpKind.WORD, OpKind.ARM):
            field = SlotField.ARM if kind is OpKind.ARM else fields["second"]
            verdict = self.model.store_slot(block, 64 * index + 16 * field, fields["word"])
            if verdict is Refusal.NONE and kind is OpKind.ARM:
                self.arms[block, index] = ArmWord.unpack(fields["word"])
            return verdict
        return Refusal.NONE

    def _check_strobes(self, kind, block, index, code, queued, fields):
        ctx, dut = self.ctx, self.dut
        due = len(queued) > len(self.before)
        assert ctx.get(dut.due.valid) == due
        if due:
            assert (ctx.get(dut.due.block), ctx.get(dut.due.payload.index)) == (block, index)
            assert ctx.get(dut.due.payload.page) == self.arms[block, index].page
        stores = code is Refusal.NONE and kind in (OpKind.WORD, OpKind.CLEAR)
        assert ctx.get(dut.words.valid) == stores
        if stores:
            assert ctx.get(dut.words.counter) == block * COUNTERS_PER_BLOCK + index
            assert ctx.get(dut.words.clear) == (kind is OpKind.CLEAR)
            if kind is OpKind.WORD:
                assert ctx.get(dut.words.second) == fields["second"] and ctx.get(dut.words.word) == fields["word"]

    @property
    def leaves(self):
        """Whether a firing has been requested that has not left."""
        return any(request is not None and not isinstance(request, _Operation) for request in self.requested)

    async def leave(self, block, *, stalls=True):
        """Request the oldest firing of a block."""
        await self.step(block * COUNTERS_PER_BLOCK + self.model.queued(block)[0], stalls=stalls)

    async def _tick(self, firing):
        ctx, shown = self.ctx, self.dut.firing
        assert ctx.get(shown.valid) == (self.left is not None)
        if self.left is not None:
            *fields, total, base, behind = (ctx.get(shown.payload[name]) for name in (
                "counter", "page", "pair", "stamp", "sum", "base", "behind"))
            number = -base % (1 << 32) if total else (base - behind) % (1 << 16)
            assert (*fields, number) == self.left
        self.left = firing
        await ctx.tick()

    async def reset(self, block):
        self.resetting |= 1 << block
        self.ctx.set(self.dut.resetting, self.resetting)
        self.model.begin_reset(block)

    async def end_reset(self, block):
        for index in range(COUNTERS_PER_BLOCK):
            await self.cycle(OpKind.CLEAR, block * COUNTERS_PER_BLOCK + index)
        self.resetting &= ~(1 << block)
        self.ctx.set(self.dut.resetting, self.resetting)
        self.model.end_reset(block)

    async def arm(self, counter, mode, threshold=0, generation=0, page=1, **options):
        return await self.cycle(OpKind.ARM, counter, word=ArmWord.arm(
            mode=mode, page=page, threshold=threshold, generation=generation, **options).pack())

    async def tick(self, counter, value=1, generation=None):
        return await self.cycle(OpKind.TICK, counter, value=value, any=generation is None, generation=generation or 0)

    async def drain(self):
        # A firing that is already requested ends before the queues are drained.
        await self.cycle()
        for block in range(CONFIG.blocks):
            while self.model.queued(block):
                await self.leave(block)
                await self.cycle()
        await self.cycle()


def _run(body, config, seed=0):
    dut = TriggerTable(config)
    return run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(seed)), body)


@both
@pytest.mark.parametrize("leaves", [0.05, 0.3])
def test_random(leaves, config, seed):
    counters = 0, 1, 63, 64, 127

    async def body(bench):
        rng = bench.rng
        for _ in range(3000):
            blocks = [block for block in range(2) if bench.model.queued(block)]
            if blocks and not bench.leaves and bench.chance(leaves):
                await bench.leave(rng.choice(blocks), stalls=bench.chance(0.8))
                continue
            if bench.chance(0.003):
                block = rng.randrange(2)
                await bench.reset(block)
                for _ in range(20):
                    await _operation(bench, rng, rng.choice(counters))
                await bench.end_reset(block)
            await _operation(bench, rng, rng.choice(counters))

    seen = _run(body, config, f"{seed} {leaves}")
    ticks = {code for kind, code in (key for key in seen if isinstance(key, tuple)) if kind is OpKind.TICK}
    assert ticks >= {Refusal.NONE, Refusal.IDLE, Refusal.GENERATION, Refusal.OVERFLOW, Refusal.MALFORMED}
    assert seen[OpKind.ARM, Refusal.BUSY] and seen[OpKind.WORD, Refusal.BUSY] and seen[OpKind.WORD, Refusal.IDLE]
    assert seen["leave"] and seen["requeue"] and seen[OpKind.ARM, Refusal.NONE]


async def _operation(bench, rng, counter):
    state = bench.model.state(*divmod(counter, COUNTERS_PER_BLOCK))
    kind = rng.choices((OpKind.TICK, OpKind.WORD, OpKind.ARM, OpKind.READ, OpKind.NONE, None), (12, 2, 2, 1, 1, 1))[0]
    code = rng.choice((1, 1, 5)) if bench.chance(0.03) else 0
    fields = {}
    if kind is OpKind.TICK:
        value = rng.choice((0, 1, 1, min(state.remaining, LARGEST), min(state.remaining + 1, LARGEST),
                            rng.randrange(1 << 20)))
        wrong = bench.chance(0.1)
        fields = {"value": value, "any": bench.chance(0.3),
                  "generation": state.generation ^ (wrong << rng.randrange(16))}
    elif kind is OpKind.ARM:
        mode = rng.choice(list(Mode))
        fields = {"word": ArmWord.arm(
            mode=mode, page=rng.randrange(256), threshold=rng.choice((1, 1, 2, 3, 1 << 20, MOST)),
            generation=rng.choice((0, 0xFFFF, rng.getrandbits(16))), pair=bench.chance(0.5),
            stamp=bench.chance(0.5)).pack()}
    elif kind is not None:
        fields = {"second": rng.getrandbits(1), "word": rng.getrandbits(128)}
    await bench.step(None if kind is None else _Operation(kind, counter, code, fields))


@both
def test_extremes(config):
    async def body(bench):
        # The largest threshold, from values of 20 bits.
        await bench.arm(70, Mode.ONCE, MOST, 5)
        for _ in range(1 << 12):
            assert await bench.tick(70, LARGEST, 5) is Refusal.NONE
        assert await bench.tick(70, 1 << 12, 5) is Refusal.OVERFLOW
        assert await bench.tick(70, (1 << 12) - 1, 5) is Refusal.NONE
        assert bench.model.queued(1) == (6,)
        assert await bench.tick(70, 1, 5) is Refusal.IDLE
        await bench.drain()

        # A threshold of one, generations that wrap, and three pending firings.
        await bench.arm(3, Mode.REPEAT, 1, 0xFFFE)
        for generation in (0xFFFE, 0xFFFF, 0):
            assert await bench.tick(3, 1, generation) is Refusal.NONE
        assert await bench.tick(3, 1, 1) is Refusal.OVERFLOW
        assert await bench.tick(3, 0, 1) is Refusal.NONE
        await bench.drain()

        # A sum that wraps.
        await bench.arm(3, Mode.SUM, generation=9)
        for _ in range((1 << 12) + 2):
            assert await bench.tick(3, LARGEST, 9) is Refusal.NONE
        assert bench.model.state(0, 3).due == 1
        await bench.drain()
        await bench.tick(3, LARGEST)
        await bench.drain()

    _run(body, config)


@both
def test_change_of_mode(config):
    async def body(bench):
        for first in Mode:
            for second in Mode:
                await bench.arm(9, first, 4, 1)
                if first:
                    assert await bench.tick(9, 3, 1) is Refusal.NONE
                    if first is Mode.SUM:
                        assert await bench.arm(9, second, 2, 2) is Refusal.BUSY
                        await bench.drain()
                assert await bench.arm(9, second, 2, 2) is Refusal.NONE
                assert await bench.tick(9, 1, 1) is (Refusal.GENERATION if second else Refusal.IDLE)
                assert await bench.tick(9, 2, 2) is (Refusal.NONE if second else Refusal.IDLE)
                await bench.drain()

    _run(body, config)


@both
def test_reset_while_firings_are_pending(config):
    async def body(bench):
        for mode in (Mode.ONCE, Mode.REPEAT, Mode.SUM):
            await bench.arm(65, mode, 1)
            await bench.tick(65)
            await bench.arm(2, mode, 1)
            await bench.tick(2)
            await bench.reset(1)
            assert await bench.tick(65) is Refusal.IDLE
            assert await bench.arm(65, mode, 1) is Refusal.IDLE
            await bench.leave(0)
            await bench.end_reset(1)
            assert await bench.tick(65) is Refusal.IDLE
            assert await bench.arm(65, mode, 1) is Refusal.NONE

    _run(body, config)


@both
def test_reset_after_a_firing_was_requested(config):
    """It is discarded if its row has not been read."""
    async def body(bench):
        for idle in range(4):
            await bench.arm(65, Mode.REPEAT, 1)
            await bench.tick(65)
            await bench.tick(65)
            await bench.leave(1)
            for _ in range(idle):
                await bench.step()
            await bench.reset(1)
            await bench.end_reset(1)
            assert await bench.arm(65, Mode.ONCE, 1) is Refusal.NONE

    seen = _run(body, config)
    assert seen["discarded"] == config.read_latency
