# SPDX-License-Identifier: Apache-2.0
"""Limits of the write path: a full buffer, and stalls without end at each port."""

import pytest

from tests.pcie.requester.write_bench import MESSAGES, Burst
from tests.pcie.requester.write_traffic import full_bursts, run_body, write_path

pytestmark = pytest.mark.long


@pytest.mark.parametrize("width, code, sizes", [
    (512, 0, {}), (512, 3, {"write_beats": 32}), (128, 3, {"write_beats": 128})])
def test_full_buffer(width, code, sizes, seed):
    """The buffer takes all beats but three, also in the middle of the longest TLP, and then continues."""
    dut = write_path(width, **sizes)

    async def body(bench):
        beat = width // 8
        bursts = full_bursts(bench.rng, beat, 4, 4096 // beat)
        bench.make_burst = lambda: next(bursts, None)
        bench.set_mps(code)
        bench.stalls["header"] = 1.0
        for _ in range(300):
            await bench.step()
        depth = dut.config.write_beats
        assert depth - 3 <= bench.seen["beats"] <= depth or (code == 0 and 2 * 60 < bench.seen["beats"] <= 2 * 64)
        bench.stalls["header"] = 0.0
        await bench.step()

    run_body(dut, body, seed, prefetch=3)


@pytest.mark.parametrize("port", ["header", "sent"])
def test_limit_of_tlps(port, seed):
    """Bursts of two TLPs of one beat each: at most 64 TLPs wait until RQ has accepted them."""
    async def body(bench):
        numbers = iter(range(60))
        bench.make_burst = lambda: None if (number := next(numbers, None)) is None else Burst(
            4096 * number + 64, [True] * 128, bench.rng.randbytes(128), beat=64)
        bench.stalls[port] = 1.0
        for _ in range(120):
            await bench.step()
        assert 60 < bench.seen["beats"] <= 64
        bench.stalls[port] = 0.0
        for _ in range(80):
            await bench.step()

    seen = run_body(write_path(), body, seed, prefetch=100)
    assert seen["tlps"] == 120


def test_limit_of_messages(seed):
    """Messages count as TLPs; one more is held at the input."""
    async def body(bench):
        numbers = iter(range(100))
        bench.make_message = lambda: None if (number := next(numbers, None)) is None else {
            "address": MESSAGES | 4 * number, "data": number}
        bench.stalls["sent"] = 1.0
        for _ in range(250):
            await bench.step()
        assert 60 < bench.seen["messages"] <= 65
        bench.stalls["sent"] = 0.0
        for _ in range(80):
            await bench.step()

    seen = run_body(write_path(128), body, seed, prefetch=100)
    assert seen["messages_sent"] == 100


@pytest.mark.parametrize("port, qos, strobed", [
    ("header", 0, True), ("sent", 0, True), ("responses", 0, True), ("flush", 4, True), ("done", 4, True),
    ("responses", 4, True), ("responses", 0, False)])
def test_limits(port, qos, strobed, seed):
    """At most 64 bursts, TLPs or flushes wait behind any port; then beats stall, and all continue later."""
    async def body(bench):
        count = iter(range(100))
        bench.make_burst = lambda: None if next(count, None) is None else Burst(
            16 * bench.number, [strobed] * 16, bench.rng.randbytes(16), beat=16, qos=qos)
        bench.stalls[port] = 1.0
        for _ in range(120):
            await bench.step()
        # B has two more in its register slice.
        assert 60 < bench.seen["bursts"] <= 64 + (2 if port == "responses" else 0)
        bench.stalls[port] = 0.0
        for _ in range(60):
            await bench.step()

    seen = run_body(write_path(128), body, seed, prefetch=100)
    assert seen["responses"] == 100
