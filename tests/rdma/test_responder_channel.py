# SPDX-License-Identifier: Apache-2.0
"""Messages of several requesters over channels with faults: memory, READ data and records are exact, and each byte is
in memory before its acknowledgement."""

import random

import pytest

from hw.rdma.config import TINY
from hw.rdma.protocol import ACK, Opcode
from tests.rdma.responder_bench import Pace, run_bench
from tests.rdma.responder_model import WRAP
from tests.rdma.responder_requester import Channel, Requester

RINGS, AREA, AREA_BYTES, VA = 0x90_0000, 0x10_0000, 0x8000, 0x7000_0000_0123
MTU = 256


class _Traffic:
    """A queue pair's messages: each WRITE has bytes of its own; READs are of bytes that do not change."""

    def __init__(self, bench, rng, qp, *, selective, messages):
        self.bench, self.rng, self.qp = bench, rng, qp
        self.base = AREA + qp * AREA_BYTES + 0x123
        self.content = bytearray(rng.randbytes(AREA_BYTES - 0x200))
        bench.memory.allow(self.base, bytes(self.content))
        self.rkey = qp << 8 | 0x40 + qp
        psn = rng.choice((0, WRAP - 5, rng.randrange(WRAP))) + WRAP
        self.requester = Requester(qp, psn, mtu=MTU, window=bench.config.window, reads=bench.config.reads,
                                   selective=selective)
        self.selective, self.psn, self.messages = selective, psn, messages
        self.written, self.reads, self.records, self.arrived = [], [], [], {}

    async def start(self):
        bench, rng = self.bench, self.rng
        bench.memory.allow(RINGS + 0x100 * self.qp, bytes(0x40))
        await bench.region(self.qp, key=0x40 + self.qp, domain=1, readable=1, writable=1, va=VA,
                           length=len(self.content), address=self.base)
        await bench.open(self.qp, domain=1, receive_psn=self.psn % WRAP, mtu=0, selective=self.selective, ring=1,
                         ring_base=RINGS + 0x100 * self.qp, ring_bits=2, rnr_timer=1)
        fixed, free = 2000, 2000
        for _ in range(self.messages):
            size = rng.choice((0, 1, 64, MTU, rng.randrange(1, 300), rng.randrange(1, 4 * MTU)))
            if rng.random() < 0.3:
                size = size if not self.selective else min(size, MTU)
                at = rng.randrange(fixed - size)
                self.reads.append((self.requester.read(VA + at, self.rkey, size), at, size))
                continue
            payload, imm = rng.randbytes(size), rng.choice((None, None, rng.getrandbits(32)))
            self.requester.write(VA + free, self.rkey, payload, imm)
            if imm is not None:
                self.records.append((imm, len(payload) if not self.selective else len(payload) - (
                    max(0, -(-size // MTU) - 1) * MTU)))
            self.written.append((self.requester.top, free, payload))
            self.content[free:free + size] = payload
            free += size
        assert free <= len(self.content)

    def check_acknowledged(self, reply):
        """On an ACK, all writes before it are in memory."""
        if reply.qp != self.qp or reply.opcode != Opcode.ACKNOWLEDGE or reply.syndrome != ACK:
            return
        psn = self.requester.done + (reply.psn - self.requester.done + WRAP // 2) % WRAP - WRAP // 2
        for top, at, payload in self.written:
            if top <= psn + 1:
                assert self.bench.memory.read(self.base + at, len(payload)) == payload

    async def consume(self):
        """Read new records in order, as software does."""
        number = len(self.arrived)
        at = RINGS + 0x100 * self.qp + 16 * (number % 4)
        record = int.from_bytes(self.bench.memory.read(at, 16), "little")
        if record >> 127 == 1 - number // 4 % 2 and number < len(self.records):
            assert (record & 0xFFFF_FFFF, record >> 32 & 0xFFFF_FFFF) == self.records[number]
            assert record >> 64 & 0xFF_FFFF == 0x100 + self.qp
            self.arrived[number] = record
        if self.rng.random() < 0.2:
            await self.bench.take(self.qp, len(self.arrived))

    def check(self):
        assert not self.requester.fatal, self.requester.fatal
        assert self.bench.memory.read(self.base, len(self.content)) == self.content
        for unit, at, size in self.reads:
            assert b"".join(unit.data[one] for one in range(unit.count)) == bytes(self.content[at:at + size])
        assert len(self.arrived) == len(self.records)


async def _exchange(bench, rng, *, queue_pairs, messages, selective, loss=0.03, twice=0.03, delay=120, limit=60_000):
    traffic = [_Traffic(bench, rng, qp, selective=selective and qp % 2 == 0, messages=messages)
               for qp in range(queue_pairs)]
    for one in traffic:
        await one.start()
        bench.taps.append(one.check_acknowledged)
    there, returning = (Channel(rng, loss=loss, twice=twice, delay=delay) for _ in range(2))
    bench.taps.append(lambda reply: returning.send(reply, bench.cycle))
    for _ in range(limit):
        for one in traffic:
            if len(bench.queue) < 100:
                packet = one.requester.packet(bench.cycle)
                if packet:
                    there.send(packet, bench.cycle)
            if bench.cycle % 40 == 0:
                await one.consume()
        for packet in there.arrived(bench.cycle):
            bench.send(packet)
        for reply in returning.arrived(bench.cycle):
            traffic[reply.qp].requester.reply(reply, bench.cycle)
        await bench.step()
        if all(one.requester.done == one.requester.top and len(one.arrived) == len(one.records) for one in traffic):
            break
    else:
        raise AssertionError([(one.qp, one.requester.top - one.requester.done, len(one.arrived)) for one in traffic])
    await bench.drain()
    for one in traffic:
        one.check()
        assert (await bench.status(one.qp))[:2] == (0, one.requester.top % WRAP)
    assert not bench.faults


@pytest.mark.parametrize("selective", [False, True])
def test_exchange(seed, selective):
    rng = random.Random(seed)
    run_bench(TINY, lambda bench: _exchange(bench, rng, queue_pairs=3, messages=8, selective=selective), rng,
              Pace(write_latency=20, read_latency=30))


@pytest.mark.long
@pytest.mark.parametrize("selective", [False, True])
@pytest.mark.parametrize("pace", [Pace(), Pace(writes=0.4, reads=0.4, packets=0.6, beats=0.5, write_latency=60,
                                               read_latency=90)], ids=["fast", "slow"])
def test_long_exchange(seed, selective, pace):
    rng = random.Random(seed)
    run_bench(TINY, lambda bench: _exchange(bench, rng, queue_pairs=5, messages=60, selective=selective), rng, pace)
