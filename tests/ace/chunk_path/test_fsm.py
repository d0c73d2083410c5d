# SPDX-License-Identifier: Apache-2.0
"""One FSM alone: random programs, with every neighbour of it stalled, and in any order."""

import random
from dataclasses import replace

import pytest

from hw.ace.words import Waits
from tests.ace.chunk_path.fsm_bench import SILENCE, alone
from tests.ace.chunk_path.fsm_phases import CONFIG, PACKET, SPANS, Phase, Send, ahead, both_ways, phase_of


def test_random(seed):
    """Phases of all kinds, at the pace of a free and of a busy neighbourhood."""
    rng = random.Random(f"{seed} fsm")
    seen, _ = alone(*(([phase_of(rng) for _ in range(rng.randrange(1, 5))], {"mood": mood, "reads": reads})
                       for _ in range(80) for mood, reads in ((1.0, 0.2), (0.5, 1.0), (0.15, 0.1))))
    assert all(count for name, count in seen.items() if not name.startswith("sums wait") and not name.endswith(
        ("by a mark", "ahead", "outside of a phase"))), seen


def test_granted_ahead(seed):
    """The next phase is granted with a send; its data arrives at any time from then on, and counts only there."""
    rng = random.Random(f"{seed} ahead")
    runs = []
    for number in range(100):
        phases = [phase_of(rng, sends=rng.randint(1, 3)) if rng.random() < 0.5 else both_ways(rng, rng.randint(2, 5))
                  for _ in range(rng.randint(2, 4))]
        runs.append((ahead(rng, phases), {
            "mood": rng.choice((1.0, 0.5, 0.15)), "reads": rng.choice((1.0, 0.1)), "early": rng.randrange(2),
            "fill": rng.choice((None, 20, 100)), "stop": number + 10 if number % 5 == 0 else None}))
    seen, _ = alone(*runs)
    assert seen["granted ahead"] and seen["ahead"] and seen["outside of a phase"], seen


def test_granted_ahead_and_stopped(seed):
    """GRANTs of the next phase that wait for their port are withdrawn when the chunk is stopped."""
    rng = random.Random(f"{seed} ahead stopped")
    runs = [(ahead(rng, [both_ways(rng, 3, span=1) for _ in range(2)]), {"early": 1, "silent": "signal", "stop": stop})
            for stop in range(4, 60)]
    alone(*runs)


def test_filled_later(seed):
    """A chunk whose fill ends in any cycle from its start on, whose GRANTs wait for that or not."""
    rng = random.Random(f"{seed} filled")
    alone(*(([phase_of(rng, sends=2), phase_of(rng)][:rng.randrange(3)], {
        "fill": fill, "early": early, "mood": rng.choice((1.0, 0.3))}) for fill in range(40) for early in (0, 1)))


def test_early_grants():
    """With ``early``, GRANTs leave before the fill has ended."""
    phase = Phase(0, PACKET, 1, (), 1)
    _, (late, early) = alone(*((([phase], {"fill": 60, "early": early})) for early in (0, 1)))
    assert early <= 60 + 3 < late


def test_marks(seed):
    """With the first mark of a fill receive 0 is granted, with the second one sends 0 and 1 may leave, and so on; a
    read error after marks holds everything else until the chunk is stopped."""
    rng = random.Random(f"{seed} marks")
    runs = []
    for _ in range(60):
        # Without a need, only marks hold a send back.
        needs = rng.randrange(2)
        sends = tuple(Send(64 * number, 16, number * needs, 0, number & 1) for number in range(8))
        begin, last = rng.randrange(8), rng.randrange(1, 5)
        marks = sorted(rng.sample(range(begin, begin + 90), last))
        unread = rng.random() < 0.2
        first = Phase(rng.randrange(CONFIG.ports), rng.choice((PACKET, 2 * PACKET)), 8, sends, 8)
        runs.append(([first, phase_of(rng)], {
            "marks": marks, "fill": marks[-1] + rng.randint(1, 60), "mood": rng.choice((1.0, 0.4)), "unread": unread,
            "stop": 300 if unread else None}))
    seen, _ = alone(*runs)
    assert seen["sent by a mark"] and seen["granted by a mark"]


def test_marks_save_the_fill():
    """Sends 0 and 1 leave, and receive 0 is granted, long before the fill has ended."""
    sends = (Send(0, 0, 0, 0, 1), Send(64, 16, 1, 0, 1))
    _, cycles = alone(*(([Phase(0, PACKET, 2, sends, 2)], {"fill": 100, "marks": marks}) for marks in ((), (20, 30))))
    assert cycles[1] < cycles[0]


def test_parts(seed):
    """All but the last receive of the last phase are reported once, before the end, also if the chunk is stopped."""
    rng = random.Random(f"{seed} parts")
    runs = []
    for number in range(60):
        phases = [phase_of(rng, sends=2) for _ in range(rng.randrange(1, 3))]
        if phases[-1].receives:
            runs.append((phases, {"parts": True, "mood": rng.choice((1.0, 0.3)), "reads": rng.choice((1.0, 0.1)),
                                  "stop": number + 3 if number % 3 == 0 else None}))
    alone(*runs)


def test_read_error(seed):
    """A chunk with a read error sends nothing and stays until its communicator is stopped."""
    rng = random.Random(f"{seed} unread fsm")
    runs = [([phase_of(rng, sends=2)], {"fill": fill, "unread": True, "early": rng.randrange(2), "stop": 60})
            for fill in (0, 1, 5, 30, 59, 60, 61, 80)]
    _, cycles = alone(*runs)
    assert min(cycles) >= 60 and cycles[-1] >= 80


def test_waits_for_memory():
    alone(([Phase(0, PACKET, 1, (Send(0, 0, 0, 0, 0),), 0)], {
        "fill": SILENCE, "silent": "fill", "waits": Waits.MEMORY}))


@pytest.mark.parametrize("span", SPANS)
def test_spans(span):
    """Packets of full length, and one with the remainder; with a send that waits for each of two receives."""
    sends = tuple(Send(64 * number, 16, number, 1, number & 1) for number in range(3))
    phase = Phase(2, span, 1, sends, 4)
    alone(([phase], {}), ([phase, replace(phase, port=3)], {"mood": 0.4}))


def test_empty():
    """A chunk without phases is finished at once; a phase may have only sends, only receives, or neither."""
    only_sends, only_receives = Phase(0, PACKET, 0, (Send(0, 0, 0, 0, 0),), 0), Phase(1, PACKET, 2, (), 2)
    _, cycles = alone(([], {}), ([only_sends, Phase(5, 1, 0, (), 0), only_receives], {}))
    assert cycles[0] <= 4


def test_stopped(seed):
    """A chunk of a communicator that is stopped is let go in any state, and the next one is whole."""
    rng = random.Random(f"{seed} stopped fsm")
    runs = []
    for stop in range(1, 90):
        options = {"mood": rng.choice((1.0, 0.3)), "reads": rng.choice((1.0, 0.1)), "stop": stop}
        runs.append(([phase_of(rng, sends=2), phase_of(rng)], options))
        if stop % 10 == 0:
            runs.append(([phase_of(rng, sends=2)], {}))
    alone(*runs)


@pytest.mark.parametrize(("silent", "waits"), [
    ("step", Waits.PROGRAM), ("fetched", Waits.PROGRAM), ("granted", Waits.GRANT), ("landed", Waits.DATA),
    ("offer", Waits.PORT), ("signal", Waits.DATA), ("read", Waits.SRAM)])
def test_silent_port(silent, waits):
    """Each port alone is stalled: the FSM waits for it, says so, and completes afterwards."""
    sends = (Send(0, 0, 0, 1, 0), Send(32, 32, 2, 0, 1))
    alone(([Phase(3, 2 * PACKET, 1, sends, 2)], {"silent": silent, "waits": waits}))


def test_last_grant_waits_for_the_port():
    """A phase does not end before its last GRANT has left, even if it grants more than it receives."""
    phase = Phase(4, 1, 1, (), 0)
    alone(([phase, phase], {"silent": "signal", "waits": Waits.PORT}))


def test_span_of_nothing():
    """A send of no beats is never offered; its chunk stays until it is stopped."""
    phase = Phase(0, 0, 0, (Send(0, 0, 0, 0, 0),), 0)
    _, cycles = alone(([phase], {"stop": 60}))
    assert cycles[0] >= 60


def test_throughput():
    """Once it is granted, a packet leaves every 2 cycles."""
    packets = CONFIG.chunk_beats // PACKET
    phase = Phase(0, CONFIG.chunk_beats, 0, (Send(0, 0, 0, 0, 0),), 0)
    _, (cycles,) = alone(([phase], {}))
    assert cycles <= 2 * packets + 16
