# SPDX-License-Identifier: Apache-2.0
"""Random traffic for the write path: bursts with every kind of strobes, messages, changing settings and stalls."""

import random

from hw.pcie.config import PcieConfig
from hw.pcie.requester.writes import WritePath
from tests.harness.cell import run_bench
from tests.pcie.requester.write_bench import MESSAGES, STALLS, Burst, WriteBench

__all__ = ["cycles_of", "full_bursts", "random_burst", "run_body", "run_traffic", "write_path"]


def write_path(width=512, **sizes):
    return WritePath(PcieConfig(data_width=width, axi_id_width=16, doorbell_addr_width=14, **sizes))


def _strobes(rng, length):
    """Strobes of a burst of ``length`` bytes: mostly one range, which may be empty, full, or end early."""
    kind = rng.random()
    if kind < 0.25:
        return [True] * length
    if kind < 0.32:
        return [False] * length
    if kind < 0.38:
        return [rng.random() < 0.5 for _ in range(length)]
    low = rng.choice((0, rng.randrange(min(length, 70)), rng.randrange(length)))
    high = rng.choice((length, max(length - rng.randrange(70), 0), low + rng.randrange(1, 6), rng.randint(low, length)))
    strobes = [low <= at < high for at in range(length)]
    if kind < 0.46:     # a second range, or a gap
        at, value = rng.randrange(length), rng.random() < 0.5
        for index in range(at, min(at + rng.choice((1, 4, 64)), length)):
            strobes[index] = value
    return strobes


def random_burst(rng, beat, *, most=None, qos=None):
    lines = 4096 // beat
    start = rng.choice((0, rng.randrange(lines)))
    beats = min(rng.choice((1, 1, 2, rng.randint(1, lines))), lines - start, most or lines)
    address = rng.randrange(1 << 51) << 12 | start * beat | rng.choice((0, rng.randrange(beat)))
    return Burst(address, _strobes(rng, beats * beat), rng.randbytes(beats * beat), beat=beat,
                 qos=rng.randrange(16) if qos is None else qos, cache=rng.randrange(16))


def _message(rng):
    return {"address": MESSAGES | rng.randrange(1 << 61) << 2, "data": rng.getrandbits(32)}


async def _traffic(bench, *, cycles, beat, discards=0, most=None):
    rng = bench.rng
    bench.make_burst = lambda: random_burst(rng, beat, most=most) if rng.random() < 0.9 else None
    bench.make_message = lambda: _message(rng) if rng.random() < 0.1 else None
    for cycle in range(cycles):
        if rng.random() < 0.02:
            bench.set_mps(rng.randrange(4))
        if rng.random() < (0.02 if bench.master else 0.2):
            bench.set_master(1 - bench.master)
        if rng.random() < 0.01:
            bench.stalls = {name: rng.choice((0, 0, 0.5, 0.9)) for name in STALLS}
        if discards:        # keep flushes in flight
            bench.stalls["done"] = 0.97
        if discards and cycle % (cycles // discards) == cycles // discards - 1:
            await bench.discard(flushes_done=rng.random() < 0.5)
        await bench.step()
    bench.stalls = dict.fromkeys(STALLS, 0.2)


def run_traffic(width, seed, *, prefetch=1, stalls=0.3, sizes=None, **traffic):
    rng, dut = random.Random(seed), write_path(width, **(sizes or {}))
    seen = run_bench(dut, lambda ctx: WriteBench(ctx, rng, dut, prefetch=prefetch, stalls=stalls),
                     lambda bench: _traffic(bench, beat=width // 8, **traffic))
    print(sorted(seen.items()))
    return seen


def full_bursts(rng, beat, count, beats, qos=0):
    """``count`` full bursts of ``beats`` beats, aligned to their length."""
    length = beats * beat
    return iter([Burst(number * length, [True] * length, rng.randbytes(length), beat=beat, qos=qos)
                 for number in range(count)])


def cycles_of(log, kind):
    """Cycles of the events of a kind."""
    return [cycle for name, cycle in log if name == kind]


def run_body(dut, body, seed, *, prefetch=1):
    """Run ``body`` on a bench without stalls."""
    def make(ctx):
        return WriteBench(ctx, random.Random(seed), dut, stalls=dict.fromkeys(STALLS, 0.0), prefetch=prefetch)

    return run_bench(dut, make, body)
