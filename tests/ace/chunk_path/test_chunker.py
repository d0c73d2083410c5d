# SPDX-License-Identifier: Apache-2.0
"""The chunker alone, against the chunks of each collective: their columns, jobs, slots, order and statuses."""

import random
from dataclasses import replace

import pytest

from hw.ace.config import TINY
from hw.ace.numerics.formats import DType, types
from hw.ace.operations import operation_layout
from hw.ace.timing import AceTimingOptions
from tests.ace.chunk_path.chunker_bench import run
from tests.ace.chunk_path.chunker_model import NUMBERS, PATTERNS, Collective, Stalls
from tests.harness.fields import Fields

SMALL = replace(TINY, chunk_bytes=1024, message_bytes=512)
CONFIGS = {
    "small": SMALL,
    "registered_drain_requests": replace(SMALL, timing=AceTimingOptions(registered_drain_requests=True)),
    "plain": replace(SMALL, widen=False, fp8=False, varying=False, data_width=128, lanes=4),
}
SHARES = [((0, 1), (0, 2)), ((1, 1), (2, 1)), ((2, 2), (3, 4))]
"""FSMs and slots of the first communicators, each ``(first, count)``."""
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 256, 320)


def collective(config, rng, shard=None, half=None, piece=None):
    """A collective with random parameters, but for those given."""
    dtype = rng.choice(types(config))
    widen = config.widen and DType(dtype).info.widens and rng.random() < 0.5
    growth = 4 // DType(dtype).info.bytes if widen else 1
    layout = Fields(operation_layout(config))
    fields = {name: rng.getrandbits(width) for name, (_, width) in layout.positions.items() if name != "arithmetic"}
    longest = config.chunk_bytes // 16 // growth
    shard = shard or rng.randint(1, 400)
    return Collective(fields | {
        "shard_bytes": shard, "half": half or rng.choice((shard, min(shard, -(-shard // 128) * 64))),
        "piece": piece or rng.choice((rng.randint(4, longest), 4)), "dtype": dtype, "widen": widen,
        "size": DType(dtype).info.bytes.bit_length() - 1}, growth)


async def open_all(bench, priorities=(0, 0, 0), shares=SHARES):
    for number, (priority, (fsm, slot)) in enumerate(zip(priorities, shares, strict=True)):
        await bench.open(number, fsm=fsm, slot=slot, priority=priority)


async def send(bench, number, collectives, stalls=PATTERNS["none"]):
    """Start the collectives, one after the other, and wait until all are complete."""
    left = list(reversed(collectives))
    while left:
        if bench.post(number, left[-1]):
            left.pop()
        await bench.step(stalls)
    await bench.finish(stalls)


@pytest.mark.parametrize("name", ["small", "plain", pytest.param("registered_drain_requests", marks=pytest.mark.long)])
def test_random(name, seed):
    """Communicators that open, stop and open again with another share, with errors, and rates that change."""
    config, rng = CONFIGS[name], random.Random(f"{seed} {name}")

    async def body(bench):
        stalls = PATTERNS["none"]
        for cycle in range(1200):
            if cycle % 100 == 0:
                stalls = replace(rng.choice(list(PATTERNS.values())), read_error=rng.choice((0, 0, 0.1)),
                                 write_error=rng.choice((0, 0, 0.3)))
            number = rng.randrange(config.communicators)
            communicator = bench.communicators[number]
            if rng.random() < 0.3:
                bench.post(number, collective(config, rng))
            unread = any(chunk and chunk.unread and chunk.communicator == number for chunk in bench.slots)
            if communicator.open and not communicator.stopped and rng.random() < (0.1 if unread else 0.005):
                bench.stop(number)
            fsm, slot = (1 << rng.randrange(2), 1 << rng.randrange(3))
            fsm = rng.randrange(config.fsms - fsm + 1), fsm
            slot = rng.randrange(config.slots - slot + 1), slot
            if rng.random() < (0.01 if communicator.open else 0.5) and bench.may_open(number, fsm=fsm, slot=slot):
                await bench.open(number, fsm=fsm, slot=slot, priority=rng.randrange(4), stalls=stalls)
            else:
                await bench.step(stalls)
        for each in bench.communicators:
            if each.open and not each.stopped:
                bench.stop(each.number)

    seen = run(config, rng, body, first=NUMBERS - 3)
    assert seen["chunks"] > 40 and all(seen[name] for name in (
        "plus", "minus", "stops", "overtakes", "blocked", *(["widened"] if config.widen else []))), seen


@pytest.mark.parametrize("pattern", PATTERNS)
def test_lengths(pattern, seed):
    """Lengths around multiples of a piece, in one half and in two, with each kind of stall."""
    rng = random.Random(f"{seed} {pattern}")
    cases = [(shard, half) for shard in LENGTHS for half in sorted({shard, min(shard, -(-shard // 128) * 64), 1})]
    rng.shuffle(cases)
    if pattern != "none":
        cases = [next(case for case in cases if case[1] < case[0]), *cases[:7]]

    async def body(bench):
        await open_all(bench)
        await send(bench, 2, [collective(SMALL, rng, *case, piece=4) for case in cases], PATTERNS[pattern])

    seen = run(SMALL, rng, body)
    assert seen["plus"] and seen["minus"] and (seen["write errors"] or pattern != "all"), seen


def test_longest_piece(seed):
    """A chunk may fill its slot, also if its elements grow; one byte more takes another chunk."""
    rng = random.Random(f"{seed} longest")

    async def body(bench):
        await open_all(bench)
        for growth in (1, 2, 4):
            longest = SMALL.chunk_bytes // growth
            for size in (longest - 1, longest, longest + 1):
                while (made := collective(SMALL, rng, size, size, longest // 16)).growth != growth:
                    pass
                await send(bench, 0, [made])
                assert made.cut == 1 + (size > longest)

    run(SMALL, rng, body)


@pytest.mark.parametrize("name", ["small", pytest.param("registered_drain_requests", marks=pytest.mark.long)])
def test_priorities(name, seed):
    """A higher priority overtakes: at the drain, when several chunks wait, and when chunks are cut."""
    config, rng = CONFIGS[name], random.Random(f"{seed} priorities")

    async def body(bench):
        await open_all(bench, priorities=(0, 1, 3))
        for cycle in range(700):
            for number in range(3):
                bench.post(number, collective(config, rng, shard=128, piece=4))
            await bench.step(Stalls(drains=0.97 if cycle % 200 < 150 else 0))

    seen = run(config, rng, body)
    assert seen["overtakes"] > 20 and seen["drain overtakes"] > 3, seen


def test_turns(seed):
    """Communicators of one priority that can always be served are served in cyclic order."""
    rng = random.Random(f"{seed} turns")

    async def body(bench):
        await open_all(bench, (1,) * 4, [((number, 1), (2 * number, 2)) for number in range(4)])
        for _ in range(400):
            for number in range(4):
                bench.post(number, collective(SMALL, rng, shard=300, piece=4))
            await bench.step()
        turns = bench.turns[8:48]
        assert len(turns) == 40 and turns[4:] == turns[:-4], turns

    run(SMALL, rng, body)


def test_higher_priorities_do_not_change_turns(seed):
    """Two communicators share what a third one of a higher priority leaves, whenever that one has a chunk to cut."""
    rng = random.Random(f"{seed} shares")

    async def body(bench):
        await open_all(bench, (3, 0, 0), [((number, 1), (2 * number, 2)) for number in range(3)])
        was_cutting = 0
        for _ in range(1500):
            for number in (1, 2):
                bench.post(number, collective(SMALL, rng, shard=300, piece=4))
            # While a chunk of another is being cut, one of the highest priority arrives and is next.
            cutting = bench.ctx.get(bench.dut.cutting.communicators)
            if cutting & 0b110 and not was_cutting:
                bench.post(0, collective(SMALL, rng, shard=1, half=1, piece=4))
            was_cutting = cutting
            await bench.step()
        counts = [bench.turns.count(number) for number in range(3)]
        assert min(counts) > 20 and abs(counts[1] - counts[2]) <= 1, counts

    run(SMALL, rng, body)


def test_communicators_do_not_block_each_other(seed):
    """While the FSMs of one communicator do not complete, it fills its own slots, and another continues."""
    rng = random.Random(f"{seed} blocks")

    async def body(bench):
        await open_all(bench, priorities=(3, 0, 0))
        bench.held = 0
        for _ in range(2):
            bench.post(0, collective(SMALL, rng, shard=200, piece=4))
        made = [collective(SMALL, rng, shard=200, piece=4) for _ in range(8)]
        for each in made:
            while not bench.post(2, each):
                await bench.step()
        while any(bench.communicators[2].rows):
            await bench.step()
        assert sum(chunk is not None for chunk in bench.slots) == 2
        bench.held = None

    run(SMALL, rng, body)


def test_restarts(seed):
    """Entries that are written in any cycle delay another communicator's chunks, and lose none of them."""
    rng = random.Random(f"{seed} restarts")

    async def body(bench):
        await open_all(bench)
        for _ in range(60):
            bench.post(2, collective(SMALL, rng, shard=300, piece=4))
            bench.post(1, collective(SMALL, rng, shard=100, piece=4))
            await bench.open(0, fsm=SHARES[0][0], slot=SHARES[0][1], stalls=Stalls(fills=0.3))

    assert run(SMALL, rng, body)["restarts at a job"] > 3


def test_read_error(seed):
    """A chunk with a read error keeps its FSM until its communicator is stopped, and with it those behind it."""
    rng = random.Random(f"{seed} unread")

    async def body(bench):
        await open_all(bench)
        bench.post(2, collective(SMALL, rng, shard=300, half=300, piece=4))
        while not bench.seen["read errors"]:
            await bench.step(Stalls(read_error=1))
        for _ in range(80):
            await bench.step()
        bench.stop(2)
        await bench.finish(Stalls(write_error=1))       # the read error, which was first, is reported

    assert run(SMALL, rng, body)["stopped chunks"] == 2


def test_fill_ends_in_the_cycle_of_the_start(seed):
    """A chunk is offered to its FSM before its fill has ended, then, and in the same cycle."""
    rng = random.Random(f"{seed} ends")

    async def body(bench):
        await open_all(bench)
        await send(bench, 2, [collective(SMALL, rng, shard=64, piece=4) for _ in range(60)],
                   Stalls(filled=0.8, chunks=0.8, read_error=0))

    seen = run(SMALL, rng, body)
    assert seen["started before"] and seen["started at the end of the fill"], seen


def test_stopped(seed):
    """A communicator that is stopped in any state ends, and is whole when it is opened again."""
    rng = random.Random(f"{seed} stopped")

    async def body(bench):
        await open_all(bench)
        for cycles in range(1, 31):
            stalls = PATTERNS["none" if cycles < 23 else "all"]
            for number in (1, 2, 2):
                bench.post(number, collective(SMALL, rng, shard=rng.choice((100, 250)), piece=4))
            for _ in range(cycles):
                await bench.step(stalls)
            bench.stop(2)
            await bench.open(2, fsm=SHARES[2][0], slot=SHARES[2][1], stalls=stalls)
            if cycles % 5 == 0:
                await send(bench, 2, [collective(SMALL, rng, shard=150, piece=4)], stalls)

    seen = run(SMALL, rng, body, first=7)
    assert seen["stopped chunks"] > 10, seen


@pytest.mark.parametrize("port", ["chunks", "drains"])
def test_stopped_at_a_stall(port, seed):
    """A chunk or a job that stalls does not change when its communicator is stopped; those behind it are dropped."""
    rng = random.Random(f"{seed} stall")

    async def body(bench):
        await open_all(bench)
        bench.post(2, collective(SMALL, rng, shard=250, half=250, piece=4))
        while (bench.start if port == "chunks" else bench.job) is None:
            await bench.step(Stalls(**{port: 1}))
        bench.stop(2)
        for _ in range(10):
            await bench.step(Stalls(**{port: 1}))

    run(SMALL, rng, body)


def test_withheld(seed):
    """Each handshake and event is withheld for a long time while all others are free; then everything completes."""
    rng = random.Random(f"{seed} withheld")

    async def body(bench):
        await open_all(bench)
        for name in ("program", "fills", "filled", "chunks", "through", "drains", "drained"):
            for number in (0, 1, 2):
                bench.post(number, collective(SMALL, rng, shard=250, piece=4))
            for _ in range(90):
                await bench.step(Stalls(**{name: 1}))
            await bench.finish()

    run(SMALL, rng, body)


def test_reset(seed):
    """A reset in any state leaves nothing: every slot is free, and numbers begin again."""
    rng = random.Random(f"{seed} reset")

    async def body(bench):
        for _ in range(8):
            await open_all(bench)
            for _ in range(rng.randint(10, 90)):
                bench.post(rng.randrange(3), collective(SMALL, rng))
                await bench.step(PATTERNS["all"])
            await bench.reset()
            for _ in range(10):
                await bench.step()

    assert run(SMALL, rng, body, first=5)["resets"] == 9


def test_throughput(seed):
    """A chunk per 8 cycles; 9 cycles from a collective to its first job."""
    rng = random.Random(f"{seed} throughput")

    async def body(bench):
        await bench.open(1, fsm=(0, 4), slot=(0, 8))
        bench.post(1, collective(SMALL, rng, shard=64 * 60, half=64 * 30, piece=4))
        start = bench.cycle
        while not bench.turns:
            await bench.step()
        assert bench.cycle - start <= 9
        cycles = await bench.finish()
        assert cycles <= 8 * 60 + 20, f"60 chunks take {cycles} cycles"

    run(SMALL, rng, body)
