# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz --engine ace``: no finding on the accelerator, a finding with a short job on a flawed one."""


import pytest

from dmace.drivers.ace import AceDriver
from hw.ace import command_path
from hw.ace.engine import AceEngine
from hw.ace.link import port
from sim.ace import fuzz
from sim.ace.fuzz import FUZZED, build_fuzz
from sim.cpp.fuzz import run_fuzz
from tests.changed_sources import changed_module
from tests.harness.fuzz_jobs import check_finding, check_job, check_wrong_lines

JOB = """# Recovery of both ranks, with collectives in progress, wrong words of a program, and a forged packet.
memory 5 100 20
anchor 0x0 0x64 0x5
program 0x0 0x3 0x100000
collective 0x0 0x100 0x0 0x0
recover
anchor 0x2 0x64 0x5
rst 0x1
forge 0x1 0x0 0x1 0x8 0x0
anchor 0x1 0x64 0x5
wait 0x400
"""


NO_BEATS = """# The PHASE words of an ALL_REDUCE get a span of 0: its sends have no beats. Software ends it.
memory 1 0 0
program 0x0 0x3 0x8
program 0x0 0x9 0x8
program 0x1 0x3 0x8
program 0x1 0x9 0x8
collective 0x8000 0x200 0x0 0x0
wait 0x800
anchor 0x0 0x64 0x5
wait 0x800
recover
"""


RESULTS_AFTER_RST = """# The other rank writes results that it received before, until software has revoked it.
memory 483337836 245 0
cut 0x0 0x0 0xee4
anchor 0x3 0x1c6 0xd9
rst 0x0
"""


@pytest.mark.soak
@pytest.mark.rtl
def test_no_finding(seed, tmp_path):
    program = build_fuzz()
    result = run_fuzz(program, seed=seed, runs=300)
    assert not result["finding"], result["job"]
    assert result["stores"] > 10 * result["runs"] and result["checked"] > 5 * result["runs"]
    assert result["kept"] > 20 and result["features"] > 100
    assert check_job(program, JOB, tmp_path)["checked"] == 8
    check_job(program, NO_BEATS, tmp_path)
    check_job(program, RESULTS_AFTER_RST, tmp_path)
    check_wrong_lines(program, tmp_path)


@pytest.mark.soak
@pytest.mark.rtl
def test_a_bounds_check_that_is_off_by_one_is_found(seed, monkeypatch, tmp_path):
    flawed = changed_module("hw.ace.decoder", "over[side].eq(limits[side] > available[side])",
                            "over[side].eq(limits[side] > available[side] + 1)")
    monkeypatch.setattr(command_path, "Decoder", flawed.Decoder)
    program = build_fuzz(component=AceEngine(FUZZED))
    result = run_fuzz(program, seed=seed, runs=1000)
    assert "where no queue may" in result["finding"]
    check_finding(program, result, tmp_path)


@pytest.mark.soak
@pytest.mark.rtl
def test_a_receiver_that_accepts_duplicates_is_found(seed, monkeypatch, tmp_path):
    flawed = changed_module(
        "hw.ace.link.receiver", "due.eq(~(low ^ header.sequence).any() & ",
        "due.eq((~(low ^ header.sequence).any() | ~((low - 1)[:len(low)] ^ header.sequence).any()) & ")
    monkeypatch.setattr(port, "LinkReceiver", flawed.LinkReceiver)
    program = build_fuzz(component=AceEngine(FUZZED))
    result = run_fuzz(program, seed=seed, runs=100)
    check_finding(program, result, tmp_path)


def test_both_ranks_are_configured():
    """The tables that the fuzzer writes again after a recovery: regions, queues, communicators, programs."""
    rows = []
    for rank in range(2):
        bus = fuzz._Recorder()
        words = fuzz.wait(fuzz._set_up(AceDriver(bus, FUZZED, watchdog=1000), bus, rank))
        offsets = [offset for offset, _ in bus.writes]
        rows.append([offsets.count(AceDriver(bus, FUZZED).map[name].offset) for name in (
            "REGION_COMMIT", "QUEUE_COMMIT", "COMMUNICATOR_COMMIT", "PROGRAM_COMMIT")])
        assert 0 < words < FUZZED.program_words // 2
    assert rows == [[7, 2, 2, 2 * words]] * 2
