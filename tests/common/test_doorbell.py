# SPDX-License-Identifier: Apache-2.0
"""The doorbell port alone: bursts with empty, partial and refused words, tails of rings, and stalls everywhere."""

import random
from collections import deque
from dataclasses import dataclass

import pytest

from hw.axi import Resp
from hw.common.doorbell import Doorbell, store_layout, tail_layout
from hw.common.sizes import PAGE_BYTES
from tests.dma_engine.frontend.sizes import SMALL
from tests.harness.cell import CellBench, run_bench
from tests.harness.fields import Fields

HALF = (1 << 64) - 1
LONGEST = 8


@dataclass
class Beat:
    data: int
    strobes: int

    @property
    def halves(self):
        """Data and strobes of each half."""
        return [(self.data >> 64 * half & HALF, self.strobes >> 8 * half & 0xFF) for half in range(2)]


@dataclass
class Burst:
    queue: int
    number: int
    beats: list[Beat]
    refuse: int | None = None       # the beat to refuse; None: any
    refused: bool = False


class Bench(CellBench):
    """Drives the port for one cycle at a time and checks each output."""

    def __init__(self, ctx, dut, rng, stalls):
        super().__init__(ctx, rng)
        self.dut, self.stalls, self.config, self.driven = dut, stalls, dut.config, 0
        self.stores, self.tails = Fields(store_layout(self.config)), Fields(tail_layout(self.config))
        self.addresses, self.beats = deque(), deque()       # not yet accepted
        self.items, self.responses = deque(), deque()       # beats with strobes, and bursts, in order
        self.held = {"aw": False, "w": False}

    def add(self, burst):
        self.addresses.append(burst)
        self.beats += [(burst, beat, beat is burst.beats[-1]) for beat in burst.beats]
        self.responses.append(burst)

    def random_beat(self):
        rng = self.rng
        strobes = rng.choice((0, 0xFFFF, 0xFFFF, 0xFF, 0xFF00, rng.getrandbits(16)))
        return Beat(sum(rng.choice((HALF, rng.getrandbits(64))) << 64 * half for half in range(2)), strobes)

    def random_burst(self):
        beats = [self.random_beat() for _ in range(self.rng.choice((1, 1, 2, self.rng.randint(1, LONGEST))))]
        return Burst(self.rng.randrange(self.config.queues), self.rng.getrandbits(self.config.doorbell_id_width), beats)

    def is_tail(self, burst):
        return burst.queue < self.config.extended and bool(self.driven >> burst.queue & 1)

    def tail(self, burst, beat):
        data, strobes = beat.halves[0] if beat.halves[0][1] else beat.halves[1]
        return self.tails.pack({"ring": burst.queue, "tail": data & 0xFFFF_FFFF, "whole": strobes & 0xF == 0xF})

    def store(self, burst, beat):
        bits = {"some": 0, "whole": 0, "words": 0}
        for half, (data, strobes) in enumerate(beat.halves):
            bits["some"] |= (strobes != 0) << half
            bits["whole"] |= (strobes == 0xFF) << half
            bits["words"] |= (strobes != 0 and not (strobes == 0xFF and data == HALF)) << half
        return self.stores.pack({"queue": burst.queue, "data": beat.data, **bits})

    def refuses(self):
        """Whether the item that may leave in this cycle is refused."""
        if self.items and (refuse := self.items[0][0].refuse) is not None:
            burst, beat = self.items[0]
            return burst.beats.index(beat) == refuse
        return self.rng.random() < 0.3

    async def step(self, *, sweep=False):
        dut, bus, rng = self.dut, self.dut.bus, self.rng
        aw = self.addresses[0] if self.addresses and (self.held["aw"] or not self.chance(self.stalls)) else None
        w = self.beats[0] if self.beats and (self.held["w"] or not self.chance(self.stalls)) else None
        self.set(bus.awvalid, aw is not None)
        if aw:
            self.set(bus.awaddr, aw.queue * PAGE_BYTES + rng.randrange(PAGE_BYTES))
            self.set(bus.awid, aw.number)
            self.set(bus.awlen, len(aw.beats) - 1)
        self.set(bus.wvalid, w is not None)
        if w:
            self.set(bus.wdata, w[1].data)
            self.set(bus.wstrb, w[1].strobes)
            self.set(bus.wlast, w[2])
        self.set(dut.tails.driven, self.driven)
        self.set(dut.init.active, sweep)
        ready = {}
        for port in (dut.o, dut.tails.doorbells):
            ready[port] = not self.chance(self.stalls)
            self.set(port.ready, ready[port])
            self.set(port.refused, self.refuses())
        bready = not self.chance(self.stalls)
        self.set(bus.bready, bready)
        self._items(ready, sweep)
        self._response(bready)
        if aw and self.ctx.get(bus.awready):
            self.addresses.popleft()
        self.held["aw"] = bool(aw) and not self.ctx.get(bus.awready)
        if w and self.ctx.get(bus.wready):
            burst, beat, _ = self.beats.popleft()
            if beat.strobes:
                self.items.append((burst, beat))
            else:
                self.seen["empty"] += 1
        self.held["w"] = bool(w) and not self.ctx.get(bus.wready)
        await self.ctx.tick()

    def _items(self, ready, sweep):
        """A store or a tail that leaves."""
        ctx, ports = self.ctx, {False: self.dut.o, True: self.dut.tails.doorbells}
        valid = [kind for kind, port in ports.items() if ctx.get(port.valid)]
        if not valid:
            return
        assert not sweep, "An item leaves during the sweep"
        assert self.items, "An item that was not sent"
        (kind,), (burst, beat) = valid, self.items[0]
        assert kind == self.is_tail(burst)
        expected = self.tail(burst, beat) if kind else self.store(burst, beat)
        assert ctx.get(ports[kind].payload.as_value()) == expected, (burst, beat)
        if ready[ports[kind]]:
            self.items.popleft()
            refused = bool(ctx.get(ports[kind].refused))
            burst.refused |= refused
            self.seen["tails" if kind else "stores"] += 1
            self.seen["refused before the last"] += refused and beat is not burst.beats[-1]

    def _response(self, ready):
        bus = self.dut.bus
        if not self.ctx.get(bus.bvalid):
            return
        burst = self.responses[0]
        assert all(other is not burst for other, _ in self.items), "A response before all words of the burst"
        assert all(other is not burst for other, _, _ in self.beats)
        assert self.ctx.get(bus.bid) == burst.number
        assert self.ctx.get(bus.bresp) == (Resp.SLVERR if burst.refused else Resp.OKAY), burst
        if ready:
            self.responses.popleft()
            self.seen["slverr" if burst.refused else "okay"] += 1

    async def drain(self):
        for _ in range(4000):
            if not self.responses:
                break
            await self.step()
        assert not self.responses and not self.items
        for _ in range(4):
            await self.step()


def run(rng, body, *, stalls):
    dut = Doorbell(SMALL)
    return run_bench(dut, lambda ctx: Bench(ctx, dut, rng, stalls), body)


@pytest.mark.parametrize("stalls", [0, 0.3, 0.8])
@pytest.mark.parametrize("driven", range(1 << SMALL.extended))
def test_random(seed, stalls, driven):
    rng = random.Random(f"{seed} doorbell {stalls} {driven}")

    async def body(bench):
        bench.driven = driven
        for _ in range(150):
            bench.add(bench.random_burst())
            while len(bench.addresses) > 4:
                await bench.step()

    seen = run(rng, body, stalls=stalls)
    assert min(seen[name] for name in ("stores", "empty", "refused before the last", "slverr", "okay")) > 5, seen
    assert bool(seen["tails"]) == bool(driven)


def test_each_word_of_a_burst_refused(seed):
    """One word of a burst is refused, each in turn: BRESP of this burst is SLVERR, and that of the next one OKAY."""
    rng = random.Random(f"{seed} refused")

    async def body(bench):
        for length in range(1, LONGEST + 1):
            for refused in range(length):
                for refuse in (refused, LONGEST):
                    beats = [Beat(rng.getrandbits(128), 0xFFFF) for _ in range(length)]
                    bench.add(Burst(2, rng.getrandbits(SMALL.doorbell_id_width), beats, refuse))

    seen = run(rng, body, stalls=0)
    assert seen["slverr"] == seen["okay"] == LONGEST * (LONGEST + 1) // 2


def test_one_word_per_cycle(seed):
    """Single beats and bursts, one after the other, leave without a bubble."""
    rng = random.Random(f"{seed} rate")

    async def body(bench):
        for length in (1,) * 20 + (5, 8):
            bench.add(Burst(3, 0, [Beat(rng.getrandbits(128), 0xFFFF) for _ in range(length)]))
        cycles = []
        for cycle in range(60):
            before = bench.seen["stores"]
            await bench.step()
            if bench.seen["stores"] > before:
                cycles.append(cycle)
        assert cycles == list(range(1, 34)), cycles

    run(rng, body, stalls=0)


def test_sweep(seed):
    """No word leaves during the sweep, and all do after it."""
    rng = random.Random(f"{seed} doorbell sweep")

    async def body(bench):
        for _ in range(4):
            bench.add(bench.random_burst())
        for _ in range(30):
            await bench.step(sweep=True)
        assert not bench.seen["stores"]

    run(rng, body, stalls=0.3)


def test_reads_return_zero():
    dut = Doorbell(SMALL)

    async def body(bench):
        bus, ctx = dut.bus, bench.ctx
        for length in (1, 2, 9):
            ctx.set(bus.arvalid, 1)
            ctx.set(bus.arlen, length - 1)
            ctx.set(bus.arid, length & 3)
            while not ctx.get(bus.arready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(bus.arvalid, 0)
            for beat in range(length):
                ctx.set(bus.rready, 0)
                await ctx.tick()
                assert ctx.get(bus.rvalid) and ctx.get(bus.rid) == length & 3
                assert (ctx.get(bus.rdata), ctx.get(bus.rresp)) == (0, Resp.OKAY)
                assert ctx.get(bus.rlast) == (beat == length - 1)
                ctx.set(bus.rready, 1)
                await ctx.tick()
            ctx.set(bus.rready, 0)
            assert not ctx.get(bus.rvalid)

    run_bench(dut, lambda ctx: Bench(ctx, dut, random.Random(1), 0), body)
