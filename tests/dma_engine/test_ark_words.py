# SPDX-License-Identifier: Apache-2.0
"""From ARK words to decoded requests, field by field, without the rest of the engine."""

import random

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from hw.dma_engine.config import TINY, WIDE
from hw.dma_engine.frontend.ark_words import ArkWords
from hw.dma_engine.frontend.queues import QueueStore
from hw.dma_engine.layouts import Check
from hw.dma_engine.words import ArkWord

QUEUE, BASE, CONNECTION, CONNECTION_BASE, DOMAIN = 1, 100, 3, 200, 9


class Chain(wiring.Component):
    """ArkWords and QueueStore."""

    def __init__(self, config):
        self.ark, self.store = ArkWords(config), QueueStore(config)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ark, m.submodules.store = self.ark, self.store
        connect(m, self.ark.o, self.store.i)
        m.d.comb += self.store.queues.enabled.eq(-1)
        return m


def _words(rng):
    for bit in range(34):
        yield ArkWord.send(src=1, dst=2, connection=CONNECTION, length=1 << bit)
        yield ArkWord.send(src=1, dst=2, connection=CONNECTION, length=(1 << bit + 1) - 1)
    for _ in range(60):
        yield ArkWord.send(src=rng.randrange(256), dst=rng.randrange(256), connection=CONNECTION,
                           length=rng.randint(1, (1 << 34) - 1))


@pytest.mark.parametrize("config", [TINY, WIDE], ids=["tiny", "wide"])
def test_every_field_arrives(config, seed):
    chain = Chain(config)
    words = list(_words(random.Random(seed)))

    async def store(ctx, word, upper):
        port = chain.ark.i
        half = 1 << upper
        ctx.set(port.payload, {"queue": QUEUE, "data": word.pack() << 64 * upper, "some": half, "whole": half,
                               "words": half})
        ctx.set(port.valid, 1)
        while True:
            _, _, ready, refused = await ctx.tick().sample(port.ready, port.refused)
            if ready:
                break
        ctx.set(port.valid, 0)
        assert not refused

    async def testbench(ctx):
        ctx.set(chain.ark.configure.ark, {"active": 1, "base": BASE, "domain": DOMAIN})
        ctx.set(chain.ark.configure.queue, QUEUE)
        ctx.set(chain.ark.configure.valid, 1)
        ctx.set(chain.ark.connection.entry, {"base": CONNECTION_BASE, "domain": DOMAIN, "valid": 1})
        ctx.set(chain.ark.connection.connection, CONNECTION)
        ctx.set(chain.ark.connection.valid, 1)
        await ctx.tick()
        ctx.set(chain.ark.configure.valid, 0)
        ctx.set(chain.ark.connection.valid, 0)
        ctx.set(chain.store.queue_heads.queue, QUEUE)
        for number, word in enumerate(words):
            await store(ctx, word, number % 2)
            await ctx.tick().repeat(3)
            assert ctx.get(chain.store.queue_heads.ready) == 1 << QUEUE
            request = ctx.get(chain.store.queue_heads.request)
            note, last = request.note.ark, word.length - 1
            assert (request.check, request.src_region, request.dst_region, request.src_offset, request.dst_offset,
                    request.length) \
                == (Check.OK, BASE + word.src, CONNECTION_BASE + word.dst, 0, 0, word.length), word
            assert (note.src, note.dst, note.connection) == (word.src, word.dst, CONNECTION), word
            assert (request.last_segment, request.end_position) == divmod(last, config.segment_bytes), word
            assert request.single == (request.last_segment == 0), word
            assert request.end.as_bits() == 0 and not request.fence and not request.signal
            ctx.set(chain.store.queue_heads.consume, 1)
            await ctx.tick()
            ctx.set(chain.store.queue_heads.consume, 0)
            await ctx.tick()

    sim = Simulator(chain)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
