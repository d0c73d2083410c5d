# SPDX-License-Identifier: Apache-2.0
"""Isolation of registers and doorbells: each access has one response, from the subordinate or in its place."""

import random

import pytest
from amaranth.sim import Simulator

from hw.axi import AxiLiteSignature, AxiSignature, Resp
from hw.pcie.isolation import DoorbellIsolation, RegisterIsolation

CHANNELS = ("aw", "w", "ar", "b", "r")


def _moves(bus):
    return [getattr(bus, f"{name}valid") & getattr(bus, f"{name}ready") for name in CHANNELS]


def _subordinate(dut, rng):
    """Takes requests and responds late; while it is isolated it loses what it has taken."""
    part = dut.part

    async def run(ctx):
        taken = dict.fromkeys(CHANNELS[:3], 0)
        while True:
            for channel in taken:
                ctx.set(getattr(part, f"{channel}ready"), rng.random() < 0.5)
            for response, needed in (("b", ("aw", "w")), ("r", ("ar",))):
                valid = getattr(part, f"{response}valid")
                ctx.set(valid, all(taken[name] for name in needed) and (ctx.get(valid) or rng.random() < 0.3))
            last = part.wlast if hasattr(part, "wlast") else part.wvalid
            *_, isolated, last, aw, w, ar, b, r = await ctx.tick().sample(dut.isolate, last, *_moves(part))
            if isolated:
                assert not (aw or w or ar), "a request reaches a subordinate that is in reset"
                taken = dict.fromkeys(taken, 0)
            else:
                taken = {"aw": taken["aw"] + aw - b, "w": taken["w"] + (w & last) - b, "ar": taken["ar"] + ar - r}

    return run


@pytest.mark.parametrize("case", range(6))
def test_registers(case, seed):
    """A read and a write at a time, with a reset of the subordinate at a random moment of each pair."""
    dut = RegisterIsolation(AxiLiteSignature(addr_width=8, data_width=32))
    rng = random.Random(f"registers {seed} {case}")
    found = {Resp.OKAY: 0, Resp.SLVERR: 0}

    async def access(ctx):
        bus = dut.bus
        for _ in range(60):
            reset_at = rng.choice((None, *range(12)))
            waiting, responses = {"aw", "w", "ar"}, {"b", "r"}
            delays = {name: rng.randrange(4) for name in (*waiting, *responses)}
            cycle = 0
            while waiting or responses:
                if cycle == reset_at:
                    ctx.set(dut.isolate, 1)
                for name in ("aw", "w", "ar"):
                    ctx.set(getattr(bus, f"{name}valid"), name in waiting and cycle >= delays[name])
                for name in ("b", "r"):
                    ctx.set(getattr(bus, f"{name}ready"), name in responses and cycle >= delays[name])
                *_, isolated, bresp, rresp, aw, w, ar, b, r = await ctx.tick().sample(
                    dut.isolate, bus.bresp, bus.rresp, *_moves(bus))
                for name, moved in zip(CHANNELS, (aw, w, ar, b, r), strict=True):
                    if moved:
                        needed = {"b": {"aw", "w"}, "r": {"ar"}}.get(name, set())
                        assert not needed & waiting, f"{name} comes before its request"
                        (responses if name in "br" else waiting).remove(name)
                for moved, resp in ((b, bresp), (r, rresp)):
                    if moved:
                        found[Resp(resp)] += 1
                        assert Resp(resp) == (Resp.SLVERR if isolated else Resp.OKAY)
                cycle += 1
                assert cycle < 200, "an access has no response"
            for name in ("b", "r"):
                ctx.set(getattr(bus, f"{name}ready"), 0)
            await ctx.tick()
            ctx.set(dut.isolate, 0)
            await ctx.tick().repeat(rng.randint(1, 3))

    _simulate(dut, access, _subordinate(dut, rng))
    assert all(found.values()), found


@pytest.mark.parametrize("case", range(4))
def test_doorbells(case, seed):
    """Bursts in flight, and those that come during the reset, have one response each."""
    dut = DoorbellIsolation(AxiSignature(addr_width=14, data_width=128, id_width=2), bursts=15)
    rng = random.Random(f"doorbells {seed} {case}")
    found = {Resp.OKAY: 0, Resp.SLVERR: 0}

    async def write(ctx):
        bus = dut.bus
        ctx.set(bus.bready, 1)
        for _ in range(20):
            bursts, reset_at = rng.randint(1, 10), rng.choice((None, *range(30)))
            addresses = responses = cycle = 0
            beats = [last for _ in range(bursts) for last in (*(0 for _ in range(rng.randrange(3))), 1)]
            sent = 0
            while responses < bursts or sent < len(beats) or addresses < bursts:
                if cycle == reset_at:
                    ctx.set(dut.isolate, 1)
                ctx.set(bus.awvalid, addresses < bursts)
                # Data does not pass its address here.
                ctx.set(bus.wvalid, sent < len(beats) and sum(beats[:sent]) < addresses)
                ctx.set(bus.wlast, beats[sent] if sent < len(beats) else 0)
                *_, isolated, aw, w, b, resp = await ctx.tick().sample(
                    dut.isolate, bus.awvalid & bus.awready, bus.wvalid & bus.wready, bus.bvalid, bus.bresp)
                addresses, sent, responses = addresses + aw, sent + w, responses + b
                assert responses <= addresses
                if b:
                    found[Resp(resp)] += 1
                    assert Resp(resp) == (Resp.SLVERR if isolated else Resp.OKAY)
                cycle += 1
                assert cycle < 400, "a burst has no response"
            ctx.set(bus.awvalid, 0)
            ctx.set(bus.wvalid, 0)
            await ctx.tick().repeat(3)
            assert not ctx.get(bus.bvalid)
            ctx.set(dut.isolate, 0)
            await ctx.tick()

    _simulate(dut, write, _subordinate(dut, rng))
    assert all(found.values()), found


def _simulate(dut, testbench, background):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(background, background=True)
    simulator.run()
