# SPDX-License-Identifier: Apache-2.0
"""Two link ports at the ends of a link that drops, corrupts, duplicates, delays and reorders packets.

Expected values come from the sources alone; packets on the link are checked with zlib.
"""

import heapq
import os
import random
import zlib
from collections import Counter, deque
from dataclasses import dataclass, replace

import cocotb
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from hw.ace.config import TINY
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
from hw.ace.link.status import link_status_layout
from tests.ace.streams import Sink, Source, bits, random_fields, reset, run, unpack
from tests.ace.timing import ECP5, each_alone

__all__ = ["ALONE", "CONFIGS", "TIMEOUT", "TRIES", "Direction", "Faults", "LinkPair", "directions", "finish", "run_all",
           "wait"]

# Memories in block RAM, one channel; in LUT RAM of minimum size, two channels.
ALONE = each_alone(TINY, "replay_output_register", "receive_output_register", "registered_release",
                   "registered_header_crc")
CONFIGS = {"long": TINY, "ecp5": ECP5, **ALONE,
           "short": replace(TINY, packet_bytes=64, link_beats=16, replay_beats=32, link_channels=2)}
TIMEOUT, TRIES = 400, 10


class LinkPair(wiring.Component):
    """Two ports, each with its own reset; the test connects their links."""

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


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Rates, each of packets; ``delay`` and ``reorder`` are up to 100 cycles; ``late`` duplicates arrive a quarter of
    ``late_cycles`` to all of them later."""

    loss: float = 0
    corrupt: float = 0
    repeat: float = 0
    delay: float = 0
    reorder: float = 0
    late: float = 0
    late_cycles: int = 4000
    cut: float = 0


class Direction:
    """From one port to the other: sources, link, sinks. Each channel must deliver what its source sent, in order.

    GRANTs have an order of their own.
    """

    def __init__(self, dut, start, *, latency, stalls, faults):
        end = 1 - start
        self.dut, self.start, self.latency, self.faults = dut, start, latency, faults
        self.config = CONFIGS[os.environ["CONFIG"]]
        self.rng, self.noise = (random.Random(f"{name}{start} {cocotb.RANDOM_SEED}") for name in ("", "noise "))
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
        self.copies, self.copy, self.inside, self.session, self.record, self.whole = [], deque(), False, 0, [], []

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
            # The header is undefined after the first beat.
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

    def discard_all(self, held=False):
        """Packets in flight are lost, except those in the receiver's buffer, and numbers restart at 0."""
        if not held:
            self.expected = [deque() for _ in self.expected]
            self.held = [0 for _ in self.held]
            self.grants.clear()
        self.numbers = self.ack = 0

    def status(self):
        status = int(getattr(self.dut, f"management__{self.start}__status").value)
        fields = unpack(link_status_layout(self.config), status)
        return {**fields, "state": LinkState(fields["state"]), "cause": LinkCause(fields["cause"])}

    # Actions in a cycle

    def drive(self):
        now = self._next()
        self.rx_valid.value = int(now is not None)
        if now is not None:
            self.rx.value = self._scrambled(now)

    def _scrambled(self, item):
        """The beat with random bits where it has none: a header after the first beat, a CRC before the last."""
        layout = link_layout(self.config)
        first, last = (item >> layout[name].offset & 1 for name in ("first", "last"))
        for name, there in (("header", first), ("crc", last)):
            if not there:
                item ^= self.noise.getrandbits(layout[name].width) << layout[name].offset
        return item

    def _next(self):
        """The beat that arrives now: of a delayed packet, between two others, or the next one."""
        if not self.copy and not self.inside and self.copies and self.copies[0][0] <= self.cycle:
            self.copy = deque(heapq.heappop(self.copies)[-1])
        if self.copy:
            return self.copy.popleft()
        if not self.link or self.link[0][0] > self.cycle + 1:
            return None
        item = self.link.popleft()[1]
        self.inside = not item >> link_layout(self.config)["last"].offset & 1
        return item

    def later(self, beats, cycles):
        """Deliver a packet after ``cycles`` cycles."""
        heapq.heappush(self.copies, (self.cycle + cycles, self.rng.random(), list(beats)))

    def sample(self, cycle):
        self.cycle += 1

    def _taken(self, item, cycle):
        self.taken.append(cycle)

    def _mask(self, item):
        """Bits of an offered beat that must not change: all."""
        return -1

    def _sent(self, item, cycle):
        self._inspect(unpack(link_layout(self.config), item))
        faults, rng = self.faults, self.rng
        first, last = (item >> link_layout(self.config)[name].offset & 1 for name in ("first", "last"))
        if first:
            self.packet_fate = {name for name in ("loss", "corrupt", "repeat", "delay", "cut", "reorder", "late")
                                if rng.random() < getattr(faults, name)}
            self.open, self.whole = [], []
            self.done.update(self.packet_fate)
        self.whole.append(item)
        if "cut" in self.packet_fate:
            # From some beat on, nothing passes for a while.
            if not first or rng.random() < 0.5:
                self.cut_until = self.cycle + rng.randint(1, 60)
                self.packet_fate -= {"cut"}
        if "corrupt" in self.packet_fate and (last or rng.random() < 0.5):
            item = self._corrupted(item, first, last)
            self.packet_fate -= {"corrupt"}
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
            # After the packet itself, even if others delay that.
            self.later(self.open, self.link[-1][0] - self.cycle + rng.randint(faults.late_cycles // 4,
                                                                              faults.late_cycles))
        if last and "repeat" in self.packet_fate:
            for again in self.open:
                self._put(due, again)

    def _put(self, due, item):
        self.link.append((max(due, self.link[-1][0] + 1) if self.link else due, item))

    def _corrupted(self, item, first, last):
        """The beat with some of its valid bits inverted."""
        layout = link_layout(self.config)
        kind = unpack(packet_layout(self.config), unpack(link_header_layout(self.config), item >> layout[
            "header"].offset & (1 << layout["header"].width) - 1)["packet"])["kind"]
        positions = [position for name, there in (("header", first), ("crc", last), (
            "data", not first or kind in {one.value for one in PAYLOAD_KINDS})) if there
            for position in range(layout[name].offset, layout[name].offset + layout[name].width)]
        for position in self.rng.sample(positions, min(len(positions), self.rng.choice((1, 1, 2, 3)))):
            item ^= 1 << position
        return item

    def _inspect(self, beat):
        """The CRC matches the bytes on the link, and the peer has free entries for each beat that is sent the first
        time."""
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
            # The latest packet with this number.
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
                # The header is undefined after the first beat.
                header = ~((1 << layout["header"].width) - 1 << layout["header"].offset)
                assert item == wanted if flit["first"] else item & header == wanted & header
                if channel == 0:
                    self.beats = 0 if flit["last"] else self.beats + 1
            self.held[channel] -= 1
            self.got.append(cycle)
        return got


async def directions(dut, *, latency=1, stalls="none", faults=Faults(), tries=TRIES, up=True):
    for number in range(2):
        getattr(dut, f"management__{number}__settings__timeout").value = TIMEOUT + 10 * latency
        getattr(dut, f"management__{number}__settings__tries").value = tries
        for name in ("start", "stop"):
            getattr(dut, f"management__{number}__settings__{name}").value = 0
    dut.resets.value = 0
    await reset(dut)
    sides = [Direction(dut, start, latency=latency, stalls=stalls, faults=faults) for start in range(2)]
    sides[0].other, sides[1].other = sides[1], sides[0]
    if up:
        await run_all(dut, sides, lambda: all(side.status()["state"] == LinkState.UP for side in sides))
    return sides


async def run_all(dut, sides, until, **options):
    return await run(dut, [actor for side in sides for actor in side.actors], until=until, **options)


async def finish(dut, sides, **options):
    await run_all(dut, sides, lambda: all(side.empty for side in sides), **options)


async def wait(dut, sides, cycles):
    end = sides[0].cycle + cycles
    await run_all(dut, sides, lambda: sides[0].cycle == end)
