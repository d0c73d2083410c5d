# SPDX-License-Identifier: Apache-2.0
"""GRANTs and ABORTs of several pipes: those received are taken in turn, those to send go to the right port."""

from dataclasses import replace

import pytest
from amaranth.sim import Simulator

from hw.ace.config import TINY, AceConfig
from hw.ace.pipe_merge import PipeMerge
from hw.ace.pipe_split import PipeSplit
from tests.harness.cell import run_cell

FOUR = replace(TINY, pipes=4)


def test_ports_of_pipes():
    """Every port is in one pipe; those of dimension 0 share none with each other."""
    for pipes in (1, 2, 4):
        for dimensions in range(max(1, pipes // 2), 4):
            found = AceConfig(pipes=pipes, dimensions=dimensions).pipe_ports
            assert len(found) == pipes and all(found)
            # The loopback is in the last pipe.
            assert sorted(port for ports in found for port in ports) == list(range(2 * dimensions + 1))
            assert found[-1][-1] == 2 * dimensions
            assert pipes == 1 or not any({0, 1} <= set(ports) for ports in found)


@pytest.mark.parametrize(("pipes", "dimensions", "message"), [
    (3, 3, "pipes must be a power of two from 1 to 4, not 3"),
    (4, 1, "pipes must be at most two for each dimension, not 4 for 1"),
])
def test_wrong_numbers(pipes, dimensions, message):
    with pytest.raises(ValueError, match=message):
        AceConfig(pipes=pipes, dimensions=dimensions)


def test_merge_in_turn():
    """Each pipe's GRANTs and ABORTs arrive once and in order, and none waits for more than one of every other pipe."""
    dut = PipeMerge(FOUR)

    async def body(ctx):
        for kind, event, delay in (("grants", dut.grant, 0), ("aborts", dut.abort, 1)):
            pipes = getattr(dut, kind)

            def mark(pipe, number, kind=kind):
                return {"port": pipe, "grant": {"sequence": number}} if kind == "grants" else {
                    "communicator": pipe, "record": {"sequence": number}}

            left, waited, found, taken = [5, 3, 0, 4], [0] * 4, [], []
            for _ in range(40):
                for number, pipe in enumerate(pipes):
                    ctx.set(pipe.valid, left[number] > 0)
                    ctx.set(pipe.payload, mark(number, left[number]))
                ready = [ctx.get(pipe.valid) and ctx.get(pipe.ready) for pipe in pipes]
                assert sum(ready) == any(left)
                for number, one in enumerate(ready):
                    if one:
                        taken.append((number, left[number]))
                        left[number] -= 1
                        waited[number] = 0
                    elif left[number]:
                        waited[number] += 1
                        assert waited[number] < 4
                if not delay:
                    _see(ctx, event, found)
                await ctx.tick()
                if delay:
                    _see(ctx, event, found)
            assert found == taken and len(found) == 12

    run_cell(dut, body)


def _see(ctx, event, found):
    if ctx.get(event.valid):
        payload = ctx.get(event.payload)
        found.append((payload.port, payload.grant.sequence) if "port" in dict(event.payload.shape())
                     else (payload.communicator, payload.record.sequence))


def test_merge_adds():
    """Progress of any pipe, and the sum of their counts a cycle later."""
    dut = PipeMerge(FOUR)

    async def body(ctx):
        for pipe, (progress, count) in enumerate(zip(dut.progresses, dut.counts, strict=True)):
            ctx.set(progress.communicators, 1 << pipe)
            ctx.set(count.reduced_beats, 1)
            ctx.set(count.late_packets, pipe == 2)
        assert ctx.get(dut.progress.communicators) == 15
        await ctx.tick()
        assert (ctx.get(dut.total.reduced_beats), ctx.get(dut.total.late_packets), ctx.get(dut.total.bad_packets)) \
            == (4, 1, 0)

    run_cell(dut, body)


def test_split():
    """A GRANT is valid at its port alone, and ``ready`` is that of the port; an ABORT is valid at the ports of each
    pipe, which report it as taken."""
    dut = PipeSplit(FOUR)

    async def body(ctx):
        ctx.set(dut.signals.valid, 1)
        for number, port in enumerate(dut.port_signals):
            ctx.set(port.free, number % 2)
        assert ctx.get(dut.signals.free) == 0b101010
        for number in range(FOUR.ports):
            ctx.set(dut.signals.payload, {"port": number, "header": {"granted": 7 + number}})
            assert [ctx.get(port.valid) for port in dut.port_signals] == [
                int(other == number) for other in range(FOUR.ports)]
            assert ctx.get(dut.port_signals[number].payload.granted) == 7 + number
            assert not ctx.get(dut.signals.ready)
            ctx.set(dut.port_signals[number].ready, 1)
            assert ctx.get(dut.signals.ready)
            ctx.set(dut.port_signals[number].ready, 0)
        ctx.set(dut.abort.valid, 0b110101)
        ctx.set(dut.abort.epoch, 9)
        for abort, ports in zip(dut.aborts, FOUR.pipe_ports, strict=True):
            mask = sum(1 << port for port in ports if port != FOUR.local_port)
            assert ctx.get(abort.valid) == 0b110101 & mask and ctx.get(abort.epoch) == 9
            ctx.set(abort.taken, -1)
            assert ctx.get(dut.abort.taken) == mask
            ctx.set(abort.taken, 0)

    simulator = Simulator(dut)
    simulator.add_testbench(body)
    simulator.run()
