# SPDX-License-Identifier: Apache-2.0
"""PayloadStore: every free block is offered once, chains keep their links."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from hw.rdma.config import TINY
from hw.rdma.requester.buffers.payload_store import PayloadStore
from tests.harness.cell import run_cell

CONFIG = replace(TINY, buffer_beats=512, block_beats=32, max_mtu=1024)
"""16 blocks, of which 4 are the longest chain."""


@pytest.mark.parametrize("keep", [1, 6, 16])
def test_random_chains(keep, seed):
    """Chains are built block by block, followed and returned in random order; up to ``keep`` blocks are in use."""
    rng = random.Random(f"{keep} {seed}")
    dut = PayloadStore(CONFIG)

    async def live(ctx):
        chains, building, in_use, taken = [], [], set(), 0
        for cycle in range(1500):
            write = dut.write
            ctx.set(write.link, 0)
            ctx.set(dut.returned.valid, 0)
            ctx.set(dut.blocks.ready, len(in_use) < keep and rng.random() < 0.8)
            assert ctx.get(dut.level) == CONFIG.blocks - len(in_use), cycle
            if chains and rng.random() < (0.5 if len(in_use) == keep else 0.1):
                chain = chains.pop(rng.randrange(len(chains)))
                ctx.set(dut.returned.valid, 1)
                ctx.set(dut.returned.chain, {"first": chain[0], "more": len(chain) - 1})
                in_use -= set(chain)
            elif chains and rng.random() < 0.3:
                chain = rng.choice(chains)
                for block, after in pairwise(chain):
                    ctx.set(dut.read.follow, 1)
                    ctx.set(dut.read.block, block)
                    ctx.set(dut.blocks.ready, 0)
                    await ctx.tick()
                    ctx.set(dut.read.follow, 0)
                    assert ctx.get(dut.read.next) == after
                continue
            if ctx.get(dut.blocks.valid) and ctx.get(dut.blocks.ready):
                block = ctx.get(dut.blocks.payload)
                assert block not in in_use, f"block {block} is in use"
                if building:
                    ctx.set(write.link, 1)
                    ctx.set(write.before, building[-1])
                    ctx.set(write.block, block)
                building.append(block)
                in_use.add(block)
                taken += 1
            await ctx.tick()
            if len(building) == CONFIG.packet_blocks or (building and (len(in_use) >= keep or rng.random() < 0.3)):
                chains.append(building)
                building = []
        assert taken > 100

    run_cell(dut, live)


def test_all_blocks_after_reset():
    """One per cycle, each once; then none."""
    dut = PayloadStore(CONFIG)

    async def live(ctx):
        ctx.set(dut.blocks.ready, 1)
        await ctx.tick()
        found = []
        for _ in range(CONFIG.blocks):
            assert ctx.get(dut.blocks.valid)
            found.append(ctx.get(dut.blocks.payload))
            await ctx.tick()
        assert sorted(found) == list(range(CONFIG.blocks))
        for _ in range(5):
            assert not ctx.get(dut.blocks.valid)
            await ctx.tick()

    run_cell(dut, live)
