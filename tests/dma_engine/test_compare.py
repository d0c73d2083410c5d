# SPDX-License-Identifier: Apache-2.0
"""Short runs of ``dmace compare dma``: every status, with ``--soak`` on every preset; reports of a difference."""

import json

import pytest

from dmace.cli import main
from hw.dma_engine.words import Status

RESULT = {
    "config": "tiny", "seed": 3, "requests": 12, "cycles": 1000, "seconds": 1.0, "waves": None,
    "errors_provoked": {status.name: 1 for status in Status if status}, "mismatches": 1,
    "first_mismatches": ["Cycle 77: queue 2 makes no progress: count is 3 instead of 4."],
}


@pytest.mark.rtl
@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "random"), pytest.param("base", "none", marks=pytest.mark.long),
    *(pytest.param(*run, marks=pytest.mark.soak) for run in (("tiny", "none"), ("base", "random"), ("wide", "random"))),
])
def test_compare(config, stalls, seed, tmp_path, soak):
    path = tmp_path / "result.json"
    requests = 5000 if soak else 250
    status = main(["compare", "dma", "--config", config, "--requests", str(requests), "--seed", str(seed),
                   "--stalls", stalls, "--json", str(path)])
    result = json.loads(path.read_text())
    assert not result["mismatches"], result["first_mismatches"]
    assert status == 0
    assert result["requests"] >= requests and result["seed"] == seed and result["config"] == config
    assert set(result["errors_provoked"]) == {status.name for status in Status if status}
    assert all(result["errors_provoked"].values())


@pytest.fixture
def different(monkeypatch):
    """A run that finds a difference."""
    import sim.cli.compare
    monkeypatch.setattr(sim.cli.compare, "simulate_dma", lambda *_: RESULT)


def test_a_difference_is_reported(different, capsys):
    assert main(["compare", "dma"]) == 1
    assert RESULT["first_mismatches"][0] in capsys.readouterr().out


def test_json_to_standard_output(different, capsys):
    assert main(["compare", "dma", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == RESULT


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--requests", "0"], "--requests must be from 1 to 10,000,000, not 0."),
    (["--config", "tinny"], "--config must be one of tiny, base, wide, not 'tinny' (did you mean 'tiny'?)."),
    (["--stalls", "often"], "--stalls must be one of none, patterned, random, not 'often'."),
    (["--seed", "-1"], "--seed must be from 0 to 9,223,372,036,854,775,807, not -1."),
    (["--seed", "x"], "compare dma: --seed 'x' is not an integer; see `dmace compare dma --help`."),
    (["--latency", "1"], "--latency must be from 2 to 10,000, not 1."),
    (["--json", "/no/such/folder/x.json"], "--json: there is no folder /no/such/folder."),
])
def test_bad_options(arguments, sentence, capsys):
    assert main(["compare", "dma", *arguments]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
