# SPDX-License-Identifier: Apache-2.0
"""The DMA engine's bursts reach local memory, neighbours, counters or remote machines by their addresses."""

import random

import pytest
from amaranth.sim import Simulator

from hw.endpoint.config import TINY, remote_address
from hw.endpoint.remote import RemoteSplit
from hw.endpoint.remote_reads import ReadSplit
from hw.rdma.config import TINY as RDMA
from hw.rdma.config import remote_memory
from hw.triggers.config import counter_address
from tests.harness.cell import run_cell

CONFIG = TINY.with_rdma(RDMA)
TARGETS = {
    "local": lambda rng: rng.getrandbits(63), "remote": lambda rng: remote_address(rng.randrange(6), 3, 0x1234),
    "counters": lambda rng: counter_address(rng.randrange(2)),
    "network": lambda rng: remote_memory(rng.randrange(16), rng.getrandbits(48)),
}


@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_writes(stalls, seed):
    """Each burst is whole at its target, in order; a response of each target returns."""
    rng, dut = random.Random(seed), RemoteSplit(CONFIG)
    bursts = [(target, TARGETS[target](rng), rng.randint(1, 3)) for target in rng.choices(list(TARGETS), k=80)]
    beats = [(target, address if not beat else rng.getrandbits(64), beat == 0, beat == count - 1)
             for target, address, count in bursts for beat in range(count)]
    got = {target: [] for target in TARGETS}

    async def send(ctx):
        for _, address, first, last in beats:
            while rng.random() < stalls:
                await ctx.tick()
            for name, value in (("addr", address), ("first", first), ("last", last)):
                ctx.set(dut.i.payload[name], value)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def receive(ctx):
        while sum(map(len, got.values())) < len(beats):
            ports = {target: getattr(dut, target) for target in TARGETS}
            for port in ports.values():
                ctx.set(port.ready, rng.random() >= stalls)
            taken = [target for target, port in ports.items() if ctx.get(port.valid) and ctx.get(port.ready)]
            assert len(taken) <= 1
            for target in taken:
                payload = ports[target].payload
                got[target].append((target, ctx.get(payload.addr), ctx.get(payload.first), ctx.get(payload.last)))
            await ctx.tick()

    run_cell(dut, send, receive)
    for target, mine in got.items():
        assert mine == [beat for beat in beats if beat[0] == target]


def test_write_responses():
    dut, got = RemoteSplit(CONFIG), []

    async def bench(ctx):
        results = dut.local_responses, dut.remote_responses, dut.counter_responses, dut.network_responses
        ctx.set(dut.responses.ready, 1)
        for number, result in enumerate(results):
            ctx.set(result.payload.id, number)
            ctx.set(result.valid, 1)
        for _ in range(4):
            ready = [ctx.get(result.ready) for result in results]
            if ctx.get(dut.responses.valid):
                got.append(ctx.get(dut.responses.payload.id))
            await ctx.tick()
            for result, taken in zip(results, ready, strict=True):
                if taken:
                    ctx.set(result.valid, 0)

    run_cell(dut, bench)
    assert sorted(got) == [0, 1, 2, 3]


def test_reads():
    """A beat of local memory is taken in its cycle; one of a remote machine waits for it."""
    rng, dut = random.Random(1), ReadSplit(CONFIG)

    async def bench(ctx):
        for target in rng.choices(["local", "network"], k=30):
            ctx.set(dut.reads.valid, 1)
            ctx.set(dut.reads.payload.addr, TARGETS[target](rng))
            ready = {each: rng.random() < 0.5 for each in ("local", "network")}
            for each, value in ready.items():
                ctx.set(getattr(dut, each).ready, value)
            assert [ctx.get(getattr(dut, each).valid) for each in ready] == [each == target for each in ready]
            assert ctx.get(dut.reads.ready) == ready[target]
            assert ctx.get(getattr(dut, target).payload.addr) == ctx.get(dut.reads.payload.addr)
        ctx.set(dut.beats.ready, 1)
        for local, network in ((0, 0), (0, 1), (1, 0), (1, 1)):
            for port, valid, number in ((dut.local_beats, local, 1), (dut.network_beats, network, 2)):
                ctx.set(port.valid, valid)
                ctx.set(port.payload.data, number)
            assert ctx.get(dut.beats.valid) == (local or network)
            if local or network:
                assert ctx.get(dut.beats.payload.data) == (1 if local else 2)
            assert ctx.get(dut.network_beats.ready) == (not local)
        ctx.set(dut.beats.ready, 0)
        ctx.set(dut.local_beats.valid, 0)
        assert not ctx.get(dut.network_beats.ready)

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()


def test_without_a_unit_the_address_is_that_of_a_neighbour():
    dut = RemoteSplit(TINY)

    async def bench(ctx):
        ctx.set(dut.i.payload.addr, remote_memory(1))
        ctx.set(dut.i.payload.first, 1)
        ctx.set(dut.i.valid, 1)
        assert ctx.get(dut.remote.valid) and not ctx.get(dut.local.valid) and not ctx.get(dut.counters.valid)

    run_cell(dut, bench)
