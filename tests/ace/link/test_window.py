# SPDX-License-Identifier: Apache-2.0
"""The window of unacknowledged packets, against a list: what is replayed, and what is released."""

import dataclasses
import random
from collections import Counter

import pytest

from hw.ace.config import LINK_SEQUENCE_WIDTH, TINY
from hw.ace.link.window import LinkWindow
from tests.harness.cell import run_cell

SOURCES = 3
NUMBERS = 1 << LINK_SEQUENCE_WIDTH


class _Model:
    """A sender that uses the window as ``sender.py`` does, and the packets that it has sent, by number."""

    def __init__(self, ctx, dut, rng):
        self.ctx, self.dut, self.rng, self.seen = ctx, dut, rng, Counter()
        self.packets = []
        self.number = self.left = self.released = self.peer = 0
        self.again = self.skip = self.rewound = False

    async def cycle(self, hurry):
        ctx, dut, rng = self.ctx, self.dut, self.rng
        replaying, draining = self.number != len(self.packets), self.again or self.skip
        assert ctx.get(dut.replaying) == replaying
        assert ctx.get(dut.sequence) == self.number % NUMBERS
        ctx.set(dut.draining, draining and not self.left)
        rewind = draining and not self.left and bool(ctx.get(dut.settled))
        ctx.set(dut.rewind, rewind)
        source = ctx.get(dut.source)
        if replaying:
            assert source == (0 if self.rewound else self.packets[self.number][0])
        begins = not self.left and not draining and rng.random() < hurry and (
            source != 0 and not ctx.get(dut.progress) if replaying else ctx.get(dut.window))
        if begins:
            self.chosen, self.beats = (source, self.packets[self.number][1]) if replaying else (
                1 << rng.randrange(SOURCES), rng.choice((1, 1, 1, 2, 5)))
            self.left = self.beats
            self.seen["replayed" if replaying else "new"] += 1
        beat = begins or (self.left > 0 and rng.random() < hurry)
        ctx.set(dut.beat, beat)
        ctx.set(dut.last, beat and self.left == 1)
        ctx.set(dut.chosen, self.chosen if self.left else 0)
        overtaken = ctx.get(dut.overtaken)
        # Any packet that was sent may be acknowledged, also by an acknowledgement that is delayed.
        ack = None
        if rng.random() < 0.1:
            ack = rng.randint(max(0, self.peer - 20), len(self.packets))
        ctx.set(dut.received_valid, ack is not None)
        ctx.set(dut.ack, (ack or 0) % NUMBERS)
        if release := ctx.get(dut.release):
            assert (release, ctx.get(dut.release_beats)) == self.packets[self.released]
            self.released += 1
        await ctx.tick()
        if beat:
            self.left -= 1
            if not self.left:
                if not replaying:
                    self.packets.append((self.chosen, self.beats))
                self.number += 1
        if rewind:
            self.seen["rewound"] += 1
            # Those that remain: all that was acknowledged is released.
            assert self.released == self.peer
            self.number, self.again, self.skip = self.peer, False, False
        self.rewound = rewind
        self.skip |= bool(overtaken)
        self.again |= rng.random() < 0.02
        if ack is not None and ack > self.peer:
            self.peer = ack


@pytest.mark.parametrize("registered", [False, True])
def test_against_a_list(seed, registered):
    config = dataclasses.replace(TINY, timing=dataclasses.replace(TINY.timing, registered_release=registered))
    dut, seen = LinkWindow(config, SOURCES), Counter()

    async def live(ctx):
        model = _Model(ctx, dut, random.Random(seed))
        for cycle in range(8000):
            await model.cycle(1 if cycle % 400 < 300 else 0.3)
        seen.update(model.seen)
        assert model.peer > 2 * NUMBERS

    run_cell(dut, live)
    assert seen["replayed"] > 500 and seen["rewound"] > 30, seen
