# SPDX-License-Identifier: Apache-2.0
"""``dmace soak handover``: no store after a RESET that abandoned responses, or after ``rst``, when memory is reused."""

import json

import pytest

from dmace import cli
from hw.dma_engine.config import TINY, DmaConfig
from sim.dma.handover import build_handover, run_handover

ODD = DmaConfig(data_width=128, queues=8, queue_depth=8, entries=64, window=4, regions=16, pages=4, tags=8,
                buffer_beats=32, segment_bytes=64, extended=2, ring_depth=4, connections=2)
"""Minimum sizes, with more queues than extended ones."""


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("runs", [600, pytest.param(2000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("config", [pytest.param(TINY, id="tiny"), pytest.param(ODD, id="odd")])
def test_no_store_after_the_end_of_an_epoch(config, runs, seed):
    result = run_handover(build_handover(config), seed=seed % (1 << 50), runs=runs)
    print(result)
    assert result["findings"] == []
    assert result["runs"] == runs
    # The runs have covered these cases.
    assert result["abandoned"] > runs and result["late_ends"] > runs // 10
    assert result["ended_regularly"] > runs // 10 and result["unexpected"] > runs


@pytest.mark.long
@pytest.mark.rtl
def test_verb(capsys, tmp_path):
    out = tmp_path / "handover.json"
    assert cli.main(["soak", "handover", "--runs", "120", "--seed", "7", "--json", str(out)]) == 0
    assert "120 runs on tiny" in capsys.readouterr().out
    result = json.loads(out.read_text())
    assert (result["runs"], result["seed"], result["findings"]) == (120, 7, [])


@pytest.mark.parametrize(("options", "sentence"), [
    (["--runs", "0"], "--runs must be from 1 to 10,000,000, not 0."),
    (["--json", "/no/such/folder/a.json"], "--json: there is no folder /no/such/folder."),
])
def test_wrong_options_are_reported(capsys, options, sentence):
    assert cli.main(["soak", "handover", *options]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
