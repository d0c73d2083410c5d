# SPDX-License-Identifier: Apache-2.0
"""Queues in ARK mode: words, connections, flags, and the protocol of ARK's GPU threads."""

import random

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import ARK_EMPTY, Command, NativeWord, Opcode, Status
from sim.dma.ark import ARRAY_BYTES
from tests.dma_engine.ark_bench import (
    BASE,
    FOREIGN,
    FOREIGN_CONNECTION,
    SEGMENT_BYTES,
    SEGMENTS,
    TO,
    UNMAPPED,
    A,
    B,
    ark_word,
    arrays,
    start_bench,
)
from tests.dma_engine.bench import DOMAIN

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "random"),
    *(pytest.param(*run, marks=pytest.mark.long) for run in (("tiny", "none"), ("base", "patterned")))])
def test_ark(engine, config, stalls):
    engine(config, ["ping_pong", "all_fields", "two_words", "refused_words"], stalls=stalls)


def test_ark_errors(engine):
    engine("tiny", ["malformed", "checks", "long_lengths", "held", "completion_error", "full_queue",
                    "native_stays_native"])


@pytest.mark.parametrize("stalls", [pytest.param("none", marks=pytest.mark.long), "random"])
def test_ark_control(engine, stalls):
    engine("tiny", ["reset_anywhere", "plain_queue", "without_send_flags", "one_queue_alone"], stalls=stalls)


@cocotb.test()
async def ping_pong(dut):
    """Two GPUs pass a segment back and forth, synchronised by their flags only."""
    bench = await start_bench(dut, "ping_pong")
    a, b = bench.threads[A], bench.threads[B]
    for turn in range(6):
        length = bench.rng.choice((1, 64, 1000, SEGMENT_BYTES))
        src, there, back = bench.rng.sample(range(SEGMENTS), 3)
        data = bench.rng.randbytes(length)
        bench.fill(bench.segment(A, src), data)
        await a.send(src=src, dst=there, connection=TO[B], length=length, upper=turn % 2 == 1)
        await b.receive(there)
        assert bench.memory.read(bench.segment(B, there), length) == data
        await b.send(src=there, dst=back, connection=TO[A], length=length)
        await a.receive(back)
        assert bench.memory.read(bench.segment(A, back), length) == data
        await a.sent(src)
        await b.sent(there)
    await bench.end()


@cocotb.test()
async def all_fields(dut):
    """Copies from every segment to every other over every connection."""
    bench = await start_bench(dut, "all_fields")
    for queue in (A, B):
        for connection in TO.values():
            pairs = [(src, dst) for src in range(SEGMENTS) for dst in range(SEGMENTS)]
            bench.rng.shuffle(pairs)
            for src, dst in pairs[:6]:
                bench.clear_flags()
                length = bench.rng.choice((1, 3, 255, 256, 257, 4096, SEGMENT_BYTES))
                await bench.send(ark_word(src, dst, connection, length), queue=queue, upper=bench.rng.random() < 0.5)
                await bench.settle(queue)
    # Flags are written to their own addresses only.
    await bench.end()


@cocotb.test()
async def two_words(dut):
    """A 16-byte store has a word in each half, the lower first; halves with all bits set have none."""
    bench = await start_bench(dut, "two_words")
    empty = ARK_EMPTY.to_bytes(8, "little")
    first, second, third = ark_word(0, 1, length=300), ark_word(1, 2, length=5), ark_word(2, 3, length=1)
    for stored, posted in (
        (first.to_bytes() + second.to_bytes(), 2), (second.to_bytes() + first.to_bytes(), 2),
        (empty + third.to_bytes(), 1), (third.to_bytes() + empty, 1), (empty + empty, 0), (empty, 0),
        (first.to_bytes() + second.to_bytes() + empty + third.to_bytes(), 3),
        (first.to_bytes() + second.to_bytes() + third.to_bytes() + empty, 3),
    ):
        bench.clear_flags()
        before = bench.model.queues[A].posted
        assert await bench.store(A, stored, offset=0)
        assert bench.model.queues[A].posted == before + posted
        await bench.settle(A)
    words = (await bench.driver.counters())["words"]
    assert words == bench.model.words, f"{words} words were taken instead of {bench.model.words}"
    await bench.end()


@cocotb.test()
async def refused_words(dut):
    """A store is refused if one of its words is; an empty half is never refused."""
    bench = await start_bench(dut, "refused_words")
    pair = ark_word(0, 1).to_bytes() + ark_word(1, 2).to_bytes()
    await bench.command(A, Command.PAUSE)
    for _ in range(bench.config.queue_depth // 2):
        assert await bench.store(A, pair, offset=0)
    # The queue accepts one more word, but not the second of these.
    assert not await bench.store(A, pair, offset=0)
    assert not await bench.store(A, pair, offset=0)
    assert await bench.store(A, b"\xff" * 16, offset=0)
    await bench.command(A, Command.RESET)
    await bench.settle(A)
    assert not await bench.store(A, pair, offset=0)
    assert await bench.store(A, b"\xff" * 16, offset=0)
    await bench.command(A, Command.CLEAR)
    await bench.command(A, Command.START)
    assert await bench.store(A, pair, offset=0)
    await bench.settle(A)
    await bench.end()


@cocotb.test()
async def malformed(dut):
    """Receive requests, reserved bits and parts of words."""
    bench = await start_bench(dut, "malformed", skip_errors=True)
    good = ark_word()
    for bad in [good._replace(req=req) for req in (1, 2, 3)] + [good._replace(reserved=1 << bit) for bit in range(5)]:
        await bench.send(bad)
        await bench.send(good)
        await bench.settle(A)
        assert bench.model.queues[A].status is Status.MALFORMED
    for first, length in ((0, 4), (4, 4), (0, 7), (1, 7), (8, 4), (12, 4), (8, 7), (9, 7), (4, 8), (0, 15), (1, 15)):
        failed = bench.model.queues[A].failed
        data = good.to_bytes() * 2
        await bench.store(A, data[first:first + length], offset=first, size=4)
        await bench.settle(A)
        assert bench.model.queues[A].failed > failed
    # A store of a part of an empty half is not empty.
    await bench.store(A, b"\xff" * 4, offset=0, size=2)
    await bench.settle(A)
    await bench.wait_log()
    await bench.end()


@cocotb.test()
async def checks(dut):
    """Segments and connections that do not exist, or belong to another domain."""
    bench = await start_bench(dut, "checks", skip_errors=True)
    await bench.define_region(FOREIGN, base=0x5000_0000, length=PAGE_BYTES, domain=DOMAIN + 1)
    for gpu, right in ((A, "readable"), (B, "writable")):
        await bench.define_region(BASE[gpu] + 3, base=bench.segment(gpu, 3), length=SEGMENT_BYTES, domain=DOMAIN,
                                  **{right: False})
    rc = arrays(B)[1]
    await bench.define_connection(FOREIGN_CONNECTION, base=BASE[B], rc=rc, domain=DOMAIN + 1)
    connections = [number for number in (0, *range(bench.config.connections, 128)) if number not in TO.values()]
    for word, status in [
        (ark_word(src=UNMAPPED - BASE[A]), Status.SRC_REGION), (ark_word(dst=UNMAPPED - BASE[B]), Status.DST_REGION),
        # A number beyond a table must not wrap to the table's start.
        (ark_word(src=255), Status.SRC_REGION), (ark_word(dst=256 - BASE[B] + BASE[A]), Status.DST_REGION),
        (ark_word(src=FOREIGN - BASE[A]), Status.SRC_DOMAIN), (ark_word(dst=FOREIGN - BASE[B]), Status.DST_DOMAIN),
        (ark_word(src=3), Status.SRC_RIGHTS), (ark_word(dst=3), Status.DST_RIGHTS),
        (ark_word(length=SEGMENT_BYTES + 1), Status.SRC_BOUNDS), (ark_word(length=0), Status.ZERO_LENGTH),
        (ark_word(connection=FOREIGN_CONNECTION), Status.CONNECTION),
        (ark_word(connection=FOREIGN_CONNECTION, src=255, length=0), Status.ZERO_LENGTH),
        (ark_word(connection=FOREIGN_CONNECTION, src=255), Status.CONNECTION),
        *((ark_word(connection=number), Status.CONNECTION) for number in connections),
    ]:
        await bench.send(word)
        assert bench.model.queues[A].status is status, (word, bench.model.queues[A].status)
        await bench.settle(A)
        await bench.wait_log()
    await bench.define_connection(TO[B], base=255, rc=rc, domain=DOMAIN)
    for sid in (1, 2, 7, 255):
        await bench.send(ark_word(dst=sid))
        assert bench.model.queues[A].status is Status.DST_REGION
        await bench.settle(A)
    await bench.command(A, Command.RESET)
    await bench.settle(A)
    await bench.configure_queue(A, domain=DOMAIN, sc=arrays(A)[0], ark=255, skip_errors=True)
    await bench.command(A, Command.START)
    for sid in (1, 2, 7, 255):
        await bench.send(ark_word(src=sid, connection=TO[A]))
        assert bench.model.queues[A].status is Status.SRC_REGION
        await bench.settle(A)
    await bench.end()


@cocotb.test()
async def long_lengths(dut):
    """No bit of a length is lost: for each power of two, a region ends just behind it."""
    bench = await start_bench(dut, "long_lengths", skip_errors=True)
    huge, small = 0, 1
    for sid, length in ((huge, 1 << 36), (small, 256)):
        for gpu in (A, B):
            await bench.define_region(BASE[gpu] + sid, base=bench.segment(gpu, sid), length=length, domain=DOMAIN)
    for bit in range(8, 34):
        for length in ((1 << bit) + 64, (1 << bit + 1) - 1):
            for src, dst, status in ((small, huge, Status.SRC_BOUNDS), (huge, small, Status.DST_BOUNDS)):
                await bench.send(ark_word(src=src, dst=dst, length=length))
                assert bench.model.queues[A].status is status
        await bench.settle(A)
        await bench.wait_log()
    # The largest copy for which a test has time.
    await bench.send(ark_word(src=huge, dst=huge, length=3 * PAGE_BYTES + 1))
    await bench.settle(A)
    await bench.end()


@cocotb.test()
async def held(dut):
    """A held queue sets no flags until it is cleared, not even for requests behind the failed one."""
    bench = await start_bench(dut, "held")
    bench.clear_flags()
    await bench.send(ark_word(0, 0), ark_word(1, 1, length=SEGMENT_BYTES + 1), ark_word(2, 2))
    await bench.settle(A)
    await bench.wait(300)
    sc, rc = arrays(A)[0], arrays(B)[1]
    flags = [bench.memory.read(base + 4 * sid, 4)[0] for base in (sc, rc) for sid in range(3)]
    assert flags == [1, 0, 0, 1, 0, 0], flags
    await bench.command(A, Command.CLEAR)
    await bench.settle(A)
    flags = [bench.memory.read(base + 4 * sid, 4)[0] for base in (sc, rc) for sid in range(3)]
    assert flags == [1, 0, 1, 1, 0, 1], flags
    await bench.end()


@cocotb.test()
async def completion_error(dut):
    """An error response to a flag is logged for its queue, and has no other effect."""
    bench = await start_bench(dut, "completion_error")
    for array in (arrays(B)[1], arrays(A)[0]):
        bench.clear_flags()
        bench.fail_page(array, write="SLVERR")
        await bench.send(ark_word(1, 2))
        await bench.settle(A)
        await bench.wait_log()
        bench.repair_page(array)
        await bench.send(ark_word(2, 1))
        await bench.settle(A)
    assert bench.errors[Status.COMPLETION_ERROR.name] == 2
    await bench.end()


@cocotb.test()
async def full_queue(dut):
    """A queue full of failing words does not stop another queue."""
    bench = await start_bench(dut, "full_queue", skip_errors=True)
    for number in range(3 * bench.config.queue_depth):
        if number % bench.config.queue_depth == 0:
            await bench.settle(A)
            await bench.wait_log()
        await bench.send(ark_word(length=SEGMENT_BYTES + 1 if number % 3 else 1))
    await bench.send(ark_word(0, 0, TO[A]), queue=B)
    await bench.settle(A)
    await bench.settle(B)
    await bench.end()


@cocotb.test()
async def native_stays_native(dut):
    """Stores to the page of a queue in native mode are native words, whatever their opcode and flags."""
    bench = await start_bench(dut, "native_stays_native")
    await bench.command(A, Command.RESET)
    await bench.settle(A)
    bench.fill(0x9_0000_0000, bytes(8))
    await bench.configure_queue(A, domain=DOMAIN, sc=0x9_0000_0000, skip_errors=True)
    await bench.command(A, Command.START)
    good = NativeWord.copy(src=(BASE[A], 0), dst=(BASE[B], 0), length=40, flags=1)
    for opcode in range(16):
        failed = bench.model.queues[A].failed
        await bench.post(A, good._replace(opcode=opcode, src_offset=bench.rng.randrange(1, 256)))
        assert bench.model.queues[A].failed == failed + (opcode != Opcode.COPY)
        await bench.settle(A)
        await bench.wait_log()
    for bit in range(4, 8):
        await bench.post(A, good._replace(flags=1 | 1 << bit))
        await bench.settle(A)
    # Two ARK words are one native word, which is malformed.
    await bench.store(A, ark_word().to_bytes() * 2)
    await bench.settle(A)
    await bench.end()


@cocotb.test()
async def reset_anywhere(dut):
    """RESET with words waiting, data moving and flags in flight; afterwards the queue is in its initial state."""
    bench = await start_bench(dut, "reset_anywhere", latency=40)
    rng = random.Random(bench.seed)
    for delay in (0, 15, 40, 60, 80, 95, 110, 130, 200):
        bench.clear_flags()
        bench.model.freeze(A)
        for sid in range(SEGMENTS):
            await bench.send(ark_word(sid, sid, length=rng.choice((8, 300, 5000))))
        await bench.wait(delay)
        await bench.command(A, Command.RESET)
        await bench.settle(A)
        await bench.command(A, Command.START)
        bench.clear_flags()
        await bench.send(ark_word(0, 3, length=200), ark_word(3, 0, length=20))
        await bench.settle(A)
        bench.check_memory()
    await bench.end()


@cocotb.test()
async def plain_queue(dut):
    """A queue that is not extended stays in native mode."""
    bench = await start_bench(dut, "plain_queue")
    plain = bench.config.extended
    await bench.configure_queue(plain, domain=DOMAIN, sc=0x9_0000_0000, ark=BASE[A])
    await bench.command(plain, Command.START)
    await bench.post(plain, NativeWord.copy(src=(BASE[A], 5), dst=(BASE[B], 70), length=1000, flags=1))
    await bench.settle(plain)
    # A valid ARK word is half a native word here.
    await bench.send(ark_word(), queue=plain)
    await bench.settle(plain)
    await bench.end()


@cocotb.test()
async def without_send_flags(dut):
    """A queue without an SC array sets RC flags only; its RC word reports failures."""
    bench = await start_bench(dut, "without_send_flags")
    for queue in (A, B):
        await bench.command(queue, Command.RESET)
        await bench.settle(queue)
    bench.clear_flags()
    bench.fill(0x9_0000_0000, bytes(8))
    await bench.configure_queue(A, domain=DOMAIN, ark=BASE[A], rc=0x9_0000_0000)
    await bench.command(A, Command.START)
    await bench.send(ark_word(0, 1), ark_word(1, 2))
    await bench.settle(A)
    assert not any(bench.memory.read(arrays(A)[0], ARRAY_BYTES)), "a flag of a queue without them"
    await bench.send(ark_word(length=0))
    await bench.settle(A)
    assert bench.memory.read(0x9_0000_0000, 8)[7] == Status.ZERO_LENGTH
    await bench.end()


@cocotb.test()
async def one_queue_alone(dut):
    """Many short words back to back: none is lost while flags wait for W and notices wait for flags."""
    bench = await start_bench(dut, "one_queue_alone")
    posted = 0
    for _ in range(12):
        bench.clear_flags()
        for sid in range(SEGMENTS // 2):
            for queue, connection in ((A, TO[B]), (B, TO[A])):
                word = ark_word(sid, sid + SEGMENTS // 2, connection, bench.rng.choice((1, 64, 600)))
                cocotb.start_soon(bench.send(word, queue=queue))
        posted += SEGMENTS // 2
        await bench.wait(200)
        for queue in (A, B):
            await bench.settle(queue)
            assert bench.model.queues[queue].count == posted
    await bench.end()
