# SPDX-License-Identifier: Apache-2.0
"""Cycles per packet, and latencies, at 512 bits; ``pytest -s`` prints them."""

import random
from dataclasses import replace

import pytest

from hw.rdma.config import RdmaConfig
from hw.rdma.protocol import Opcode
from tests.rdma.responder_bench import Request, run_bench

CONFIG = RdmaConfig(data_width=512, queue_pairs=8, window=16, packets=32, buffer_beats=512, remotes=16, regions=16,
                    reads=16, receive_beats=512, response_beats=512, writes=64)
FEW = replace(CONFIG, writes=16)
KEY, LENGTH = 0x355, 0x2_0000
WRITE_LATENCY = 6


class _Sender:
    def __init__(self, bench):
        self.bench, self.psn = bench, [0] * CONFIG.queue_pairs

    async def start(self):
        self.bench.memory.allow(0x10_0000, bytes(LENGTH))
        await self.bench.region(3, key=0x55, domain=2, readable=1, writable=1, length=LENGTH, address=0x10_0000)
        for qp in range(CONFIG.queue_pairs):
            await self.bench.open(qp, domain=2, mtu=4)
        await self.bench.drain()

    def send(self, op, qp, va, size, ackreq=0):
        write = op == Opcode.WRITE_ONLY
        self.bench.send(Request(qp, op, self.psn[qp], bytes(size if write else 0), ackreq, va, KEY, size))
        self.psn[qp] += 1 if write else -(-size // 4096)

    async def measure(self, op, queue_pairs, size, offset, count, skip):
        """Cycles per packet after the first ``skip``: of bursts to memory, or of packets sent."""
        bench = self.bench
        bench.accepted.clear()
        bench.replies.clear()
        for number in range(count):
            self.send(op, number % queue_pairs, number % 16 * 4096 + offset, size)
        await bench.drain()
        if op == Opcode.WRITE_ONLY:
            return (bench.accepted[-1][0] - bench.accepted[skip][0]) / (count - 1 - skip)
        assert len(bench.replies) == count
        return (bench.replies[-1].cycle - bench.replies[skip].cycle) / (count - 1 - skip)


SHORT = ((Opcode.WRITE_ONLY, 64, 0, 12 * FEW.writes, 3.0), (Opcode.WRITE_ONLY, 64, 7, 12 * FEW.writes, 3.0),
         (Opcode.READ_REQUEST, 64, 0, 16, 4.0))
LONG = ((Opcode.WRITE_ONLY, 4096, 0, 6, 64.5), (Opcode.READ_REQUEST, 4096, 0, 8, 65.5))
"""Operation, bytes, offset, packets, and most cycles per packet. Short WRITEs are more than may be in flight, so that
their rate is that of their completion, too."""


@pytest.mark.parametrize("cases", [SHORT, pytest.param(LONG, marks=pytest.mark.long)], ids=["64", "4096"])
def test_rates(cases):
    """A WRITE of 64 bytes takes 3 cycles, a READ of 64 bytes 4, with one queue pair or several; long ones a cycle per
    beat, and 2 % more."""
    async def body(bench):
        sender = _Sender(bench)
        await sender.start()
        for op, size, offset, count, most in cases:
            for queue_pairs in (1, CONFIG.queue_pairs):
                cycles = await sender.measure(op, queue_pairs, size, offset, count, count // 3)
                print(f"{op.name}, {size} bytes at {offset}, {queue_pairs} queue pairs: {cycles:.2f} cycles")
                assert cycles <= most

    run_bench(FEW, body, random.Random(1))


def test_latencies():
    """Cycles without load: 13 from a WRITE to its beat at memory, 8 from its response to the ACK, 34 of a READ with
    memory's 8."""
    async def body(bench):
        sender = _Sender(bench)
        await sender.start()
        bench.accepted.clear()
        bench.first_write_beats.clear()
        sender.send(Opcode.WRITE_ONLY, 0, 64, 64, 1)
        await bench.drain()
        start, beat, ack = bench.accepted[0][0], bench.first_write_beats[0], bench.replies[0].cycle
        sender.send(Opcode.READ_REQUEST, 0, 64, 64)
        await bench.drain()
        read = bench.replies[1].cycle - bench.accepted[1][0]
        print(f"beat {beat - start}, ACK {ack - beat - WRITE_LATENCY}, READ {read} cycles")
        assert (beat - start, ack - beat - WRITE_LATENCY, read) == (13, 8, 34)

    run_bench(CONFIG, body, random.Random(1))
