# SPDX-License-Identifier: Apache-2.0
"""``dmace sim ace`` and ``dmace compare ace``: results, and messages for wrong arguments."""

import json

import ml_dtypes
import numpy as np
import pytest

from dmace.cli import main
from hw.ace.config import TINY
from sim.ace import compare as compare_module
from sim.cli.terminal_ace import nodes

pytestmark = pytest.mark.rtl


def test_compare(tmp_path, seed):
    file = tmp_path / "result.json"
    assert main(["compare", "ace", "--collectives", "60", "--seed", str(seed), "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert result["collectives"] >= 60 and result["mismatches"] == result["hangs"] == 0
    assert sum(result["kinds"].values()) == result["collectives"]


def test_compare_reports_wrong_bits(monkeypatch):
    """A model that is wrong in one bit of one rank is reported, each time."""
    true = compare_module.results

    def bent(*arguments, **options):
        made = true(*arguments, **options)
        if len(made[0] if made[0] is not None else ()):
            made[0] = made[0].copy()
            made[0][-1] ^= 1
        return made

    monkeypatch.setattr(compare_module, "results", bent)
    result = compare_module.compare(TINY, collectives=20, seed=3, shapes=((2,),))
    assert result["mismatches"] > 5
    assert all("is wrong at ranks 0." in sentence for sentence in result["first_mismatches"])


def test_sim_with_arrays(tmp_path, capsys):
    """Arrays of any real type are rounded to the requested type; the results are the model's, and near the sum."""
    random = np.random.default_rng(5)
    arrays = {f"rank_{number}": random.standard_normal(700) for number in range(4)}
    np.savez(tmp_path / "in.npz", **arrays)
    assert main(["sim", "ace", "--nodes", "2x2", "--dtype", "bf16", "--input", str(tmp_path / "in.npz"), "--widen",
                 "--output", str(tmp_path / "out.npz")]) == 0
    assert "Every rank has the model's bits" in capsys.readouterr().out
    with np.load(tmp_path / "out.npz") as found:
        rounded = sum(one.astype(ml_dtypes.bfloat16).astype(np.float64) for one in arrays.values())
        for number in range(4):
            assert np.array_equal(found[f"out_{number}"], found[f"golden_{number}"])
            assert np.allclose(found[f"out_{number}"], rounded, rtol=2**-8, atol=1e-6)


def test_sim_in_rank_order_of_different_lengths(tmp_path):
    file = tmp_path / "result.json"
    for collective, counts, elements in (("reduce_scatter", "5,0,300", 305), ("all_to_all", "1,2,3,0,0,0,7,8,9", 30)):
        assert main(["sim", "ace", "--collective", collective, "--nodes", "3", "--counts", counts, "--json", str(file),
                     *(["--ordered"] if collective == "reduce_scatter" else [])]) == 0
        result = json.loads(file.read_text())
        assert result["mismatches"] == 0
        assert sum(memory["write_bytes"] - 8 for memory in result["memories"]) == 4 * elements


def test_sim_of_a_barrier(tmp_path):
    file = tmp_path / "result.json"
    assert main(["sim", "ace", "--collective", "barrier", "--nodes", "3", "--json", str(file)]) == 0
    assert json.loads(file.read_text())["mismatches"] == 0


@pytest.mark.parametrize("arguments, message", [
    (["--nodes", "4x"], "--nodes must be sizes of dimensions"),
    (["--nodes", "2x2x2x2"], "at most 3 dimensions"),
    (["--nodes", "0"], "1 to 128 ranks"),
    (["--nodes", "16x16"], "1 to 128 ranks"),
    (["--collective", "allreduce"], "--collective must be one of"),
    (["--dtype", "fp64"], "--dtype must be one of"),
    (["--root", "4"], "--root must be from 0 to 3"),
    (["--widen"], "--widen is for floats of 16 and 8 bits, not for fp32."),
    (["--count", "-1"], "--count must be from 0"),
    (["--ordered", "--collective", "barrier"], "--ordered is for all_reduce, reduce_scatter, reduce, not for barrier"),
    (["--counts", "1,2,3,4"], "--counts is for reduce_scatter, all_gather, all_to_all, not for all_reduce"),
    (["--counts", "1,2,3", "--collective", "all_gather"], "--counts must be 4 integers for all_gather on 4, not 3"),
    (["--counts", "1,2,3,x", "--collective", "all_gather"], "--counts must be integers separated by commas"),
    (["--counts", "1,2,3,-4", "--collective", "all_gather"], "--counts must be from 0"),
    (["--counts", "1", "--count", "1", "--collective", "all_gather"], "--counts cannot be combined"),
    (["--input", "nowhere.npz"], "there is no file nowhere.npz"),
    (["--input", "text"], "is not an NPZ file"),
    (["--input", "three.npz"], "has 3 arrays"),
    (["--input", "uneven.npz"], "must have equal lengths"),
    (["--input", "words.npz"], "must be of real numbers"),
    (["--input", "four.npz", "--collective", "reduce_scatter", "--count", "3"], "4 times as many elements"),
    (["--stall", "1"], "--stall must be at least 0"),
    (["--link-rate", "-1"], "--link-rate must be 0 or a number of bytes per cycle, not -1."),
    (["--link-rate", "nan"], "--link-rate must be 0 or a number of bytes per cycle, not nan."),
    (["--json", "none/file"], "there is no folder"),
], ids=str)
def test_sim_says_what_is_wrong(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("nothing")
    np.savez("three.npz", *[np.zeros(2)] * 3)
    np.savez("four.npz", *[np.zeros(2)] * 4)
    np.savez("uneven.npz", *[np.zeros(2)] * 3, np.zeros(3))
    np.savez("words.npz", *[np.array(["a"])] * 4)
    assert main(["sim", "ace", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error and len(error.splitlines()) == 1


def test_nodes():
    assert nodes("4") == (4,) and nodes("4x1x2") == (4, 1, 2)


def test_compare_of_what_is_stopped(tmp_path, seed, capsys):
    file = tmp_path / "result.json"
    assert main(["compare", "ace", "--revoke", "4", "--seed", str(seed), "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert result["errors"] == 4 and len(result["causes"]) == 4 and result["mismatches"] == result["hangs"] == 0
    assert "LINK_DOWN" in capsys.readouterr().out
    for option in (["--faults"], ["--collectives", "9"]):
        assert main(["compare", "ace", "--revoke", "4", *option]) == 2
        assert "leave out --collectives, --faults and --no-stalls." in capsys.readouterr().err
