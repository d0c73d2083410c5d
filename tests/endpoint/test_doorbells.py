# SPDX-License-Identifier: Apache-2.0
"""DoorbellSplit: each burst reaches its part in the same cycle, and has one response, in order."""

import random
from collections import deque

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiChecker, AxiSignature, Burst, Resp
from hw.endpoint.config import TINY
from hw.endpoint.doorbells import DoorbellSplit
from tests.harness.cell import run_cell

CONFIG = TINY
QUEUES = CONFIG.dma.queues, CONFIG.ace.queues, 2 * CONFIG.trigger_blocks
"""Pages of each part."""
PAGE = 4096
PAGES = 1 << (CONFIG.doorbell_addr_width - 12)
NAMES = ("dma", "ace", "triggers")
UNMAPPED = len(NAMES)
OUTSTANDING = 32


def _bus(config):
    return AxiSignature(addr_width=config.doorbell_addr_width, data_width=128, id_width=config.doorbell_id_width)


class Checked(wiring.Component):
    """With a monitor on each bus."""

    def __init__(self):
        self.part = DoorbellSplit(CONFIG)
        super().__init__({"bus": In(_bus(CONFIG)), "dma": Out(_bus(CONFIG.dma)), "ace": Out(_bus(CONFIG.ace)),
                          "triggers": Out(_bus(CONFIG.triggers))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = self.part
        connect(m, flipped(self.bus), self.part.bus)
        for name in NAMES:
            connect(m, getattr(self.part, name), flipped(getattr(self, name)))
        for name in ("bus", *NAMES):
            bus = getattr(self.part, name)
            checker = AxiChecker(_bus(CONFIG if name == "bus" else getattr(CONFIG, name)), max_outstanding=OUTSTANDING,
                                 max_per_id=OUTSTANDING, name=name)
            m.submodules[f"{name}_checker"] = checker
            m.d.comb += checker.observe(bus)
        return m


class _Engine:
    """Accepts bursts at random, and responds in order."""

    def __init__(self, bus, rng, ready, responds):
        self.bus, self.rng, self.ready, self.responds = bus, rng, ready, responds
        self.addresses, self.data, self.responses = [], [], deque()
        self.ended = 0

    def drive(self, ctx):
        for channel in ("aw", "w"):
            ctx.set(getattr(self.bus, f"{channel}ready"), self.rng.random() < self.ready)
        if not ctx.get(self.bus.bvalid) and self.responses and self.rng.random() < self.responds:
            number, resp = self.responses[0]
            ctx.set(self.bus.bid, number)
            ctx.set(self.bus.bresp, resp)
            ctx.set(self.bus.bvalid, 1)

    def sample(self, ctx):
        bus = self.bus
        responded = ctx.get(bus.bvalid) and ctx.get(bus.bready)
        if ctx.get(bus.awvalid) and ctx.get(bus.awready):
            self.addresses.append((ctx.get(bus.awid), ctx.get(bus.awaddr), ctx.get(bus.awlen)))
        if ctx.get(bus.wvalid) and ctx.get(bus.wready):
            self.data.append((ctx.get(bus.wdata), ctx.get(bus.wstrb), ctx.get(bus.wlast)))
            if self.data[-1][2]:
                number = self.addresses[self.ended][0]
                self.ended += 1
                self.responses.append((number, self.rng.choice((Resp.OKAY, Resp.SLVERR))))
        return responded

    def finish(self, ctx, responded):
        """After the clock edge; returns the response that was accepted."""
        if responded:
            ctx.set(self.bus.bvalid, 0)
            return self.responses.popleft()
        return None


@pytest.mark.parametrize("address_first", [0.3, 1.0])
@pytest.mark.parametrize(("ready", "responds"), [(1.0, 1.0), (0.6, 0.5), (0.2, 0.2), (1.0, 0.02)])
def test_random(ready, responds, address_first, seed):
    rng = random.Random(f"{ready} {responds} {address_first} {seed}")
    dut = Checked()
    bus, engines = dut.bus, [_Engine(getattr(dut, name), rng, ready, responds) for name in NAMES]
    width = CONFIG.doorbell_id_width
    bursts = []
    for _ in range(80):
        owner = rng.choice((0, 0, 1, 1, 2, 2, UNMAPPED))
        first = sum(QUEUES[:owner])
        page = first + rng.randrange(QUEUES[owner] if owner < UNMAPPED else PAGES - first)
        beats = [(rng.getrandbits(128), rng.getrandbits(16)) for _ in range(rng.choice((1, 1, 1, 2, 5)))]
        bursts.append((owner, rng.getrandbits(width), page * PAGE + 16 * rng.randrange(200), beats))
    found, resps = [], [deque() for _ in NAMES]

    async def testbench(ctx):
        addresses = data = 0
        beats = [(number, *beat, index == len(burst[3]) - 1) for number, burst in enumerate(bursts)
                 for index, beat in enumerate(burst[3])]
        cycles = 0
        ctx.set(bus.awsize, 4)
        ctx.set(bus.awburst, Burst.INCR)
        await ctx.tick()
        while len(found) < len(bursts):
            if not ctx.get(bus.awvalid) and addresses < len(bursts) and rng.random() < max(ready, 0.3):
                _, number, address, of_burst = bursts[addresses]
                ctx.set(bus.awid, number)
                ctx.set(bus.awaddr, address)
                ctx.set(bus.awlen, len(of_burst) - 1)
                ctx.set(bus.awvalid, 1)
            if not ctx.get(bus.wvalid) and data < len(beats) and (
                    beats[data][0] < addresses + ctx.get(bus.awvalid) or rng.random() >= address_first):
                _, word, strobes, last = beats[data]
                ctx.set(bus.wdata, word)
                ctx.set(bus.wstrb, strobes)
                ctx.set(bus.wlast, last)
                ctx.set(bus.wvalid, 1)
            ctx.set(bus.bready, rng.random() < ready)
            for engine in engines:
                engine.drive(ctx)
            responded = [engine.sample(ctx) for engine in engines]
            moved = [ctx.get(getattr(bus, f"{name}valid")) and ctx.get(getattr(bus, f"{name}ready")) for name in "wb"]
            accepted = ctx.get(bus.awvalid) and ctx.get(bus.awready)
            if moved[1]:
                found.append((ctx.get(bus.bid), Resp(ctx.get(bus.bresp))))
            # Nothing is registered: each transfer on the bus is one of its engine, in the same cycle.
            assert sum(len(engine.addresses) for engine in engines) == sum(
                owner < UNMAPPED for owner, *_ in bursts[:addresses + accepted])
            assert sum(len(engine.data) for engine in engines) == sum(
                bursts[number][0] < UNMAPPED for number, *_ in beats[:data + moved[0]])
            await ctx.tick()
            for number, engine in enumerate(engines):
                response = engine.finish(ctx, responded[number])
                if response is not None:
                    resps[number].append(response)
            if accepted:
                addresses += 1
                ctx.set(bus.awvalid, 0)
            if moved[0]:
                data += 1
                ctx.set(bus.wvalid, 0)
            cycles += 1
            assert cycles < 20_000, "a burst has no response"
        for _ in range(20):
            assert not ctx.get(bus.bvalid)
            await ctx.tick()

    run_cell(dut, testbench)
    for number, engine in enumerate(engines):
        own = [burst for burst in bursts if burst[0] == number]
        base = sum(QUEUES[:number]) * PAGE
        assert engine.addresses == [(burst[1], burst[2] - base, len(burst[3]) - 1) for burst in own]
        assert engine.data == [(*beat, index == len(burst[3]) - 1) for burst in own
                               for index, beat in enumerate(burst[3])]
    expected = [resps[owner].popleft() if owner < UNMAPPED else (number, Resp.DECERR) for owner, number, *_ in bursts]
    assert found == expected
    assert not any(resps)


def test_full_rate():
    """Single beats to one part after the other, one per cycle, and their responses."""
    dut = DoorbellSplit(CONFIG)
    bus, parts = dut.bus, [getattr(dut, name) for name in NAMES]
    pages = [0, QUEUES[0], QUEUES[0] + QUEUES[1]] * 20
    arrived, responses = [], []

    async def testbench(ctx):
        for part in parts:
            ctx.set(part.awready, 1)
            ctx.set(part.wready, 1)
        ctx.set(bus.bready, 1)
        ctx.set(bus.wlast, 1)
        waiting = [0] * len(parts)
        for cycle in range(len(pages) + 4):
            ctx.set(bus.awvalid, cycle < len(pages))
            ctx.set(bus.wvalid, cycle < len(pages))
            ctx.set(bus.awaddr, pages[min(cycle, len(pages) - 1)] * PAGE)
            ctx.set(bus.wdata, cycle)
            for part, count in zip(parts, waiting, strict=True):
                ctx.set(part.bvalid, count > 0)
            for number, part in enumerate(parts):
                waiting[number] -= ctx.get(part.bvalid) and ctx.get(part.bready)
                if ctx.get(part.wvalid):
                    assert ctx.get(part.awvalid)
                    arrived.append((cycle, ctx.get(part.wdata), number))
                    waiting[number] += 1
            if ctx.get(bus.bvalid):
                responses.append(cycle)
            await ctx.tick()

    run_cell(dut, testbench)
    assert arrived == [(cycle, cycle, cycle % len(NAMES)) for cycle in range(len(pages))]
    assert responses == list(range(2, len(pages) + 2))


def test_unmapped_pages_need_no_part():
    """A burst that no part owns has its DECERR while all parts stall."""
    dut = DoorbellSplit(CONFIG)
    bus = dut.bus

    async def testbench(ctx):
        ctx.set(bus.awaddr, sum(QUEUES) * PAGE)
        for signal in (bus.awvalid, bus.wvalid, bus.wlast, bus.bready):
            ctx.set(signal, 1)
        assert ctx.get(bus.awready) and ctx.get(bus.wready)
        await ctx.tick().repeat(2)
        assert ctx.get(bus.bvalid) and Resp(ctx.get(bus.bresp)) is Resp.DECERR

    run_cell(dut, testbench)
