# SPDX-License-Identifier: Apache-2.0
"""CRC-32 against zlib's."""

import random
import zlib

import pytest
from amaranth import *
from amaranth.sim import Simulator

from hw.common.crc import continued, crc32


def test_software():
    rng = random.Random(1)
    before = 0
    for length in (1, 5, 12, 64):
        message = rng.randbytes(length)
        assert crc32(message, before) == zlib.crc32(message, before)
        before = zlib.crc32(message, before)


@pytest.mark.parametrize("width", [64, 128, 256, 512])
def test_hardware(seed, width):
    rng = random.Random(seed)
    first, later = Signal(70), Signal(width)
    out, after, before = Signal(32), Signal(32), Signal(32)
    m = Module()
    m.d.comb += [out.eq(continued(m, first, zeros=26)), after.eq(continued(m, later, before))]

    async def testbench(ctx):
        for _ in range(20):
            number, payload, old = rng.getrandbits(70), rng.randbytes(width // 8), rng.getrandbits(32)
            header = number.to_bytes(12, "little")
            ctx.set(first, number)
            ctx.set(later, int.from_bytes(payload, "little"))
            ctx.set(before, old)
            assert ctx.get(out) == zlib.crc32(header)
            assert ctx.get(after) == zlib.crc32(payload, old)

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()
