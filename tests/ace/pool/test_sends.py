# SPDX-License-Identifier: Apache-2.0
"""The arbiter of the pool's packets alone: messages, ages, priorities, ports without credits, and the counts."""

from dataclasses import replace

import pytest

from hw.ace.config import TINY
from hw.ace.pool.sends import SendArbiter
from tests.harness.cell import run_cell

MESSAGE = TINY.message_packets
SETTLED = 3
"""Cycles from a packet or a priority to the registers that compare them."""


class Bench:
    """FSMs with packets for given ports; a packet is offered again as soon as it may be."""

    def __init__(self, ctx, dut):
        self.ctx, self.dut, self.sent = ctx, dut, []
        for o, ports in zip(dut.o, dut.config.pipe_ports, strict=True):
            ctx.set(o.free, sum(1 << port for port in ports))

    def priority(self, fsm, priority):
        """Set the priority of the FSM's communicator, whose number is that of the FSM."""
        self.ctx.set(self.dut.priorities[fsm], priority)
        self.ctx.set(self.dut.communicator_status.priorities[fsm % TINY.communicators], priority)

    async def start(self, *fsms):
        """The FSMs start with chunks, the oldest first."""
        for fsm in fsms:
            self.ctx.set(self.dut.starts[0].payload.communicator, fsm % TINY.communicators)
            self.ctx.set(self.dut.starts[fsm].valid, 1)
            await self.step()
            self.ctx.set(self.dut.starts[fsm].valid, 0)

    def offer(self, *fsms, port=0):
        for fsm in fsms:
            self.ctx.set(self.dut.offers[fsm].valid, 1)
            self.ctx.set(self.dut.offers[fsm].port, port)
            self.ctx.set(self.dut.offers[fsm].address, 16 * fsm)
            self.ctx.set(self.dut.offers[fsm].header.communicator, fsm % TINY.communicators)
            self.ctx.set(self.dut.states[fsm].wants, 1)

    def withdraw(self, fsm):
        self.ctx.set(self.dut.offers[fsm].valid, 0)
        self.ctx.set(self.dut.states[fsm].wants, 0)

    async def step(self, *, ready=1):
        ctx, dut = self.ctx, self.dut
        for o in dut.o:
            ctx.set(o.ready, ready)
        taken = [fsm for fsm, offer in enumerate(dut.offers) if ctx.get(offer.taken)]
        assert len(taken) <= len(dut.o) and all(ctx.get(dut.offers[fsm].valid) for fsm in taken)
        turns = 0
        for o, ports in zip(dut.o, dut.config.pipe_ports, strict=True):
            if ctx.get(o.valid) and ready:
                payload = ctx.get(o.payload)
                assert payload.address == 16 * payload.fsm
                assert payload.port == ctx.get(dut.offers[payload.fsm].port) and payload.port in ports
                turns |= 1 << payload.header.communicator
                self.sent.append(payload.fsm)
        assert ctx.get(dut.turns.sent) == turns
        await ctx.tick()

    async def packets(self, count):
        """FSMs of the next packets, in order."""
        start = len(self.sent)
        for _ in range(8 * count):
            if len(self.sent) - start >= count:
                break
            await self.step()
        return self.sent[start:start + count]


def run(body, config=TINY):
    dut = SendArbiter(config)

    async def testbench(ctx):
        await body(Bench(ctx, dut))

    run_cell(dut, testbench)


def test_a_message_is_not_interrupted():
    """The FSM of the previous packet is served until its message ends; the oldest chunk follows."""
    async def body(bench):
        await bench.start(1, 0)
        bench.offer(0)
        assert await bench.packets(1) == [0]
        bench.offer(1)
        assert await bench.packets(2 * MESSAGE - 1) == [0] * (MESSAGE - 1) + [1] * MESSAGE
        assert await bench.packets(MESSAGE) == [1] * MESSAGE        # still the oldest
        bench.withdraw(1)
        assert set((await bench.packets(3))[1:]) == {0}

    run(body)


@pytest.mark.parametrize("before", range(1, MESSAGE))
def test_each_message_is_counted_from_its_start(before):
    """The oldest chunk sends some packets and has none for a while; then another's message is not interrupted."""
    async def body(bench):
        await bench.start(0, 1)
        bench.offer(0)
        assert await bench.packets(before) == [0] * before
        bench.withdraw(0)
        for _ in range(SETTLED):
            await bench.step()
        first = bench.sent.count(0)
        bench.offer(1)
        assert await bench.packets(1) == [1]
        bench.offer(0)
        assert await bench.packets(MESSAGE) == [1] * (MESSAGE - 1) + [0]
        assert bench.sent.count(0) == first + 1

    run(body)


@pytest.mark.parametrize("sent", range(1, MESSAGE))
def test_a_higher_priority_interrupts_a_message(sent):
    async def body(bench):
        bench.priority(1, 2)
        await bench.start(0, 1)
        bench.offer(0)
        assert await bench.packets(sent) == [0] * sent
        bench.offer(1)
        found = await bench.packets(4)
        assert found[1:] == [1] * 3, found       # the packet that was taken before may still leave
        bench.withdraw(1)
        assert set((await bench.packets(3))[1:]) == {0}

    run(body)


@pytest.mark.parametrize("priorities, order", [
    ((0, 0, 0, 0), (2, 3, 1, 0)), ((3, 2, 1, 0), (0, 1, 2, 3)), ((0, 1, 0, 1), (3, 1, 2, 0)),
])
def test_the_oldest_of_the_highest_priority(priorities, order):
    """FSMs that start in the order 2, 3, 1, 0 have one packet each."""
    async def body(bench):
        for fsm, priority in enumerate(priorities):
            bench.priority(fsm, priority)
        await bench.start(2, 3, 1, 0)
        for port, fsm in enumerate(range(4)):
            bench.offer(fsm, port=port)
        found = []
        for _ in range(40):
            taken = [fsm for fsm, offer in enumerate(bench.dut.offers) if bench.ctx.get(offer.taken)]
            await bench.step()
            for fsm in taken:
                found.append(fsm)
                bench.withdraw(fsm)
        assert tuple(found) == order

    run(body)


def test_ports_and_stalls():
    """A port without a credit does not block another; a packet waits while the output stalls, and no other is taken."""
    async def body(bench):
        await bench.start(0, 1)
        bench.offer(0, port=0)
        bench.offer(1, port=1)
        bench.ctx.set(bench.dut.o[0].free, 0b10)
        assert await bench.packets(4) == [1] * 4
        bench.ctx.set(bench.dut.o[0].free, 0)
        for _ in range(SETTLED):
            await bench.step()
        sent = len(bench.sent)
        for _ in range(6):
            await bench.step()
        assert len(bench.sent) == sent
        bench.ctx.set(bench.dut.o[0].free, 0b11)
        for _ in range(6):
            await bench.step(ready=0)
            assert len(bench.sent) == sent
        assert not any(bench.ctx.get(offer.taken) for offer in bench.dut.offers)
        assert (await bench.packets(2))[0] == 0

    run(body)


def test_rate():
    """A packet per cycle; from one port, one per two cycles."""
    async def body(bench):
        await bench.start(0, 1)
        for ports, packets in (((0, 0), 10), ((0, 1), 20)):
            for fsm, port in enumerate(ports):
                bench.offer(fsm, port=port)
            for _ in range(SETTLED):
                await bench.step()
            before = len(bench.sent)
            for _ in range(20):
                await bench.step()
            assert len(bench.sent) - before == packets

    run(body)


def test_reads_and_counts():
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        await bench.start(0, 1)
        for fsm in range(TINY.fsms):
            ctx.set(dut.o[0].read, 1)
            ctx.set(dut.o[0].fsm, fsm)
            assert [ctx.get(offer.read) for offer in dut.offers] == [int(other == fsm) for other in range(TINY.fsms)]
        ctx.set(dut.o[0].read, 0)
        assert not any(ctx.get(offer.read) for offer in dut.offers)
        assert not ctx.get(dut.counts.starved_cycles)
        ctx.set(dut.states[1].wants, 1)
        assert ctx.get(dut.counts.starved_cycles)
        ctx.set(dut.states[1].communicator, 1)
        ctx.set(dut.offers[1].valid, 1)
        assert not ctx.get(dut.counts.starved_cycles)
        await ctx.tick()
        assert ctx.get(dut.turns.offering) == 1 << 1

    run(body)


def test_pipes():
    """Each pipe has its own message, and sends a packet per cycle of its own ports beside the other; the two read
    packets of different FSMs in the same cycle."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        await bench.start(0, 1, 2, 3)
        for fsm, port in enumerate((0, 2, 1, 3)):
            bench.offer(fsm, port=port)
        assert sorted(await bench.packets(8 * MESSAGE)) == sorted([0, 1, 2, 3] * 2 * MESSAGE)
        bench.withdraw(2)
        bench.withdraw(3)
        for _ in range(SETTLED):
            await bench.step()
        ctx.set(dut.o[0].free, 0)
        for _ in range(SETTLED):
            await bench.step()
        bench.sent.clear()
        bench.offer(2, port=1)
        assert await bench.packets(4) == [2] * 4        # the other pipe has no credit
        for fsms in ((0, 1), (2, 0), (3, 3)):
            for o, fsm in zip(dut.o, fsms, strict=True):
                ctx.set(o.read, 1)
                ctx.set(o.fsm, fsm)
            assert {fsm for fsm, offer in enumerate(dut.offers) if ctx.get(offer.read)} == set(fsms)

    run(body, replace(TINY, pipes=2))
