# SPDX-License-Identifier: Apache-2.0
"""Addresses of entries in rings of every size."""

from amaranth import *
from amaranth.sim import Simulator

from hw.dma_engine.descriptors import RING_SIZE_BITS
from hw.dma_engine.rings.pointers import entry_address, ring_mask


def test_entries():
    """Entry ``number % 2**size`` of the ring, whose base has low bits of its own where the ring is short."""
    low, high = RING_SIZE_BITS
    size, number, page, address = Signal(range(high + 1)), Signal(32), Signal(52), Signal(64)
    m = Module()
    m.d.comb += address.eq(entry_address(page, ring_mask(size), number, entry_bytes=64))

    async def testbench(ctx):
        for bits in range(low, high + 1):
            length = 64 << bits
            base = 0x000A_5A5A_5A5A_5000 // max(length, 4096) * max(length, 4096)
            ctx.set(size, bits)
            ctx.set(page, base >> 12)
            for count in (0, 1, (1 << bits) - 1, 1 << bits, 0x8421_8421, 0xFFFF_FFFF, *(1 << bit for bit in range(20))):
                ctx.set(number, count)
                assert ctx.get(address) == base + count % (1 << bits) * 64, (bits, count)

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()
