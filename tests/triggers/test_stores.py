# SPDX-License-Identifier: Apache-2.0
"""TriggerStores: each store becomes its operations, in order, and each burst has one response after their verdicts."""

import random
from collections import deque

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiChecker, AxiSignature, Resp
from hw.triggers.config import TriggerConfig
from hw.triggers.layouts import OpKind, op_layout
from hw.triggers.model import halves
from hw.triggers.ports import OperationSignature
from hw.triggers.stores import TriggerStores
from hw.triggers.words import ArmWord, Mode, Refusal, SlotField, TickWord
from tests.harness.cell import CellBench, run_bench

CONFIG = TriggerConfig(blocks=4, dma_pages=3, ace_pages=2, doorbell_id_width=3)
BUS = AxiSignature(addr_width=CONFIG.doorbell_addr_width, data_width=128, id_width=CONFIG.doorbell_id_width)
NONE, MALFORMED = Refusal.NONE, Refusal.MALFORMED


class Checked(wiring.Component):
    """With a monitor on the bus."""

    def __init__(self):
        self.part = TriggerStores(CONFIG)
        super().__init__({"bus": In(BUS), "ops": Out(OperationSignature(CONFIG))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = self.part
        connect(m, flipped(self.bus), part.bus)
        connect(m, part.ops, flipped(self.ops))
        m.submodules.checker = checker = AxiChecker(BUS, max_outstanding=64, max_per_id=64, name="bus")
        m.d.comb += checker.observe(part.bus)
        return m


class _Bench(CellBench):
    """Sends bursts, takes operations, and gives random verdicts. ``rates``: of AW, W, B, operations and verdicts."""

    def __init__(self, ctx, dut, rng, rates):
        super().__init__(ctx, rng)
        self.dut, self.rates = dut, rates
        self.addresses, self.beats = deque(), deque()
        self.expected, self.ops = [], []
        self.verdicts, self.responses = deque(), []     # of operations taken; ID and SLVERR of responses
        self.codes = []
        self.offered = [False, False]

    def send(self, page, first, beats):
        """``beats``: data and strobes of each."""
        number = self.rng.getrandbits(CONFIG.doorbell_id_width)
        self.addresses.append((number, len(beats) - 1, page * 4096 + 16 * first))
        for position, (data, strobes) in enumerate(beats):
            last = position == len(beats) - 1
            self.beats.append((data, strobes, last))
            ops = _operations(page, first + position, data, strobes)
            self.expected += [(*op, number if last and op is ops[-1] else None) for op in ops]

    async def cycle(self):
        ctx, bus, ops = self.ctx, self.dut.bus, self.dut.ops
        for channel, (items, pins) in enumerate((
                (self.addresses, (bus.awid, bus.awlen, bus.awaddr)), (self.beats, (bus.wdata, bus.wstrb, bus.wlast)))):
            self.offered[channel] = bool(items) and (self.offered[channel] or self.chance(self.rates[channel]))
            if self.offered[channel]:
                for pin, value in zip(pins, items[0], strict=True):
                    ctx.set(pin, value)
        ctx.set(bus.awsize, 4), ctx.set(bus.awburst, 1)
        ctx.set(bus.awvalid, self.offered[0]), ctx.set(bus.wvalid, self.offered[1])
        ctx.set(bus.bready, self.chance(self.rates[2]))
        ctx.set(ops.ready, self.chance(self.rates[3]))
        verdict = bool(self.verdicts) and self.chance(self.rates[4])
        ctx.set(ops.verdict.valid, verdict)
        if verdict:
            self.verdicts.popleft()
            self.codes.append(self.rng.choice((0, 0, 0, 4)))
            ctx.set(ops.verdict.code, self.codes[-1])
        if ctx.get(ops.valid) and ctx.get(ops.ready):
            self.verdicts.append(None)
            self.ops.append({name: ctx.get(ops.payload[name]) for name, _ in op_layout(CONFIG)})
        if ctx.get(bus.bvalid) and ctx.get(bus.bready):
            self.responses.append((ctx.get(bus.bid), ctx.get(bus.bresp) == Resp.SLVERR))
        moved = [ctx.get(bus.awvalid) and ctx.get(bus.awready), ctx.get(bus.wvalid) and ctx.get(bus.wready)]
        await ctx.tick()
        for channel, items in enumerate((self.addresses, self.beats)):
            if moved[channel]:
                items.popleft()
                self.offered[channel] = False

    async def drain(self):
        for _ in range(20_000):
            if len(self.codes) == len(self.expected):
                break
            await self.cycle()
        for _ in range(200):
            await self.cycle()
        assert len(self.ops) == len(self.expected)
        refused, responses = False, []
        for (fields, number), found, code in zip(
                ((op[0], op[1]) for op in self.expected), self.ops, self.codes, strict=True):
            assert {name: found[name] for name in fields} == fields
            self.seen[found["kind"], found["code"]] += 1
            refused |= code != 0
            if number is not None:
                responses.append((number, refused))
                refused = False
        assert self.responses == responses
        self.seen["slverr"] += sum(refused for _, refused in responses)


def _operations(page, beat, data, strobes):
    """The fields of each operation that a beat stands for."""
    block, prepares = page % CONFIG.blocks, page >= CONFIG.blocks
    if not prepares:
        ops = []
        for word, enabled in halves(data, strobes):
            tick = TickWord.unpack(word)
            bad = enabled != 0xFF or tick.reserved or tick.reserved_high
            ops.append(({"kind": OpKind.TICK, "code": MALFORMED if bad else NONE, "any": tick.any,
                         "counter": block * 64 + tick.counter, "generation": tick.generation, "value": tick.value},))
        return ops or [({"kind": OpKind.NONE, "code": NONE},)]
    if not strobes:
        return [({"kind": OpKind.NONE, "code": NONE},)]
    index, field = divmod(beat, 4)
    arm = ArmWord.unpack(data)
    bad = strobes != 0xFFFF or field > SlotField.ARM or (field == SlotField.ARM and (
        arm.reserved or arm.reserved_high or (arm.mode in (Mode.ONCE, Mode.REPEAT) and not arm.threshold)))
    fields = {"code": MALFORMED if bad else NONE, "counter": block * 64 + index}
    if not bad:
        fields |= {"kind": OpKind.ARM if field == SlotField.ARM else OpKind.WORD, "word": data}
        if field != SlotField.ARM:
            fields["second"] = field
    return [(fields,)]


def _run(body, *, seed=0, rates=(1.0,) * 5):
    dut = Checked()

    async def after_reset(bench):
        await bench.cycle()
        await bench.cycle()
        await body(bench)

    return run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(seed), rates), after_reset)


def _beat(rng, prepares):
    strobes = rng.choice((0xFFFF, 0xFFFF, 0xFFFF, 0x00FF, 0xFF00, 0, 0x7FFF, 0x0001, 0x8000, rng.getrandbits(16)))
    if prepares:
        arm = ArmWord(rng.choice((0, 1, rng.getrandbits(32))), rng.getrandbits(16), rng.randrange(4),
                      rng.getrandbits(1), rng.getrandbits(1), rng.choice((0, 0, 0, 1 << rng.randrange(12))),
                      rng.randrange(256), rng.choice((0, 0, 0, 1 << rng.randrange(56))))
        return rng.choice((arm.pack(), arm.pack(), rng.getrandbits(128))), strobes
    word = 0
    for half in range(2):
        tick = TickWord(rng.randrange(64), rng.getrandbits(1), rng.random() < 0.05, rng.getrandbits(16),
                        rng.getrandbits(20), rng.choice((0, 0, 0, 0, 0, 1 << rng.randrange(20))))
        word |= rng.choice((0, tick.pack(), tick.pack())) << 64 * half
    return word, strobes


@pytest.mark.parametrize("rates", [(1.0,) * 5, (0.3, 0.9, 0.5, 0.6, 0.5), (1.0, 0.3, 0.1, 0.9, 0.9),
                                   (1.0, 1.0, 1.0, 1.0, 0.1)])
def test_random(rates, seed):
    async def body(bench):
        rng = bench.rng
        for _ in range(200):
            page, length = rng.randrange(2 * CONFIG.blocks), rng.choice((1, 1, 1, 2, 4, 12))
            bench.send(page, rng.choice((0, 256 - length, rng.randrange(257 - length))),
                       [_beat(rng, page >= CONFIG.blocks) for _ in range(length)])

    seen = _run(body, seed=f"{seed} {rates}", rates=rates)
    assert all(seen[case] for case in ((OpKind.TICK, NONE), (OpKind.TICK, MALFORMED), (OpKind.NONE, NONE),
                                       (OpKind.WORD, NONE), (OpKind.ARM, NONE), (OpKind.ARM, MALFORMED), "slverr"))


def test_the_longest_burst():
    """256 beats of two ticks: 512 operations and one response, in as many cycles as operations."""
    async def body(bench):
        word = TickWord.add(1).pack() | TickWord.add(2).pack() << 64
        bench.send(2, 0, [(word, 0xFFFF)] * 256)
        cycles = 0
        while len(bench.ops) < 512:
            await bench.cycle()
            cycles += 1
        assert cycles <= 512 + 4

    _run(body)


def test_each_reserved_bit_of_an_arm_word():
    async def body(bench):
        good = ArmWord.arm(mode=Mode.ONCE, page=0, threshold=1).pack()
        for bit in range(128):
            bench.send(CONFIG.blocks, 2, [(good | 1 << bit, 0xFFFF)])

    _run(body)


def test_each_strobe_matters():
    async def body(bench):
        word = TickWord.add(1).pack() | TickWord.add(2).pack() << 64
        for bit in range(16):
            bench.send(0, 0, [(word, 0xFFFF & ~(1 << bit))])
            bench.send(CONFIG.blocks, 0, [(word, 0xFFFF & ~(1 << bit))])

    _run(body)
