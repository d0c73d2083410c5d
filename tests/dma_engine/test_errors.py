# SPDX-License-Identifier: Apache-2.0
"""Every status provoked on one queue while the others keep copying."""

import cocotb
import pytest
from cocotbext.axi import AxiResp

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Command, NativeWord, RequestFlag, Status
from tests.dma_engine.bench import DOMAIN, Bench, parameter, session_seed
from tests.dma_engine.jobs import pairs
from tests.dma_engine.victim import (
    DST,
    DST_BASE,
    ENDLESS,
    FOREIGN,
    GOOD,
    INVALID,
    LAST,
    LENGTH,
    LONG,
    SMALL,
    SRC,
    SRC_BASE,
    VICTIM,
    VictimBench,
)

pytestmark = pytest.mark.rtl


def _checks():
    """``(name, status, word)`` of requests with a bad format or a violation of the region table."""
    yield "opcode 0", Status.MALFORMED, SMALL._replace(opcode=0)
    yield "opcode 2", Status.MALFORMED, SMALL._replace(opcode=2)
    yield "opcode 9", Status.MALFORMED, SMALL._replace(opcode=9)
    yield "opcode 15, everything else wrong too", Status.MALFORMED, \
        NativeWord(15, 0xFF, INVALID, INVALID, LAST, 0, LAST)
    for bit in range(4, 8):
        yield f"reserved flag {bit}", Status.MALFORMED, LONG._replace(flags=1 << bit)
    yield "length 0", Status.ZERO_LENGTH, SMALL._replace(length=0)
    yield "length 0 before regions", Status.ZERO_LENGTH, \
        SMALL._replace(length=0, src_region=INVALID, dst_region=INVALID, flags=RequestFlag.FENCE)
    for side, region, position in (("src", SRC, "src_offset"), ("dst", DST, "dst_offset")):
        def bad(what, side=side):
            return Status[f"{side.upper()}_{what}"]

        field, wrong, other = (f"{side}_region", *((DST, "dst") if side == "src" else (SRC, "src")))
        for word, size in ((SMALL, "small"), (LONG, "long")):
            yield f"{side} not valid, {size}", bad("REGION"), word._replace(**{field: INVALID})
            yield f"{side} of another domain, {size}", bad("DOMAIN"), word._replace(**{field: FOREIGN})
            yield f"{side} without the right, {size}", bad("RIGHTS"), word._replace(**{field: wrong})
            yield f"{side} a byte too long, {size}", bad("BOUNDS"), \
                word._replace(**{position: LENGTH - word.length + 1})
        yield f"{side} never written", bad("REGION"), SMALL._replace(**{field: 15})
        yield f"{side} in no table", bad("REGION"), SMALL._replace(**{field: 255})
        yield f"{side} beyond the table, at a valid entry", bad("REGION"), SMALL._replace(**{field: 0x80 | region})
        yield f"{side} far beyond", bad("BOUNDS"), SMALL._replace(**{position: LAST})
        yield f"{side} offset and length at their limits", bad("BOUNDS"), \
            SMALL._replace(**{f"{other}_region": ENDLESS, position: LAST, "length": (1 << 28) - 1})
        yield f"{side} begins at the end", bad("BOUNDS"), SMALL._replace(**{position: LENGTH, "length": 1})
    yield "source before destination", Status.SRC_BOUNDS, \
        SMALL._replace(src_offset=LENGTH, dst_region=INVALID, dst_offset=LAST)
    yield "domain before rights and bounds", Status.SRC_DOMAIN, SMALL._replace(src_region=FOREIGN, src_offset=LAST)
    yield "with every flag", Status.DST_DOMAIN, LONG._replace(dst_region=FOREIGN, flags=0xF)


def _faults():
    """``(name, status, word, faults)`` with faults as ``(kind, page, response)``."""
    for kind, position in (("read", "src_offset"), ("write", "dst_offset")):
        for response in ("SLVERR", "DECERR"):
            status = Status[f"{kind.upper()}_{response}"]
            for page in (0, 2, 4):
                yield f"{kind} {response} in page {page} of a long one", status, LONG, [(kind, page, response)]
            yield f"{kind} {response} on the first byte", status, \
                SMALL._replace(**{position: 3 * PAGE_BYTES - 1}), [(kind, 2, response)]
            yield f"{kind} {response} on the last byte", status, \
                SMALL._replace(**{position: 3 * PAGE_BYTES - 32}), [(kind, 3, response)]
            yield f"{kind} {response} everywhere", status, LONG, [(kind, page, response) for page in range(5)]
    yield "read error before write error", Status.READ_DECERR, LONG, \
        [("write", 0, "SLVERR"), ("read", 4, "DECERR")]
    yield "the first read error", Status.READ_DECERR, LONG, [("read", 1, "DECERR"), ("read", 3, "SLVERR")]
    yield "the first write error", Status.WRITE_DECERR, LONG, [("write", 0, "DECERR"), ("write", 4, "SLVERR")]


CHECKS = ["bad_words", "bad_memory", "one_bad_beat"]


@pytest.mark.parametrize(("config", "after", "stalls", "tests"), [
    ("tiny", "skip", "random", ["bad_words", "one_bad_beat"]),
    pytest.param("tiny", "skip", "random", ["bad_memory"], marks=pytest.mark.long),
    *(pytest.param("tiny", after, "none", CHECKS, marks=pytest.mark.long) for after in ("clear", "reset")),
    pytest.param("tiny", "reset", "random", CHECKS, marks=pytest.mark.soak),
    pytest.param("base", "skip", "none", CHECKS, marks=pytest.mark.soak)])
def test_every_check(engine, config, after, stalls, tests):
    engine(config, tests, after=after, stalls=stalls)


async def _prepared(dut, name):
    after = parameter("after", "clear")
    bench = VictimBench(dut, seed=session_seed(f"{name} {after}"), stalls=parameter("stalls", "none"))
    await bench.prepare(skip_errors=after == "skip")
    return bench, after


@cocotb.test()
async def bad_words(dut):
    """Requests that fail a check do not change any byte of the destination."""
    bench, after = await _prepared(dut, "words")
    for name, status, word in _checks():
        await bench.bad(name, status, word, after)
    await bench.end()


@cocotb.test()
async def bad_memory(dut):
    """Requests with an error response from memory change only the destination."""
    bench, after = await _prepared(dut, "memory")
    cases = list(_faults())
    # With CLEAR all cases run, with the other ways to continue only a few.
    for name, status, word, faults in cases if after == "clear" else bench.rng.sample(cases, 8):
        for kind, page, response in faults:
            base = SRC_BASE if kind == "read" else DST_BASE
            bench.fail_page(base + page * PAGE_BYTES, **{kind: response})
        await bench.bad(name, status, word, after)
        for kind, page, _ in faults:
            bench.repair_page((SRC_BASE if kind == "read" else DST_BASE) + page * PAGE_BYTES)
    await bench.end()


@cocotb.test()
async def one_bad_beat(dut):
    """An error on a single beat of a read burst, the first, one in the middle, the last."""
    bench, after = await _prepared(dut, "beat")
    reads, beat, at = bench.memory.reads, bench.config.beat_bytes, []
    read = reads._read

    async def spoilt(address, length):
        data = await read(address, length)
        if address in at:
            reads._resp, data = AxiResp.SLVERR, b"\xEE" * length
        return data

    reads._read = spoilt
    length = bench.config.segment_bytes + 3 * beat
    word = SMALL._replace(src_offset=PAGE_BYTES + beat + 1, dst_offset=PAGE_BYTES + 2, length=length)
    first, last = word.src_offset & -beat, (word.src_offset + length - 1) & -beat
    for address in (first, first + beat, first + (last - first) // 2 // beat * beat, last - beat, last):
        at[:] = [SRC_BASE + address]
        # The model applies errors to whole pages; this request is the only one in its page.
        bench.model.fail_page(SRC_BASE + PAGE_BYTES, read="SLVERR")
        await bench.bad(f"beat at {address:#x}", Status.READ_SLVERR, word, after)
        bench.model.repair_page(SRC_BASE + PAGE_BYTES)
    await bench.end()


@pytest.mark.long
@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "none"), *(pytest.param(*run, marks=pytest.mark.soak) for run in (("tiny", "random"), ("base", "none")))])
def test_other_errors(engine, config, stalls):
    engine(config, ["partial_stores", "missing_words", "full_queue", "disabled_queue", "refused_completion_word",
                    "delayed_memory"], stalls=stalls)


@cocotb.test()
async def partial_stores(dut):
    """A store of a part of a word fails; a store without strobes is ignored; each beat of a burst is a store."""
    bench, _ = await _prepared(dut, "stores")
    data = SMALL.to_bytes()
    for first, length, size in ((0, 8, 4), (8, 8, 4), (0, 8, 3), (8, 8, 3), (0, 4, 2), (12, 4, 2), (4, 4, 4),
                                (0, 15, 4), (1, 15, 4), (0, 1, 0), (15, 1, 0), (7, 2, 4)):
        async def store(first=first, length=length, size=size):
            await bench.store(VICTIM, data[first:first + length], offset=0x340 + first, size=size)

        await bench.bad(f"bytes {first} to {first + length - 1}, size {size}", Status.MALFORMED, None, "clear",
                        store=store)

    # The two halves do not combine into a request.
    await bench.clean()
    logged = bench.logged()
    for first in (0, 8):
        await bench.store(VICTIM, data[first:first + 8], offset=first, size=3)
    for _ in range(2):
        await bench.settle_and_check("two halves")
        await bench.command(VICTIM, Command.CLEAR)
    await bench.settle_and_check("two halves")
    assert bench.logged() == logged + 2

    before = await bench.state(VICTIM)
    for _ in range(3):
        assert await bench.doorbells.store_nothing(VICTIM)
    await bench.post(VICTIM, GOOD)
    assert await bench.doorbells.store_nothing(VICTIM)
    state = await bench.settle_and_check("no strobes")
    assert state.count == before.count + 1

    # Merged stores: consecutive whole words, also at the end of the page.
    await bench.clean()
    free = bench.config.queue_depth - 1
    words = [GOOD._replace(length=index + 1, dst_offset=64 * index) for index in range(free)]
    await bench.post(VICTIM, *words, offset=PAGE_BYTES - 16 * free)
    state = await bench.settle_and_check("merged")
    assert state.count == before.count + 1 + free
    await bench.end()


@cocotb.test()
async def missing_words(dut):
    """The flags SC and RC are errors in a queue without such words."""
    bench, _ = await _prepared(dut, "missing")
    sc, rc = bench.words_of(VICTIM)
    for has, flag in (({"sc": sc}, RequestFlag.RC), ({"rc": rc}, RequestFlag.SC), ({}, RequestFlag.SC)):
        await bench.settle(VICTIM)
        await bench.configure_queue(VICTIM, domain=DOMAIN, **has)
        before, logged = await bench.state(VICTIM), bench.logged()
        good = SMALL._replace(flags=int(sum({"sc": 1, "rc": 2}[kind] for kind in has)))
        await bench.post(VICTIM, good, good._replace(flags=good.flags | int(flag), dst_offset=999))
        state = await bench.settle_and_check(f"only {list(has)}")
        assert (state.held, state.status, state.count) == (1, Status.MALFORMED, before.count + 1), state
        assert bench.logged() == logged + 1
        await bench.command(VICTIM, Command.CLEAR)
        await bench.settle_and_check(f"only {list(has)}, cleared")
    await bench.end()


@cocotb.test()
async def full_queue(dut):
    """The first word beyond the last entry and all later ones are refused until CLEAR; accepted ones continue."""
    bench, _ = await _prepared(dut, "full")
    entries = bench.config.queue_depth + 1
    words = [SMALL._replace(dst_offset=100 * index, flags=3) for index in range(entries + 20)]
    for burst in (False, True):
        await bench.clean()
        before, logged = await bench.state(VICTIM), bench.logged()
        await bench.command(VICTIM, Command.PAUSE)
        if burst:
            # The burst that fills the queue is accepted up to that point and gets an error response.
            await bench.post(VICTIM, *words[:entries - 2])
            assert not await bench.post(VICTIM, *words[entries - 2:entries + 2])
        else:
            for word in words[:entries]:
                assert await bench.post(VICTIM, word)
            assert not await bench.post(VICTIM, words[entries])
        assert not await bench.post(VICTIM, *words[entries + 2:entries + 5])
        state = await bench.settle_and_check("full")
        assert (state.refusing, state.status, state.held, state.waiting, state.count) == \
            (1, Status.OVERFLOW, 0, 1, before.count), state
        await bench.command(VICTIM, Command.START)
        state = await bench.settle_and_check("running")
        assert state.count == before.count + entries and bench.logged() == logged + 1, state
        if not state.refusing:
            bench.mismatch("START must not clear an overflow.")
        assert not await bench.post(VICTIM, words[entries + 5])
        await bench.command(VICTIM, Command.CLEAR)
        assert await bench.post(VICTIM, words[entries + 6])
        state = await bench.settle_and_check("cleared")
        assert (state.refusing, state.status, state.count) == (0, 0, before.count + entries + 1), state
        assert bench.logged() == logged + 1
    await bench.end()


@cocotb.test()
async def disabled_queue(dut):
    """Words to a queue that is not started are refused and logged once, without other effects."""
    bench, _ = await _prepared(dut, "disabled")
    await bench.command(VICTIM, Command.RESET)
    await bench.settle_and_check("reset")
    logged = bench.logged()
    assert not await bench.post(VICTIM, GOOD, GOOD, GOOD)
    assert not await bench.post(VICTIM, GOOD)
    state = await bench.settle_and_check("disabled")
    assert (state.enabled, state.held, state.count, state.failed, state.status) == (0, 0, 0, 0, 0), state
    assert bench.logged() == logged + 1 and bench.model.log[-1].status is Status.DISABLED
    await bench.command(VICTIM, Command.CLEAR)
    await bench.command(VICTIM, Command.START)
    assert await bench.post(VICTIM, GOOD)
    state = await bench.settle_and_check("started")
    assert (state.enabled, state.refusing, state.count) == (1, 0, 1), state
    await bench.end()


@cocotb.test()
async def refused_completion_word(dut):
    """An error response to SC or RC creates a log entry, without an effect on data or count."""
    bench, _ = await _prepared(dut, "completion")
    # SC and RC in separate pages.
    entries = {"sc": 0x5_0000_1000, "rc": 0x5_0000_3FF8}
    for place in entries.values():
        bench.fill(place, bytes(8))
    await bench.settle(VICTIM)
    await bench.configure_queue(VICTIM, domain=DOMAIN, **entries)
    for response in ("SLVERR", "DECERR"):
        for kind, flag in (("sc", RequestFlag.SC), ("rc", RequestFlag.RC)):
            before, logged = await bench.state(VICTIM), bench.logged()
            bench.fail_page(entries[kind], write=response)
            await bench.post(VICTIM, GOOD._replace(flags=int(flag)))
            state = await bench.settle_and_check(f"{response} of {kind}")
            assert (state.held, state.status, state.count, state.failed) == \
                (0, 0, before.count + 1, before.failed), state
            assert bench.logged() == logged + 1 and bench.model.log[-1].status is Status.COMPLETION_ERROR
            bench.repair_page(entries[kind])
            await bench.post(VICTIM, GOOD._replace(flags=int(flag)))
            await bench.settle_and_check(f"{response} of {kind}, repaired")
    await bench.end()


@cocotb.test()
async def delayed_memory(dut):
    """A read or write without a response holds its queue only, with TIMEOUT; then CLEAR or RESET."""
    bench, _ = await _prepared(dut, "late")
    for base, word in ((SRC_BASE, SMALL), (DST_BASE, SMALL)):
        for order in ("release, clear", "clear, release", "release, reset", "reset, release"):
            name = f"{'read' if base == SRC_BASE else 'write'}, {order}"
            await bench.clean()
            before, logged = await bench.state(VICTIM), bench.logged()
            bench.withhold(base)
            await bench.driver.set_watchdog(2000)
            await bench.post(VICTIM, word, GOOD)
            bench.model.time_out(VICTIM)
            state = await bench.settle_and_check(name)
            assert (state.held, state.status, state.count) == (1, Status.TIMEOUT, before.count), f"{name}: {state}"
            assert bench.logged() == logged + 1
            await bench.driver.set_watchdog(0)
            for step in order.split(", "):
                if step == "release":
                    bench.release(base)
                    await bench.wait(300)
                elif step == "clear":
                    await bench.command(VICTIM, Command.CLEAR)
                else:
                    await bench.command(VICTIM, Command.RESET)
                    if order.startswith("reset"):
                        await bench.wait(600)
                        state = await bench.driver.state(VICTIM)
                        assert state.resetting and state.in_flight, f"{name}: {state}"
            state = await bench.settle_and_check(name)
            if "reset" in order:
                assert (state.count, state.failed, state.resetting) == (0, 0, 0), f"{name}: {state}"
                await bench.command(VICTIM, Command.START)
                await bench.post(VICTIM, GOOD)
                state = await bench.settle_and_check(name)
                assert state.count == 1, f"{name}: {state}"
            else:
                assert (state.held, state.status, state.count) == (0, 0, before.count + 2), f"{name}: {state}"
    await bench.end()


@pytest.mark.parametrize("config", ["tiny", pytest.param("base", marks=pytest.mark.long)])
def test_interrupt(engine, config):
    engine(config, ["interrupts"])


@cocotb.test()
async def interrupts(dut):
    """irq follows enabled sources, until they are acknowledged one by one."""
    bench = Bench(dut, seed=session_seed("irq"))
    driver = bench.driver
    jobs = pairs(bench.config, bench.rng, 2)
    words = await bench.lay_out(jobs)
    await driver.enable_interrupts()

    async def counts():
        await bench.wait(4)
        status = await driver.interrupts()
        return int(dut.irq.value), status["error"], status["completion"]

    assert await counts() == (0, 0, 0)
    await bench.post(0, words[0])
    await bench.settle(0)
    await bench.post(0, words[1]._replace(flags=int(RequestFlag.SC | RequestFlag.RC)))
    await bench.settle(0)
    assert await counts() == (0, 0, 0)
    await bench.post(0, words[2]._replace(flags=int(RequestFlag.IRQ | RequestFlag.SC)))
    await bench.settle(0)
    assert await counts() == (0, 0, 1)
    await driver.enable_interrupts(completion=True)
    assert await counts() == (1, 0, 1)
    # A request that fails raises error alone, whatever its flags.
    await driver.acknowledge(completion=True)
    assert await counts() == (0, 0, 0)
    await bench.post(1, words[3]._replace(dst_region=INVALID, flags=int(RequestFlag.IRQ)))
    await bench.settle(1)
    assert await counts() == (0, 1, 0)
    await driver.acknowledge(completion=True)
    assert await counts() == (0, 1, 0)
    assert (await driver.pop_log()).queue == 1
    assert await counts() == (0, 1, 0)
    await driver.acknowledge(error=True)
    assert await counts() == (0, 0, 0)
    bench.assert_equal()
