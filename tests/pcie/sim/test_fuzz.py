# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz --engine pcie``: no finding on the card, and a finding with a short job on flawed ones."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from dmace import cli
from hw.pcie.requester import reads
from sim.cpp.fuzz import run_fuzz
from sim.cpp.harness import HarnessFailed
from sim.pcie.dma_card import DmaCard, small_dma
from sim.pcie.fuzz import FUZZED_WIDTH, build_fuzz

JOB = """# A completion for a request in flight is forged, one is lost, one is late; then resets of both kinds.
memory 5 100 20
anchor 0x5
wait 0x60
forge 0x0 0x0 0x7
raw 0x1 0x2000 0x0 0x0 0x5
tamper 0x2 0x0 0x4
tamper 0x3 0x2 0x400
anchor 0x3
access 0x0 0x0 0x46 0x0
request 0xff000 0x800 0xff 0x0 0x0 0x1
flr 0x10 0x7
copy 0x302
settings 0x80
link 0x20
store 0x1 0x21946a4561575b10 0xf6067b30ba2038a3 0xffff
anchor 0x2
wait 0x400
"""


def changed(module: str, old: str, new: str) -> ModuleType:
    """A module of ``hw`` with other source text; ``old`` must occur once."""
    original = importlib.import_module(module)
    text = Path(str(original.__file__)).read_text(encoding="utf-8")
    assert text.count(old) == 1
    made = ModuleType(module)
    made.__package__, made.__file__ = original.__package__, original.__file__
    exec(compile(text.replace(old, new), str(original.__file__), "exec"), made.__dict__)
    return made


@pytest.mark.long
@pytest.mark.rtl
def test_no_finding(seed, soak, tmp_path):
    program = build_fuzz()
    result = run_fuzz(program, seed=seed, runs=5000 if soak else 60)
    assert not result["finding"], result["job"]
    assert result["stores"] > result["runs"] and result["checked"] > 50 * result["runs"]
    assert result["kept"] > 20 and result["features"] > 100
    (tmp_path / "a.job").write_text(JOB)
    one, again = (run_fuzz(program, job=tmp_path / "a.job") for _ in range(2))
    assert one == again and one["finding"] == "" and one["checked"] > 50
    for wrong in ("stroe 1\n", "wait\n", "wait 0x1 0x2\n", "memory 1 0 99\n"):
        (tmp_path / "a.job").write_text(wrong)
        with pytest.raises(HarnessFailed, match=f"Line 1 of the job is no step: {wrong.strip()}"):
            run_fuzz(program, job=tmp_path / "a.job")


@pytest.mark.soak
@pytest.mark.rtl
@pytest.mark.parametrize(("old", "new", "sentence"), [
    # The tag of a request that times out is free at once: its completions may still arrive.
    ("last.eq((kind == Termination.EXPIRED)", "last.eq((kind == Termination.EXPIRED) | (kind == Termination.TIMED_OUT)",
     "the tag is in use"),
    # A completion whose payload ends before the length that it says is accepted.
    ("return (first | ~completion.first) & end", "return first | ~completion.first",
     "has not completed|RESET of queue"),
], ids=["tag", "length"])
def test_a_flaw_is_found(old, new, sentence, seed, monkeypatch, tmp_path):
    flawed = changed("hw.pcie.requester.completion_check", old, new)
    monkeypatch.setattr(reads, "CompletionCheck", flawed.CompletionCheck)
    program = build_fuzz(component=DmaCard(*small_dma(FUZZED_WIDTH)))
    result = run_fuzz(program, seed=seed, runs=5000)
    print(result)
    assert re.search(sentence, result["finding"])
    assert result["job"].count("\n") < 40
    (tmp_path / "a.job").write_text(result["job"])
    assert run_fuzz(program, job=tmp_path / "a.job")["finding"] == result["finding"]


@pytest.mark.parametrize("engine", ["ace", "pcie"])
def test_sizes_are_fixed(engine, capsys):
    assert cli.main(["soak", "fuzz", "--engine", engine, "--config", "tiny"]) == 2
    assert capsys.readouterr().err == (
        "dmace: soak fuzz takes --config for the DMA engine only; other sizes are fixed.\n")
