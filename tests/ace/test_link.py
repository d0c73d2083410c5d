# amaranth: UnusedElaboratable=no
"""Two link ports at the ends of a link with latency: every packet comes out, whole, in order, and never too many."""

import os
import random
from collections import deque
from dataclasses import replace

import cocotb
import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.config import TINY
from hw.ace.layouts import PacketKind, flit_layout, link_layout, packet_layout
from hw.ace.link import PATIENCE, LinkPort
from tests.ace.streams import Sink, Source, bits, random_fields, reset, run, unpack

pytestmark = pytest.mark.rtl

# Buffers of 128 beats in block RAM, and of two packets, the least that may be, in LUT RAM.
CONFIGS = {"long": TINY, "short": replace(TINY, packet_bytes=64, link_beats=16)}
LATENCY = {"long": 3, "short": 2}
"""Cycles from ``i`` of one port to ``o`` of the other, over a link that takes none; that of the test takes 1."""


class LinkPair(wiring.Component):
    """Two ports; what is between them is the test's."""

    def __init__(self, config):
        self.config = config
        flits, link = stream.Signature(flit_layout(config)), stream.Signature(link_layout(config))
        super().__init__({"i": In(flits).array(2), "o": Out(flits).array(2), "tx": Out(link).array(2),
                          "rx": In(link).array(2)})

    def elaborate(self, platform):
        m = Module()
        for number in range(2):
            m.submodules[f"port_{number}"] = port = LinkPort(self.config)
            connect(m, flipped(self.i[number]), port.i)
            connect(m, port.o, flipped(self.o[number]))
            connect(m, port.tx, flipped(self.tx[number]))
            connect(m, flipped(self.rx[number]), port.rx)
        return m


@pytest.mark.parametrize("config", CONFIGS)
def test_link(simulate, config):
    simulate(LinkPair(CONFIGS[config]), env={"CONFIG": config})


class _Way:
    """From one port to the other: source, link, sink. A CREDIT packet may come twice."""

    def __init__(self, dut, start, *, latency, stalls, repeat):
        end = 1 - start
        self.config, self.latency, self.repeat = CONFIGS[os.environ["CONFIG"]], latency, repeat
        self.rng = random.Random(f"{start} {cocotb.RANDOM_SEED}")
        options = {"stalls": stalls, "seed": cocotb.RANDOM_SEED}
        self.source = Source(dut, f"i__{start}", taken=self._taken, **options)
        self.tx = Sink(dut, f"tx__{start}", self._sent, **options)
        self.rx_valid, self.rx = getattr(dut, f"rx__{end}__valid"), getattr(dut, f"rx__{end}__payload")
        self.rx_ready = getattr(dut, f"rx__{end}__ready")
        self.sink = Sink(dut, f"o__{end}", self._got, **options)
        self.cycle, self.link, self.expected = 0, deque(), deque()
        self.held = self.most = self.credits = 0
        self.inside = False
        self.taken, self.got, self.told = [], [], []

    @property
    def actors(self):
        return [self.source, self.tx, self.sink, self]

    def packet(self, beats=None, kind=PacketKind.DATA):
        config, rng = self.config, self.rng
        beats = beats or rng.choice((1, 1, 2, config.packet_beats, rng.randint(1, config.packet_beats)))
        for number in range(beats):
            # Of later beats the header is noise, and may look like that of a CREDIT packet.
            header = random_fields(rng, packet_layout(config),
                                   kind=rng.choice(list(PacketKind)) if number else kind)
            flit = bits(flit_layout(config), {"data": rng.getrandbits(config.data_width), "header": header,
                                              "first": number == 0, "last": number == beats - 1})
            self.source.items.append(flit)
            self.expected.append(flit)

    # What is done in a cycle

    def drive(self):
        now = self.link.popleft()[1] if self.link and self.link[0][0] <= self.cycle + 1 else None
        self.rx_valid.value = int(now is not None)
        if now is not None:
            self.rx.value = now

    def sample(self, cycle):
        self.cycle += 1
        assert self.rx_ready.value

    def _taken(self, item, cycle):
        self.taken.append(cycle)

    def _sent(self, item, cycle):
        beat = unpack(link_layout(self.config), item)
        flit = unpack(flit_layout(self.config), beat["flit"])
        credit = flit["first"] and unpack(packet_layout(self.config), flit["header"])["kind"] == 0
        assert flit["first"] != self.inside
        self.inside = not flit["last"]
        if flit["first"]:
            self.told.append((self.cycle + 1, beat["credit"]))
        if credit:
            self.credits += 1
        else:
            self.held += 1
            self.most = max(self.most, self.held)
            assert self.held <= self.config.link_beats
        for _ in range(1 + (credit and self.rng.random() < self.repeat)):
            due = self.cycle + self.latency + 1
            self.link.append((max(due, self.link[-1][0] + 1) if self.link else due, item))

    def _got(self, item, cycle):
        assert item == self.expected.popleft()
        self.held -= 1
        self.got.append(cycle)


async def _ways(dut, *, latency=1, stalls="none", repeat=0.0):
    await reset(dut)
    return [_Way(dut, start, latency=latency, stalls=stalls, repeat=repeat) for start in range(2)]


async def _run(dut, ways, until):
    await run(dut, [actor for way in ways for actor in way.actors], until=until)


async def _finish(dut, ways):
    await _run(dut, ways, lambda: not any(way.expected for way in ways))


@cocotb.test()
@cocotb.parametrize(stalls=["none", "mixed"], latency=[1, 30])
async def both_ways(dut, stalls, latency):
    ways = await _ways(dut, latency=latency, stalls=stalls, repeat=0.2)
    for way in ways:
        for _ in range(150):
            way.packet(kind=way.rng.choice((PacketKind.DATA, PacketKind.GRANT)))
    await _finish(dut, ways)


@cocotb.test()
async def stuck_receiver(dut):
    """One side takes nothing out for long: the other way goes on, and nothing is lost."""
    ways = await _ways(dut)
    stuck = ways[0].sink
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for way in ways:
        for _ in range(100):
            way.packet()
    await _run(dut, ways, lambda: not ways[1].expected)
    config = ways[0].config
    assert ways[0].held == ways[0].most > config.link_beats - config.packet_beats
    stuck.stalls = stalls
    await _finish(dut, ways)


@cocotb.test()
async def latency(dut):
    ways = await _ways(dut)
    for beats in (1, 4):
        ways[0].packet(beats)
        await _finish(dut, ways)
        assert ways[0].got[-1] - ways[0].taken[-1] == LATENCY[os.environ["CONFIG"]] + 1


@cocotb.test(skip=os.environ.get("CONFIG") == "short")
async def full_rate(dut):
    """One way, where CREDIT packets alone tell of room, and both ways."""
    for both in (False, True):
        for beats in (1, 7):
            ways = await _ways(dut, latency=10)
            for way in ways[:1 + both]:
                for _ in range(280 // beats):
                    way.packet(beats)
            await _finish(dut, ways)
            for way in ways[:1 + both]:
                assert way.got[-1] - way.got[0] == 280 - 1
        assert (ways[1].credits > 0) == (not both)


@cocotb.test()
async def everything_is_told_in_the_end(dut):
    """Also behind a packet that the link did not take for long; then nothing more is sent."""
    ways = await _ways(dut)
    back = ways[1].tx
    stalls, back.stalls = back.stalls, lambda: True
    for way in ways:
        way.packet(1)
    await _run(dut, ways, lambda: ways[0].got)
    end = ways[0].cycle + 2 * PATIENCE
    await _run(dut, ways, lambda: ways[0].cycle == end)
    back.stalls = stalls
    await _finish(dut, ways)
    end += 2 * PATIENCE
    await _run(dut, ways, lambda: ways[0].cycle == end)
    assert [credit for _, credit in ways[1].told] == [0, 1]
