# SPDX-License-Identifier: Apache-2.0
"""The table of the paper's headline figures: its arithmetic on made-up runs, and the command."""

import re
from pathlib import Path

import pytest

from dmace.cli import main
from sim.system.memory import POOLS
from sim.system.sweep import Store
from sim.validation import headlines, offload
from sim.validation.headlines import WORKLOADS

SECONDS = {"noovl": 4.0, "commopt": 3.0, "compopt": 6.0, "ace": 2.0, "ideal": 1.5, "wide": 2.5, "ultra": 1.6}
RATES = {"noovl": 10.0, "commopt": 8.0, "compopt": 2.0, "ace": 9.0, "ideal": 10.0, "wide": 5.0, "ultra": 9.5}
SHAPES = ((2,), (4,))


def made_up():
    """On the second shape all take twice as long, but ACE as long as before."""
    return {(workload, pool, shape, endpoint): {
        "endpoint": endpoint, "step_seconds": seconds * (2 if shape == (4,) and endpoint != "ace" else 1),
        "compute_seconds": 1.2, "compute_alone_seconds": 1.0, "network_bytes_per_s": RATES[endpoint]}
        for names in WORKLOADS.values() for workload in names for pool in POOLS for shape in SHAPES
        for endpoint, seconds in SECONDS.items()}


def saved(pool):
    row = {"shape": "4x4x4", "memory_pool": pool, "ace_needs": 100e9, "conventional_needs": 300e9, "ratio": 3.0}
    return [row, row | {"shape": "4x2x2", "ace_needs": None, "ratio": None}]


@pytest.fixture
def rows():
    return list(headlines.headlines(made_up(), [row for pool in POOLS for row in saved(pool)]))


def test_iteration_times(rows):
    row = next(row for row in rows if row["case"] == "dlrm-fp16")
    assert (row["paper"], row["paper_most"]) == (1.13, 1.19)
    assert row["ours"] == pytest.approx((1.5 * 3) ** 0.5) and row["ours_most"] == 3
    assert row["limit"] == pytest.approx(2) and row["built"] == pytest.approx(1.2)
    assert row["most_built"] == pytest.approx(3 / 1.6)
    assert row["why"] == ("the best baseline (commopt) computes 20 % longer than alone; ACE reaches 106 % of "
                          "Ideal's speed")
    row = next(row for row in rows if row["case"] == "resnet50-fp16")
    assert row["limit"] > 1.41 and "even Ideal" not in row["why"]


def test_network_rates(rows):
    row = next(row for row in rows if row["figure"].startswith("network"))
    assert row["ours"] == pytest.approx((9 / 10 * 9 / 8 * 9 / 2) ** (1 / 3)) and row["ours_most"] == 4.5
    assert row["why"] == "0.90 of noovl's, 1.12 of commopt's, 4.50 of compopt's"


def test_memory_bandwidth(rows):
    row = next(row for row in rows if row["figure"].startswith("memory"))
    assert row["ours"] == pytest.approx(3) and row["ours_most"] == 3 and row["paper"] == 3.5
    assert "100 and 300" in row["why"] and "On 4x2x2 ACE's lanes do not reach 90 %" in row["why"]


def test_every_possibility_has_a_row(rows):
    """Two precisions where the table leaves it open, and both conventions of memory bandwidth, for each workload."""
    assert len(rows) == 2 * (2 + 1 + 2 + 1 + 1)
    text = headlines.page(rows)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(rows) and len({line.count(" | ") for line in table if "---" not in line}) == 1


def test_runs_are_stored(tmp_path):
    store = Store(tmp_path / "results")
    found = headlines.measure(store, workloads=["dlrm-fp16"], shapes=[(2,)])
    assert len(found) == 2 * 7 == len(list(store.folder.glob("*.json")))
    again = headlines.measure(Store(tmp_path / "results"), workloads=["dlrm-fp16"], shapes=[(2,)])
    assert again == found
    times = {(pool, endpoint): row["step_seconds"] for (_, pool, _, endpoint), row in found.items()}
    assert times["shared", "ace"] > times["separate", "ace"] >= times["separate", "ideal"]


@pytest.mark.parametrize("arguments, sentence", [
    (["--headlines", "h.txt"], r"--headlines writes Markdown, so its file must end in \.md, not 'h\.txt'\."),
    (["--headlines", "--offload"], r"--offload and --headlines cannot be combined\."),
    (["--results", "r"], r"--results is the folder of --headlines, so it needs that option\."),
    (["--headlines", "/nowhere/h.md"], r"--headlines: there is no folder /nowhere\."),
])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(["validate", *arguments]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)


@pytest.mark.soak
def test_the_page_is_up_to_date(tmp_path):
    """Otherwise: ``dmace validate --headlines docs/headlines.md``."""
    results = headlines.measure(Store(tmp_path / "results"))
    page = headlines.page(headlines.headlines(results, offload.rows()))
    assert page == (Path(__file__).parents[2] / "docs" / "headlines.md").read_text(encoding="utf-8")
