# SPDX-License-Identifier: Apache-2.0
"""Links that other jobs use, ranks that are slower, and the costs of starting a collective."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import mean

import pytest

from dmace.cli import main
from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import ENDPOINTS, LinkConfig, Machine, MachineConfig
from sim.system.background import Backlog
from sim.system.networks import Background
from sim.system.stragglers import Stragglers

C = Collective
RATE = 25e9


def machine(shape=(4,), endpoint="ideal", background=None, stragglers=None, fold=None, **link):
    return MachineConfig(
        shape=shape, endpoint=endpoint, header_bytes=0, order="fifo", message_bytes=4096,
        links=LinkConfig(**{"bytes_per_s": RATE, "latency_s": 1e-7, "background": background or Background()} | link),
        stragglers=stragglers or Stragglers(), fold=stragglers is None if fold is None else fold)


def seconds(config, size=4 << 20, begin=0.0, collective=C.ALL_REDUCE):
    ends, made = [], Machine(config)
    made.at(begin, lambda: made.issue(collective, size, done=ends.append))
    made.run()
    return ends[0] - begin


# -- Other jobs

@pytest.mark.parametrize("load, jobs, period", [(0.25, 1, 0), (0.5, 1, 0), (0.9, 1, 0), (0.9, 3, 0), (1, 2, 0),
                                                (0.25, 1, 4000), (0.75, 2, 1000)])
def test_backlog_beside_a_link_in_slots(load, jobs, period):
    """The closed computation is what a link does picosecond by picosecond."""
    random, made = Random(1), Backlog(Background(load=load, jobs=jobs, period_s=period * 1e-12))
    queue, now, expected, found, at = 0.0, 0, [], [], 0.0
    wanted = [(random.choice((0, 0, 0, 100, 700)), random.choice((50, 200))) for _ in range(60)]

    def slot(served):
        nonlocal queue, now
        arriving = (now % period < load * period) if period else load
        queue = max(0.0, queue + arriving - served)
        now += 1

    for gap, ticks in wanted:
        for _ in range(gap):
            slot(1)
        others = round(min(queue, jobs * ticks))
        for _ in range(others):
            slot(1)
        for _ in range(ticks):
            slot(0)
        expected.append(now)
    for gap, ticks in wanted:
        begin = at + gap
        at = begin + made.before(begin, ticks) + ticks
        found.append(at)
    assert found == pytest.approx(expected, abs=len(wanted))
    assert found[-1] > sum(gap + ticks for gap, ticks in wanted)


@pytest.mark.parametrize("load, jobs", [(0.3, 1), (0.5, 1), (0.9, 1), (0.9, 3), (0.6, 4)])
def test_fair_share_of_a_ring(load, jobs):
    slower = seconds(machine(background=Background(load=load, jobs=jobs))) / seconds(machine())
    assert slower == pytest.approx(1 / max(1 - load, 1 / (1 + jobs)), rel=0.02)


def test_bursts():
    """During a burst the link is shared, after it the backlog remains for a while, then the link is free."""
    config = machine(background=Background(load=0.25, period_s=10e-3))
    alone = seconds(machine())
    assert seconds(config) == pytest.approx(2 * alone, rel=0.02)
    assert seconds(config, begin=5e-3) == pytest.approx(alone, rel=1e-6)
    # A job that has stalled for 1 ms of its burst catches up, so it is there 0.5 ms longer.
    first, times, made = 40 << 20, {}, Machine(config)
    made.issue(C.ALL_REDUCE, first, done=lambda time: times.update(first=time))
    made.run()
    burst = 2.5e-3
    assert times["first"] == pytest.approx(2 * 10 * alone if 20 * alone < 2 * burst else 10 * alone + burst, rel=0.03)


def test_other_jobs_in_the_spine():
    link = {"kind": "switch", "leaf_ranks": 2, "oversubscription": 4, "latency_s": 0}
    for fold in (True, False):
        free, shared = (seconds(replace(machine((4,), replace(ENDPOINTS["ideal"], switched="direct"),
                                                background=Background(load=load), fold=fold, **link),
                                        message_bytes=1024), 1 << 18) for load in (0, 0.3))
        assert shared / free == pytest.approx(1 / 0.7, rel=0.03)


# -- Stragglers

@pytest.mark.parametrize("kind, algorithm", [("ring", "ring"), ("switch", "ring"), ("switch", "direct")])
def test_the_slowest_link_dictates(kind, algorithm):
    endpoint = replace(ENDPOINTS["ideal"], switched=algorithm)
    free = seconds(machine((8,), endpoint, kind=kind))
    for factor in (1.5, 3):
        slow = seconds(machine((8,), endpoint, stragglers=Stragglers(rank=3, link=factor), kind=kind))
        assert slow == pytest.approx(factor * free, rel=0.05)


def test_the_slowest_rank_dictates():
    """All others wait in the collective after a computation."""
    ends = {}
    for factor in (1, 1.25):
        made, ended = Machine(machine((4,), stragglers=Stragglers(rank=2, compute=factor))), []
        join = {rank: [] for rank in range(4)}
        for rank in range(4):
            made.compute(1e-3, rank=rank, done=join[rank].append)
        made.run()
        assert [join[rank][0] for rank in range(4)] == pytest.approx([1e-3, 1e-3, factor * 1e-3, 1e-3])
        made = Machine(made.config)
        made.compute(1e-3, done=lambda time, made=made, ended=ended: made.issue(C.ALL_REDUCE, 1 << 20,
                                                                                done=ended.append))
        made.run()
        ends[factor] = ended[0]
    assert ends[1.25] - ends[1] == pytest.approx(0.25e-3, rel=1e-6)
    # A computation that waits for memory is slower by as much.
    made = Machine(machine((2,), stragglers=Stragglers(rank=1, compute=3)))
    made.compute(0, memory_bytes=900e6)
    made.run()
    assert made.now == pytest.approx(3e-3)


def test_a_slow_link_receives_slowly():
    """Through a switch, data for a rank with a slow link takes as long as data from it."""
    ends = {}
    for slow in (0, 1, 2):
        made = Machine(machine((3,), stragglers=Stragglers(rank=slow, link=4), kind="switch"))
        made.put(0, 1, 10 << 20, done=lambda time, slow=slow: ends.update({slow: time}))
        made.run()
    assert ends[0] == pytest.approx(ends[1], rel=0.01) and ends[0] > 3.5 * ends[2]


@pytest.mark.parametrize("ranks", [2, 16, 64])
def test_jitter_is_as_its_distribution(ranks):
    """The slowest of N ranks is expected to take 1 + jitter (1 + 1/2 + ... + 1/N)."""
    def steps(seed):
        made, ends = Machine(machine((ranks,), stragglers=Stragglers(jitter=0.1, seed=seed))), [0.0]

        def again(time):
            ends.append(time)
            if len(ends) <= 400:
                made.compute(1e-3, done=again)

        made.compute(1e-3, done=again)
        made.run()
        return [after - before for before, after in pairwise(ends)]

    first = steps(1)
    assert mean(first) == pytest.approx(1e-3 * (1 + 0.1 * sum(1 / number for number in range(1, ranks + 1))), rel=0.02)
    assert first == steps(1) != steps(2)


# -- Costs of a collective

def test_launch_and_synchronisation_are_added():
    free = ENDPOINTS["commopt"]
    costly = replace(free, launch_s=5e-6, sync_s=2e-6)
    one = [seconds(machine(endpoint=kind)) for kind in (free, costly)]
    assert one[1] - one[0] == pytest.approx(7e-6, rel=1e-6)
    # Each of a sequence of them costs as much, while those that are issued together start together.
    for many, times in ((True, 1), (False, 10)):
        ends = []
        for kind in (free, costly):
            made = Machine(machine(endpoint=kind))

            def issue(_=None, made=made, left=[10], many=many, ends=ends):  # noqa: B006 (counts down)
                left[0] -= 1
                done = issue if left[0] and not many else ends.append
                made.issue(C.ALL_REDUCE, 1 << 16, done=done)

            issue.__defaults__[2][0] = 10
            for _ in range(10 if many else 1):
                issue()
            made.run()
            ends.append(made.now)
        assert ends[-1] - ends[len(ends) // 2 - 1] == pytest.approx(7e-6 * times, rel=1e-6)


def test_an_endpoint_without_overlap_waits_for_both():
    """Computation begins after the end of the last collective and its synchronisation."""
    costly = replace(ENDPOINTS["noovl"], launch_s=5e-6, sync_s=2e-6)
    made, ends = Machine(machine(endpoint=costly)), []
    made.issue(C.ALL_REDUCE, 1 << 20, done=ends.append)
    made.at(1e-6, lambda: made.compute(1e-3, done=ends.append))
    made.run()
    assert ends[0] == pytest.approx(seconds(machine(endpoint="noovl"), 1 << 20) + 7e-6, rel=1e-6)
    assert ends[1] == pytest.approx(ends[0] + 1e-3, rel=1e-9)


# -- From the command line

def test_network_and_costs_of_a_training_step(capsys):
    command = ["train", "--workload", "dlrm", "--nodes", "4x2", "--endpoint", "commopt,ace", "--steps", "1", "--json"]

    def steps(*settings):
        assert main([*command, *(part for one in settings for part in ("--set", one))]) == 0
        result = json.loads(capsys.readouterr().out)
        return {row["endpoint"]: row["step_seconds"] for row in result["rows"]}, result["inputs"]

    torus, _ = steps()
    ring, _ = steps("network=nvlink-rails")
    direct, inputs = steps("network=nvlink-rails", "commopt.switched=direct")
    costly, _ = steps("network=nvlink-rails", "commopt.launch_s=5us")
    assert inputs[0]["machine"]["links"][0]["kind"] == "switch"
    assert inputs[0]["machine"]["endpoint"]["switched"] == "direct"
    assert inputs[1]["machine"]["endpoint"]["switched"] == "ring"
    assert torus["commopt"] != ring["commopt"] and torus["ace"] != ring["ace"]
    assert direct["ace"] == ring["ace"] == costly["ace"]
    assert direct["commopt"] < ring["commopt"] < costly["commopt"] <= ring["commopt"] + 9 * 5e-6 * 1.001


def test_inputs_have_sources(capsys):
    assert main(["train", "--workload", "dlrm", "--nodes", "2x2", "--endpoint", "ideal", "--steps", "1",
                 "--inputs"]) == 0
    rows = [[cell.strip() for cell in line.strip("│\n").split("│")] for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: row[1:] for row in rows if len(row) == 3 and row[0]}
    assert len(found) > 60 and all(all(row) for row in found.values())
    assert found["endpoint.launch_s"][0] == "0" and found["links.1.kind"][0] == "ring"


@pytest.mark.parametrize("make, error", [
    (lambda: Background(load=1.5), "load of background traffic must be a number from 0 to 1, not 1.5."),
    (lambda: Background(jobs=0), "jobs of background traffic must be an integer from 1 to 1.04858e+06, not 0."),
    (lambda: machine(kind="switch", background=Background(load=0.5)),
     "background.load=0.5 of a switch is on links between leaves and spine, so leaf_ranks must not be none."),
    (lambda: Stragglers(compute=2), "stragglers.compute and stragglers.link are of stragglers.rank, which must not be "
     "none where they are 2 and 1."),
    (lambda: Stragglers(rank=0, compute=0.5), "compute of stragglers must be a number from 1 to 1e+06, not 0.5."),
    (lambda: machine(stragglers=Stragglers(jitter=0.1), fold=True),
     "stragglers need fold=false, as one rank cannot represent ranks that differ."),
    (lambda: machine(stragglers=Stragglers(rank=4)), "stragglers.rank must be one of 0 to 3, not 4."),
    (lambda: replace(ENDPOINTS["ace"], launch_s=-1), "launch_s of the endpoint ace must be a number from 0 to 1, "
     "not -1."),
])
def test_bad_values(make, error):
    with pytest.raises(UserError, match=f"^{re.escape(error)}$"):
        make()


def test_a_network_that_is_unknown(capsys):
    assert main(["train", "--nodes", "2x2", "--set", "network=mesh"]) != 0
    assert "network must be one of torus, nvlink-rails, not 'mesh'." in " ".join(capsys.readouterr().err.split())
