# SPDX-License-Identifier: Apache-2.0
"""Ranks in processes of their own on a cluster in RTL: results, errors, killed ranks, sessions one after the other."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hw.ace.collectives import Collective
from hw.ace.config import TINY
from sim.ace.cluster import Cluster
from tests.cluster_server.rank import values

pytestmark = pytest.mark.rtl

ROOT = Path(__file__).parents[2]
LIMIT = 150


@contextmanager
def cluster(folder, *options):
    """The path of a cluster's socket."""
    path = folder / "cluster"
    process = subprocess.Popen([sys.executable, "-m", "dmace", "cluster", "--socket", str(path), *options], cwd=ROOT,
                               stderr=subprocess.PIPE, text=True)
    try:
        assert "may connect" in process.stderr.readline()
        yield str(path)
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
    assert not path.exists()


def run(path, scenario, size=4, **environment):
    """Exit status and output of each rank."""
    ranks = [subprocess.Popen([sys.executable, "-m", "tests.cluster_server.rank", path, str(rank), str(size), scenario],
                              cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
             for rank in range(size)]
    try:
        outputs = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, json.loads(output) if output else None)
            for rank, output in zip(ranks, outputs, strict=True)]


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A ring of 4, whose sessions follow each other."""
    with cluster(tmp_path_factory.mktemp("ring"), "--nodes", "4", "--memory", "16") as path:
        yield path


def test_all_reduce(ring):
    found = run(ring, "all_reduce")
    assert [status for status, _ in found] == [0] * 4
    inputs = [values(rank, 1000) for rank in range(4)]
    ordered = ((inputs[0] + inputs[1]) + inputs[2]) + inputs[3]
    for _, one in found:
        assert bytes.fromhex(one["output"]) == ordered.tobytes() and one["same"]
        np.testing.assert_allclose(one["free"], ordered, rtol=1e-5, atol=1e-5)
    with Cluster(TINY, (4,)) as alone:
        outcome = alone.collective(Collective.ALL_REDUCE, inputs, ordered=True)
    assert {one["cycles"] for _, one in found} == {outcome.cycles}
    assert {one["payload"] for _, one in found} == {sum(link["payload_bytes"] for link in outcome.statistics["links"])}


def test_parts_of_different_lengths(ring):
    for rank, (_, one) in enumerate(run(ring, "uneven")):
        assert one["output"] == [10 * other + rank for other in range(4) for _ in range(rank + other)]


def test_ranks_that_disagree(ring):
    sentence = ("Ranks of group 0-1-2-3 have posted different collectives: rank 0 ALL_REDUCE (100 x FP32, SUM, "
                "root 0), and rank 1 ALL_REDUCE (101 x FP32, SUM, root 0).")
    assert run(ring, "disagree") == [(3, sentence)] * 4


def test_buffer_outside_of_the_memory(ring):
    for status, sentence in run(ring, "outside"):
        assert status == 3 and re.match("ALL_REDUCE of group 0-1-2-3 has failed: SRC_BOUNDS at rank 0", sentence)


def test_rank_that_posts_nothing(ring):
    """Ranks 1 to 3 time out. Rank 0 fails, too, whenever it posts."""
    begin = time.monotonic()
    found = run(ring, "late")
    assert [status for status, _ in found] == [3] * 4
    sentences = [sentence for _, sentence in found]
    assert any(re.fullmatch(r"ALL_REDUCE of group 0-1-2-3 has not completed at rank \d within 2 s\.", sentence)
               for sentence in sentences[1:])
    for sentence in sentences:
        assert "has not completed at rank" in sentence
    assert time.monotonic() - begin < LIMIT


@pytest.mark.parametrize("after", (0.0, 0.05, 0.4, 1.3))
def test_killed_rank(ring, after):
    found = run(ring, "killed", KILL_AFTER=str(after))
    assert found[1] == (-9, None)
    for status, one in found[:1] + found[2:]:
        assert (status, one["error"]) == (0, "Rank 1 has ended without leaving the cluster.")
        # The collective that is in progress in RTL ends first.
        assert one["seconds"] < after + 10


def test_sessions_follow_each_other(ring):
    assert run(ring, "again") == [(0, [10.0] * 10)] * 4


def test_rank_that_leaves(ring):
    found = run(ring, "leaves")
    assert [one["error"] for _, one in found] == ["Rank 2 has left the cluster."] * 2 + [None] + [
        "Rank 2 has left the cluster."]


def test_rows_of_a_torus(tmp_path):
    with cluster(tmp_path, "--nodes", "2x2", "--memory", "1") as path:
        assert [one["output"] for _, one in run(path, "rows")] == [[3.0] * 10] * 2 + [[7.0] * 10] * 2
        sentence = ("Ranks 0, 3 are no group of a cluster of shape 2x2, which has (0 1 2 3), (0 2), (1 3), (0 1), (2 3)"
                    ".")
        assert run(path, "diagonal") == [(3, sentence)] * 4


def test_lost_packets_do_not_change_bits(tmp_path):
    with cluster(tmp_path, "--nodes", "4", "--faults", "loss=0.03", "--memory", "1") as path:
        found = run(path, "all_reduce")
    inputs = [values(rank, 1000) for rank in range(4)]
    assert {one["output"] for _, one in found} == {(((inputs[0] + inputs[1]) + inputs[2]) + inputs[3]).tobytes().hex()}
    assert found[0][1]["lost"] > 0


def test_link_that_is_cut(tmp_path):
    with cluster(tmp_path, "--nodes", "4", "--faults", "down=1:+0@100", "--memory", "1") as path:
        found = run(path, "all_reduce")
    for status, sentence in found:
        assert status == 3 and "has failed" in sentence and "LINK_DOWN" in sentence
