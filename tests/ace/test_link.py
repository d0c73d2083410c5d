# amaranth: UnusedElaboratable=no
"""Two link ports at the ends of a link that loses, harms, repeats and delays: every packet comes out once, whole and in
order. What is expected comes from the sources alone; packets on the link are looked at with zlib."""

import os
import random
import zlib
from collections import Counter, deque
from dataclasses import dataclass, replace

import cocotb
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from hw.ace.config import PRESETS, TINY, WIRE_HEADER_BYTES, AceConfig
from hw.ace.layouts import (
    PAYLOAD_KINDS,
    LinkState,
    PacketKind,
    flit_layout,
    link_header_layout,
    link_layout,
    packet_layout,
)
from hw.ace.link import LINK_COUNTS, LinkPort, link_status_layout
from tests.ace.streams import Sink, Source, bits, random_fields, reset, run, unpack

pytestmark = pytest.mark.rtl

# Memories in block RAM, one channel; in LUT RAM as short as may be, two channels.
CONFIGS = {"long": TINY, "late": replace(TINY, late_ram=True),
           "short": replace(TINY, packet_bytes=64, link_beats=16, replay_beats=32, link_channels=2)}
LATENCY = {"long": 7, "late": 9, "short": 5}
"""Cycles from ``i`` of one port to ``o`` of the other, of a packet of one beat over a link that takes none."""
TIMEOUT, TRIES = 400, 10


class LinkPair(wiring.Component):
    """Two ports; what is between them is the test's."""

    def __init__(self, config):
        self._ports = [LinkPort(config) for _ in range(2)]
        members = self._ports[0].signature.members
        super().__init__({name: member.array(2) for name, member in members.items()})

    def elaborate(self, platform):
        m = Module()
        for number, port in enumerate(self._ports):
            m.submodules[f"port_{number}"] = port
            for name, member in port.signature.members.items():
                mine = getattr(self, name)[number]
                if member.is_port:
                    m.d.comb += getattr(port, name).eq(mine) if member.flow == In else mine.eq(getattr(port, name))
                elif member.dimensions:
                    for inner, outer in zip(getattr(port, name), mine, strict=True):
                        _join(m, member, inner, outer)
                else:
                    _join(m, member, getattr(port, name), mine)
        return m


def _join(m, member, inner, outer):
    connect(m, inner, flipped(outer))


@pytest.mark.parametrize("config", CONFIGS)
def test_link(simulate, config):
    simulate(LinkPair(CONFIGS[config]), env={"CONFIG": config})


@pytest.mark.parametrize("config", [*PRESETS.values(), AceConfig(
    data_width=64, lanes=2, chunk_bytes=65536, packet_bytes=1024, message_bytes=1024, link_beats=4096,
    replay_beats=4096, link_channels=2)], ids=[*PRESETS, "largest"])
def test_what_travels_beside_the_payload_is_16_bytes(config):
    crc = link_layout(config)["crc"].width
    assert link_header_layout(config).size + crc <= 8 * WIRE_HEADER_BYTES
    assert crc == 32


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Rates, each of packets; ``delay`` is up to 100 cycles."""

    loss: float = 0
    harm: float = 0
    repeat: float = 0
    delay: float = 0
    cut: float = 0


class _Way:
    """From one port to the other: sources, link, sinks; what comes out is what went in, channel by channel.

    GRANTs have an order of their own.
    """

    def __init__(self, dut, start, *, latency, stalls, faults):
        end = 1 - start
        self.dut, self.start, self.latency, self.faults = dut, start, latency, faults
        self.config = CONFIGS[os.environ["CONFIG"]]
        self.rng = random.Random(f"{start} {cocotb.RANDOM_SEED}")
        options = {"stalls": stalls, "seed": cocotb.RANDOM_SEED}
        channels = range(self.config.link_channels)
        self.sources = [Source(dut, f"i__{start}__{channel}", taken=self._taken, **options) for channel in channels]
        self.signals = Source(dut, f"signals__{start}", **options)
        self.tx = Sink(dut, f"tx__{start}", self._sent, mask=self._mask, **options)
        self.rx_valid, self.rx = getattr(dut, f"rx__{end}__valid"), getattr(dut, f"rx__{end}__payload")
        self.sinks = [Sink(dut, f"o__{end}__{channel}", self._got(channel), **options) for channel in channels]
        self.cycle, self.link, self.packet_fate = 0, deque(), None
        self.expected, self.grants = [deque() for _ in channels], deque()
        self.kept, self.crc, self.open = None, 0, []
        self.held, self.sent = [0 for _ in channels], Counter()
        self.taken, self.got, self.beats, self.done = [], [], 0, Counter()
        self.cut_until, self.numbers, self.fresh, self.ack, self.other = 0, 0, False, 0, None

    @property
    def actors(self):
        return [*self.sources, self.signals, self.tx, *self.sinks, self]

    @property
    def empty(self):
        return not any(self.expected) and not self.grants

    def packet(self, beats=None, channel=0, kind=PacketKind.DATA):
        config, rng = self.config, self.rng
        beats = beats or rng.choice((1, 1, 2, config.packet_beats, rng.randint(1, config.packet_beats)))
        for number in range(beats):
            # Of later beats the header is noise.
            header = random_fields(rng, packet_layout(config), kind=rng.choice(list(PacketKind)) if number else kind)
            flit = bits(flit_layout(config), {"data": rng.getrandbits(config.data_width), "header": header,
                                              "first": number == 0, "last": number == beats - 1})
            self.sources[channel].items.append(flit)
            self.expected[channel].append(flit)

    def grant(self):
        header = bits(packet_layout(self.config), random_fields(self.rng, packet_layout(self.config),
                                                                kind=PacketKind.GRANT))
        self.signals.items.append(header)
        self.grants.append(header)

    def some(self, packets):
        for _ in range(packets):
            if self.rng.random() < 0.3:
                self.grant()
            self.packet(channel=self.rng.randrange(self.config.link_channels))

    def forget(self):
        """What was under way is lost, and numbers begin at 0."""
        self.expected = [deque() for _ in self.expected]
        self.held = [0 for _ in self.held]
        self.grants.clear()
        self.numbers = self.ack = 0

    def status(self):
        fields = unpack(link_status_layout(self.config), int(getattr(self.dut, f"status__{self.start}").value))
        return {**fields, "state": LinkState(fields["state"])}

    # What is done in a cycle

    def drive(self):
        now = self.link.popleft()[1] if self.link and self.link[0][0] <= self.cycle + 1 else None
        self.rx_valid.value = int(now is not None)
        if now is not None:
            self.rx.value = now

    def sample(self, cycle):
        self.cycle += 1

    def _taken(self, item, cycle):
        self.taken.append(cycle)

    def _mask(self, item):
        """Of a beat that is offered, what may not change: nothing may."""
        return -1

    def _sent(self, item, cycle):
        self._inspect(unpack(link_layout(self.config), item))
        faults, rng = self.faults, self.rng
        first, last = (item >> link_layout(self.config)[name].offset & 1 for name in ("first", "last"))
        if first:
            self.packet_fate = {name for name in ("loss", "harm", "repeat", "delay", "cut")
                                if rng.random() < getattr(faults, name)}
            self.open = []
            self.done.update(self.packet_fate)
        if "cut" in self.packet_fate:
            # From some beat on nothing passes, for a while.
            if not first or rng.random() < 0.5:
                self.cut_until = self.cycle + rng.randint(1, 60)
                self.packet_fate -= {"cut"}
        if "harm" in self.packet_fate and (last or rng.random() < 0.5):
            item = self._harmed(item, first, last)
            self.packet_fate -= {"harm"}
        if "loss" in self.packet_fate or self.cycle < self.cut_until:
            return
        self.open.append(item)
        due = self.cycle + self.latency + 1
        if first and "delay" in self.packet_fate:
            due += rng.randint(1, 100)
        self._put(due, item)
        if last and "repeat" in self.packet_fate:
            for again in self.open:
                self._put(due, again)

    def _put(self, due, item):
        self.link.append((max(due, self.link[-1][0] + 1) if self.link else due, item))

    def _harmed(self, item, first, last):
        """With some bits of what travels turned over."""
        layout = link_layout(self.config)
        kind = unpack(packet_layout(self.config), unpack(link_header_layout(self.config), item >> layout[
            "header"].offset & (1 << layout["header"].width) - 1)["packet"])["kind"]
        places = [place for name, there in (("header", first), ("crc", last), (
            "data", not first or kind in {one.value for one in PAYLOAD_KINDS})) if there
            for place in range(layout[name].offset, layout[name].offset + layout[name].width)]
        for place in self.rng.sample(places, min(len(places), self.rng.choice((1, 1, 2, 3)))):
            item ^= 1 << place
        return item

    def _inspect(self, beat):
        """The CRC is that of the bytes that travel, and the peer has room for all that it was not sent before."""
        config = self.config
        if beat["first"]:
            header = beat["header"]
            self.crc = zlib.crc32(header.to_bytes(12, "little"))
            self.kept = unpack(link_header_layout(config), header)
            self.kind = PacketKind(unpack(packet_layout(config), self.kept["packet"])["kind"])
            self.sent[self.kind] += 1
            self.ack = self.kept["ack"]
            self.fresh = self.kind != PacketKind.CREDIT and self.kept["sequence"] == self.numbers % 512
            self.numbers += self.fresh
            assert (self.numbers - self.other.ack) % 512 <= config.link_window
        if self.fresh:
            self.held[self.kept["channel"]] += 1
            assert self.held[self.kept["channel"]] <= config.link_beats
        if not beat["first"] or self.kind in PAYLOAD_KINDS:
            self.crc = zlib.crc32(beat["data"].to_bytes(config.beat_bytes, "little"), self.crc)
        assert not beat["last"] or beat["crc"] == self.crc

    def _got(self, channel):
        layout = flit_layout(self.config)

        def got(item, cycle):
            flit = unpack(layout, item)
            kind = unpack(packet_layout(self.config), flit["header"])["kind"]
            if channel == 0 and self.beats == 0 and kind == PacketKind.GRANT.value and flit["first"]:
                assert flit["header"] == self.grants.popleft() and flit["last"]
            else:
                wanted = self.expected[channel].popleft()
                # The header of later beats is nobody's.
                header = ~((1 << layout["header"].width) - 1 << layout["header"].offset)
                assert item == wanted if flit["first"] else item & header == wanted & header
                if channel == 0:
                    self.beats = 0 if flit["last"] else self.beats + 1
            self.held[channel] -= 1
            self.got.append(cycle)
        return got


async def _ways(dut, *, latency=1, stalls="none", faults=Faults(), tries=TRIES, up=True):
    for number in range(2):
        getattr(dut, f"timeout__{number}").value = TIMEOUT + 10 * latency
        getattr(dut, f"tries__{number}").value = tries
        for name in ("start", "stop"):
            getattr(dut, f"{name}__{number}").value = 0
    await reset(dut)
    ways = [_Way(dut, start, latency=latency, stalls=stalls, faults=faults) for start in range(2)]
    ways[0].other, ways[1].other = ways[1], ways[0]
    if up:
        await _run(dut, ways, lambda: all(way.status()["state"] == LinkState.UP for way in ways))
    return ways


async def _run(dut, ways, until, **options):
    return await run(dut, [actor for way in ways for actor in way.actors], until=until, **options)


async def _finish(dut, ways, **options):
    await _run(dut, ways, lambda: all(way.empty for way in ways), **options)


async def _wait(dut, ways, cycles):
    end = ways[0].cycle + cycles
    await _run(dut, ways, lambda: ways[0].cycle == end)


FAULTS = {"none": Faults(), "loss": Faults(loss=0.1), "harm": Faults(harm=0.1), "repeat": Faults(repeat=0.3),
          "delay": Faults(delay=0.1), "cut": Faults(cut=0.02),
          "all": Faults(loss=0.05, harm=0.05, repeat=0.05, delay=0.05, cut=0.01)}


@cocotb.test()
@cocotb.parametrize(case=["none 1", "none 30", "loss 30", "harm 1", "repeat 1", "delay 1", "cut 30", "all 1", "all 30"])
async def both_ways(dut, case):
    """Exactly once and in order, and it is told what happened."""
    fault, latency = case.split()
    ways = await _ways(dut, latency=int(latency), stalls="none" if fault == "none" else "mixed", faults=FAULTS[fault],
                       tries=200)
    for way in ways:
        way.some(70)
    await _finish(dut, ways)
    for way in ways:
        way.faults = Faults()
    await _run(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    told = {name: sum(way.status()[name] for way in ways) for name in LINK_COUNTS}
    done = sum((way.done for way in ways), Counter())
    dut._log.info("%s: %s %s", case, told, dict(done))
    assert all(way.status()["state"] == LinkState.UP for way in ways)
    if fault == "none":
        assert not any(told.values())
    for kind, name in (("loss", "sequence_errors"), ("harm", "crc_errors"), ("repeat", "duplicates")):
        assert fault != kind or (told[name] and done[kind])
    assert told["replays"] or fault in ("none", "repeat", "delay")


@cocotb.test()
async def latency(dut):
    ways = await _ways(dut)
    for beats in (1, 4):
        ways[0].packet(beats)
        await _finish(dut, ways)
        assert ways[0].got[-1] - ways[0].taken[-1] == LATENCY[os.environ["CONFIG"]] + beats


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
                # A packet is handed on when it is whole.
                assert way.got[-1] - way.got[0] == 280 - 1


@cocotb.test()
async def stuck_receiver(dut):
    """One channel takes nothing out for long: the other channel, and the other way, go on, and nothing is lost."""
    ways = await _ways(dut, tries=2)
    stuck = ways[0].sinks[-1]
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for way in ways:
        for _ in range(60):
            for channel in range(len(way.sinks)):
                way.packet(channel=channel)
    await _run(dut, ways, lambda: not any(ways[1].expected) and not any(ways[0].expected[:-1]))
    await _wait(dut, ways, 5 * TIMEOUT)
    assert ways[0].held[-1] > ways[0].config.link_beats - ways[0].config.packet_beats
    stuck.stalls = stalls
    await _finish(dut, ways)
    assert all(way.status()["state"] == LinkState.UP for way in ways)


async def _start(dut, ways, ports):
    for name, value in (("start", 1), ("start", 0)):
        for port in ports:
            getattr(dut, f"{name}__{port}").value = value
        await _wait(dut, ways, 1)


@cocotb.test()
async def broken_link(dut):
    """A link that carries nothing one way is given up in the time that was set, takes and drops what it is given, and
    comes up again when both ends are started."""
    ways = await _ways(dut)
    for way in ways:
        way.some(20)
    await _finish(dut, ways)
    await _run(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    first, other = ways
    first.faults = Faults(loss=1)
    for _ in range(5):
        first.packet()
    patience = (TRIES + 1) * (TIMEOUT + 30)
    took = await _run(dut, ways, lambda: first.status()["state"] == LinkState.DOWN)
    assert TRIES * TIMEOUT < took < patience
    assert other.status()["state"] == LinkState.UP
    for _ in range(50):
        first.packet()
        first.grant()
    await _run(dut, ways, lambda: not first.sources[0].items and not first.signals.items)
    first.faults = Faults()
    # The other end hears of it.
    await _run(dut, ways, lambda: other.status()["state"] == LinkState.DOWN)
    await _start(dut, ways, [0])
    await _wait(dut, ways, 1000)
    assert first.status()["state"] == LinkState.START and other.status()["state"] == LinkState.DOWN
    for way in ways:
        way.forget()
    await _start(dut, ways, [1])
    await _run(dut, ways, lambda: all(way.status()["state"] == LinkState.UP for way in ways))
    for way in ways:
        way.some(30)
    await _finish(dut, ways)


@cocotb.test()
async def nobody_there(dut):
    """A port without anything to send waits for the other end as long as it takes."""
    ways = await _ways(dut, faults=Faults(loss=1), up=False)
    await _wait(dut, ways, 2 * TRIES * TIMEOUT)
    assert all(way.status()["state"] == LinkState.START and not way.status()["timeouts"] for way in ways)
    ways[1].faults = Faults()
    await _wait(dut, ways, 1000)
    assert ways[1].status()["state"] == LinkState.START and ways[0].status()["state"] == LinkState.INIT
    ways[0].faults = Faults()
    ways[0].some(10)
    await _finish(dut, ways)
