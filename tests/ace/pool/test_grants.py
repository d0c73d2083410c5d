# SPDX-License-Identifier: Apache-2.0
"""The store of GRANTs alone: each reaches the phase that it names, once, whether it arrives before or in the phase."""

import random

from hw.ace.config import TINY
from hw.ace.pool.grants import GrantStore
from tests.harness.cell import CellBench, run_bench

SHARES = ({"fsm_first": 0, "fsm_mask": 1}, {"fsm_first": 2, "fsm_mask": 1})
"""Two FSMs for each of two communicators."""
TRAVELS = 3
"""Cycles from a GRANT on the input until it was stored or forwarded."""


class Visit:
    """An FSM's next phase and its GRANTs. Numbers of chunks and phases come again soon, so a row with a GRANT that was
    used would match a later phase."""

    def __init__(self, rng, fsm):
        self.communicator, index = divmod(fsm, 2)
        self.sequence, self.phase = index + 2 * rng.randrange(2), rng.randrange(2)
        self.port = rng.randrange(TINY.ports)
        granted = sorted(rng.sample(range(1, 100), rng.randrange(3)))
        self.wanted = granted[-1] if granted else 0
        self.back = rng.randrange(2)
        self.grants = [(self.port, each) for each in granted]
        self.grants.insert(rng.randint(0, len(granted)), (self.port ^ 1, 1)) if self.back else None
        self.early = rng.randrange(len(self.grants) + 1)        # number of these before the phase
        self.entered_at = self.last_at = self.got = self.got_back = 0
        self.restarts = rng.random() < 0.1

    @property
    def complete(self):
        return not self.grants and (self.got, self.got_back) == (self.wanted, self.back)


class Bench(CellBench):

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut, self.cycle = dut, 0
        self.visits = [Visit(rng, fsm) for fsm in range(TINY.fsms)]

    async def step(self):
        ctx, dut, rng, visits = self.ctx, self.dut, self.rng, self.visits
        for fsm, visit in enumerate(visits):
            travelled = self.cycle > max(visit.entered_at, visit.last_at + TRAVELS)
            if visit.entered_at and visit.complete and travelled and self.chance(0.3):
                visits[fsm] = Visit(rng, fsm)
                self.seen["phases"] += 1
        self._grant(rng.choice(visits))
        entering = self._enter(rng.randrange(TINY.fsms))
        for fsm, (visit, phase, state) in enumerate(zip(visits, dut.phases, dut.states, strict=True)):
            self.set(phase.inside, visit.entered_at > 0)
            self.set(phase.entered, entering == fsm)
            self.set(phase.odd, visit.port & 1)
            self.set(state.phase, visit.phase)
            self.set(state.sequence, visit.sequence)
        self.set(dut.share.share, SHARES[ctx.get(dut.share.number)])
        for fsm, (visit, phase) in enumerate(zip(visits, dut.phases, strict=True)):
            if ctx.get(phase.valid):
                assert visit.entered_at and visit.got < ctx.get(phase.granted) <= visit.wanted, f"FSM {fsm} is granted"
                visit.got = ctx.get(phase.granted)
                self.seen["at the start" if self.cycle == visit.entered_at else "inside"] += 1
            if ctx.get(phase.back):
                assert visit.entered_at and not visit.got_back and visit.back, f"FSM {fsm} is granted sends back"
                visit.got_back = 1
                self.seen["back at the start" if self.cycle == visit.entered_at else "back inside"] += 1
            late = 0 < visit.entered_at <= self.cycle and not visit.grants and self.cycle > visit.last_at + TRAVELS
            assert visit.complete or not late, f"FSM {fsm} lacks a GRANT"
        await ctx.tick()
        self.cycle += 1

    def _grant(self, visit):
        """A neighbour grants receives, or not; a communicator is opened again, which drops what was stored for it."""
        dut = self.dut
        self.set(dut.restart.valid, 0)
        self.set(dut.grant.valid, 0)
        if visit.restarts and not visit.entered_at and self.cycle > visit.last_at + TRAVELS:
            self._restart(visit.communicator)
        elif visit.grants and (visit.entered_at or visit.early) and self.chance(0.5):
            visit.early = max(0, visit.early - 1)
            port, granted = visit.grants.pop(0)
            visit.last_at = self.cycle
            self.set(dut.grant.valid, 1)
            self.ctx.set(dut.grant.payload, {"port": port, "grant": {
                "communicator": visit.communicator, "sequence": visit.sequence, "phase": visit.phase,
                "granted": granted}})

    def _restart(self, communicator):
        ours = [fsm for fsm in range(TINY.fsms) if fsm // 2 == communicator]
        if any(self.visits[fsm].entered_at or self.cycle <= self.visits[fsm].last_at + TRAVELS for fsm in ours):
            return
        self.set(self.dut.restart.valid, 1)
        self.set(self.dut.restart.number, communicator)
        self.set(self.dut.restart.share, SHARES[communicator])
        for fsm in ours:
            self.visits[fsm] = Visit(self.rng, fsm)
        self.seen["restarts"] += 1

    def _enter(self, fsm):
        visit = self.visits[fsm]
        if visit.entered_at or visit.early or visit.restarts or self.ctx.get(self.dut.restart.valid):
            return None
        if not self.chance(0.5):
            return None
        visit.entered_at = self.cycle + 1
        self.set(self.dut.entered.fsm, fsm)
        self.set(self.dut.entered.port, visit.port)
        return fsm

    async def drain(self):
        """Nothing is left over between runs."""


def test_each_grant_once(seed):
    rng = random.Random(f"{seed} grants")

    async def body(bench):
        for _ in range(4000):
            await bench.step()

    dut = GrantStore(TINY)
    seen = run_bench(dut, lambda ctx: Bench(ctx, dut, rng), body)
    assert seen["phases"] > 400 and all(seen[name] > 20 for name in (
        "at the start", "inside", "back at the start", "back inside", "restarts")), seen
