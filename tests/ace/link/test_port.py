# amaranth: UnusedElaboratable=no
"""Two link ports at the ends of a link that loses, harms, repeats, delays and reorders, and brings copies of packets
thousands of cycles later: every packet comes out once, whole and in order. What is expected comes from the sources
alone; packets on the link are looked at with zlib."""

import heapq
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

from hw.ace.config import LINK_SESSION_WIDTH, PRESETS, TINY, WIRE_HEADER_BYTES, AceConfig
from hw.ace.layouts import (
    PAYLOAD_KINDS,
    LinkCause,
    LinkState,
    PacketKind,
    flit_layout,
    implied_layout,
    link_header_layout,
    link_layout,
    packet_layout,
)
from hw.ace.link.port import LinkPort
from hw.ace.link.status import LINK_COUNTS, link_status_layout
from tests.ace.streams import Sink, Source, bits, random_fields, reset, run, unpack

pytestmark = pytest.mark.rtl

# Memories in block RAM, one channel; in LUT RAM as short as may be, two channels.
CONFIGS = {"long": TINY, "late": replace(TINY, late_ram=True),
           "short": replace(TINY, packet_bytes=64, link_beats=16, replay_beats=32, link_channels=2)}
LATENCY = {"long": 7, "late": 9, "short": 5}
"""Cycles from ``i`` of one port to ``o`` of the other, of a packet of one beat over a link that takes none."""
TIMEOUT, TRIES = 400, 10


class LinkPair(wiring.Component):
    """Two ports, each with a reset of its own; what is between them is the test's."""

    def __init__(self, config):
        self._ports = [LinkPort(config) for _ in range(2)]
        members = self._ports[0].signature.members
        super().__init__({"resets": In(2), **{name: member.array(2) for name, member in members.items()}})

    def elaborate(self, platform):
        m = Module()
        for number, port in enumerate(self._ports):
            m.submodules[f"port_{number}"] = ResetInserter(self.resets[number])(port)
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
    """Rates, each of packets; ``delay`` and ``reorder`` are up to 100 cycles, ``late`` is of copies, a
    quarter of ``late_cycles`` to all of them later."""

    loss: float = 0
    harm: float = 0
    repeat: float = 0
    delay: float = 0
    reorder: float = 0
    late: float = 0
    late_cycles: int = 4000
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
        self.strays, self.stray, self.inside, self.session, self.record, self.whole = [], deque(), False, 0, [], []

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

    def forget(self, held=False):
        """What was under way is lost, but for what the receiver's buffer holds, and numbers begin at 0."""
        if not held:
            self.expected = [deque() for _ in self.expected]
            self.held = [0 for _ in self.held]
            self.grants.clear()
        self.numbers = self.ack = 0

    def status(self):
        status = int(getattr(self.dut, f"management__{self.start}__status").value)
        fields = unpack(link_status_layout(self.config), status)
        return {**fields, "state": LinkState(fields["state"]), "cause": LinkCause(fields["cause"])}

    # What is done in a cycle

    def drive(self):
        now = self._next()
        self.rx_valid.value = int(now is not None)
        if now is not None:
            self.rx.value = now

    def _next(self):
        """The beat that comes now: of a packet that was held back, between two others, or the next one."""
        if not self.stray and not self.inside and self.strays and self.strays[0][0] <= self.cycle:
            self.stray = deque(heapq.heappop(self.strays)[-1])
        if self.stray:
            return self.stray.popleft()
        if not self.link or self.link[0][0] > self.cycle + 1:
            return None
        item = self.link.popleft()[1]
        self.inside = not item >> link_layout(self.config)["last"].offset & 1
        return item

    def later(self, beats, cycles):
        """Let a packet come so many cycles from now."""
        heapq.heappush(self.strays, (self.cycle + cycles, self.rng.random(), list(beats)))

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
            self.packet_fate = {name for name in ("loss", "harm", "repeat", "delay", "cut", "reorder", "late")
                                if rng.random() < getattr(faults, name)}
            self.open, self.whole = [], []
            self.done.update(self.packet_fate)
        self.whole.append(item)
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
        if last:
            self.record.append(list(self.open))
        passed = last and len(self.open) == len(self.whole)
        if "reorder" in self.packet_fate:
            if passed:
                self.later(self.open, self.latency + rng.randint(1, 100))
            return
        self._put(due, item)
        if passed and "late" in self.packet_fate:
            # Behind the packet itself, though others keep that waiting.
            self.later(self.open, self.link[-1][0] - self.cycle + rng.randint(faults.late_cycles // 4,
                                                                              faults.late_cycles))
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
            packet = unpack(packet_layout(config), self.kept["packet"])
            self.kind = PacketKind(packet["kind"])
            self.sent[self.kind] += 1
            if self.kind != PacketKind.CREDIT or packet["state"] == LinkState.UP:
                self.ack += (self.kept["ack"] - self.ack) % 512
            # The latest packet of this number.
            number = self.numbers - (self.numbers - self.kept["sequence"]) % 512
            self.implied = 0
            if self.kind == PacketKind.CREDIT:
                self.session = packet["session"]
                assert packet["state"] != LinkState.UP or packet["ack_high"] == self.ack >> 9
            else:
                self.implied = bits(implied_layout(), {"sequence_high": number >> 9, "ack_high": self.ack >> 9,
                                                       "session": self.other.session})
            self.fresh = self.kind != PacketKind.CREDIT and number == self.numbers
            self.numbers += self.fresh
            assert self.numbers - self.other.ack <= config.link_window
        if self.fresh:
            self.held[self.kept["channel"]] += 1
            assert self.held[self.kept["channel"]] <= config.link_beats
        if not beat["first"] or self.kind in PAYLOAD_KINDS:
            self.crc = zlib.crc32(beat["data"].to_bytes(config.beat_bytes, "little"), self.crc)
        assert not beat["last"] or beat["crc"] == self.crc ^ self.implied

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
        getattr(dut, f"management__{number}__settings__timeout").value = TIMEOUT + 10 * latency
        getattr(dut, f"management__{number}__settings__tries").value = tries
        for name in ("start", "stop"):
            getattr(dut, f"management__{number}__settings__{name}").value = 0
    dut.resets.value = 0
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
          "delay": Faults(delay=0.1), "cut": Faults(cut=0.02), "reorder": Faults(reorder=0.1),
          "late": Faults(late=0.3, late_cycles=500),
          "all": Faults(loss=0.05, harm=0.05, repeat=0.05, delay=0.05, cut=0.01, reorder=0.05, late=0.05)}


@cocotb.test()
@cocotb.parametrize(case=["none 1", "none 30", "loss 30", "harm 1", "repeat 1", "delay 1", "cut 30",
                              "reorder 30", "late 1", "all 1", "all 30"])
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
    for kind, name in (("loss", "sequence_errors"), ("harm", "crc_errors"), ("repeat", "duplicates"),
                       ("reorder", "sequence_errors"), ("late", "stale")):
        assert fault != kind or (told[name] and done[kind])
    assert told["replays"] or fault in ("none", "repeat", "delay", "late")


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
            getattr(dut, f"management__{port}__settings__{name}").value = value
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
async def late_copies(dut):
    """Copies come when numbers have wrapped twice."""
    ways = await _ways(dut, faults=Faults(late=0.2))
    for _ in range(3):
        for way in ways:
            for _ in range(500):
                way.packet(1)
            way.some(50)
        await _finish(dut, ways)
    for way in ways:
        way.faults = Faults()
    await _run(dut, ways, lambda: not any(way.strays for way in ways))
    for way in ways:
        way.some(20)
    await _finish(dut, ways)
    await _run(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    await _wait(dut, ways, 100)
    for way in ways:
        status = way.status()
        assert status["stale"] > 100 and status["credits"] == way.config.link_beats
        assert status["state"] == LinkState.UP and status["cause"] == LinkCause.NONE
        assert not any(status[name] for name in ("replays", "crc_errors", "sequence_errors", "timeouts")), str(status)


async def _up(dut, ways):
    await _run(dut, ways, lambda: all(way.status()["state"] == LinkState.UP for way in ways))


async def _copies(dut, ways):
    """Everything that has passed comes once more, in any order, while packets go both ways."""
    for way in ways:
        for beats in way.record:
            way.later(beats, way.rng.randint(1, 3000))
        way.record = []
        way.some(150)
    await _finish(dut, ways)
    await _run(dut, ways, lambda: not any(way.strays for way in ways))
    for way in ways:
        way.some(20)
    await _finish(dut, ways)


@cocotb.test()
async def copies_of_an_earlier_session(dut):
    """Of START, INIT, DOWN, UP and data, in the session and in the next one: nothing changes."""
    ways = await _ways(dut)
    for way in ways:
        way.some(150)
    await _finish(dut, ways)
    await _copies(dut, ways)
    dut.management__0__settings__stop.value = 1
    await _wait(dut, ways, 1)
    dut.management__0__settings__stop.value = 0
    await _run(dut, ways, lambda: ways[1].status()["state"] == LinkState.DOWN)
    assert [way.status()["cause"] for way in ways] == [LinkCause.SOFTWARE, LinkCause.PEER]
    for way in ways:
        way.forget()
    await _start(dut, ways, [0, 1])
    # Copies of all that was before come into the handshake, too.
    for way in ways:
        for beats in way.record:
            way.later(beats, way.rng.randint(1, 1000))
    await _up(dut, ways)
    await _copies(dut, ways)
    assert all(way.status()["state"] == LinkState.UP and way.status()["cause"] == LinkCause.SOFTWARE for way in ways)


async def _one_end(dut, ways):
    """The other end has begun again: this one goes DOWN, though it has nothing to send, and comes up when started."""
    await _run(dut, ways, lambda: ways[1].status()["state"] == LinkState.DOWN, limit=2000)
    assert ways[1].status()["cause"] == LinkCause.RESTART
    assert ways[0].status()["state"] == LinkState.START
    for way in ways:
        way.forget()
    await _start(dut, ways, [1])
    await _up(dut, ways)
    await _copies(dut, ways)
    assert [way.status()["state"] for way in ways] == [LinkState.UP] * 2


@cocotb.test()
@cocotb.parametrize(how=["start", "reset", "same number"])
async def the_other_end_alone_begins_again(dut, how):
    ways = await _ways(dut)
    for way in ways:
        way.some(20)
    await _finish(dut, ways)
    await _run(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    if how == "start":
        await _start(dut, ways, [0])
    else:
        # As often as there are sessions: as if the number had been lost.
        for _ in range(1 << LINK_SESSION_WIDTH if how == "same number" else 1):
            dut.resets.value = 1
            await _wait(dut, ways, 1)
            dut.resets.value = 0
            await _wait(dut, ways, 3)
    await _one_end(dut, ways)


def _credit(way, **fields):
    """A CREDIT packet to the port at the end of ``way``, as the other one would send it now."""
    config = way.config
    packet = {"kind": PacketKind.CREDIT.value, "state": LinkState.UP.value, "session": way.session,
              "peer": way.other.session, "ack_high": way.ack >> 9}
    header = {"ack": way.ack % 512, "credits": [0] * config.link_channels}
    for name, value in fields.items():
        (header if name in header else packet)[name] = value
    packed = bits(link_header_layout(config), {**header, "packet": packet})
    crc = zlib.crc32(packed.to_bytes(12, "little"))
    return [bits(link_layout(config), {"header": {**header, "packet": packet}, "first": 1, "last": 1, "crc": crc})]


@cocotb.test()
@cocotb.parametrize(what=["ack", "ack 2", "credits", "credits 2"])
async def what_cannot_be(dut, what):
    """What a packet of this session tells of what was never sent takes the port down; told by an older one, or in
    another session, it does not count."""
    ways = await _ways(dut)
    for way in ways:
        for _ in range(30):
            way.packet(1)
    await _finish(dut, ways)
    await _run(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    await _wait(dut, ways, 100)
    way = ways[0]
    true = {"ack": way.ack % 512, "credits": [30, *[0] * (way.config.link_channels - 1)]}
    limit, past = way.config.link_beats, {"ack": (way.ack - 3) % 512, "credits": [27, *true["credits"][1:]]}
    name, _, much = what.partition(" ")
    wrong = {"ack": {"ack": true["ack"] + (250 if much else 1)},
             "credits": {"credits": [30 + (2 * limit if much else 1), *true["credits"][1:]]}}[name]
    for told in ({**true, "session": way.session + 1, **wrong}, {**true, "peer": way.other.session + 1, **wrong},
                 {**true, "ack_high": 1, **wrong}, past, {**true, "credits": past["credits"]}, true):
        way.later(_credit(way, **told), 1)
        await _wait(dut, ways, 20)
        assert ways[1].status()["state"] == LinkState.UP and ways[1].status()["credits"] == limit
    way.later(_credit(way, **{**true, **wrong}), 1)
    await _wait(dut, ways, 20)
    assert ways[1].status()["state"] == LinkState.DOWN and ways[1].status()["cause"] == LinkCause.VIOLATION


@cocotb.test()
async def full_buffers_at_the_start(dut):
    """A port that holds packets of the session before waits until they are taken: only then is there room for what the
    other one may send."""
    ways = await _ways(dut)
    stuck = ways[0].sinks[0]
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for _ in range(ways[0].config.link_beats // 2):
        ways[0].packet(1)
    await _wait(dut, ways, 1000)
    ways[0].forget(held=True)
    ways[1].forget()
    await _start(dut, ways, [0, 1])
    await _wait(dut, ways, 2000)
    assert ways[1].status()["state"] == LinkState.START and ways[0].status()["state"] == LinkState.INIT
    for _ in range(ways[0].config.link_beats):
        ways[0].packet(1)
    await _wait(dut, ways, 100)
    stuck.stalls = stalls
    await _finish(dut, ways)
    assert all(way.status()["state"] == LinkState.UP for way in ways)


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
