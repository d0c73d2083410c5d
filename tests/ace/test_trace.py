# SPDX-License-Identifier: Apache-2.0
"""The trace of a cluster against its statistics and counters."""

import json
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from dmace.cli import main
from dmace.drivers.ace import Share
from hw.ace.config import TINY
from hw.ace.layouts import PacketKind
from hw.ace.words import Collective
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link, Memory
from sim.ace.log import Log, Packet
from sim.ace.shared_library import ClusterFailed, build_library
from sim.ace.trace import FSMS, PORTS, chrome, phases, traced

pytestmark = pytest.mark.rtl

LATENCY = 7
KEYS = {"M": {"tid", "args"}, "X": {"tid", "ts", "dur", "args"}, "b": {"tid", "cat", "id", "ts", "args"},
        "e": {"tid", "cat", "id", "ts"}}


@cache
def library():
    return build_library(TINY)


def _events(path):
    """Phase of an event -> its events, whose keys are checked."""
    made, found = json.loads(path.read_text()), defaultdict(list)
    assert made["displayTimeUnit"] == "ms"
    for event in made["traceEvents"]:
        assert event.keys() == KEYS[event["ph"]] | {"ph", "pid", "name"}
        assert all(isinstance(event.get(key, 0), int) and event.get(key, 0) >= 0 for key in ("pid", "tid", "ts", "dur"))
        found[event["ph"]].append(event)
    return found


def _tracks(slices):
    """(rank, thread) -> slices in order, which must not overlap."""
    tracks = defaultdict(list)
    for one in slices:
        tracks[one["pid"] - 1, one["tid"]].append(one)
    for track in tracks.values():
        for before, after in pairwise(track):
            assert before["ts"] + before["dur"] <= after["ts"]
    return tracks


@pytest.mark.parametrize("stall", [0, 0.3])
@pytest.mark.parametrize(("shape", "passes"), [((2,), 1), ((2, 2), 3)])
def test_all_reduce(shape, passes, stall, tmp_path, seed):
    rng = np.random.default_rng(seed)
    with Cluster(TINY, shape, library=library(), link=Link(latency=LATENCY, stall=stall), memory=Memory(stall=stall),
                 seed=seed) as cluster:
        inputs = [rng.standard_normal(7000).astype(np.float32) for _ in range(cluster.size)]
        cluster.collective(Collective.ALL_REDUCE, inputs)
        first = cluster.do(*(driver.counters() for driver in cluster.drivers))
        with traced(cluster, tmp_path / "trace.json"):
            outcome = cluster.collective(Collective.ALL_REDUCE, inputs)
        counters = cluster.do(*(driver.counters() for driver in cluster.drivers))
        share = cluster.communicators[0].share
    events = _events(tmp_path / "trace.json")
    tracks = _tracks(events["X"])

    for link in outcome.statistics["links"]:
        track = tracks[link["rank"], PORTS + link["port"]]
        data = [one for one in track if "bytes" in one["args"]]
        assert sum(one["args"]["bytes"] for one in data) == link["payload_bytes"] > 0
        assert len(data) == link["data"] and len(track) - len(data) == link["grants"]
        gaps = [one["dur"] - one["args"]["beats"] for one in data]
        assert min(gaps) >= 0 and (stall or min(gaps) == 0)
    for rank, counts in enumerate(outcome.statistics["memories"]):
        begun = [event for event in events["b"] if event["pid"] == rank + 1]
        for name, bursts, beats in (("memory reads", "read_bursts", "read_beats"),
                                    ("memory writes", "write_bursts", "write_beats")):
            found = [event for event in begun if event["name"] == name]
            assert len(found) == counts[bursts] and sum(event["args"]["beats"] for event in found) == counts[beats]
    ends = {event["id"]: event["ts"] for event in events["e"]}
    assert len(ends) == len(events["e"]) == len(events["b"])
    for event in events["b"]:
        least = event["args"]["beats"] + 100
        assert ends[event["id"]] - event["ts"] >= least

    chunks = [after["chunks"] - before["chunks"] for before, after in zip(first, counters, strict=True)]
    assert len(set(chunks)) == 1 and chunks[0] > share.fsms
    names = Counter(f"chunk {first[0]['chunks'] + number} phase {phase}"
                    for number in range(chunks[0]) for phase in range(passes))
    ports = 2 * len(shape)
    for rank in range(len(inputs)):
        found = [(thread - FSMS, one) for (owner, thread), track in tracks.items() if owner == rank and thread >= FSMS
                 for one in track]
        assert Counter(one["name"] for _, one in found) == names
        for fsm, one in found:
            assert fsm == share.first_fsm + int(one["name"].split()[1]) % share.fsms
            assert 0 < one["dur"] and one["ts"] + one["dur"] <= outcome.cycles
        links = [link for link in outcome.statistics["links"] if link["rank"] == rank]
        come = [link for link in outcome.statistics["links"] if link["to"] == rank]
        assert len(links) == len(come) == ports
        assert sum(one["args"]["bytes_sent"] for _, one in found) == sum(link["payload_bytes"] for link in links)
        assert sum(one["args"]["bytes_received"] for _, one in found) == sum(link["payload_bytes"] for link in come)


def test_both_ends_of_a_link():
    """A packet arrives unchanged after the link's latency; nothing is logged outside the trace."""
    with Cluster(TINY, (3,), library=library(), link=Link(latency=LATENCY)) as cluster:
        inputs = [np.arange(600, dtype=np.int32)] * 3
        for _ in range(2):
            cluster.collective(Collective.ALL_REDUCE, inputs)
            with cluster.log() as log:
                outcome = cluster.collective(Collective.ALL_REDUCE, inputs)
            cluster.collective(Collective.ALL_REDUCE, inputs)
            cluster.run(1000)
            ends = {(rank, port, came): [packet for packet in log.packets if packet[:3] == (rank, port, came)
                                         and packet.kind != PacketKind.CREDIT]
                    for rank in range(3) for port in range(2) for came in (False, True)}
            for (rank, port, came), there in ends.items():
                if came:
                    left = ends[(rank + 1 - 2 * port) % 3, port ^ 1, False]
                    assert there
                    for one, other in zip(left, there, strict=True):
                        assert (one.begin + LATENCY, one.end + LATENCY) == (other.begin, other.end)
                        assert one[5:] == other[5:]
            last = max(packet.end for packet in log.packets if packet.kind == PacketKind.DATA)
            assert min(packet.begin for packet in log.packets) >= log.begin > last - outcome.cycles


def test_what_failed_is_traced(tmp_path):
    """A missing rank: the others' first packets are in the trace."""
    path = tmp_path / "trace.json"
    with Cluster(TINY, (2,), library=library()) as cluster, pytest.raises(ClusterFailed, match="had not ended"), \
            traced(cluster, path):
        cluster.collective(Collective.ALL_REDUCE, [np.zeros(100, np.float32)] * 2, delay=[0, 5000], limit=2000)
    assert {event["pid"] for event in _events(path)["X"]} == {1}


def _packet(begin, sequence, phase=0, *, kind=PacketKind.DATA, came=False, port=0):
    return Packet(0, port, came, begin, begin + 3, kind, 0, 0, sequence, phase, 0, 3, 0, 0)


def test_phases_of_an_fsm_follow_one_another():
    """Also if one's last packet left after the next one's first, and if sequences wrap."""
    made = phases([_packet(10, 65535), _packet(20, 65535, 1), _packet(30, 1), _packet(21, 65535, port=2),
                   _packet(2, 1, kind=PacketKind.GRANT, came=True), _packet(28, 0)], [Share(2, 2, 0, 2)])
    assert [(one.fsm, one.sequence, one.phase, one.begin, one.end, one.sent) for one in made] == [
        (3, 65535, 0, 10, 20, 8), (3, 65535, 1, 20, 24, 4), (3, 1, 0, 30, 34, 4), (2, 0, 0, 28, 32, 4)]
    first, second = phases([_packet(10, 4, 1), _packet(12, 4, 0, port=2)], [Share(0, 4, 0, 4)])
    assert (first.begin, first.end, second.begin) == (10, 10, 10)


def test_nothing_happened():
    assert chrome(Log(0), TINY, [])["traceEvents"] == []


def test_sim(tmp_path, capsys):
    path = tmp_path / "trace.json"
    assert main(["sim", "ace", "--nodes", "2", "--count", "100", "--trace", str(path)]) == 0
    assert "Trace: " in capsys.readouterr().out
    names = {event["args"]["name"] for event in _events(path)["M"]}
    assert names >= {"rank 0", "rank 1", "port 0", "FSM 0"}
