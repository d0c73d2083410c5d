# SPDX-License-Identifier: Apache-2.0
"""The decoder alone: every collective, type and operation, and each kind of illegal command, against the documented
meaning of the command word, of the directory and of a program's header."""

from dataclasses import replace
from functools import partial

import pytest

from hw.ace.collectives import Collective, those
from hw.ace.config import COUNT_WIDTH, OFFSET_WIDTH, ONE_SHOT_WIDTH, ROOT_WIDTH, TINY
from hw.ace.numerics.formats import DType, Reduction, types
from hw.ace.timing import AceTimingOptions
from hw.ace.words import CommandFlag, CommandWord, HeaderWord, Status

from .decoder_bench import DOMAIN, OTHER, SIZES, alone

CONFIGS = {
    "all": TINY,
    "reduced": replace(TINY, communicators=16, prod=False, fp8=False, avg=False, widen=False, varying=False,
                       timing=AceTimingOptions(registered_root=True, registered_compare=True)),
}
VARYING = those(lambda info: info.varying)


def _word(collective, **fields):
    word = CommandWord(collective=collective, flags=0, communicator=0, dtype=DType.FP32, op=Reduction.SUM, widen=0,
                       root=0, src_region=1, src_offset=3, dst_region=2, dst_offset=5, count=100)
    return word._replace(**fields)


def _extents(root, count, rng):
    """Rows of both halves of the extents table, of at most ``count`` elements."""
    return {side: {16 * root + row: {"count": rng.choice((0, count, rng.randint(0, count))),
                                     "displacement": rng.randrange(2)} for row in range(32)}
            for side in ("src", "dst")}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_types_and_operations(config):
    """Every code of a type with every code of an operation, legal or not, with each collective in turn."""
    async def live(bench, rng):
        seen, collectives = set(), [one for one in Collective if one.info.moves_data]
        for dtype in range(16):
            for op in range(8):
                word = _word(collectives[(dtype + op) % len(collectives)], dtype=dtype, op=op,
                             widen=rng.random() < 0.3, communicator=rng.randrange(4),
                             count=rng.choice((1, 63, 64, 1000)))
                seen.add(await bench.check(word, queue=rng.randrange(config.queues)))
        assert seen == {Status.OK, Status.MALFORMED}

    alone(config, live)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_collectives(config):
    """Every code of a collective with every combination of flags; each root of the rooted ones."""
    async def live(bench, rng):
        for collective in range(16):
            for flags in range(16):
                word = _word(collective, flags=flags, communicator=rng.randrange(4), root=rng.randrange(2))
                await bench.check(word, extents=_extents(word.root, word.count, rng))
        for collective, ordered in ((Collective.BROADCAST, 0), (Collective.REDUCE, 0),
                                    (Collective.REDUCE, CommandFlag.ORDERED)):
            for communicator in range(len(SIZES)):
                for root in (*range(64 if communicator == 0 else 4), *(1 << bit for bit in range(1, ROOT_WIDTH))):
                    await bench.check(_word(collective, flags=ordered, communicator=communicator, root=root, count=1))

    alone(config, live)


def test_sizes(seed):
    """Counts around columns, shards and halves, of zero and of the most elements, for any number of shards."""
    async def live(bench, rng):
        for count in (0, 1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 1 << 20, (1 << COUNT_WIDTH) - 1):
            for shards in (1, 2, 3, 8, 128):
                for split in (False, True):
                    header = HeaderWord(1, 1, 1, split, shards, rng.randrange(2), rng.randrange(2), rng.randint(1, 64))
                    await bench.check(_word(Collective.ALL_REDUCE, count=count, dtype=rng.choice(types(TINY)),
                                            communicator=rng.randrange(4)), header=header)

    alone(TINY, live, seed)


def test_one_shot(seed):
    """All-reduces up to the communicator's threshold, if there is such a program and they are not in rank order."""
    async def live(bench, rng):
        bench.shapes[0] |= {"one_shot": 1000}
        bench.shapes[1] |= {"one_shot": 0}
        bench.shapes[2] |= {"one_shot": (1 << ONE_SHOT_WIDTH) - 1}
        for valid in (1, 0):
            for communicator in range(3):
                await bench.enter(communicator, 0, True, valid=valid)
            for dtype, limit in ((DType.FP32, 250), (DType.BF16, 500), (DType.INT8, 1000)):
                for count in (0, 1, limit - 1, limit, limit + 1):
                    for collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.BROADCAST):
                        for flags in (0, CommandFlag.ORDERED)[:1 + collective.info.reduces]:
                            for communicator in range(4):
                                await bench.check(_word(collective, flags=flags, dtype=dtype, count=count,
                                                        communicator=communicator))

    alone(TINY, live, seed)


def test_barrier():
    """A barrier has one chunk of a beat and buffers without bytes, whatever its other fields and its program are."""
    async def live(bench, rng):
        for _ in range(20):
            word = _word(Collective.BARRIER, dtype=rng.randrange(16), op=rng.randrange(8), widen=rng.randrange(2),
                         root=rng.randrange(256), count=rng.choice((0, 5)), communicator=rng.randrange(4),
                         src_region=rng.randrange(256), dst_region=rng.randrange(256))
            assert await bench.check(word) is Status.OK

    alone(TINY, live)


REGIONS = {
    "REGION": {"valid": 0}, "DOMAIN": {"domain": OTHER}, "RIGHTS": {"readable": 0, "writable": 0},
    "BOUNDS": {"length": 0}}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_regions(config):
    """Each check of each buffer: the send buffer first, and each only if the program uses it and the count is not 0;
    else the buffer has no bytes."""
    async def live(bench, rng):
        check = partial(bench.check, _word(Collective.ALL_GATHER))
        for index, (name, bad) in enumerate(REGIONS.items()):
            assert await check(regions={"src": bad}) is Status[f"SRC_{name}"]
            assert await check(regions={"dst": bad}) is Status[f"DST_{name}"]
            assert await check(regions={"src": bad, "dst": {"valid": 0}}) is Status[f"SRC_{name}"]
            for later in list(REGIONS.values())[index:]:
                assert await check(regions={"dst": later | bad}) is Status[f"DST_{name}"]
            idle = HeaderWord(1, 0, 1, 0, 4, 0, 1, 4), HeaderWord(1, 1, 0, 0, 4, 0, 1, 4)
            assert await check(header=idle[0], regions={"src": bad}) is Status.OK
            assert await check(header=idle[1], regions={"dst": bad}) is Status.OK
            assert await bench.check(_word(Collective.ALL_GATHER, count=0), regions={"src": bad}) is Status.OK
        assert await check(regions={"src": {"writable": 0}, "dst": {"readable": 0}}) is Status.OK
        for field, status in (("src_region", Status.SRC_REGION), ("dst_region", Status.DST_REGION)):
            word = _word(Collective.ALL_GATHER, **{field: config.regions + 1})
            assert await bench.check(word) is status
        for offset, count in ((0, 1), (7, 33), ((1 << OFFSET_WIDTH) - 1, (1 << COUNT_WIDTH) - 1)):
            for collective in (Collective.ALL_REDUCE, Collective.ALL_TO_ALL):
                word = _word(collective, src_offset=offset, dst_offset=offset, count=count)
                header = bench.header(word, bench.shapes[0])
                ends = bench.meaning(word, header, bench.shapes[0], None, {})["ends"]
                for side in ends:
                    # A region's length has 37 bits.
                    if ends[side] < 1 << 37:
                        limits = {side: {"length": ends[side] - 1}}
                        status = await bench.check(word, header=header, regions=limits)
                        assert status is Status[f"{side.upper()}_BOUNDS"]
                        assert await bench.check(word, header=header) is Status.OK

    alone(config, live)


def test_communicators():
    """A communicator must be in both tables, of the queue's domain and not stopped."""
    async def live(bench, rng):
        word = _word(Collective.BARRIER)
        assert await bench.check(word, foreign=1) is Status.COMMUNICATOR
        await bench.enter(0, Collective.BARRIER, False, valid=0)
        assert await bench.check(word) is Status.COMMUNICATOR
        await bench.enter(0, Collective.BARRIER, False)
        assert await bench.check(word) is Status.OK
        for name, bad, good in (("valid", 0, 1), ("domain", OTHER, DOMAIN)):
            bench.shapes[0][name] = bad
            assert await bench.check(word) is Status.COMMUNICATOR
            bench.shapes[0][name] = good
        bench.domains[1] = OTHER
        await bench.write(bench.dut.configure, queue=1, domain=OTHER)
        assert await bench.check(word, queue=1) is Status.COMMUNICATOR
        assert await bench.check(word, queue=0) is Status.OK
        bench.stopped, bench.statuses = 0b0101, [Status.REVOKED, 0, Status.LINK_DOWN, Status.TIMEOUT]
        for number, status in enumerate((Status.REVOKED, Status.OK, Status.LINK_DOWN, Status.OK)):
            assert await bench.check(word._replace(communicator=number)) is status
        assert await bench.check(word, whole=0) is Status.MALFORMED

    alone(TINY, live)


@pytest.mark.parametrize("config", [TINY, replace(TINY, timing=AceTimingOptions.all())], ids=["direct", "cut"])
def test_varying(config):
    """Every part of both buffers is checked, in order; rows must be in the extents table."""
    async def live(bench, rng):
        for _ in range(6):
            word = _word(rng.choice(VARYING), flags=CommandFlag.VARYING, communicator=rng.randrange(1, 4), count=9,
                         root=rng.randrange(4), dtype=rng.choice(types(TINY)))
            extents = _extents(word.root, 9, rng)
            ranks, length = bench.shapes[word.communicator]["ranks"], (5 + 12) * 4
            limits = {side: {"length": length} for side in ("src", "dst")}
            assert await bench.check(word, extents=extents, regions=limits) in (Status.OK, Status.MALFORMED)
            for side in ("src", "dst"):
                extents[side][16 * word.root + rng.randrange(ranks)] = {
                    "count": rng.choice((9, 10)), "displacement": rng.choice((0, 1 << OFFSET_WIDTH - 1))}
                await bench.check(word, extents=extents, regions=limits)
        # The last row of the table is legal; an empty part may be anywhere.
        word = _word(Collective.ALL_TO_ALL, flags=CommandFlag.VARYING, communicator=1)
        for root, status in ((3, Status.OK), (4, Status.MALFORMED)):
            empty = {"count": 0, "displacement": (1 << OFFSET_WIDTH) - 1}
            extents = {side: {16 * root + row: empty for row in range(4)} for side in ("src", "dst")}
            assert await bench.check(word._replace(root=root), extents=extents) is status
        # They are checked whatever the program uses.
        for header, side in ((HeaderWord(1, 0, 1, 0, 4, 0, 1, 4), "src"), (HeaderWord(1, 1, 0, 0, 4, 0, 1, 4), "dst")):
            status = await bench.check(word, header=header, regions={side: {"valid": 0}}, extents=_extents(0, 9, rng))
            assert status is Status[f"{side.upper()}_REGION"]
        bench.shapes[1]["ranks"] = 17
        assert await bench.check(word._replace(root=3)) is Status.MALFORMED

    alone(config, live)


def test_stalls(seed):
    """Words, extents and the verdict arrive late, and nothing else changes."""
    async def live(bench, rng):
        bench.mood = 0.2
        for collective in Collective:
            for flags in (0, CommandFlag.ORDERED if collective.info.reduces else 0,
                          CommandFlag.VARYING if collective.info.varying else 0):
                word = _word(collective, flags=flags, communicator=1, dtype=rng.choice(types(TINY)))
                big = {side: {"length": 1 << 20} for side in ("src", "dst")}
                assert await bench.check(word, extents=_extents(0, 100, rng), regions=big) is Status.OK

    alone(TINY, live, seed)


def test_sweep():
    """Nothing is decoded during the sweep, and no entry of the directory is left."""
    async def live(bench, rng):
        ctx, dut = bench.ctx, bench.dut
        ctx.set(dut.init.active, 1)
        ctx.set(dut.i.valid, 1)
        for row in range(TINY.sweep_rows):
            ctx.set(dut.init.address, row)
            await ctx.tick()
            assert not ctx.get(dut.i.ready) and not ctx.get(dut.pending.queues)
        ctx.set(dut.init.active, 0)
        ctx.set(dut.i.valid, 0)
        bench.directory, bench.domains = {}, [0] * TINY.queues
        for communicator in range(TINY.communicators):
            bench.shapes[communicator]["domain"] = 0
            for collective in Collective:
                assert await bench.check(_word(collective, communicator=communicator)) is Status.COMMUNICATOR
        await bench.enter(0, Collective.BARRIER, False)
        assert await bench.check(_word(Collective.BARRIER)) is Status.OK

    alone(TINY, live)
