# SPDX-License-Identifier: Apache-2.0
"""CRC-32 against zlib's."""

import random
import zlib

import pytest
from amaranth import *
from amaranth.sim import Simulator

from hw.common.crc import continued, crc32, remainder, shift, shifted


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


@pytest.mark.parametrize("width", [64, 512])
def test_parts(seed, width):
    """A CRC whose beats are reduced alone; zeros at its end are removed afterwards."""
    rng = random.Random(seed)
    beat, before, cut = Signal(width), Signal(32), width - 16
    after, short = Signal(32), Signal(32)
    m = Module()
    m.d.comb += [after.eq(shifted(m, before, width) ^ remainder(m, beat)), short.eq(shifted(m, after, -cut))]

    async def testbench(ctx):
        for _ in range(10):
            first, last = rng.randbytes(width // 8), rng.randbytes(2)
            ctx.set(beat, int.from_bytes(last, "little"))
            # The inversion before the message is part of its first four bytes.
            ctx.set(before, zlib.crc32(first) ^ 0xFFFF_FFFF)
            assert ctx.get(short) ^ 0xFFFF_FFFF == zlib.crc32(first + last)
            assert ctx.get(after) == shift(ctx.get(short), cut)

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()
