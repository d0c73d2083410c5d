# SPDX-License-Identifier: Apache-2.0
"""Stalls by the banks of the SRAM, beside an arbitration of every beat in every cycle."""

import random

import pytest

from hw.ace.config import TINY
from hw.ace.words import Collective
from sim.system.banks import Banks
from sim.validation.as_rtl import as_rtl, cycles


def every_cycle(banks, runs):
    """``(user, begin, beat, beats, reads, writes)`` of each run -> cycle after its last beat. A request waits while one
    of a user with a lower number is for the same side of the same bank."""
    left = {user: [begin, beat, beats] for user, begin, beat, beats, _, _ in runs}
    sides = {user: (reads, writes) for user, _, _, _, reads, writes in runs}
    ends, cycle = {}, 0
    while left:
        taken = set()
        for user in sorted(left):
            begin, beat, beats = left[user]
            wanted = {(side, (beat + beat // 64) % banks) for side in (0, 1) if sides[user][side]}
            if cycle < begin:
                continue
            waits, taken = wanted & taken, wanted | taken
            if waits:
                continue
            left[user] = [begin, beat + 1, beats - 1]
            if beats == 1:
                ends[user] = cycle + 1
                del left[user]
        cycle += 1
    return ends


@pytest.mark.parametrize("banks", [4, 8])
def test_the_same_as_beat_by_beat(banks):
    """Any three runs of beats, each within 64 and some cycles later, of users that may read, write, or do both."""
    rng = random.Random(banks)
    stalled = 0
    for _ in range(2000):
        runs = []
        for number, user in enumerate(rng.sample(range(6), 3)):
            reads, writes = rng.choice(((True, False), (False, True), (True, True)))
            beats = rng.randrange(1, 64)
            beat = 64 * rng.randrange(40) + rng.randrange(65 - beats)
            runs.append((user, 8 * number + rng.randrange(3), beat, beats, reads, writes))
        expected, model, streams = every_cycle(banks, runs), Banks(banks, 6), {}
        # Those that begin in a cycle, the first in precedence first.
        for user, begin, beat, beats, reads, writes in sorted(runs, key=lambda run: (run[1], run[0])):
            streams[user], _ = model.begin(user, begin, beat, beats, reads=reads, writes=writes)
        assert {user: stream.end for user, stream in streams.items()} == expected, runs
        stalled += model.stalls
    assert stalled > 300


def test_one_waits_and_then_follows():
    banks = Banks(4, 3)
    first, waits = banks.begin(1, 10, 3, 30, reads=True, writes=False)
    assert (first.end, waits) == (40, 0)
    # Five cycles later the first is at beat 8.
    second, waits = banks.begin(2, 15, 16, 10, reads=True, writes=False)
    assert (second.end, waits) == (26, 1)
    # A writer does not meet readers. One with precedence stalls both, one after the other.
    assert banks.begin(0, 16, 9, 10, reads=False, writes=True)[1] == 0
    assert banks.begin(0, 16, 9, 10, reads=True, writes=False)[1] == 0
    assert (first.end, second.end) == (41, 27)


def test_the_bank_skips_one_after_64_beats():
    banks = Banks(4, 2)
    banks.begin(0, 0, 63, 8, reads=True, writes=False)
    assert banks.begin(1, 0, 64, 8, reads=True, writes=False)[1] == 0
    assert banks.begin(1, 0, 62 + 64, 8, reads=True, writes=False)[1] == 1


def test_an_end_is_an_end():
    banks = Banks(4, 2)
    banks.begin(0, 0, 0, 8, reads=True, writes=False)
    assert banks.begin(1, 8, 8, 8, reads=True, writes=False)[1] == 0
    assert banks.begin(1, 7, 7, 8, reads=True, writes=False)[1] == 1


def test_places_in_the_sram(monkeypatch):
    """On a ring of 4, chunks of 512 beats: all users are in all eight slots, and at all beats of them."""
    found = {}
    begin = Banks.begin

    def spied(self, user, cycle, beat, beats, **options):
        found.setdefault(user, set()).update(range(beat, beat + beats))
        return begin(self, user, cycle, beat, beats, **options)

    monkeypatch.setattr(Banks, "begin", spied)
    cycles(as_rtl(TINY, (4,), link_rate=1, link_latency=20, memory_latency=100), Collective.ALL_REDUCE, 64 << 10)
    assert list(found.values()) == [set(range(8 * 512))] * 4
