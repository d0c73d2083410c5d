# SPDX-License-Identifier: Apache-2.0
"""Errors of memory, queue pairs that stop, regions that change, and responses that arrive when none is expected."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from hw.rdma.config import TINY
from hw.rdma.fault import Fault
from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind
from hw.rdma.responder import Responder
from tests.rdma.responder_bench import OKAY, PAGE, Memory, Pace, Request, ResponderBench, run_bench

BASE, VA, KEY, LENGTH = 0x40_0000, 0x1000, 0x3AB, 0x8000
RING = 0x80_0000


def _nak(code):
    return SyndromeKind.NAK << 5 | code


async def _prepare(bench, queue_pairs=3, **fields):
    content = bench.rng.randbytes(LENGTH)
    bench.memory.allow(BASE, content)
    bench.memory.allow(RING, bytes(64))
    await bench.region(KEY >> 8, key=KEY & 0xFF, domain=5, readable=1, writable=1, va=VA, length=LENGTH, address=BASE)
    for qp in range(queue_pairs):
        await bench.open(qp, domain=5, receive_psn=0, **fields)
    await bench.drain()
    return content


def _write(qp, psn, at, payload, ackreq=1, **fields):
    return Request(qp, Opcode.WRITE_ONLY, psn, payload, ackreq, VA + at, KEY, len(payload), **fields)


def _read(qp, psn, at, size):
    return Request(qp, Opcode.READ_REQUEST, psn, va=VA + at, rkey=KEY, dma_length=size)


def _seen(bench, qp):
    return [(reply.opcode, reply.psn, reply.syndrome) for reply in bench.replies if reply.qp == qp]


def test_error_of_a_write():
    """Earlier requests are acknowledged, then the NAK; later ones have no effect; another queue pair continues."""
    async def body(bench):
        await _prepare(bench)
        bench.memory.failing.add((BASE + PAGE) // PAGE)
        for psn, at in enumerate((0, 64, PAGE + 8, 128, 192)):
            bench.send(_write(1, psn, at, b"abcdefgh"))
            bench.send(_write(2, psn, 0x3000 + at, b"ijklmnop"))
        bench.send(_read(1, 5, 0, 100))
        await bench.drain()
        seen = _seen(bench, 1)
        assert seen[-1] == (Opcode.ACKNOWLEDGE, 2, _nak(Nak.REMOTE_OPERATION))
        assert all(one[1:] in ((0, ACK), (1, ACK)) for one in seen[:-1]) and seen[-2][1] == 1
        assert bench.faults == [(1, Fault.LOCAL_OPERATION)]
        assert _seen(bench, 2)[-1] == (Opcode.ACKNOWLEDGE, 4, ACK)
        assert (await bench.status(1))[0] == 0
        bench.send(_write(1, 2, 0, b"later"))
        await bench.drain()
        assert _seen(bench, 1) == seen and bench.memory.read(BASE, 5) == b"abcde"
        await bench.open(1, domain=5, receive_psn=77)
        bench.send(_write(1, 77, 0, b"again"))
        await bench.drain()
        assert _seen(bench, 1)[-1] == (Opcode.ACKNOWLEDGE, 77, ACK) and bench.memory.read(BASE, 5) == b"again"

    run_bench(TINY, body, random.Random(1), Pace(write_latency=25))


def test_error_of_a_record():
    """A write is not acknowledged if its record is not in memory; a write with an error has no record."""
    async def body(bench):
        await _prepare(bench, ring=1, ring_base=RING, ring_bits=2)
        bench.memory.failing.add(RING // PAGE)
        bench.send(Request(0, Opcode.WRITE_ONLY_IMM, 0, b"payload", 1, VA, KEY, 7, 99))
        bench.send(_write(0, 1, 64, b"next"))
        await bench.drain()
        assert _seen(bench, 0) == [(Opcode.ACKNOWLEDGE, 0, _nak(Nak.REMOTE_OPERATION))]
        assert bench.memory.read(BASE, 7) == b"payload" and bench.faults == [(0, Fault.LOCAL_OPERATION)]
        bench.memory.failing = {BASE // PAGE}
        bench.send(Request(1, Opcode.WRITE_ONLY_IMM, 0, b"payload", 1, VA, KEY, 7, 99))
        bench.send(Request(1, Opcode.WRITE_ONLY_IMM, 1, b"other", 1, VA + PAGE, KEY, 5, 99))
        await bench.drain()
        assert _seen(bench, 1) == [(Opcode.ACKNOWLEDGE, 0, _nak(Nak.REMOTE_OPERATION))]
        assert bench.memory.read(RING, 64) == bytes(64)

    run_bench(TINY, body, random.Random(1))


@pytest.mark.parametrize("cycles", [20, 30])
def test_a_record_in_flight_at_a_closing(cycles):
    """It is written to the queue pair's own ring, or not at all: a closing has the fields of another connection."""
    async def body(bench):
        await _prepare(bench, ring=1, ring_base=RING, ring_bits=2)
        bench.send(Request(0, Opcode.WRITE_ONLY_IMM, 0, b"payload", 1, VA, KEY, 7, 99))
        await bench.run(cycles)
        await bench.open(0, open=0, ring_base=0xDEAD_0000, qpn=0x123)
        await bench.drain()
        record = bench.memory.read(RING, 16)
        assert record in (bytes(16), (99 | 7 << 32 | 0x100 << 64 | 1 << 127).to_bytes(16, "little"))
        assert bench.memory.read(RING + 16, 48) == bytes(48)

    run_bench(TINY, body, random.Random(1), Pace(write_latency=20))


def test_error_of_a_read():
    """The packets before are sent, the NAK has the PSN of the one with the error, and no later one follows."""
    async def body(bench):
        content = await _prepare(bench)
        bench.memory.failing.add((BASE + PAGE) // PAGE)
        bench.send(_read(1, 0, PAGE - 600, 1200))
        bench.send(_read(1, 5, 0, 10))
        bench.send(_write(1, 6, 0x2000, b"after"))
        bench.send(_read(2, 0, 8, 600))
        await bench.drain()
        assert _seen(bench, 1) == [(Opcode.READ_FIRST, 0, ACK), (Opcode.READ_MIDDLE, 1, 0),
                                   (Opcode.ACKNOWLEDGE, 2, _nak(Nak.REMOTE_OPERATION))]
        assert b"".join(one.payload for one in bench.replies if one.qp == 2) == content[8:608]
        assert bench.faults == [(1, Fault.LOCAL_OPERATION)] and (await bench.status(1))[0] == 0

    run_bench(TINY, body, random.Random(1), Pace(read_latency=20))


def test_a_region_that_changes():
    """A message, and a READ, end when the region of their key changes; no byte is used afterwards."""
    async def body(bench):
        await _prepare(bench)
        size = 3 * 256
        bench.send(Request(0, Opcode.WRITE_FIRST, 0, b"a" * 256, 1, VA, KEY, size))
        bench.send(_read(1, 0, 0, 0x4000))
        await bench.run(120)
        await bench.region(KEY >> 8, key=KEY & 0xFF, domain=5, readable=1, writable=1, va=VA, length=LENGTH,
                           address=BASE)
        await bench.run(12)
        bench.memory.content = {}
        bench.send(Request(0, Opcode.WRITE_MIDDLE, 1, b"b" * 256))
        await bench.drain()
        assert _seen(bench, 0) == [(Opcode.ACKNOWLEDGE, 0, ACK), (Opcode.ACKNOWLEDGE, 1, _nak(Nak.REMOTE_ACCESS))]
        seen = _seen(bench, 1)
        assert seen[-1] == (Opcode.ACKNOWLEDGE, len(seen) - 1, _nak(Nak.REMOTE_ACCESS)) and 1 < len(seen) < 64
        assert sorted(bench.faults) == [(0, Fault.LOCAL_ACCESS), (1, Fault.LOCAL_ACCESS)]
        assert (await bench.status(1))[0] == 0

    run_bench(TINY, body, random.Random(1))


def test_a_message_whose_region_changes_has_no_record():
    async def body(bench):
        await _prepare(bench, mtu=0, ring=1, ring_base=RING, ring_bits=2)
        bench.send(Request(0, Opcode.WRITE_FIRST, 0, bytes(256), 1, VA, KEY, 260))
        await bench.drain()
        await bench.region(KEY >> 8, key=KEY & 0xFF, domain=5, readable=1, writable=1, va=VA, length=LENGTH,
                           address=BASE)
        bench.send(Request(0, Opcode.WRITE_LAST_IMM, 1, b"last", 1, imm=99))
        await bench.drain()
        assert _seen(bench, 0) == [(Opcode.ACKNOWLEDGE, 0, ACK), (Opcode.ACKNOWLEDGE, 1, _nak(Nak.REMOTE_ACCESS))]
        assert bench.memory.read(RING, 64) == bytes(64)

    run_bench(TINY, body, random.Random(1))


@pytest.mark.parametrize("at", [-1, 1 << 48, -1 << 40, LENGTH - 2])
def test_addresses_outside_the_region(at):
    """Below it, at its end, and 2 ** 48 bytes beyond an address in it, of which the lower bits are in range."""
    async def body(bench):
        content = await _prepare(bench)
        bench.send(_write(0, 0, at, b"abc"))
        bench.send(_read(1, 0, at, 3))
        await bench.drain()
        for qp in (0, 1):
            assert _seen(bench, qp) == [(Opcode.ACKNOWLEDGE, 0, _nak(Nak.REMOTE_ACCESS))]
        assert sorted(bench.faults) == [(0, Fault.LOCAL_ACCESS), (1, Fault.LOCAL_ACCESS)]
        assert bench.memory.read(BASE, LENGTH) == content

    run_bench(TINY, body, random.Random(1))


def test_a_first_packet_of_one():
    """A message that fits in one packet is invalid as WRITE First."""
    async def body(bench):
        await _prepare(bench, mtu=0)
        for qp, length in ((0, 256), (1, 257)):
            bench.send(Request(qp, Opcode.WRITE_FIRST, 0, bytes(256), 1, VA, KEY, length))
        await bench.drain()
        assert _seen(bench, 0) == [(Opcode.ACKNOWLEDGE, 0, _nak(Nak.INVALID_REQUEST))]
        assert _seen(bench, 1) == [(Opcode.ACKNOWLEDGE, 0, ACK)]

    run_bench(TINY, body, random.Random(1))


@pytest.mark.parametrize("close", [False, pytest.param(True, marks=pytest.mark.long)])
def test_stop(close):
    """A queue pair that stops, or is closed, sends nothing more and becomes idle; the other one is not affected."""
    async def body(bench):
        content = await _prepare(bench)
        for psn in range(6):
            bench.send(_write(1, psn, 64 * psn, bytes(50)))
            bench.send(_write(2, psn, 0x4000 + 64 * psn, bytes(50)))
        bench.send(_read(1, 6, 0x2000, 0x1000))
        bench.send(_read(2, 6, 0x2000, 0x1000))
        await bench.run(190)
        assert (await bench.status(1))[0] == 1
        await (bench.open(1, open=0) if close else bench.stop(1))
        before = len(_seen(bench, 1))
        await bench.drain()
        assert len(_seen(bench, 1)) <= before + 1 and not bench.faults and (await bench.status(1))[0] == 0
        assert b"".join(one.payload for one in bench.replies if one.qp == 2) == content[0x2000:0x3000]
        await bench.open(1, domain=5, receive_psn=3)
        bench.send(_read(1, 3, 0x2000, 8))
        await bench.drain()
        assert _seen(bench, 1)[-1] == (Opcode.READ_ONLY, 3, ACK)

    run_bench(TINY, body, random.Random(1), Pace(write_latency=60, read_latency=40))


def test_responses_after_reset():
    """Responses to what was in flight before ``rst`` are dropped and counted, and complete nothing."""
    inner, reset = Responder(TINY), Signal()
    simulator = Simulator(ResetInserter(reset)(inner))
    simulator.add_clock(1e-6)

    async def testbench(ctx):
        bench = ResponderBench(ctx, inner, random.Random(1), Pace(write_latency=150, read_latency=150))
        await bench.start()
        content = await _prepare(bench)
        bench.send(_read(2, 0, 0, 500))
        for psn in range(4):
            bench.send(_write(1, psn, 64 * psn, b"before"))
        await bench.run(100)
        assert bench.responses and bench.beats
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        late = len(bench.responses) + len(bench.beats)
        await bench.drain()
        assert not bench.replies and bench.counted["unexpected"] > late // 2
        bench.pace = Pace()
        bench.memory = Memory(TINY.beat_bytes)
        content = await _prepare(bench)
        bench.send(_write(1, 0, 0, b"after"))
        bench.send(_read(2, 0, 64, 500))
        await bench.drain()
        assert _seen(bench, 1) == [(Opcode.ACKNOWLEDGE, 0, ACK)] and (await bench.status(1))[0] == 0
        assert b"".join(one.payload for one in bench.replies if one.qp == 2) == content[64:564]

    simulator.add_testbench(testbench)
    simulator.run()


def test_unexpected_responses():
    """Responses and beats of other IDs, and those without a request, change nothing."""
    async def body(bench):
        content = await _prepare(bench)
        bench.responses.extend((0, OKAY, {}) for _ in range(5))
        bench.beats.extend((0, 0xEE, OKAY, 1) for _ in range(5))
        await bench.drain()
        assert not bench.replies and bench.counted["unexpected"] == 5
        bench.send(_read(0, 0, 0, 64))
        bench.send(_write(0, 1, 64, b"abc"))
        await bench.drain()
        assert [one.payload for one in bench.replies] == [content[:64], b""]

    run_bench(TINY, body, random.Random(1))


def test_a_response_with_another_id():
    """It does not complete the write that is in flight."""
    async def body(bench):
        await _prepare(bench)
        bench.send(_write(0, 0, 64, b"abc"))
        await bench.run(60)
        bench.responses.appendleft((0, OKAY, {}, 1))
        await bench.run(60)
        assert not bench.replies and bench.counted["unexpected"] == 1
        await bench.drain()
        assert _seen(bench, 0) == [(Opcode.ACKNOWLEDGE, 0, ACK)]

    run_bench(TINY, body, random.Random(1), Pace(write_latency=400))
