# SPDX-License-Identifier: Apache-2.0
"""Floods and violations of one queue pair: memory outside its regions is not used, and another one is not affected.

The bench's memory fails the test at each byte outside of a region.
"""

import random

import pytest

from hw.rdma.config import TINY
from hw.rdma.fault import Fault
from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind
from tests.rdma.responder_bench import Pace, Request, run_bench
from tests.rdma.responder_model import WRAP

BASE, VA, KEY, LENGTH = 0x40_0000, 0x1000, 0x3AB, 0x8000
FLOOD, VICTIM = 1, 2


async def _prepare(bench, **fields):
    content = bench.rng.randbytes(LENGTH)
    bench.memory.allow(BASE, content)
    await bench.region(KEY >> 8, key=KEY & 0xFF, domain=5, readable=1, writable=1, va=VA, length=LENGTH, address=BASE)
    for qp in (FLOOD, VICTIM):
        await bench.open(qp, domain=5, receive_psn=0, **fields)
    await bench.drain()
    return content


def _write(qp, psn, at, payload, ackreq=1):
    return Request(qp, Opcode.WRITE_ONLY, psn, payload, ackreq, VA + at, KEY, len(payload))


def _read(qp, psn, at, size):
    return Request(qp, Opcode.READ_REQUEST, psn, va=VA + at, rkey=KEY, dma_length=size)


def _of(bench, qp):
    return [(reply.opcode, reply.psn, reply.syndrome) for reply in bench.replies if reply.qp == qp]


def test_a_long_read_does_not_block():
    """A READ of 2 ** 31 bytes gets its packets; READs and WRITEs of another queue pair complete meanwhile."""
    async def body(bench):
        content = await _prepare(bench)
        await bench.region(7, key=1, domain=5, readable=1, va=0, length=1 << 31, address=0)
        bench.memory.read_beat = lambda address: address
        bench.send(Request(FLOOD, Opcode.READ_REQUEST, 0, va=0, rkey=0x701, dma_length=1 << 31))
        await bench.run(300)
        start = bench.cycle
        for number in range(4):
            at = len(bench.replies)
            bench.send(_write(VICTIM, 2 * number, 0x4000 + 8 * number, b"01234567"))
            bench.send(_read(VICTIM, 2 * number + 1, 64, 8))
            while not any(reply.qp == VICTIM and reply.psn == 2 * number + 1 for reply in bench.replies[at:]):
                await bench.step()
        assert (bench.cycle - start) / 4 < 250
        mine = [reply for reply in bench.replies if reply.qp == FLOOD]
        assert [reply.psn for reply in mine] == list(range(len(mine))) and len(mine) > 10
        assert {reply.opcode for reply in mine} == {Opcode.READ_FIRST, Opcode.READ_MIDDLE}
        await bench.stop(FLOOD)
        await bench.drain()
        assert (await bench.status(FLOOD)) == (0, 1 << 23, 1)
        assert content

    run_bench(TINY, body, random.Random(1))


def test_more_reads_than_allowed():
    """One READ more than the queue holds is invalid: its NAK follows the responses of the others."""
    async def body(bench):
        await _prepare(bench)
        for psn in range(TINY.reads + 3):
            bench.send(_read(FLOOD, psn, 0, 256))
        bench.send(_read(VICTIM, 0, 0, 8))
        await bench.drain()
        assert _of(bench, FLOOD) == [*((Opcode.READ_ONLY, psn, ACK) for psn in range(TINY.reads)), (
            Opcode.ACKNOWLEDGE, TINY.reads, SyndromeKind.NAK << 5 | Nak.INVALID_REQUEST)]
        assert bench.faults == [(FLOOD, Fault.LOCAL_INVALID)]
        assert _of(bench, VICTIM) == [(Opcode.READ_ONLY, 0, ACK)]

    run_bench(TINY, body, random.Random(1), Pace(read_latency=300))


def test_floods_of_duplicates():
    """Duplicates of WRITEs and READs, and packets far beyond the window, while another queue pair works."""
    async def body(bench):
        content = await _prepare(bench)
        for psn in range(4):
            bench.send(_write(FLOOD, psn, 8 * psn, b"original"))
        bench.send(_read(FLOOD, 4, 0, 64))
        await bench.drain()
        bench.memory.content.update(dict.fromkeys(range(BASE, BASE + 8), 0x77))
        bench.replies.clear()
        for number in range(30):
            bench.send(bench.rng.choice((
                _write(FLOOD, bench.rng.randrange(4), 0, b"repeated"), _read(FLOOD, 4, 0, 64),
                _write(FLOOD, 5 + bench.rng.randrange(1, 1000), 0, b"too far."))))
            bench.send(_write(VICTIM, number, 0x2000 + 8 * number, number.to_bytes(8, "little"), number == 29))
        await bench.drain()
        assert bench.memory.read(BASE, 8) == b"w" * 8 and not bench.faults
        for opcode, psn, syndrome in _of(bench, FLOOD):
            assert (opcode, psn, syndrome) in ((Opcode.ACKNOWLEDGE, 4, ACK), (Opcode.READ_ONLY, 4, ACK),
                                               (Opcode.ACKNOWLEDGE, 5, SyndromeKind.NAK << 5 | Nak.SEQUENCE))
        assert _of(bench, VICTIM)[-1] == (Opcode.ACKNOWLEDGE, 29, ACK)
        assert bench.memory.read(BASE + 0x2000, 240) == b"".join(one.to_bytes(8, "little") for one in range(30))
        assert await bench.status(FLOOD) == (0, 5, 5) and content

    run_bench(TINY, body, random.Random(1))


@pytest.mark.parametrize(("qps", "count"), [(2, 40), pytest.param(3, 400, marks=pytest.mark.long)])
def test_garbage(seed, qps, count):
    """Requests with random fields; every queue pair can be used afterwards."""
    async def body(bench):
        rng = bench.rng
        await _prepare(bench)
        for _ in range(count):
            qp = rng.randrange(qps)
            request = Request(
                qp, rng.choice((*range(0x0D), rng.getrandbits(8))), rng.choice((0, 1, 2, rng.randrange(WRAP))),
                rng.randbytes(rng.choice((0, 1, 256, rng.randrange(300), rng.randrange(1025)))), rng.getrandbits(1),
                rng.choice((VA, VA + LENGTH - 1, rng.getrandbits(64), (1 << 64) - 1)),
                rng.choice((KEY, KEY, rng.getrandbits(32))),
                rng.choice((0, 1, 256, LENGTH, LENGTH + 1, (1 << 32) - 1, rng.getrandbits(32))))
            bench.send(request)
            if rng.random() < 0.2:
                await bench.drain(20)
                await bench.open(qp, domain=5, receive_psn=0, selective=rng.getrandbits(1))
        await bench.drain()
        for qp in range(qps):
            assert (await bench.status(qp))[0] == 0
            await bench.open(qp, domain=5, receive_psn=9)
            await bench.drain(20)
            bench.send(_write(qp, 9, 0, b"hello"))
            await bench.drain(20)
            assert _of(bench, qp)[-1] == (Opcode.ACKNOWLEDGE, 9, ACK)

    rng = random.Random(seed)
    run_bench(TINY, body, rng, Pace(writes=0.7, packets=0.8))
