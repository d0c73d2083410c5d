# SPDX-License-Identifier: Apache-2.0
"""Receive, its lanes and the SRAM together against a dictionary of the SRAM's contents.

A packet's range is read back as soon as ``landed`` reports the packet, a beat per cycle, as Transmit would read it.
"""

import os

import cocotb
import pytest

from hw.ace.receive import LANDED_EARLY, receive_latency
from hw.ace.sram import write_latency
from tests.ace.receive_bench import ReceiveBench
from tests.ace.receive_packets import Packet, combined
from tests.ace.receive_traffic import AHEAD, CONFIGS, ReceiveTraffic
from tests.ace.streams import run

pytestmark = pytest.mark.rtl

LATENCY = {"whole": 8, "quarters": 11, "ecp5": 10, "two": 8, "four": 8}
"""Cycles from a beat on a port to ``landed``."""
PACE = {"whole": 1, "quarters": 4, "ecp5": 1, "two": 1, "four": 1}
"""Cycles per beat that is reduced."""


FIRST = {"whole": ["random_packets", "loopback", "stopped_in_a_packet", "latency"],
         "four": ["random_packets", "loopback"]}
"""Tests by configuration that `make test` runs; all others of these, and other configurations, are long."""
REST = {"whole": ["full_rate", "slow_links"],
        "four": ["full_rate", "slow_links", "stopped_in_a_packet", "latency"]}


@pytest.mark.parametrize(("config", "tests"), [
    *FIRST.items(), *(pytest.param(name, REST.get(name), marks=pytest.mark.long) for name in CONFIGS)])
def test_receive(simulate, config, tests):
    assert receive_latency(CONFIGS[config]) == LATENCY[config] + LANDED_EARLY
    simulate(ReceiveBench(CONFIGS[config]), name="receive", env={"CONFIG": config}, testcase=tests)


@cocotb.test()
@cocotb.parametrize(stalls=["none", "mixed"])
async def random_packets(dut, stalls):
    bench = ReceiveTraffic(dut, stalls=stalls, conflicts=stalls != "none")
    await bench.start()
    rng = bench.rng
    for _ in range(60):
        for port in range(bench.config.ports + 1):
            for _ in range(rng.randint(0, 3)):
                rng.choices((bench.packet, bench.grant, bench.beyond, bench.stale_packet, bench.abort),
                            (12, 3, 1, 2, 1))[0](port)
        end = bench.cycle + rng.randint(1, 60)
        await run(dut, bench.actors, until=lambda end=end: bench.cycle >= end)
    await bench.finish()
    assert len(bench.landed) > 150 and bench.faults > 3 and bench.stale > 10 and sum(bench.reported.values()) > 30
    assert bench.late.total() > (20 if stalls != "none" else -1) if AHEAD[os.environ["CONFIG"]] else not bench.late
    reduced, copied = (sum(len(packet.payload) for _, packet in bench.landed if packet.reduce == reduce)
                       for reduce in (1, 0))
    assert bench.written == {"reduced": reduced, "copied": copied}


@cocotb.test()
@cocotb.parametrize(stalls=["none", "mixed"])
async def loopback(dut, stalls):
    """Packets of the loopback update the same beats one after the other, among packets of other ports."""
    bench = ReceiveTraffic(dut, stalls=stalls, conflicts=stalls != "none")
    await bench.start()
    rng, config, local = bench.rng, bench.config, bench.config.local_port
    bench.repeated = True
    key = rng.choice([key for key, destination in bench.chunks.items() if destination["fsm"] % (local + 1) == local])
    for beats in (1, 2, 3, config.packet_beats // 2, config.packet_beats):
        bench.busy.clear()
        range_ = {"beats": beats, "offset": rng.randint(0, config.chunk_beats - beats)}
        start, count = bench.cycle, len(bench.landed)
        for number in range(12):
            bench.post(local, Packet(rng, config, bench.header(key), bench.chunks[key], reduce=number > 0, **range_))
            if stalls != "none":
                bench.packet(rng.randrange(config.ports))
        await run(dut, bench.actors, until=lambda: not any(bench.coming))
        if stalls == "none":
            # As fast as the lanes allow, and not faster.
            pace = max(beats * PACE[os.environ["CONFIG"]], write_latency(config) + 1)
            cycles = [cycle for cycle, _ in bench.landed[count:]]
            assert cycles[-1] - cycles[0] <= 11 * (pace + PACE[os.environ["CONFIG"]]) and start < cycles[0]
    await bench.finish()


@cocotb.test()
async def stopped_in_a_packet(dut):
    """Beats of a packet that arrive after its communicator is closed have no effect, also after it is opened again."""
    bench = ReceiveTraffic(dut)
    await bench.start()
    bench.repeated, expected = True, {}
    for reduce in (0, 1):
        packet, source = bench.packet(0, beats=8, reduce=reduce), bench.ports[0]
        # The fifth beat is looked up.
        await run(dut, bench.actors, until=lambda source=source: len(source.items) == 3)
        for address, word in list(zip(packet.addresses, packet.payload, strict=True))[:4]:
            expected[address] = word if not reduce else combined(
                bench.config, packet.destination["arithmetic"], bench.contents[address], word)
        if reduce:
            bench.epochs = [(epoch + 1) % 16 for epoch in bench.epochs]
        else:
            bench.closed = (1 << bench.config.communicators) - 1
        untouched = {address: bench.contents[address] for address in packet.addresses[4:]}
        end = bench.cycle + 40
        await run(dut, bench.actors, until=lambda end=end: bench.cycle >= end)
        bench.contents |= expected | untouched
        if AHEAD[os.environ["CONFIG"]]:
            assert bench.arriving.pop(packet.destination["fsm"]) is packet
        else:
            bench.coming[packet.destination["fsm"]].pop()
        bench.closed = 1 << bench.config.communicators - 1
        bench.busy.clear()
    assert not bench.landed and sum(bench.written.values()) == 8
    bench.packet(1, beats=4)
    await bench.finish()
    assert len(bench.landed) == 1


@cocotb.test()
async def latency(dut):
    """Latency of a single packet."""
    bench = ReceiveTraffic(dut)
    await bench.start()
    for reduce in (0, 1):
        for beats in (1, 4):
            packet = bench.packet(beats, beats=beats, reduce=reduce)
            start = bench.cycle + 1
            await run(dut, bench.actors, until=lambda: not any(bench.coming) and not bench.arriving)
            pace = PACE[os.environ["CONFIG"]] if reduce else 1
            last = start + LATENCY[os.environ["CONFIG"]] + (beats - 1) * pace
            assert bench.landed[-1] == (last, packet)
            assert bench.begun == (last if not AHEAD[os.environ["CONFIG"]] else last - beats + 1)
    await bench.finish()


async def _rate(dut, bench, *, beats, reduce):
    """Beats written per cycle while packets wait at all pipes."""
    for _ in range(240 // beats + 30):
        for port in range(bench.config.ports):
            bench.packet(port, beats=beats, reduce=reduce)
    await run(dut, bench.actors, until=lambda: bench.written.total())
    cycle, written = bench.cycle, bench.written.total()
    pipes = [[bench.ports[port] for port in ports] for ports in bench.config.pipe_ports]
    await run(dut, bench.actors, until=lambda: not all(any(port.items for port in ports) for ports in pipes))
    rate = (bench.written.total() - written) / (bench.cycle - cycle)
    await bench.finish()
    bench.written.clear()
    return rate


@cocotb.test()
async def full_rate(dut):
    """Packets of any length follow each other without a gap."""
    pace = PACE[os.environ["CONFIG"]]
    bench = ReceiveTraffic(dut)
    await bench.start()
    for beats in (1, 3, 8):
        for reduce in (0, 1):
            rate = await _rate(dut, bench, beats=beats, reduce=reduce) / bench.config.pipes
            # Pipes that request the same bank wait for each other.
            least, most = 1 if bench.config.pipes == 1 else 0.8, 1 / (pace if reduce else 1)
            assert 0.98 * least * most < rate < 1.02 * most, (beats, reduce, rate)


@cocotb.test()
async def slow_links(dut):
    """Each port has a beat in one cycle of five: together they still fill the path to the SRAM."""
    bench = ReceiveTraffic(dut, stalls=0.8)
    await bench.start()
    assert await _rate(dut, bench, beats=8, reduce=0) > 0.85 * min(bench.config.pipes, bench.config.ports * 0.2)
