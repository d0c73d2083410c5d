# SPDX-License-Identifier: Apache-2.0
"""PacketSlice: packets in order, and none that waited for a link through a failure of it."""

import random
from collections import Counter

import pytest

from hw.ace.link.state import DOWN_CYCLES
from hw.endpoint.config import TINY
from hw.endpoint.packet_slice import PacketSlice
from tests.harness.cell import run_cell

PORTS = TINY.ports
SLOW = PORTS // 2
CYCLES = 8000


class _Link:
    """Accepts beats at random while it is up; drops all while it is down, and then the rest of what it dropped."""

    def __init__(self, rng, ready, failures):
        self.rng, self.ready, self.failures = rng, ready, failures
        self.left = 0           # cycles for which it stays down
        self.reported = 0       # one cycle late
        self.inside = self.skips = False
        self.accepted = []      # cycle, number of a packet, index of a beat
        self.ends = []          # last cycles of failures
        self.downs = set()      # cycles
        self.dropped = set()    # numbers of packets
        self.willing = True

    @property
    def is_down(self):
        return self.left > 0

    def begin(self):
        self.willing = self.is_down or self.rng.random() < self.ready

    def end(self, cycle, beat):
        """``beat``: number of a packet, index, first, last; or None."""
        if self.is_down:
            self.downs.add(cycle)
            self.skips |= self.inside
        if beat is not None:
            number, index, first, last = beat
            assert first != self.inside
            if self.is_down and not last:
                self.skips = True
            if self.skips or self.is_down:
                self.dropped.add(number)
            else:
                self.accepted.append((cycle, number, index))
            self.inside = not last
            if last:
                self.skips = False
        self.reported = self.is_down
        if self.is_down:
            self.left -= 1
            if not self.left:
                self.ends.append(cycle)
        elif self.rng.random() < self.failures:
            self.left = self.rng.choice((DOWN_CYCLES, 20, 100))


@pytest.mark.parametrize(("slow", "sends", "failures"), [
    (1.0, 1.0, 0.0), (0.05, 1.0, 0.0), (1.0, 0.8, 0.02), (0.5, 1.0, 0.02), (0.02, 1.0, 0.05), (0.02, 0.8, 0.05)])
def test_random(slow, sends, failures, seed):
    """With some links that accept less often than the others."""
    rng = random.Random(f"{slow} {sends} {failures} {seed}")
    dut = PacketSlice(TINY)
    links = [_Link(rng, slow if number < SLOW else 1.0, failures) for number in range(PORTS)]
    sent = []               # cycle of the first beat, port, beats
    seen = Counter()

    async def testbench(ctx):
        failing = [0] * PORTS
        port = index = 0
        length = 1
        offering = False
        for cycle in range(CYCLES):
            if not offering and (index or cycle < CYCLES - 1000) and rng.random() < sends:
                offering = True
                if not index:
                    port, length = rng.randrange(PORTS), rng.choice((1, 1, 2, 5))
            # As PutSender: a packet to a port whose link failed does not start.
            valid = offering and (index > 0 or not failing[port])
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.port, port if valid else rng.randrange(PORTS))
            ctx.set(dut.i.payload.data, len(sent) - bool(index) << 8 | index)
            ctx.set(dut.i.payload.first, not index if valid else rng.random() < 0.5)
            ctx.set(dut.i.payload.last, index == length - 1 if valid else rng.random() < 0.5)
            for link in links:
                link.begin()
            ctx.set(dut.down, sum(link.reported << number for number, link in enumerate(links)))
            to = ctx.get(dut.o.port)
            accepts = ctx.get(dut.o.valid) and links[to].willing
            ctx.set(dut.o.ready, accepts)
            beat = None
            if accepts:
                flit = dut.o.payload
                data = ctx.get(flit.data)
                beat = data >> 8, data & 0xFF, bool(ctx.get(flit.first)), bool(ctx.get(flit.last))
            if offering and not valid:
                offering = False
                seen["refused"] += 1
            elif valid and ctx.get(dut.i.ready):
                if not index:
                    sent.append((cycle, port, length))
                index = 0 if index == length - 1 else index + 1
                offering = False
            for number, link in enumerate(links):
                failing[number] = link.reported or (failing[number] and rng.random() < 0.9)
                link.end(cycle, beat if number == to else None)
            await ctx.tick()
        assert not ctx.get(dut.o.valid) and not index

    run_cell(dut, testbench)
    left = {packet: cycle for link in links for cycle, packet, index in reversed(link.accepted) if not index}
    for number, link in enumerate(links):
        began = {}
        for cycle, packet, index in link.accepted:
            assert sent[packet][1] == number
            assert index == (began[packet][1] + 1 if packet in began else 0), f"beat {index} of packet {packet}"
            began[packet] = began.get(packet, (cycle,))[0], index
        assert [*began] == sorted(began), "order"
        for packet, (cycle, _) in began.items():
            assert not any(sent[packet][0] <= end < cycle for end in link.ends), (
                f"packet {packet} waited for port {number} through a failure of its link")
        for packet, (cycle, port, length) in enumerate(sent):
            if port != number:
                continue
            if packet in began and began[packet][1] == length - 1:
                seen["whole"] += 1
            else:
                until = min((left[later] for later in left if later > packet), default=CYCLES)
                assert not link.downs.isdisjoint(range(cycle, until + 1)), f"packet {packet} is lost"
                seen["dropped by its link" if packet in link.dropped else "dropped"] += 1
    assert seen["whole"] > 10, seen
    if failures:
        assert seen["refused"] and seen["dropped by its link"], seen
        assert seen["dropped"] or slow > 0.1, seen


def test_full_rate():
    """A beat per cycle, one cycle later."""
    dut = PacketSlice(TINY)
    found = []

    async def testbench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(40):
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.port, cycle % PORTS)
            ctx.set(dut.i.payload.data, cycle)
            ctx.set(dut.i.payload.first, 1)
            ctx.set(dut.i.payload.last, 1)
            assert ctx.get(dut.i.ready)
            if ctx.get(dut.o.valid):
                found.append((cycle, ctx.get(dut.o.payload.data), ctx.get(dut.o.port)))
            await ctx.tick()

    run_cell(dut, testbench)
    assert found == [(cycle + 1, cycle, cycle % PORTS) for cycle in range(39)]
