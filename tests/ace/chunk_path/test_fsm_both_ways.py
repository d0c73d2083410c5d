# SPDX-License-Identifier: Apache-2.0
"""One FSM with phases that send to both neighbours and to the loopback."""

import random

from tests.ace.chunk_path.fsm_bench import alone
from tests.ace.chunk_path.fsm_phases import both_ways, phase_of


def test_both_ways(seed):
    """Phases with sends to both neighbours, whose receives arrive at any pace, and sums of what has arrived."""
    rng = random.Random(f"{seed} both")
    seen, _ = alone(*(([both_ways(rng, size), phase_of(rng), both_ways(rng, size)][:rng.randint(1, 3)],
                        {"mood": mood, "reads": reads, "ends": rng.choice((None, 0.05)), "early": rng.randrange(2),
                         "fill": rng.choice((None, 20))})
                       for size in (2, 3, 4, 5, 8) for _ in range(6)
                       for mood, reads in ((1.0, 0.2), (0.5, 1.0), (0.15, 0.1))))
    assert seen["sums wait"] and seen["sums wait for beats"] and seen["cut through"], seen


def test_both_ways_stopped(seed):
    rng = random.Random(f"{seed} both stopped")
    runs = []
    for stop in range(1, 120, 2):
        runs.append(([both_ways(rng, 4)], {"mood": rng.choice((1.0, 0.3)), "reads": 1.0, "stop": stop}))
        if stop % 10 == 1:
            runs.append(([both_ways(rng, 3)], {}))
    alone(*runs)
