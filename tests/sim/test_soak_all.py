# SPDX-License-Identifier: Apache-2.0
"""``dmace soak all`` runs rounds in several processes: results in order, findings, and processes that end."""

import json
import os
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from dmace import cli
from sim.cli import soak_all, soak_rounds
from sim.cli.soak_rounds import PARTS, Part, Result, Round


def _round(found: int, seed: int) -> Result:
    """Two pieces of work, and a finding with one seed."""
    return Result(seed, 2, 10 * seed, [f"Seed {seed} has a finding [of 1]."] if seed == found else [])


def _ends(_: int) -> Result:
    os._exit(1)


def _rounds(found: int, wanted: int, seed: int) -> Iterator[Round]:
    return (partial(_round, found, number) for _, number in zip(range(0, wanted, 2), count(seed)))


def _part(option: str, default: int, rounds) -> Part:
    return Part(option, default, "pieces", f"pieces of {option}", rounds, lambda: None)


@pytest.mark.parametrize("workers", [1, 2])
def test_rounds(monkeypatch, capsys, workers):
    """A finding ends its part, and not the others; results are in order of their seeds."""
    parts = (_part("bad", 100, partial(_rounds, 7)), _part("good", 7, partial(_rounds, 0)),
             _part("none", 0, partial(_rounds, 0)))
    monkeypatch.setattr(soak_all, "PARTS", parts)
    assert cli.main(["soak", "all", "--seed", "5", "--workers", str(workers), "--json"]) == 1
    printed = capsys.readouterr()
    bad, good = json.loads(printed.out)["parts"]
    assert (bad["seeds"], bad["done"], bad["cycles"]) == ([5, 6, 7], 6, 180)
    assert bad["findings"] == ["Seed 7 has a finding [of 1]."] and bad["findings"][0] in printed.err
    assert (good["seeds"], good["done"], good["findings"]) == ([5, 6, 7, 8], 8, [])


def test_a_process_that_ends_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(soak_all, "PARTS", (_part("bad", 2, lambda wanted, seed: iter([partial(_ends, seed)])),))
    assert cli.main(["soak", "all", "--workers", "2"]) == 2
    assert capsys.readouterr().err == ("dmace: A process that ran a round ended by itself, perhaps for lack of memory; "
                                       "use fewer --workers than 2.\n")


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.option)
def test_rounds_have_the_wanted_number(part):
    """All that the option counts, with different seeds or sizes."""
    made = list(part.rounds(7, 3))
    sizes = [one.args[-2] for one in made if isinstance(one.args[-2], int)]
    assert sum(sizes) == 7 if sizes else len(made) == 7
    assert len({(one.args[-1], str(one.args)) for one in made}) == len(made)


@pytest.mark.long
@pytest.mark.rtl
def test_jobs_of_the_engine(seed, capsys):
    others = [word for part in PARTS if part.option != "jobs" for word in (f"--{part.option}", "0")]
    size = soak_rounds.JOBS
    assert cli.main(["soak", "all", "--jobs", str(size + 20), "--seed", str(seed % (1 << 32)), *others]) == 0
    assert f"{size + 20} jobs, DMA engine" in capsys.readouterr().out
