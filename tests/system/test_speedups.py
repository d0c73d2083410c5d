# SPDX-License-Identifier: Apache-2.0
"""Endpoints against each other, on rows that are made up."""

import pytest

from sim.system.speedups import speedups, summary


def rows(nodes, **seconds):
    return [{"workload": "w", "nodes": nodes, "endpoint": name.partition("_")[0], "step_seconds": value,
             "network_bytes_per_s": 10 / value, **({"ace.fsms": int(name.partition("_")[2])} if "_" in name else {})}
            for name, value in seconds.items()]


TWO = rows("4", noovl=4.0, commopt=3.0, compopt=5.0, ideal=1.5, ace_16=2.0, ace_64=1.6) + rows(
    "8", noovl=2.0, commopt=3.0, ace_16=1.0, ace_64=4.0)
VARIED = ["workload", "nodes", "endpoint", "ace.fsms"]


def test_each_row_of_ace_has_its_baseline():
    found = {(one["nodes"], one["ace.fsms"]): one for one in speedups(TWO, VARIED)}
    assert len(found) == 4
    assert found["4", 16]["best"] == "commopt" and found["4", 16]["speedup"] == 1.5
    assert found["4", 16]["of_ideal"] == 0.75 and found["8", 16]["of_ideal"] is None
    assert found["4", 16]["network_same_memory"] == 2.5 and found["8", 16]["network_same_memory"] is None
    assert found["4", 16]["network_mean"] == pytest.approx((2 * 1.5 * 2.5) ** (1 / 3))
    assert found["8", 16]["network_mean"] == pytest.approx((2 * 3) ** 0.5)
    assert found["8", 64]["best"] == "noovl" and found["8", 64]["speedup"] == 0.5 and found["8", 64]["network"] == 0.5


def test_means():
    sixteen, sixty_four = summary(speedups(TWO, VARIED), ["ace.fsms"])
    assert (sixteen["ace.fsms"], sixteen["runs"], sixteen["most"]) == (16, 2, 2.0)
    assert sixteen["speedup"] == pytest.approx((1.5 * 2) ** 0.5)
    assert sixteen["of_ideal"] == pytest.approx(0.75)
    assert sixty_four["speedup"] == pytest.approx((3 / 1.6 * 0.5) ** 0.5)


def test_nothing_to_compare():
    assert speedups(rows("4", ace_16=1.0, ideal=1.0), VARIED) == []
