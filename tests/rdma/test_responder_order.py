# SPDX-License-Identifier: Apache-2.0
"""Order of responses, coalesced ACKs, full rings of records, selective repeat, and congestion notices."""

import itertools
import random

from hw.rdma.config import TINY
from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind
from tests.rdma.responder_bench import Pace, Request, run_bench
from tests.rdma.test_responder_hostile import BASE, FLOOD, KEY, VA, VICTIM, _of, _prepare, _read, _write

QP, OTHER = FLOOD, VICTIM
RING = 0x80_0000
SEQUENCE = SyndromeKind.NAK << 5 | Nak.SEQUENCE


def test_acks_are_coalesced():
    """Without ``ackreq``, one ACK covers 16 packets; after ``ackreq``, the count starts again.

    Nothing follows the packet for which an ACK is due, as an ACK names the newest completed one.
    """
    async def body(bench):
        await _prepare(bench)
        begin = 0
        for end in (4, 20, 36, 40):
            for psn in range(begin, end):
                bench.send(_write(QP, psn, 8 * psn, bytes(8), ackreq=psn == 3))
            await bench.drain()
            begin = end
        assert _of(bench, QP) == [(Opcode.ACKNOWLEDGE, psn, ACK) for psn in (3, 19, 35)]
        assert [reply.msn for reply in bench.replies] == [4, 20, 36]

    run_bench(TINY, body, random.Random(1))


def test_reads_and_writes_keep_their_order():
    """A READ has the data of the WRITE before it; its response precedes the ACK of the WRITE after it."""
    async def body(bench):
        await _prepare(bench)
        for number in range(TINY.reads):
            bench.send(_write(QP, 3 * number, 64 * number, bytes([number]) * 64))
            bench.send(_read(QP, 3 * number + 1, 64 * number, 64))
            bench.send(_write(QP, 3 * number + 2, 0x1000, b"x"))
            await bench.run(7)
        await bench.drain()
        reads = [reply for reply in bench.replies if reply.opcode == Opcode.READ_ONLY]
        assert [reply.payload[0] for reply in reads] == list(range(TINY.reads))
        psns = [reply.psn for reply in bench.replies]
        assert psns == sorted(psns) and psns[-1] == 3 * TINY.reads - 1

    run_bench(TINY, body, random.Random(1), Pace(write_latency=30, read_latency=50))


def test_a_full_ring():
    """RNR NAK while the ring is full; later packets are dropped without NAK; then the packet succeeds."""
    async def body(bench):
        await _prepare(bench, ring=1, ring_base=RING, ring_bits=1, rnr_timer=21)
        bench.memory.allow(RING, bytes(32))

        def write(psn):
            bench.send(Request(QP, Opcode.WRITE_ONLY_IMM, psn, b"data", 1, VA, KEY, 4, 1000 + psn))

        for psn in range(4):
            write(psn)
        bench.send(_write(QP, 4, 8, b"later"))
        await bench.drain()
        assert _of(bench, QP)[-1] == (Opcode.ACKNOWLEDGE, 2, SyndromeKind.RNR << 5 | 21)
        assert all(one[1:] in ((0, ACK), (1, ACK)) for one in _of(bench, QP)[:-1])
        assert bench.counted["not_ready"] == 1 and await bench.status(QP) == (0, 2, 2)
        write(2)
        await bench.drain()
        assert bench.counted["not_ready"] == 2
        await bench.take(QP, 1)
        bench.replies.clear()
        write(2)
        write(3)
        await bench.drain()
        assert _of(bench, QP)[0] == (Opcode.ACKNOWLEDGE, 2, ACK)
        assert _of(bench, QP)[1] == (Opcode.ACKNOWLEDGE, 3, SyndromeKind.RNR << 5 | 21)
        first, second = (int.from_bytes(bench.memory.read(RING + at, 16), "little") for at in (0, 16))
        assert first == 1002 | 4 << 32 | (0x100 + QP) << 64 and second == 1001 | 4 << 32 | (0x100 + QP) << 64 | 1 << 127

    run_bench(TINY, body, random.Random(1))


def test_a_record_precedes_later_acks():
    """No ACK passes the record of an earlier packet, and no READ: each finds the record in memory."""
    async def body(bench):
        await _prepare(bench, ring=1, ring_base=RING, ring_bits=2)
        bench.memory.allow(RING, bytes(64))

        def check(reply):
            assert reply.qp != QP or bench.memory.read(RING, 4) == b"\x07\0\0\0"

        bench.taps.append(check)
        bench.send(Request(QP, Opcode.WRITE_ONLY_IMM, 0, b"data", 0, VA, KEY, 4, 7))
        for psn in range(1, 6):
            bench.send(_write(QP, psn, 8, b"later"))
            bench.send(_write(OTHER, psn - 1, 0x100, b"other"))
        bench.send(_read(QP, 6, 8, 5))
        await bench.drain()
        assert bench.replies[0].qp == OTHER
        assert _of(bench, QP)[-1] == (Opcode.READ_ONLY, 6, ACK) and bench.replies[-1].payload == b"later"

    run_bench(TINY, body, random.Random(1), Pace(write_latency=40))


def test_selective_repeat():
    """Packets beyond a gap are executed at once and once; the missing ones complete them; the window slides."""
    async def body(bench):
        await _prepare(bench, selective=1)
        start = 0
        for lost in ({0}, {3}, {0, 1, 7}, set(range(0, 16, 2)), {0, 15}):
            bench.replies.clear()
            order = [psn for psn in range(16) if psn not in lost]
            for psn in order:
                bench.send(_write(QP, start + psn, 8 * psn, (start + psn).to_bytes(8, "little"), 0))
            await bench.drain()
            gap = min(lost)
            assert [(reply.psn, reply.msn) for reply in bench.replies if reply.syndrome == SEQUENCE] == [
                (start + gap, start + psn) for psn in order if psn > gap]
            for psn in order:       # not executed again
                bench.send(_write(QP, start + psn, 8 * psn, b"repeated", 0))
            await bench.drain()
            for psn in sorted(lost):
                bench.send(_write(QP, start + psn, 8 * psn, (start + psn).to_bytes(8, "little"), 1))
            await bench.drain()
            start += 16
            assert bench.memory.read(BASE, 128) == b"".join(
                (start - 16 + psn).to_bytes(8, "little") for psn in range(16))
            assert bench.replies[-1].psn == start - 1 and bench.replies[-1].msn == start
        bench.send(_write(QP, start + 16, 0, b"too far."))
        await bench.drain()
        assert bench.replies[-1].syndrome == SEQUENCE and bench.replies[-1].msn == start ^ 1 << 23
        assert await bench.status(QP) == (0, start, start)

    run_bench(TINY, body, random.Random(1))


def test_a_window_of_two_words():
    """The missing packet completes those beyond it in its word of 16 PSNs, and in the next one."""
    async def body(bench):
        await _prepare(bench, selective=1)
        start = 0
        for count in (10, 27, 1):
            for psn in range(start, start + count):
                bench.send(_write(QP, psn, 8, b"in order", 0))
            start += count
            for psn in range(start + 1, start + 16):
                bench.send(_write(QP, psn, 8, b"too soon", 0))
            await bench.drain()
            assert (await bench.status(QP))[1] == start
            bench.send(_write(QP, start, 8, b"too late", 1))
            await bench.drain()
            start += 16
            assert await bench.status(QP) == (0, start, start)
            assert (bench.replies[-1].psn, bench.replies[-1].syndrome) == (start - 1, ACK)

    run_bench(TINY, body, random.Random(1))


def test_a_packet_beyond_the_window():
    """It is dropped and not reported, though a packet 16 PSNs before it was executed."""
    async def body(bench):
        await _prepare(bench, selective=1)
        bench.send(_write(QP, 1, 8, b"executed"))
        bench.send(_write(QP, 17, 8, b"too far."))
        await bench.drain()
        assert [(reply.syndrome, reply.msn) for reply in bench.replies] == [(SEQUENCE, 1)]
        assert (bench.counted["gap"], bench.counted["duplicate"], bench.counted["executed"]) == (2, 0, 1)

    run_bench(TINY, body, random.Random(1))


def test_too_many_reads_after_a_repeated_one():
    """A READ without a free entry is invalid again once the repeated READ has its response."""
    async def body(bench):
        await _prepare(bench)
        for _ in range(2):
            bench.send(_read(QP, 0, 0, 8))
            await bench.drain()
        for psn in range(1, TINY.reads + 2):
            bench.send(_read(QP, psn, 0, 8))
        await bench.drain()
        assert _of(bench, QP) == [(Opcode.READ_ONLY, psn, ACK) for psn in (0, *range(TINY.reads + 1))] + [
            (Opcode.ACKNOWLEDGE, TINY.reads + 1, SyndromeKind.NAK << 5 | Nak.INVALID_REQUEST)]

    run_bench(TINY, body, random.Random(1), Pace(read_latency=300))


def test_congestion_notices():
    """At most one CNP per queue pair in 12 units of time, and none for marks within them."""
    config = TINY.__class__(**{**vars(TINY), "timer_cycles": 16})

    async def body(bench):
        await _prepare(bench)
        for _ in range(150):
            await bench.mark(QP)
        await bench.run(300)
        await bench.mark(OTHER)
        await bench.run(400)
        assert [(reply.qp, reply.opcode) for reply in bench.replies] == [(QP, Opcode.CNP), (OTHER, Opcode.CNP)]
        for _ in range(450):
            await bench.mark(QP)
        cycles = [reply.cycle for reply in bench.replies[2:]]
        assert 2 <= len(cycles) <= 4
        assert all(12 * 16 <= later - earlier <= 14 * 16 for earlier, later in itertools.pairwise(cycles))

    run_bench(config, body, random.Random(1))
