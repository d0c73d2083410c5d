"""CRC-32 as zlib has it."""

import random
import zlib

from amaranth import *
from amaranth.sim import Simulator

from hw.ace.crc import continued, crc32


def test_software():
    rng = random.Random(1)
    before = 0
    for length in (1, 5, 12, 64):
        message = rng.randbytes(length)
        assert crc32(message, before) == zlib.crc32(message, before)
        before = zlib.crc32(message, before)


def test_hardware(seed):
    rng = random.Random(seed)
    first, later = Signal(96), Signal(64)
    out, after, before = Signal(32), Signal(32), Signal(32)
    m = Module()
    m.d.comb += [out.eq(continued(first)), after.eq(continued(later, before))]

    async def testbench(ctx):
        for _ in range(20):
            header, payload, old = rng.randbytes(12), rng.randbytes(8), rng.getrandbits(32)
            ctx.set(first, int.from_bytes(header, "little"))
            ctx.set(later, int.from_bytes(payload, "little"))
            ctx.set(before, old)
            assert ctx.get(out) == zlib.crc32(header)
            assert ctx.get(after) == zlib.crc32(payload, old)

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()
