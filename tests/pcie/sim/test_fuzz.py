# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz --engine pcie``: no finding on the card, and a finding with a short job on flawed ones."""

import re

import pytest

from dmace import cli
from hw.pcie.requester import reads
from sim.cpp.fuzz import run_fuzz
from sim.pcie.dma_card import DmaCard, small_dma
from sim.pcie.fuzz import FUZZED_WIDTH, build_fuzz
from tests.changed_sources import changed_module
from tests.harness.fuzz_jobs import check_finding, check_job, check_wrong_lines

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


@pytest.mark.long
@pytest.mark.rtl
def test_no_finding(seed, soak, tmp_path):
    program = build_fuzz()
    result = run_fuzz(program, seed=seed, runs=5000 if soak else 60)
    assert not result["finding"], result["job"]
    assert result["stores"] > result["runs"] and result["checked"] > 50 * result["runs"]
    assert result["kept"] > 20 and result["features"] > 100
    assert check_job(program, JOB, tmp_path)["checked"] > 50
    check_wrong_lines(program, tmp_path)


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
    flawed = changed_module("hw.pcie.requester.completion_check", old, new)
    monkeypatch.setattr(reads, "CompletionCheck", flawed.CompletionCheck)
    program = build_fuzz(component=DmaCard(*small_dma(FUZZED_WIDTH)))
    result = run_fuzz(program, seed=seed, runs=5000)
    print(result)
    assert re.search(sentence, result["finding"])
    check_finding(program, result, tmp_path)


@pytest.mark.parametrize("engine", ["ace", "pcie"])
def test_sizes_are_fixed(engine, capsys):
    assert cli.main(["soak", "fuzz", "--engine", engine, "--config", "tiny"]) == 2
    assert capsys.readouterr().err == (
        "dmace: soak fuzz takes --config for the DMA engine only; other sizes are fixed.\n")
