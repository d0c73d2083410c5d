# SPDX-License-Identifier: Apache-2.0
"""A random sample of mutants, wrong arguments, and the report."""

import random

import pytest

from tests.changed_sources import check_fits
from tests.mutation import by_block, designs, explained
from tests.mutation.__main__ import main, run, sample
from tests.mutation.operators import Mutant
from tests.mutation.report import Result, markdown, score
from tests.mutation.runner import Verdict

SAMPLE, MOST_SURVIVORS = 10, 2
"""In a sample: where 2 % survive, 3 or more of 10 do with a probability of 0.09 %, and where 30 % do, of 62 %."""


@pytest.mark.long
@pytest.mark.rtl
@pytest.mark.parametrize("engine", ["dma", "ace"])
def test_sample(engine):
    """A new sample each time, of the mutants that are not known to survive."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"To repeat: make mutants ARGS='--engine {engine} --mutants {SAMPLE} --unknown --seed {seed}'")
    results = list(run(engine, sample(engine, SAMPLE, seed, without_known=True)))
    print(markdown(results, title=f"{designs.ENGINES[engine]}, seed {seed}"))
    survivors = [result.mutant for result in results if result.state == "survived"]
    assert len(results) == SAMPLE
    assert len(survivors) <= MOST_SURVIVORS, (seed, survivors)


def test_samples_depend_on_the_seed(monkeypatch):
    monkeypatch.setattr(designs, "mutants_of_engine", lambda engine: dict.fromkeys(range(1, 100)))
    assert sample("dma", 20, 1) == sample("dma", 20, 1) != sample("dma", 20, 2)
    assert sample("ace", 10_000, 1) == list(range(1, 100))


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--mutants", "0"], "--mutants must be at least 1, not 0."),
    (["--number", "3"], "--number needs --engine, as each engine has its own numbers."),
    (["--engine", "ace", "--number", "9999"],
     "--number must be one of the 199 that --list prints for this engine, not 9999."),
])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"


@pytest.mark.parametrize("arguments", [["--engine", "gpu"], ["--seed", "x"]])
def test_arguments_that_do_not_parse(arguments):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def _result(number, *, test="", equivalent=False, source="tests/mutation/test_score.py:1", change="and -> or"):
    mutant = Mutant("a", number, 0, "operator", change, source)
    return Result("dma", mutant, Verdict(number, test, test and "wrong", 1.0), equivalent)


def test_score(monkeypatch):
    results = [_result(1, test="run"), _result(2, test="run"), _result(3, equivalent=True), _result(4),
               _result(5, change="or -> and")]
    entry = explained.Explained("tests/mutation/test_score.py", "SPDX", "or -> and", "performance", "Only later.")
    monkeypatch.setattr(explained, "EXPLAINED", [entry])
    found = score(results)
    assert (found.all, found.killed, found.equivalent, found.explained, found.survived) == (5, 2, 1, 1, 1)
    assert found.share == 0.5
    text = markdown(results, title="Title")
    assert "| all | 5 | 1 | 2 | 1 | 1 | 50.0 % |" in text
    assert ("* dma 5, `tests/mutation/test_score.py:1` operator: or -> and (`# SPDX-License-Identifier: Apache-2.0`). "
            "performance: Only later.") in text
    assert score([]).share == 1


def test_block_tests(monkeypatch):
    """A survivor that the test of a block finds counts as killed; the changes fit the sources."""
    entry = by_block.ByBlock("tests/mutation/test_score.py", "SPDX", "and -> or", "a", "b", "tests/x.py::test_x")
    monkeypatch.setattr(by_block, "BLOCKS", [entry])
    assert [_result(1).state, _result(2, change="or -> and").state] == ["killed", "survived"]
    assert "(`# SPDX-License-Identifier: Apache-2.0`). tests/x.py::test_x\n" in markdown([_result(1)], title="Title")
    monkeypatch.undo()
    for entry in by_block.BLOCKS:
        check_fits(entry.changed or entry.file, entry.old, entry.test)
        assert entry.code in (explained.ROOT / entry.file).read_text(), entry


def test_explanations_name_lines_that_exist():
    for entry in explained.EXPLAINED:
        assert entry.reason in explained.REASONS, entry
        assert entry.code in (explained.ROOT / entry.file).read_text(), entry
