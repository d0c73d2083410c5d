# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings alone, in Amaranth's simulator: every word of every descriptor, in order, with any bus timing."""

import random

import pytest
from amaranth.sim import Simulator

from hw.common.doorbell import tail_layout
from hw.dma_engine.config import PRESETS
from hw.dma_engine.descriptors import Descriptor, DescriptorFlag
from hw.dma_engine.layouts import Check
from hw.dma_engine.model.rings import expand
from hw.dma_engine.rings.rings import Rings
from hw.dma_engine.words import NativeWord, QueueMode, Status

CHECKS = {Check.OK: Status.OK, Check.MALFORMED: Status.MALFORMED, Check.FETCH_ERROR: Status.RING_FETCH}
SIZE = 4
"""Log2 of the descriptors in each ring."""
COUNT = 24


def _word(rng, flags=None):
    flags = rng.choice((0, 0, 1, 2, 4, 8, 15)) if flags is None else flags
    return NativeWord(1, flags, rng.randrange(256), rng.randrange(256), rng.getrandbits(36), rng.getrandbits(28),
                      rng.getrandbits(36))


def descriptor(rng):
    """64 bytes of a descriptor: most are valid, some have a bit or byte error anywhere."""
    flags, tag = rng.choice((0, 1, 2, 4, 8, 16, 31, 16)), rng.getrandbits(16)
    if rng.random() < 0.6:
        made = Descriptor.copies(*(_word(rng) for _ in range(rng.randint(1, 3))), flags=flags, tag=tag)
    else:
        word, strides = _word(rng, 0), [rng.choice((rng.randrange(1 << 10), -rng.randrange(1 << 36),
                                                    rng.randrange(1 << 36), -3)) for _ in range(2)]
        made = Descriptor.copy_2d(src=(word.src_region, word.src_offset), dst=(word.dst_region, word.dst_offset),
                                  row_bytes=rng.choice((0, 1, 64, 64, word.length)),
                                  rows=rng.choice((1, 2, 3, 7, 8, 9, 30)),
                                  src_stride=strides[0], dst_stride=strides[1], flags=flags, tag=tag)
    data = bytearray(made.to_bytes())
    if rng.random() < 0.3:
        # High bits of the number of rows stay unchanged, as the test would take too long.
        position = rng.choice([position for position in range(64) if not (made.kind == 2 and 48 <= position < 52)])
        data[position] ^= 1 << rng.randrange(8)
    return bytes(data)


@pytest.mark.parametrize(("preset", "records"), [("tiny", True), ("base", False), ("wide", True)])
def test_words_of_descriptors(preset, records, request):
    config = PRESETS[preset]
    seed = f"{request.config.getoption('--seed')} {preset} {records}"
    rng = random.Random(seed)
    dut = Rings(config)
    rings = config.extended
    contents = [[descriptor(rng) for _ in range(COUNT)] for _ in range(rings)]
    expected = [[item for data in ring for item in expand(data, records)] for ring in contents]
    found = [[] for _ in range(rings)]
    waiting = [0] * rings               # words in the queues
    ended = [False]
    memory = {}
    bursts = []

    async def host(ctx):
        for ring in range(rings):
            ctx.set(dut.configure.ring, {"page": 0x1000 + ring, "size": SIZE, "records": records, "record_page": 0})
            ctx.set(dut.configure.settings.mode, QueueMode.RING)
            ctx.set(dut.configure.queue, ring)
            ctx.set(dut.configure.valid, 1)
            await ctx.tick()
        ctx.set(dut.configure.valid, 0)
        ctx.set(dut.queues.enabled, (1 << rings) - 1)
        tails, sent = [0] * rings, [[] for _ in range(rings)]
        while any(tail < COUNT for tail in tails) or any(map(len, found)) < 0:
            ring = rng.randrange(rings)
            finished, count = _finished(contents[ring], len(found[ring]) - waiting[ring], records), 0
            while tails[ring] < min(COUNT, finished + (1 << SIZE)) and rng.random() < 0.8:
                memory[0x1000 + ring, tails[ring] % (1 << SIZE)] = contents[ring][tails[ring]]
                tails[ring], count = tails[ring] + 1, count + 1
            sent[ring].append(tails[ring])
            # The latest tail, or an earlier one again.
            tail = tails[ring] if rng.random() < 0.7 else rng.choice(sent[ring][-3:])
            if tails[ring] == COUNT:
                tail = COUNT
            ctx.set(dut.tails.doorbells.payload, tail_layout(config).const({"ring": ring, "tail": tail, "whole": 1}))
            ctx.set(dut.tails.doorbells.valid, 1)
            refused, = await ctx.tick().sample(dut.tails.doorbells.refused).until(dut.tails.doorbells.ready)
            assert not refused, f"tail {tail} of ring {ring} was refused"
            ctx.set(dut.tails.doorbells.valid, 0)
            await ctx.tick().repeat(rng.choice((1, 1, 5, 30)))

    async def requests(ctx):
        while True:
            ctx.set(dut.bursts.ready, rng.random() < 0.7)
            _, _, valid, ready, burst = await ctx.tick().sample(dut.bursts.valid, dut.bursts.ready, dut.bursts.payload)
            if valid and ready:
                assert burst.addr % 4096 + (burst.len + 1) * config.beat_bytes <= 4096
                bursts.append((burst.ring, burst.addr, burst.len + 1))

    async def responses(ctx):
        """Send one beat at a time, of the oldest burst of any ring."""
        beats = [[] for _ in range(rings)]
        while True:
            while bursts:
                ring, addr, length = bursts.pop(0)
                data = b"".join(memory[addr >> 12, (addr & 4095) // 64 + index]
                                for index in range(length * config.beat_bytes // 64))
                beats[ring] += [data[at:at + config.beat_bytes] for at in range(0, len(data), config.beat_bytes)]
            ready = [ring for ring in range(rings) if beats[ring]]
            if ready and rng.random() < 0.8:
                ring = rng.choice(ready)
                ctx.set(dut.descriptors.valid, 1)
                ctx.set(dut.descriptors.id, ring | 1 << (config.axi_id_width - 1))
                ctx.set(dut.descriptors.data, int.from_bytes(beats[ring].pop(0), "little"))
            await ctx.tick()
            ctx.set(dut.descriptors.valid, 0)

    async def queues(ctx):
        """Accept words always or occasionally; alternate between phases with no and with frequent scheduling."""
        eager, cycle = rng.random() < 0.5, 0
        while not all(len(got) >= len(want) for got, want in zip(found, expected, strict=True)):
            busy = [ring for ring in range(rings) if waiting[ring]]
            consume, cycle = bool(busy) and cycle // 150 % 2 and rng.random() < 0.8, cycle + 1
            ring = rng.choice(busy) if busy else 0
            ctx.set(dut.consumed.valid, consume)
            ctx.set(dut.consumed.queue, ring)
            ctx.set(dut.words.ready, eager or rng.random() < 0.5)
            _, _, valid, ready, out = await ctx.tick().sample(dut.words.valid, dut.words.ready, dut.words.payload)
            waiting[ring] -= consume
            if valid and ready:
                number = len(found[out.ring])
                found[out.ring].append(out)
                waiting[out.ring] += 1
                assert waiting[out.ring] <= config.queue_depth
                want = expected[out.ring][number]
                assert CHECKS[out.check] == want.status, f"{seed}: word {number} of ring {out.ring}: {out}, not {want}"
                label = out.note.ring.tag, bool(out.note.ring.end)
                assert label == (want.tag, want.end), f"{seed}: word {number} of ring {out.ring}: {out}, not {want}"
                if want.word is not None:
                    assert out.word == want.word._asdict(), f"{seed}: word {number} of ring {out.ring}"
        ctx.set(dut.consumed.valid, 0)
        ctx.set(dut.words.ready, 1)
        await ctx.tick().repeat(100)
        assert not ctx.get(dut.words.valid) and not ctx.get(dut.status.fetching)
        ended[0] = True

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(host)
    simulator.add_testbench(requests, background=True)
    simulator.add_testbench(responses, background=True)
    simulator.add_testbench(queues)
    # Two steps per cycle; run_until() would continue to its deadline after the test's end.
    for _ in range(200_000):
        if not simulator.advance():
            break
    assert ended[0], f"{seed}: {list(map(len, found))} words of {list(map(len, expected))} came"


def _finished(contents, words, records):
    """Descriptors whose words are all among the first ``words``."""
    for number, data in enumerate(contents):
        words -= len(expand(data, records))
        if words < 0:
            return number
    return len(contents)


def test_flags_are_those_of_words():
    assert [int(DescriptorFlag[name]) for name in ("SC", "RC", "FENCE", "IRQ")] == [1, 2, 4, 8]
