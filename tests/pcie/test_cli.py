# SPDX-License-Identifier: Apache-2.0
"""``dmace sim pcie`` and ``dmace bench pcie``: what they accept, show, and return."""

import json

import pytest

import sim.cli.bench_pcie
import sim.cli.simulate_pcie
from dmace.cli import main

WRONG = {
    "no file": (["sim", "pcie", "--input", "nowhere"], "--input: there is no file nowhere."),
    "a folder": (["sim", "pcie", "--input", "."], "--input: . is not a file."),
    "too many queues": (["sim", "pcie", "--input", __file__, "--queues", "5"],
                        "--queues must be from 1 to 4 in tiny, not 5."),
    "size": (["bench", "pcie", "--sizes", "65"], "--sizes must be multiples of 64 from 64 to 262,144 bytes, not 65."),
    "no number": (["bench", "pcie", "--sizes", "64,x"], "--sizes must be integers separated by commas, not '64,x'."),
    "queues": (["bench", "pcie", "--queues", "1,65"], "--queues must be from 1 to 64 in wide, not 65."),
    "payload": (["bench", "pcie", "--max-payload", "200"], "--max-payload must be a power of two, not 200."),
    "clock": (["sim", "pcie", "--input", __file__, "--engine-mhz", "49"],
              "--engine-mhz must be from 50 to 1,000, not 49."),
    "clock in C++": (["bench", "pcie", "--engine-mhz", "200"],
                     "--engine-mhz needs --cocotb: the models in C++ have one clock."),
    "read": (["bench", "pcie", "--max-read", "64"], "--max-read must be from 128 to 4,096, not 64."),
    "window of cocotb": (["bench", "pcie", "--cocotb", "--window", "50"],
                         "--window 50 has no effect with --cocotb, which measures for 20 us."),
    "window": (["bench", "pcie", "--window", "0"], "--window must be from 1 to 100,000, not 0."),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case, capsys):
    arguments, sentence = WRONG[case]
    assert main(arguments) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_copy_shows_differences(monkeypatch, capsys):
    result = {"config": "tiny", "requests": 3, "queues": 2, "bytes": 100, "cycles": 50, "gigabytes_per_second": 0.5,
              "errors": 1, "mismatches": 1, "first_mismatches": ["7 bytes at 3 of the file are wrong."], "waves": None}
    monkeypatch.setattr(sim.cli.simulate_pcie, "simulate", lambda *_: result)
    assert main(["sim", "pcie", "--input", __file__]) == 1
    assert "7 bytes at 3 of the file are wrong." in capsys.readouterr().out
    monkeypatch.setattr(sim.cli.simulate_pcie, "simulate", lambda *_: {**result, "errors": 0, "mismatches": 0})
    assert main(["sim", "pcie", "--input", __file__]) == 0
    assert "Every byte arrived" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.rtl
def test_copy(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 20)
    assert main(["sim", "pcie", "--input", str(tmp_path / "file"), "--message", "900", "--seed", "3", "--json",
                 str(tmp_path / "result")]) == 0
    result = json.loads((tmp_path / "result").read_text())
    assert (result["bytes"], result["requests"], result["errors"], result["mismatches"]) == (5120, 6, 0, 0)


@pytest.mark.soak
@pytest.mark.rtl
def test_both_paths_of_the_bench_agree(tmp_path):
    """The models in C++ and those of cocotbext-pcie: the same latencies to a cycle, throughput within 8 %."""
    options = ["bench", "pcie", "--config", "tiny", "--sizes", "64,4096", "--queues", "1,4"]
    results = []
    for path in ([], ["--cocotb"]):
        assert main([*options, *path, "--json", str(tmp_path / "result")]) == 0
        results.append(json.loads((tmp_path / "result").read_text()))
    assert [result["path"] for result in results] == ["C++", "cocotb"]
    for one, other in zip(*(result["latencies"] for result in results), strict=True):
        # The other path waits for RC before it reads SC.
        expected = {**one, "sc_here": max(one["rc_there"], one["sc_here"])}
        assert all(abs(expected[name] - other[name]) <= 8 for name in one), (one, other)
        assert one["rc_there"] > one["link_in"] + one["read"] + one["memory"] + one["data"]
    for one, other in zip(*(result["throughput"] for result in results), strict=True):
        # No measurement may exceed its bound.
        assert all(0.1 < row["share"] <= 1.02 for row in (one, other))
        assert one["cycles_per_request"] == pytest.approx(other["cycles_per_request"], rel=0.08), (one, other)
