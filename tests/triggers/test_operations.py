# SPDX-License-Identifier: Apache-2.0
"""OperationMerge: operations of each source in order, each with its verdict, and no source starves."""

import random
from collections import deque
from dataclasses import replace

import pytest
from amaranth import Shape

from hw.triggers.config import TriggerConfig
from hw.triggers.layouts import OpKind, RowLayout, op_layout, tick_layout
from hw.triggers.operations import OperationMerge
from hw.triggers.words import Refusal
from tests.harness.cell import CellBench, run_bench
from tests.harness.fields import Fields

CONFIG = TriggerConfig(blocks=2, dma_pages=1, ace_pages=1)
PIPELINED = replace(CONFIG, pipelined=True)
OP, TICK, ROW = Fields(op_layout(CONFIG)), Fields(tick_layout(CONFIG)), Fields(RowLayout)
NAMES = ("stores", "chain", "local", "remote", "clear", "read")


class _Bench(CellBench):
    """``offers``: of each source, the payloads in order; each comes out as ``expected``, an operation as an integer."""

    def __init__(self, ctx, dut, rng, rates, ready):
        super().__init__(ctx, rng)
        self.dut, self.rates, self.ready = dut, rates, ready
        self.ports = [dut.stores, *dut.ticks, dut.clear, dut.read]
        self.offers = [deque() for _ in NAMES]
        self.expected = [deque() for _ in NAMES]
        self.offered = [False] * len(NAMES)
        self.order = []
        self.requested = deque([None] * dut.config.read_latency)
        self.taken = None       # operation of which the table showed code and row in the previous cycle
        self.refused = 0

    def offer(self, source):
        rng = self.rng
        if source == 0:
            value = rng.getrandbits(OP.width) & ~OP.mask({"kind": 0, "code": 0})
            value |= OP.pack({"kind": rng.choice((0, 1, 2, 5)), "code": rng.choice((0, 0, 0, Refusal.MALFORMED))})
            op = value
        elif source < 4:
            value = rng.getrandbits(TICK.width)
            fields = {name: TICK.unpack(value, name) for name in ("counter", "any", "generation", "value")}
            op = OP.pack({**fields, "kind": 0, "code": TICK.unpack(value, "malformed")})
        else:
            value = rng.randrange(CONFIG.counters)
            op = OP.pack({"counter": value, "kind": (OpKind.CLEAR if source == 4 else OpKind.READ).value})
        self.offers[source].append(value)
        self.expected[source].append(op)

    async def cycle(self):
        ctx, dut = self.ctx, self.dut
        for source, port in enumerate(self.ports):
            self.offered[source] = bool(self.offers[source]) and (
                self.offered[source] or self.chance(self.rates[source]))
            self.set(port.valid, self.offered[source])
            if self.offered[source]:
                payload = port.payload
                ctx.set(payload.as_value() if source < 4 else payload, self.offers[source][0])
        ctx.set(dut.ops.ready, self.chance(self.ready))
        code, row = self.rng.choice((0, 0, 2, 3, 4, 5)), self.rng.getrandbits(Shape.cast(RowLayout).width)
        ctx.set(dut.code, code)
        ctx.set(dut.row.as_value(), row)
        self._check_verdicts()
        self.taken = None
        taken = ctx.get(dut.ops.valid) and ctx.get(dut.ops.ready)
        self.requested.append(ctx.get(dut.ops.payload.as_value()) if taken else None)
        operation = self.requested.popleft()
        if operation is not None:
            self.taken = operation, code, row
        moved = [ctx.get(port.valid) and ctx.get(port.ready) for port in self.ports]
        await ctx.tick()
        for source in range(len(NAMES)):
            if moved[source]:
                self.offers[source].popleft()
                self.offered[source] = False

    def _check_verdicts(self):
        """The verdict on the operation of the previous cycle, if any, and no other."""
        ctx, dut = self.ctx, self.dut
        shown = [port.verdict.valid for port in self.ports[:4]] + [dut.cleared, dut.done_read]
        sources = [source for source, valid in enumerate(shown) if ctx.get(valid)]
        assert len(sources) == (self.taken is not None)
        ticked = refused = False
        if self.taken is not None:
            op, code, row = self.taken
            (source,) = sources
            assert op == self.expected[source].popleft(), NAMES[source]
            self.order.append(source)
            if source < 4:
                assert ctx.get(self.ports[source].verdict.code) == code
            if source == 5:
                assert ctx.get(dut.read_row.as_value()) == row
            ticked, refused = OP.unpack(op, "kind") == 0 and code == 0, code != 0
            if refused:
                counter = OP.unpack(op, "counter")
                assert [ctx.get(getattr(dut.refusal, name)) for name in ("block", "index", "code")] == [
                    counter >> 6, counter & 63, code]
            self.seen[NAMES[source], refused] += 1
        assert ctx.get(dut.ticked) == ticked and ctx.get(dut.refusal.valid) == refused

    async def drain(self):
        for _ in range(20_000):
            if not any(self.expected):
                break
            await self.cycle()
        await self.cycle()
        assert not any(self.offers) and not any(self.expected)


def _run(body, config, *, seed=0, rates=(1.0,) * 6, ready=1.0):
    dut = OperationMerge(config)
    return run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(seed), rates, ready), body)


both = pytest.mark.parametrize("config", [CONFIG, PIPELINED], ids=["plain", "pipelined"])


@both
@pytest.mark.parametrize(("rates", "ready"), [
    ((1.0,) * 6, 1.0), ((0.2, 0.1, 0.3, 0.1, 0.2, 0.02), 0.8), ((1.0, 0.5, 1.0, 0.5, 0.1, 0.1), 0.4)])
def test_random(rates, ready, config, seed):
    async def body(bench):
        for source in range(len(NAMES)):
            for _ in range(70):
                bench.offer(source)

    seen = _run(body, config, seed=f"{seed} {rates}", rates=rates, ready=ready)
    assert all(seen[name, refused] for name in NAMES for refused in (False, True))


@both
def test_one_operation_per_cycle_and_sources_in_turn(config):
    async def body(bench):
        for _ in range(20):
            for source in range(len(NAMES)):
                bench.offer(source)
        for _ in range(2 + config.read_latency + 120):
            await bench.cycle()
        assert len(bench.order) == 120
        assert all(len(set(bench.order[at:at + 6])) == 6 for at in range(115))

    _run(body, config)
