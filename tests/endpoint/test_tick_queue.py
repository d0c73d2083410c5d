# SPDX-License-Identifier: Apache-2.0
import random
from collections import deque

import pytest

from hw.endpoint.config import TINY
from hw.endpoint.tick_queue import TickQueue
from hw.triggers.words import Refusal
from tests.harness.cell import run_cell

PORTS, COUNTS = (1, 2), "counts"
CYCLES = 600


def _run(rng, *, offered, stalls, quick_verdicts=False):
    """Ticks by source: as sent, and as they left; and each port's verdicts, as (sent code, refused)."""
    dut = TickQueue(TINY)
    sent = {source: [] for source in (*PORTS, COUNTS)}
    left, verdicts = [], {port: [] for port in PORTS}

    async def bench(ctx):
        inputs = {COUNTS: dut.counts} | {port: dut.signals[port] for port in PORTS}
        offers, waiting, due = dict.fromkeys(inputs), deque(), deque()
        number = 0
        for _ in range(CYCLES):
            for source, port in inputs.items():
                if offers[source] is None and rng.random() < offered:
                    number += 1
                    offers[source] = number
                ctx.set(port.valid, offers[source] is not None)
                ctx.set(port.payload.value, offers[source] or 0)
            ctx.set(dut.o.ready, rng.random() >= stalls)
            code = Refusal.NONE
            if due and (quick_verdicts or rng.random() < 0.5):
                source, code = due.popleft()
                ctx.set(dut.o.verdict.valid, 1)
                if source != COUNTS:
                    waiting.append((source, code))
            else:
                ctx.set(dut.o.verdict.valid, 0)
            ctx.set(dut.o.verdict.code, code)
            for port in PORTS:
                if ctx.get(dut.verdicts[port].valid):
                    expected, code = waiting.popleft()
                    assert expected == port
                    verdicts[port].append((code, ctx.get(dut.verdicts[port].refused)))
            assert not waiting
            ready = {source: ctx.get(port.ready) for source, port in inputs.items()}
            out = ctx.get(dut.o.valid) and ctx.get(dut.o.ready), ctx.get(dut.o.payload.value)
            await ctx.tick()
            for source in inputs:
                if offers[source] is not None and ready[source]:
                    sent[source].append(offers[source])
                    offers[source] = None
            if out[0]:
                left.append(out[1])
                source = next(each for each, numbers in sent.items() if out[1] in numbers)
                due.append((source, rng.choice([Refusal.NONE, Refusal.GENERATION])))

    run_cell(dut, bench)
    return sent, left, verdicts


@pytest.mark.parametrize("offered, stalls", [(1.0, 0.0), (1.0, 0.5), (0.3, 0.2)])
def test_each_tick_leaves_once_and_verdicts_return_to_signals(offered, stalls, seed):
    sent, left, verdicts = _run(random.Random(seed), offered=offered, stalls=stalls)
    for numbers in sent.values():
        assert len(numbers) > CYCLES / 20
        gone = [number for number in left if number in numbers]
        assert gone == numbers[:len(gone)] and len(numbers) - len(gone) <= 4
    assert len(left) == len(set(left))
    for port in PORTS:
        assert len(verdicts[port]) >= len(sent[port]) - 16
        assert all(refused == (code != Refusal.NONE) for code, refused in verdicts[port])


def test_signals_and_counts_in_turn():
    """One tick per cycle; every other one is a count, and the ports share the rest."""
    sent, left, _ = _run(random.Random(1), offered=1.0, stalls=0.0, quick_verdicts=True)
    assert len(left) >= CYCLES - 3
    for source, share in ((COUNTS, 1 / 2), *((port, 1 / 4) for port in PORTS)):
        assert abs(len(sent[source]) - share * CYCLES) <= 3
