# SPDX-License-Identifier: Apache-2.0
import random
from itertools import pairwise

import pytest
from amaranth.hdl import signed
from amaranth.lib import data
from amaranth.sim import Simulator

from hw.stream import Demux, Fork, Join, Merge
from tests.stream.bench import exercise

STALLS = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.6)]


def payloads(transfers):
    return [payload for _, payload in transfers]


def cycles(transfers):
    return [cycle for cycle, _ in transfers]


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_fork(n, stalls):
    items = list(range(1, 80))
    dut = Fork(8, n)
    sent, *got = exercise(dut, [(dut.i, items)], [*dut.o], expect=n * len(items), stalls=stalls)
    assert payloads(sent) == items
    for branch in got:
        assert payloads(branch) == items
        if stalls == (0.0, 0.0):
            assert cycles(branch) == cycles(sent) == list(range(len(items)))


def test_fork_outputs_accept_independently():
    """A stalled output does not delay the current item at other outputs, only the next one."""
    dut = Fork(8, 2)
    sent, *got = exercise(dut, [(dut.i, range(60))], [*dut.o], expect=120, stalls=(0.0, 0.5))
    assert cycles(got[0]) != cycles(got[1])
    assert cycles(sent) == [max(pair) for pair in zip(cycles(got[0]), cycles(got[1]), strict=True)]


@pytest.mark.parametrize("stalls", STALLS)
def test_join(stalls):
    shapes = {"address": 12, "delta": signed(5)}
    dut = Join(shapes)
    addresses = list(range(100, 160))
    deltas = [n % 31 - 15 for n in range(60)]
    *_, got = exercise(
        dut, [(dut.i_address, addresses), (dut.i_delta, deltas)], [dut.o], expect=60, stalls=stalls)
    layout = data.StructLayout(shapes)
    assert dut.shape == layout
    assert payloads(got) == [layout.const({"address": address, "delta": delta})
                             for address, delta in zip(addresses, deltas, strict=True)]
    if stalls == (0.0, 0.0):
        assert cycles(got) == list(range(60))


@pytest.mark.parametrize("stalls", [*STALLS, (0.9, 0.6)])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("registered", [False, True])
def test_merge(n, stalls, registered):
    dut = Merge(12, n, registered_choice=registered)
    sources = [(i, [index << 8 | number for number in range(40)]) for index, i in enumerate(dut.i)]
    *_, got = exercise(dut, sources, [dut.o], expect=40 * n, stalls=stalls)
    assert len(got) == 40 * n
    for index, (_, items) in enumerate(sources):
        assert [payload for payload in payloads(got) if payload >> 8 == index] == items
    if stalls == (0.0, 0.0):
        # All inputs always have an item: strict round robin, one item per cycle.
        assert [payload >> 8 for payload in payloads(got)] == [*range(n)] * 40
        assert cycles(got) == list(range(40 * n))


@pytest.mark.parametrize("registered", [False, True])
def test_merge_wait_is_bounded(registered):
    """An input waits for at most one item of each other input."""
    n = 4
    dut = Merge(12, n, registered_choice=registered)
    sources = [(i, [index << 8 | number for number in range(50)]) for index, i in enumerate(dut.i)]
    *_, got = exercise(dut, sources, [dut.o], expect=50 * n, stalls=(0.0, 0.5))
    order = [payload >> 8 for payload in payloads(got)]
    for index in range(n):
        places = [place for place, source in enumerate(order) if source == index]
        assert max(b - a for a, b in pairwise(places)) <= n


def test_merge_holds_a_stalled_choice():
    dut = Merge(8, 3)

    async def testbench(ctx):
        ctx.set(dut.i[1].payload, 0x11)
        ctx.set(dut.i[1].valid, 1)
        await ctx.tick()
        # Input 0 precedes input 1 in the round, but arrives later.
        ctx.set(dut.i[0].payload, 0x10)
        ctx.set(dut.i[0].valid, 1)
        for _ in range(3):
            assert ctx.get(dut.o.payload) == 0x11
            assert ctx.get(dut.source) == 1
            await ctx.tick()
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.source) == 1
        assert ctx.get(dut.i[1].ready)
        assert not ctx.get(dut.i[0].ready)
        await ctx.tick()
        ctx.set(dut.i[1].valid, 0)
        assert ctx.get(dut.source) == 0

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


def test_registered_merge_chooses_a_cycle_before():
    """A lone input waits for a cycle, unless it had the previous grant; a stalled grant is held."""
    dut = Merge(8, 3, registered_choice=True)

    async def testbench(ctx):
        for index, i in enumerate(dut.i):
            ctx.set(i.payload, 0x10 + index)
        ctx.set(dut.i[0].valid, 1)
        assert (ctx.get(dut.o.valid), ctx.get(dut.o.payload), ctx.get(dut.source)) == (1, 0x10, 0)
        ctx.set(dut.i[2].valid, 1)
        await ctx.tick().repeat(3)
        assert (ctx.get(dut.o.payload), ctx.get(dut.i[0].ready), ctx.get(dut.i[2].ready)) == (0x10, 0, 0)
        ctx.set(dut.o.ready, 1)
        assert (ctx.get(dut.i[0].ready), ctx.get(dut.i[2].ready)) == (1, 0)
        await ctx.tick()
        ctx.set(dut.i[0].valid, 0)
        assert (ctx.get(dut.o.valid), ctx.get(dut.o.payload), ctx.get(dut.source)) == (1, 0x12, 2)
        await ctx.tick()
        assert (ctx.get(dut.o.valid), ctx.get(dut.source)) == (1, 2)
        ctx.set(dut.i[2].valid, 0)
        ctx.set(dut.i[1].valid, 1)
        assert not ctx.get(dut.o.valid)
        await ctx.tick()
        assert (ctx.get(dut.o.valid), ctx.get(dut.o.payload), ctx.get(dut.source)) == (1, 0x11, 1)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


def test_merge_struct_payload():
    shape = data.StructLayout({"tag": 3, "offset": signed(6)})
    dut = Merge(shape, 2)
    items = [[shape.const({"tag": index, "offset": -n}) for n in range(20)] for index in range(2)]
    *_, got = exercise(dut, list(zip(dut.i, items, strict=True)), [dut.o], expect=40, stalls=(0.4, 0.4))
    for index in range(2):
        assert [payload for payload in payloads(got) if payload.tag == index] == items[index]


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_demux(n, stalls):
    shape = data.StructLayout({"to": 2, "value": 8})
    rng = random.Random(n)
    items = [shape.const({"to": rng.randrange(4), "value": number}) for number in range(80)]
    dut = Demux(shape, n, select=lambda payload: payload.to)
    sent, *got = exercise(dut, [(dut.i, items)], [*dut.o], expect=len(items), stalls=stalls)
    assert payloads(sent) == items
    for index, branch in enumerate(got):
        assert payloads(branch) == [item for item in items if min(item.to, n - 1) == index]
    if stalls == (0.0, 0.0):
        assert cycles(sent) == list(range(len(items)))


@pytest.mark.parametrize("n", [0, -1, 2.0])
def test_wrong_routes(n):
    with pytest.raises(ValueError, match=rf"^Fork number of outputs must be a positive integer, not {n!r}$"):
        Fork(8, n)
    with pytest.raises(ValueError, match=rf"^Merge number of inputs must be a positive integer, not {n!r}$"):
        Merge(8, n)
    with pytest.raises(ValueError, match=rf"^Demux number of outputs must be a positive integer, not {n!r}$"):
        Demux(8, n, select=lambda payload: payload)


def test_select_wrong():
    with pytest.raises(ValueError, match=r"^Demux select must be a function of the payload, not 'to'$"):
        Demux(8, 2, select="to")


@pytest.mark.parametrize("shapes, text", [({}, r"\{\}"), ([8, 8], r"\[8, 8\]")])
def test_shapes_wrong(shapes, text):
    message = rf"^Join shapes must be a mapping of at least one name to a shape, not {text}$"
    with pytest.raises(ValueError, match=message):
        Join(shapes)
