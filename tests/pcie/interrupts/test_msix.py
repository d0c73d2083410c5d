# SPDX-License-Identifier: Apache-2.0
"""MSI-X: the table by software's accesses, and messages against a model of pending bits."""

import random

import pytest

from hw.axi import Resp
from hw.pcie.config import PcieConfig
from hw.pcie.interrupts import Msix
from hw.pcie.interrupts.message_sender import MessageSender
from tests.harness.cell import CellBench, run_bench, run_cell

pytestmark = pytest.mark.long

PENDING, CONTROL = 0x1000, 12


def _config(vectors):
    return PcieConfig(axi_id_width=4, doorbell_addr_width=16, vectors=vectors)


class _Bench(CellBench):
    """Drives all ports, and compares messages with what was requested."""

    def __init__(self, ctx, rng, dut, vectors):
        super().__init__(ctx, rng)
        self.dut, self.vectors = dut, vectors
        self.cycle, self.stall, self.rate, self.interval = 0, 0.0, 0.0, 0
        self.requested = {vector: [] for vector in range(vectors)}      # cycles of requests without a message
        self.sent, self.sent_at, self.offered, self.table = [], {}, None, {}
        self.set(dut.enable, 1)
        self.set(dut.bus.bready, 1)
        self.set(dut.bus.rready, 1)

    async def step(self, requests=0):
        """One cycle: messages are taken at random."""
        ctx, dut = self.ctx, self.dut
        for vector in range(self.vectors):
            requests |= self.chance(self.rate) << vector
            if requests >> vector & 1 and ctx.get(dut.enable):
                self.requested[vector].append(self.cycle)
        self.set(dut.requests, requests)
        self.set(dut.messages.ready, not self.chance(self.stall))
        if ctx.get(dut.messages.valid):
            self.see(ctx.get(dut.messages.payload), ctx.get(dut.messages.ready))
        await ctx.tick()
        self.cycle += 1

    def see(self, message, ready):
        found = [vector for vector, row in self.table.items()
                 if (message.address, message.data) == (row[0] & ~3 | row[1] << 32, row[2])]
        assert len(found) == 1, message
        vector = found[0]
        if self.offered is None:
            # Requests before the choice, two cycles ago, are in this message; later ones are not.
            covered = [at for at in self.requested[vector] if at < self.cycle - 2]
            assert covered, f"vector {vector} was not requested"
            del self.requested[vector][:len(covered)]
            self.seen["coalesced"] += len(covered) > 1
            age = self.cycle - self.sent_at.get(vector, -1 << 20)
            assert age >= self.interval, f"vector {vector} is sent {age} cycles after its last message"
            self.offered = vector
        assert self.offered == vector
        if ready:
            self.offered, self.sent_at[vector] = None, self.cycle
            self.sent.append(vector)

    @property
    def pending(self):
        return sum(bool(cycles) << vector for vector, cycles in self.requested.items())

    async def write(self, address, value, strb=0xf):
        ctx, bus = self.ctx, self.dut.bus
        order = self.rng.choice((("aw", "w"), ("w", "aw"), ("aw w",)))
        self.set(bus.awaddr, address)
        self.set(bus.wdata, value)
        self.set(bus.wstrb, strb)
        for names in order:
            for name in names.split():
                assert ctx.get(getattr(bus, f"{name}ready"))
                self.set(getattr(bus, f"{name}valid"), 1)
            await self.step()
            for name in names.split():
                self.set(getattr(bus, f"{name}valid"), 0)
        while not ctx.get(bus.bvalid):
            await self.step()
        assert ctx.get(bus.bresp) == Resp.OKAY
        await self.step()

    async def read(self, address):
        ctx, bus = self.ctx, self.dut.bus
        self.set(bus.araddr, address)
        self.set(bus.arvalid, 1)
        assert ctx.get(bus.arready)
        await self.step()
        self.set(bus.arvalid, 0)
        while not ctx.get(bus.rvalid):
            await self.step()
        assert ctx.get(bus.rresp) == Resp.OKAY
        word = ctx.get(bus.rdata)
        await self.step()
        return word

    async def fill(self):
        for vector in range(self.vectors):
            row = [self.rng.getrandbits(32) for _ in range(3)]
            self.table[vector] = row
            for number, word in enumerate(row):
                await self.write(16 * vector + 4 * number, word)

    async def mask(self, vector, masked):
        await self.write(16 * vector + CONTROL, masked)

    async def drain(self):
        self.rate = self.stall = 0
        self.set(self.dut.requests, 0)
        for _ in range(8 * self.vectors + 20 + self.interval):
            await self.step()


def _run(vectors, body, seed=1):
    dut, rng = Msix(_config(vectors)), random.Random(seed)
    return run_bench(dut, lambda ctx: _Bench(ctx, rng, dut, vectors), body)


@pytest.mark.parametrize("vectors", [2, 64])
def test_table_keeps_what_is_written(vectors):
    async def body(bench):
        model = bytearray(16 * vectors)
        for vector in range(vectors):
            assert await bench.read(16 * vector + CONTROL) == 1, "a vector is not masked after reset"
            model[16 * vector + CONTROL] = 1
        await bench.fill()
        for vector, row in bench.table.items():
            model[16 * vector:16 * vector + 12] = b"".join(word.to_bytes(4, "little") for word in row)
        for _ in range(100):
            address = 4 * bench.rng.randrange(4 * vectors)
            word, strb = bench.rng.getrandbits(32), bench.rng.randrange(16)
            # No message is sent: masks may change freely.
            await bench.write(address, word, strb)
            for lane in range(4):
                if strb >> lane & 1:
                    model[address + lane] = word >> 8 * lane & 0xff
            if address % 16 == CONTROL:
                model[address:address + 4] = bytes([model[address] & 1, 0, 0, 0])
            await bench.write(bench.rng.choice((PENDING, PENDING + 4, 16 * vectors, 0x1ff8)), -1 & 0xffff_ffff)
            at = 4 * bench.rng.randrange(4 * vectors)
            assert await bench.read(at) == int.from_bytes(model[at:at + 4], "little")
        for address in (PENDING, PENDING + 4, PENDING + 8, 16 * vectors, 0xffc, 0x1ffc):
            assert await bench.read(address) == 0
        bench.table.clear()

    _run(vectors, body)


@pytest.mark.parametrize("interval", [0, 40])
@pytest.mark.parametrize("vectors", [2, 16])
def test_messages(vectors, interval):
    """Random requests, masks and stalls: only requested, unmasked vectors are sent, and all of them in the end."""
    async def body(bench):
        bench.interval = interval
        bench.set(bench.dut.interval, interval)
        await bench.fill()
        masked = set(range(vectors))
        for _ in range(40):
            bench.rate, bench.stall = bench.rng.choice((0, 0.01, 0.1)), bench.rng.choice((0, 0.5, 0.9))
            for _ in range(bench.rng.choice((1, vectors))):
                vector, mask = bench.rng.randrange(vectors), bench.rng.random() < 0.3
                await bench.mask(vector, mask)
                masked = masked | {vector} if mask else masked - {vector}
            # A message that was chosen before is sent, but no further one of a masked vector.
            while bench.offered is not None or bench.ctx.get(bench.dut.messages.valid):
                bench.stall = 0
                await bench.step()
            before = len(bench.sent)
            for _ in range(20):
                await bench.step()
            assert masked.isdisjoint(bench.sent[before:])
        await bench.drain()
        assert await bench.read(PENDING) == bench.pending == sum(
            1 << vector for vector in masked if bench.requested[vector])
        for vector in range(vectors):
            await bench.mask(vector, 0)
        await bench.drain()
        assert bench.pending == 0 and await bench.read(PENDING) == 0

    seen = _run(vectors, body)
    assert seen["coalesced"] > 10


def test_function_mask_and_enable():
    async def body(bench):
        await bench.fill()
        for vector in range(4):
            await bench.mask(vector, 0)
        bench.set(bench.dut.function_mask, 1)
        await bench.step(0b1010)
        await bench.step()
        for _ in range(20):
            await bench.step()
        assert not bench.sent and await bench.read(PENDING) == 0b1010
        bench.set(bench.dut.function_mask, 0)
        for _ in range(12):
            await bench.step()
        assert sorted(bench.sent) == [1, 3]
        await bench.mask(2, 1)
        await bench.step(0b0100)
        await bench.step()
        assert await bench.read(PENDING) == 0b0100
        bench.set(bench.dut.enable, 0)
        await bench.step(0b1111)
        await bench.step()
        assert bench.pending == 0b0100
        bench.requested[2].clear()
        bench.set(bench.dut.enable, 1)
        await bench.mask(2, 0)
        for _ in range(20):
            await bench.step()
        assert len(bench.sent) == 2 and await bench.read(PENDING) == 0

    _run(4, body)


def test_latency_and_moderation():
    """4 cycles to a message; with an interval, requests meanwhile make one message, soon after its time."""
    async def body(bench):
        await bench.fill()
        await bench.mask(1, 0)
        bench.interval = 100
        bench.set(bench.dut.interval, 100)
        start = bench.cycle
        await bench.step(0b10)
        for _ in range(20):
            await bench.step()
        assert bench.sent_at[1] - start == 4
        first = bench.sent_at[1]
        for _ in range(4):
            await bench.step(0b10)
        for _ in range(200):
            await bench.step()
        assert len(bench.sent) == 2 and 100 <= bench.sent_at[1] - first <= 110

    _run(4, body)


def test_requests_while_stalled():
    """A message is on offer: further requests of its vector make one more."""
    async def body(bench):
        await bench.fill()
        await bench.mask(0, 0)
        bench.stall = 1
        await bench.step(0b01)
        for _ in range(6):
            await bench.step()
        await bench.step(0b01)
        await bench.step(0b01)
        bench.stall = 0
        for _ in range(10):
            await bench.step()
        assert bench.sent == [0, 0]

    _run(2, body)


def test_one_vector_does_not_starve_others():
    dut, sent = MessageSender(_config(4)), []

    async def testbench(ctx):
        ctx.set(dut.enable, 1)
        ctx.set(dut.messages.ready, 1)
        ctx.set(dut.requests, 0b1111)
        for _ in range(40):
            if ctx.get(dut.start):
                sent.append(ctx.get(dut.vector))
            await ctx.tick()

    run_cell(dut, testbench)
    assert sent[:8] == [0, 1, 2, 3, 0, 1, 2, 3] and len(sent) >= 12
