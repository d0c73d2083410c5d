# SPDX-License-Identifier: Apache-2.0
"""Transmit against lists of each port's expected packets, with an SRAM of several cycles' latency and random stalls."""

import os
import random
from collections import deque
from dataclasses import replace

import cocotb
import pytest

from hw.ace.config import TINY
from hw.ace.layouts import PacketKind, RecordLayout, flit_layout, packet_layout, send_layout
from hw.ace.transmit import Transmit
from tests.ace.streams import Source, bits, random_fields, reset, run, unpack
from tests.ace.timing import ECP5, each_alone

pytestmark = pytest.mark.rtl

RECORD = (1 << RecordLayout.size) - 1

# Packets of 8, and of 32 beats.
CONFIGS = {"short": replace(TINY, packet_bytes=64), "long": TINY, "ecp5": ECP5,
           **each_alone(TINY, "registered_abort_requests", "speculative_port_credits")}


@pytest.mark.parametrize("config", [
    "short", *(pytest.param(name, marks=pytest.mark.long) for name in CONFIGS if name != "short")])
def test_transmit(simulate, config):
    simulate(Transmit(CONFIGS[config]), env={"CONFIG": config})


class _Memory:
    """Beats in a port's memory, those of them that were never sent, and when they are acknowledged, if at all."""

    def __init__(self, stalls, rng):
        self.level = self.fresh = 0
        self.stuck, self.silent, self.slow, self.rng = False, False, 0.4 if stalls == "mixed" else 0, rng
        self.sent = deque()

    def pass_on(self, cycle):
        while self.sent and self.sent[0] <= cycle and not self.silent:
            self.sent.popleft()
            self.level -= 1
        if self.fresh and not self.stuck and self.rng.random() >= self.slow:
            self.fresh -= 1
            self.sent.append(cycle + 20)


class _Bench:
    """Sends with their expected packets."""

    def __init__(self, dut, *, stalls="none", refuse=0.0, polite=True):
        self.dut, self.config = dut, CONFIGS[os.environ["CONFIG"]]
        self.transmit = Transmit(self.config)
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.memory = [self.rng.getrandbits(self.config.data_width) for _ in range(self.config.sram_beats)]
        self.refuse, self.polite, self.cycle = refuse, polite, 0
        self.stalling, self.held, self.waited = stalls != "none", 0, 0
        self.unknown = 0
        # ABORTs may precede the last packet.
        self.queue_beats = Transmit.AHEAD + self.config.packet_beats + 2 if polite else self.config.replay_beats
        self.sends = Source(dut, "sends", stalls=stalls, seed=cocotb.RANDOM_SEED, taken=self._send_taken)
        ports = range(self.config.ports + 1)
        self.memories = [_Memory(stalls, self.rng) for _ in ports]
        self.packets, self.waiting = [deque() for _ in ports], deque()
        self.responses, self.to_be_sent = {}, deque()
        self.log = []           # (cycle, what, port)
        self.beats, self.counted = [0 for _ in ports], [0 for _ in ports]
        self.begun = [None for _ in ports]
        self.telling, self.abort = 0, (0, 0, 0)     # ports and contents of the ABORT

    @property
    def actors(self):
        return [self.sends, self]

    def send(self, port=None, beats=None):
        config, rng = self.config, self.rng
        beats = beats or rng.choice((1, 1, 2, rng.randint(1, config.packet_beats)))
        header = random_fields(rng, packet_layout(config), kind=PacketKind.DATA, beats=beats - 1)
        slot, offset = rng.randrange(config.slots), rng.randint(0, config.chunk_beats - beats)
        self.waiting.append(random_fields(
            rng, send_layout(config), port=rng.randrange(config.ports + 1) if port is None else port,
            address=slot * config.chunk_beats + offset, header=header))

    async def finish(self):
        def done():
            return not (self.waiting or self.sends.items or any(self.packets) or any(self.begun) or self.to_be_sent)

        await run(self.dut, self.actors, until=done)
        end = self.cycle + 2
        await run(self.dut, self.actors, until=lambda: self.cycle == end)
        assert self.counted == self.beats

    # Actions in a cycle

    def drive(self):
        dut = self.dut
        for port, memory in enumerate(self.memories):
            memory.pass_on(self.cycle)
            getattr(dut, f"levels__{port}__level").value = memory.level
            getattr(dut, f"levels__{port}__fresh").value = memory.fresh
        dut.read__data.value = self.responses.pop(self.cycle + 1, 0)
        dut.abort__valid.value = self.telling
        dut.abort__communicator.value, dut.abort__epoch.value = self.abort[:2]
        dut.abort__record.value = self.abort[2]
        self.granting = self.rng.random() >= self.refuse
        dut.read__ready.value = int(self.granting)
        self.held = self.rng.getrandbits(self.config.fsms) & self.rng.getrandbits(self.config.fsms)
        self.held *= self.stalling
        dut.sends__paused.value = self.held

    def sample(self, cycle):
        self.cycle += 1
        dut = self.dut
        self.telling &= ~int(dut.abort__taken.value)
        if dut.sends__read.value:
            # Not before the last read, and in order.
            fsm, left = self.to_be_sent.popleft()
            assert (int(dut.sends__fsm.value), left) == (fsm, 0)
        if self.to_be_sent and self.held >> self.to_be_sent[0][0] & 1:
            assert not dut.read__valid.value, "The payload of an FSM is read that is held"
            self.waited += 1
        if self.granting and dut.read__valid.value:
            self.responses[self.cycle + self.config.sram_latency] = self.memory[int(dut.read__address.value)]
            self.to_be_sent[0][1] -= 1
        for port in range(self.config.ports + 1):
            if getattr(dut, f"ports__{port}__valid").value:
                self._beat(port, int(getattr(dut, f"ports__{port}__payload").value))
            self.counted[port] += int(dut.counts__sent_beats.value) >> port & 1
        # A send is chosen by the current credits, and offered in the next cycle. ``free`` does not yet include a send
        # that is taken now.
        if self.waiting and not self.sends.items:
            allowed = int(dut.sends__free.value) & ~self.unknown
            chosen = next((item for item in self.waiting if not self.polite or allowed >> item["port"] & 1), None)
            if chosen:
                self.waiting.remove(chosen)
                self.sends.items.append(bits(send_layout(self.config), chosen))
        self.unknown = 0

    def _send_taken(self, item, cycle):
        send = unpack(send_layout(self.config), item)
        self.unknown = 1 << send["port"]
        header = unpack(packet_layout(self.config), send["header"])
        words = self.memory[send["address"]:send["address"] + header["beats"] + 1]
        self.packets[send["port"]].append((send["header"], words))
        self.to_be_sent.append([send["fsm"], len(words)])
        self.log.append((self.cycle + 1, "send", send["port"]))

    def _beat(self, port, item):
        """A beat arrives at the port, which must have a free entry for it."""
        memory = self.memories[port]
        flit = unpack(flit_layout(self.config), item)
        header = unpack(packet_layout(self.config), flit["header"])
        memory.level, memory.fresh = memory.level + 1, memory.fresh + 1
        local = port == self.config.local_port
        assert memory.level <= (self.config.local_beats if local else self.config.replay_beats)
        assert local or memory.fresh <= self.queue_beats
        if self.begun[port] is None and flit["first"] and header["kind"] == PacketKind.ABORT.value:
            assert flit["last"] and int(self.dut.abort__taken.value) >> port & 1
            assert (header["communicator"], header["epoch"], flit["data"] & RECORD) == self.abort
            self.log.append((self.cycle, "abort", port))
            return
        assert not int(self.dut.abort__taken.value) >> port & 1
        if self.begun[port] is None:
            self.begun[port] = self.packets[port].popleft()
            assert flit["first"] and flit["header"] == self.begun[port][0]
        else:
            assert not flit["first"]
        words = self.begun[port][1]
        assert flit["data"] == words.pop(0)
        assert flit["last"] == (not words)
        if not words:
            self.begun[port] = None
        self.beats[port] += 1
        self.log.append((self.cycle, "beat", port))

    def cycles(self, what):
        return [cycle for cycle, kind, _ in self.log if kind == what]



async def _start(dut, **options):
    await reset(dut)
    return _Bench(dut, **options)


@cocotb.test()
@cocotb.parametrize(stalls=["none", "mixed"], polite=[True, False])
async def random_packets(dut, stalls, polite):
    """Also with a user that ignores ``free``: ports then block each other, and nothing is lost."""
    bench = await _start(dut, stalls=stalls, polite=polite, refuse=0.2)
    for _ in range(400):
        bench.send(None if polite or bench.rng.random() < 0.2 else 0)
    await bench.finish()
    assert len(bench.cycles("send")) == 400 and (bench.waited > 50) == (stalls != "none")


@cocotb.test()
async def aborts(dut):
    """One at each requested port, never within a packet, and soon, whatever the port's other traffic."""
    bench = await _start(dut)
    rng = bench.rng
    for count in range(20):
        for _ in range(40):
            bench.send(None if count % 2 else 3)
        await run(dut, bench.actors, until=lambda end=bench.cycle + 20: bench.cycle >= end)
        ports = rng.getrandbits(bench.config.ports) | 1 << 3
        bench.abort = rng.randrange(bench.config.communicators), rng.randrange(16), rng.getrandbits(RecordLayout.size)
        bench.telling, before = ports, len(bench.cycles("abort"))
        await run(dut, bench.actors, until=lambda: not bench.telling, limit=500)
        reported = [port for _, kind, port in bench.log if kind == "abort"][before:]
        assert sorted(reported) == [port for port in range(bench.config.ports) if ports >> port & 1]
    await bench.finish()
    assert len(bench.cycles("send")) == 800


@cocotb.test()
async def latency(dut):
    bench = await _start(dut)
    for beats in (1, 3):
        bench.send(beats=beats)
        await bench.finish()
        first = bench.cycles("send")[-1] + bench.transmit.latency
        assert bench.cycles("beat")[-beats:] == list(range(first, first + beats))


@cocotb.test()
async def full_rate(dut):
    """A beat per cycle, for packets of any length to any ports; but a user that observes ``free`` sends one packet per
    two cycles to a single port."""
    bench = await _start(dut)
    for ports, beats in ((range(6), 1), (range(6), 5), ((3,), 2), ((3,), 7), ((0, 5), 2), ((3,), 1)):
        bench.polite = beats > 1 or len(ports) > 1
        for number in range(60):
            bench.send(ports[number % len(ports)], beats)
        await bench.finish()
        cycles = bench.cycles("beat")[-60 * beats:]
        assert cycles[-1] - cycles[0] == 60 * beats - 1


@cocotb.test()
async def full_port(dut):
    """A port that sends nothing does not block the other ports."""
    bench = await _start(dut)
    bench.memories[2].stuck = True
    for _ in range(200):
        for port in range(bench.config.ports):
            bench.send(port, 1)
    others = 200 * (bench.config.ports - 1)
    await run(dut, bench.actors, until=lambda: len(bench.cycles("beat")) == others)
    cycles = bench.cycles("beat")
    assert cycles[-1] - cycles[0] < others + bench.queue_beats
    assert bench.memories[2].fresh == Transmit.AHEAD + 1
    bench.memories[2].stuck = False
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(polite=[True, False])
async def full_memory(dut, polite):
    """Without acknowledgements, packets go to a port while it has free entries for the longest; those of a user that
    observes ``free``, while it then has one more for an ABORT."""
    bench = await _start(dut, polite=polite)
    memory, replay_beats = bench.memories[1], bench.config.replay_beats
    memory.silent = True
    for _ in range(replay_beats):
        bench.send(1, 1)
    await run(dut, bench.actors, until=lambda end=bench.cycle + 4 * replay_beats: bench.cycle >= end)
    assert memory.level == replay_beats - bench.config.packet_beats + (-1 if polite else 1)
    memory.silent = False
    await bench.finish()
