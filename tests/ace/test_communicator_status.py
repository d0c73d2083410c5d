# SPDX-License-Identifier: Apache-2.0
"""CommunicatorStatus and Faults together: the causes that end a communicator, its record and ABORTs, and when it may be
opened."""

import random

import pytest
from amaranth import *
from amaranth.lib import wiring

from hw.ace.communicator_status import CommunicatorStatus
from hw.ace.config import TINY
from hw.ace.faults import Faults
from hw.ace.words import CommunicatorState, Status
from hw.common.wiring import Wiring
from tests.harness.cell import run_cell

CONFIG = TINY
COMMUNICATORS, PORTS = CONFIG.communicators, CONFIG.ports
STATE = CommunicatorState
SETTLE = 24


class _Pair(wiring.Component):
    """Supervision without the watchdog."""

    def __init__(self):
        names = ("down", "unread", "unwritten", "revoke", "timed_out", "aborts", "abort", "fsm", "shown", "record")
        faults = Faults(CONFIG).signature.members
        communicator_status = CommunicatorStatus(CONFIG, settle=SETTLE).signature.members
        super().__init__({name: faults[name] for name in (*names, "init", "write", "work")} | {
            name: communicator_status[name] for name in ("operations", "cutting", "decoding", "communicator_status")})
        self.names = names

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(communicator_status=CommunicatorStatus(CONFIG, settle=SETTLE), faults=Faults(CONFIG))
        wires.broadcast("self.write", "communicator_status.write", "faults.write")
        wires.broadcast("communicator_status.communicator_status", "faults.communicator_status",
                        "self.communicator_status")
        wires.connect("faults.end", "communicator_status.end")
        wires.connect("faults.reporting", "communicator_status.reporting")
        for name in ("operations", "cutting", "decoding"):
            wires.connect(f"self.{name}", f"communicator_status.{name}")
        for name in (*self.names, "init", "work"):
            wires.connect(f"self.{name}", f"faults.{name}")
        wires.finish()
        return m


class _Bench:
    """Communicator n has ports ``PORTS_OF[n]`` and rank 10 + n; ``fsms`` gives the states of FSMs."""

    PORTS_OF = (0b000011, 0b001100, 0b111111, 0b110011)

    def __init__(self, ctx, dut, rng, fsms=()):
        self.ctx, self.dut, self.rng, self.fsms = ctx, dut, rng, fsms
        self.reported = []          # (communicator, epoch, port, record)
        self.slow = False

    async def tick(self, count=1):
        for _ in range(count):
            ctx, dut = self.ctx, self.dut
            ready = self.rng.getrandbits(PORTS) if self.slow else -1
            valid = ctx.get(dut.abort.valid)
            ctx.set(dut.abort.taken, ready & valid)
            for port in range(PORTS):
                if ready & valid & 1 << port:
                    record = ctx.get(dut.abort.record)
                    self.reported.append((ctx.get(dut.abort.communicator), ctx.get(dut.abort.epoch), port,
                                          tuple(record[name] for name in RECORD)))
            select = ctx.get(dut.fsm.fsm)
            ctx.set(dut.fsm.state, self.fsms[select] if select < len(self.fsms) else {"busy": 0})
            await ctx.tick()

    async def open(self, number, epoch=0):
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.write.valid, 1)
        ctx.set(dut.write.number, number)
        ctx.set(dut.write.mode, {"valid": 1, "epoch": epoch, "ports": self.PORTS_OF[number], "rank": 10 + number})
        await self.tick()
        ctx.set(dut.write.valid, 0)

    async def pulse(self, part, **payload):
        self.ctx.set(part.valid, 1)
        self.ctx.set(part.payload, payload)
        await self.tick()
        self.ctx.set(part.valid, 0)

    def states(self):
        states = self.ctx.get(self.dut.communicator_status.states)
        return [STATE(states[number]) for number in range(COMMUNICATORS)]

    async def until(self, number, state, limit=1000):
        for _ in range(limit):
            if self.states()[number] == state:
                return
            await self.tick()
        raise AssertionError(f"{number} is {self.states()[number]}, not {state}")

    def record(self, number):
        self.ctx.set(self.dut.record.communicator, number)
        record = self.ctx.get(self.dut.record.record)
        return tuple(record[name] for name in RECORD)


RECORD = ("status", "rank", "port", "phase", "named", "step", "sequence")


def _run(body, fsms=(), seed=0):
    dut = _Pair()

    async def live(ctx):
        bench = _Bench(ctx, dut, random.Random(seed), fsms)
        for number in range(COMMUNICATORS):
            await bench.open(number, epoch=number + 1)
        await body(bench)

    run_cell(dut, live)


def _fsm(communicator, sequence, *, port=0, phase=1, sent=7):
    return {"busy": 1, "communicator": communicator, "sequence": sequence, "port": port, "phase": phase, "sent": sent}


FSMS = [_fsm(2, 0x0003, port=2), _fsm(2, 0x0001, port=3, sent=1), _fsm(0, 5), _fsm(2, 0xFFFE, port=4, phase=2, sent=9)]
"""The oldest chunk of communicator 2 is 0xFFFE; the oldest that uses a port of dimension 1 is 1."""


@pytest.mark.parametrize("cause", ["unread", "unwritten", "down", "revoke", "timed_out", "abort"])
def test_causes(cause):
    """The record names the cause and the chunk; all ports of the communicator send it, and no other communicator
    ends."""
    record = {
        "unread": (Status.READ_ERROR, 12, 0, 0, 1, 0, 0x1234),
        "unwritten": (Status.WRITE_ERROR, 12, 0, 0, 1, 0, 0x1234),
        "down": (Status.LINK_DOWN, 12, 2, 1, 1, 1, 1), "revoke": (Status.REVOKED, 12, 0, 2, 1, 9, 0xFFFE),
        "timed_out": (Status.TIMEOUT, 12, 0, 2, 1, 9, 0xFFFE), "abort": (Status.TIMEOUT, 77, 3, 2, 1, 100, 999),
    }[cause]

    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        bench.slow = True
        ctx.set(dut.operations.communicators, 0b0100)
        ctx.set(dut.work.communicators, 0b0100)
        if cause in ("unread", "unwritten"):
            await bench.pulse(getattr(dut, cause), communicator=2, sequence=0x1234)
            await bench.pulse(getattr(dut, cause), communicator=2, sequence=0x9999)
        elif cause == "abort":
            await bench.pulse(dut.aborts, communicator=2, record=dict(zip(RECORD, record, strict=True)))
        elif cause == "revoke":
            ctx.set(dut.revoke.payload, 2)
            ctx.set(dut.revoke.valid, 1)
            await bench.tick()
            ctx.set(dut.revoke.valid, 0)
        elif cause == "down":
            ctx.set(dut.down, 0b000100)
        else:
            ctx.set(dut.timed_out.communicators, 0b0100)
        await bench.until(2, STATE.ENDING, limit=60)
        await bench.tick(3 * SETTLE)
        assert bench.states() == [STATE.OPEN, STATE.OPEN, STATE.ENDING, STATE.OPEN]
        assert bench.record(2) == record
        # Later causes have no effect.
        await bench.pulse(dut.aborts, communicator=2, record={"status": Status.REVOKED})
        await bench.pulse(dut.unread, communicator=2, sequence=1)
        ctx.set(dut.operations.communicators, 0)
        await bench.until(2, STATE.REVOKED, limit=3)
        assert bench.record(2) == record
        ports = [port for port in range(PORTS) if cause != "down" or port != 2]
        assert sorted(bench.reported) == [(2, 3, port, record) for port in ports]
        # It opens again, and no earlier cause remains.
        ctx.set(dut.down, 0)
        ctx.set(dut.timed_out.communicators, 0)
        await bench.open(2, epoch=4)
        await bench.tick(200)
        assert bench.states() == [STATE.OPEN] * 4

    _run(body, fsms=FSMS)


def test_opened_at_any_moment():
    """An earlier cause does not end a communicator that is opened again, whatever was polled in that cycle."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        for wait in range(20):
            ctx.set(dut.revoke.valid, 1)
            await bench.tick()
            ctx.set(dut.revoke.valid, 0)
            await bench.until(0, STATE.REVOKED)
            await bench.tick(wait)
            await bench.open(0)
            await bench.tick(40)
            assert bench.states()[0] == STATE.OPEN, wait

    _run(body, fsms=FSMS)


def test_settles_first():
    """No communicator is REVOKED before all pipelines are empty, even if none of its work is visible."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        for epoch in range(SETTLE):
            await bench.open(1, epoch=epoch)
            await bench.tick(1 + epoch % 7)
            await bench.pulse(dut.aborts, communicator=1, record={"status": Status.REVOKED})
            for _ in range(SETTLE):
                assert bench.states()[1] == STATE.ENDING
                await bench.tick()
            await bench.until(1, STATE.REVOKED, limit=2 * SETTLE)
        # A link that is down ends only communicators with work.
        ctx.set(dut.down, -1)
        ctx.set(dut.work.communicators, 0b1000)
        await bench.until(3, STATE.ENDING)
        await bench.tick(100)
        assert bench.states()[0] == bench.states()[2] == STATE.OPEN
        assert bench.record(3)[:3] == (Status.LINK_DOWN, 13, 0) and not bench.record(3)[4]

    _run(body)


@pytest.mark.parametrize("seed", range(3))
def test_many_at_a_time(seed):
    """Each communicator ends once, with one of its causes, and sends the same record once at each of its ports."""
    async def body(bench):
        ctx, dut, rng = bench.ctx, bench.dut, bench.rng
        bench.slow = True
        causes = {number: set() for number in range(COMMUNICATORS)}
        ended = {}
        for _ in range(60):
            number = rng.randrange(COMMUNICATORS)
            kind = rng.choice(("unread", "unwritten", "abort", "revoke"))
            if kind == "revoke":
                causes[number].add((Status.REVOKED, 10 + number))
                ctx.set(dut.revoke.payload, number)
                ctx.set(dut.revoke.valid, 1)
                await bench.tick()
                ctx.set(dut.revoke.valid, 0)
            elif kind == "abort":
                causes[number].add((Status.LINK_DOWN, rank := rng.randrange(100)))
                await bench.pulse(dut.aborts, communicator=number, record={"status": Status.LINK_DOWN, "rank": rank})
            else:
                status = Status.READ_ERROR if kind == "unread" else Status.WRITE_ERROR
                causes[number].add((status, 10 + number))
                await bench.pulse(getattr(dut, kind), communicator=number, sequence=rng.getrandbits(16))
            for other, state in enumerate(bench.states()):
                if state == STATE.ENDING:
                    assert ended.setdefault(other, bench.record(other)) == bench.record(other)
            await bench.tick(rng.choice((0, 0, 1, 5)))
        for number in range(COMMUNICATORS):
            if causes[number]:
                await bench.until(number, STATE.REVOKED, limit=2000)
                assert bench.record(number)[:2] in causes[number]
        assert sorted((number, port) for number, _, port, _ in bench.reported) == [
            (number, port) for number in causes if causes[number] for port in range(PORTS)
            if bench.PORTS_OF[number] >> port & 1]
        assert all(record == bench.record(number) for number, _, _, record in bench.reported)

    _run(body, seed=seed)


def test_software_sees_each_fsm():
    async def body(bench):
        for number, fsm in enumerate(FSMS):
            bench.ctx.set(bench.dut.shown.fsm, number)
            await bench.tick(3)
            for _ in range(4):
                assert bench.ctx.get(bench.dut.shown.state).sequence == fsm["sequence"]
                await bench.tick()

    _run(body, fsms=FSMS)
