# SPDX-License-Identifier: Apache-2.0
"""The trigger unit and its model under random operations; differences that are planted are found."""

import json
from dataclasses import replace

import pytest

from dmace.cli import main
from hw.endpoint.config import BASE, TINY, WIDE
from hw.triggers.config import TriggerConfig
from hw.triggers.model import TriggerModel
from hw.triggers.words import Refusal
from sim.triggers.bench import TriggerBench
from sim.triggers.compare import compare

SMALL = TriggerConfig(blocks=2, dma_pages=1, ace_pages=1, doorbell_id_width=1)
REACHED = {code.name for code in Refusal}


@pytest.mark.rtl
def test_tiny(seed):
    result = compare(TINY.triggers, ticks=20_000, seed=seed)
    assert not result["mismatches"], result["first_mismatches"]
    assert result["ticks"] >= 20_000 and result["firings"] > 1000 and result["resets"] > 5
    assert set(result["codes"]) == REACHED


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize(("config", "ticks"), [
    (TINY, 200_000), (SMALL, 50_000), (WIDE, 50_000), (replace(TINY, pipelined=True), 50_000),
    *(pytest.param(config, 1_000_000, marks=pytest.mark.soak)
      for config in (TINY, BASE, SMALL, WIDE, replace(TINY, pipelined=True)))])
def test_long(config, ticks, seed):
    result = compare(config if config is SMALL else config.triggers, ticks=ticks, seed=seed)
    assert not result["mismatches"], result["first_mismatches"]
    assert set(result["codes"]) == REACHED


def _changes_words(self, block, *, post=TriggerModel.post):
    firing = post(self, block)
    return firing._replace(words=tuple(word ^ 1 << 28 for word in firing.words))


def _posts_twice(self, block, *, post=TriggerModel.post):
    firing = post(self, block)
    return firing._replace(words=firing.words * 2)


def _accepts_overflow(self, block, word, strobes=0xFF, *, tick=TriggerModel.tick):
    code = tick(self, block, word, strobes)
    return Refusal.NONE if code is Refusal.OVERFLOW else code


def _counts_refused(self, *arguments, tick=TriggerModel.tick):
    self.ticked += 1
    return tick(self, *arguments)


@pytest.mark.rtl
@pytest.mark.parametrize(("method", "changed", "sentence"), [
    ("post", _changes_words, "Difference in a word of Firing|The verdict on Operation"),
    ("post", _posts_twice, "Difference in a word of Firing|The verdict on Operation|The unit shows"),
    ("tick", _accepts_overflow, "The verdict on Operation"),
    ("tick", _counts_refused, "Difference in the number of ticks"),
    ("begin_reset", lambda self, block: None, "Difference in|A firing of counter|The verdict on")])
def test_differences_are_found(method, changed, sentence, seed, monkeypatch):
    monkeypatch.setattr(TriggerModel, method, changed)
    result = compare(TINY.triggers, ticks=5000, seed=seed)
    assert result["mismatches"] == 1
    (found,) = result["first_mismatches"]
    assert any(part in found for part in sentence.split("|")), found


@pytest.mark.rtl
def test_lost_events_are_found(seed, monkeypatch):
    """A record without the last word that was posted."""
    events = TriggerBench.events

    def lossy(self):
        rows = list(events(self))
        posted = [number for number, row in enumerate(rows) if row[0] == 5]
        return (row for number, row in enumerate(rows) if number != (posted or [-1])[-1])

    monkeypatch.setattr(TriggerBench, "events", lossy)
    result = compare(TINY.triggers, ticks=2000, seed=seed)
    assert result["mismatches"] == 1


@pytest.mark.rtl
def test_cli(seed, tmp_path, capsys):
    path = tmp_path / "result.json"
    assert main(["compare", "triggers", "--ticks", "500", "--seed", str(seed), "--json", str(path)]) == 0
    result = json.loads(path.read_text())
    assert result["config"] == "tiny" and result["seed"] == seed and result["ticks"] >= 500
    assert "firings" in capsys.readouterr().out


@pytest.mark.rtl
def test_cli_reports_a_difference(monkeypatch, capsys):
    monkeypatch.setattr(TriggerModel, "post", _posts_twice)
    assert main(["compare", "triggers", "--ticks", "5000"]) == 1
    assert "Before cycle" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--ticks", "0"], "--ticks must be from 1 to 100,000,000, not 0."),
    (["--seed", "-1"], "--seed must be from 0 to 9,223,372,036,854,775,807, not -1."),
    (["--ticks", "many"], "'many' is not an integer"),
    (["--config", "huge"], "--config must be one of tiny, base, wide, not 'huge'."),
    (["--json", "/nowhere/result.json"], "--json: there is no folder /nowhere."),
])
def test_bad_options(arguments, sentence, capsys):
    assert main(["compare", "triggers", *arguments]) == 2
    assert sentence in capsys.readouterr().err
