# SPDX-License-Identifier: Apache-2.0
"""``dmace soak``: random copies at the full width of 512 bits, and what it refuses."""

import json

import pytest

from dmace import cli
from hw.dma_engine.config import WIDE
from sim.cpp import HarnessFailed
from sim.dma.soak import runs
from tests.harness.fast import fast


@pytest.mark.long
@pytest.mark.rtl
def test_random_copies_at_full_width(seed):
    harness = fast(WIDE)
    for soak in runs(WIDE, 4000, 300):
        row = soak.run(harness, seed)
        requested = 4000 if soak.name == "one at a time" else 300
        assert row["requests"] >= requested and row["wrong_bytes"] == 0 and row["bytes"] > 20 * row["requests"]
        print(row)


@pytest.mark.long
@pytest.mark.rtl
def test_lengths_are_random(seed):
    """Neither all long nor all short."""
    harness = fast(WIDE)
    soak = runs(WIDE, 300, 1)[0]
    result = harness.run([soak.flow], [soak.target], seed=seed, limit=10_000_000)
    assert result["checked"]["requests"] == 300
    # Half of them are up to 1,100 bytes, half up to 129.
    assert 240 < result["checked"]["bytes"] / 300 < 380


@pytest.mark.long
@pytest.mark.rtl
def test_a_wrong_bit_is_found(seed):
    harness = fast(WIDE)
    soak = runs(WIDE, 50, 1)[0]
    with pytest.raises(HarnessFailed, match="bytes are wrong"):
        # A beat in the middle of a read; bytes of those at its ends may be unused.
        for plant in range(20, 40):
            harness.run([soak.flow], [soak.target], seed=seed, plant=plant)


@pytest.mark.rtl
def test_verb(capsys, tmp_path):
    out = tmp_path / "soak.json"
    assert cli.main(["soak", "dma", "--config", "tiny", "--single", "50", "--together", "40", "--rounds", "2",
                     "--json", str(out)]) == 0
    assert "one at a time" in capsys.readouterr().out
    rows = json.loads(out.read_text())["runs"]
    assert [row["seed"] for row in rows] == [1] * 4 + [2] * 4
    assert [row["requests"] for row in rows[:4]] == [50, 40, 40, 40]
    assert all(row["wrong_bytes"] == 0 for row in rows)
    assert rows[0]["bytes"] != rows[4]["bytes"]


@pytest.mark.parametrize(("options", "sentence"), [
    (["--single", "0"], "--single must be from 1 to 10,000,000, not 0."),
    (["--rounds", "-1"], "--rounds must be from 1 to 1,000,000, not -1."),
    (["--json", "/no/such/folder/a.json"], "--json: there is no folder /no/such/folder."),
])
def test_wrong_options_are_reported(capsys, options, sentence):
    assert cli.main(["soak", "dma", *options]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
