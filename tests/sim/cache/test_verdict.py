# SPDX-License-Identifier: Apache-2.0
"""The conclusions from rows, and the command."""

import json

import pytest

from dmace.cli import main
from sim.cache.verdict import group, summary


def rows(name, arithmetic=0.1, **cycles):
    return [{"kernel": name, "policy": policy.replace("_", "-"), "cycles": value, "arithmetic_share": arithmetic}
            for policy, value in cycles.items()]


def test_groups():
    assert group(rows("k", uncached=100, cache_r=90, cache_rw=120)) == "reuse-sensitive"
    assert group(rows("k", uncached=100, cache_r=130, cache_rw=90)) == "reuse-sensitive"
    assert group(rows("k", uncached=100, cache_r=91, cache_rw=91)) == "throughput-sensitive"
    assert group(rows("k", 0.7, uncached=100, cache_r=91, cache_rw=91)) == "memory-insensitive"


def test_summary():
    found = summary(rows("a", uncached=200, cache_r=100, cache_rw=110, regions=99)
                    + rows("b", uncached=50, cache_r=100, cache_rw=60, regions=51))
    assert [(row["kernel"], row["best"]) for row in found["kernels"]] == [("a", "cache-r"), ("b", "uncached")]
    assert found["kernels"][1]["ratios"] == {"uncached": 1, "cache-r": 2, "cache-rw": 1.2, "regions": 1.02}
    policies = {row["policy"]: row for row in found["policies"]}
    assert policies["cache-r"]["worst"] == 2
    assert policies["cache-r"]["mean"] == pytest.approx(2 ** 0.5)
    assert policies["regions"] == {"policy": "regions", "mean": pytest.approx((0.99 * 1.02) ** 0.5), "worst": 1.02,
                                   "wins": 1}


def test_the_command_writes_and_draws(tmp_path, capsys):
    file, plot = tmp_path / "result.json", tmp_path / "plot.png"
    assert main(["caches", "--quick", "--kernel", "gru,act", "--policy", "regions,combined", "--set", "cache.sets=512",
                 "--json", str(file), "--plot", str(plot)]) == 0
    result = json.loads(file.read_text())
    assert [(row["kernel"], row["policy"]) for row in result["rows"]] == [
        (kernel, policy) for kernel in ("gru", "act")
        for policy in ("uncached", "cache-r", "cache-rw", "combined", "regions")]
    assert result["inputs"]["cache.sets"] == 512
    gru = {row["policy"]: row for row in result["rows"] if row["kernel"] == "gru"}
    assert gru["cache-r"]["hit_rate"] > 0.3 > gru["uncached"]["hit_rate"] == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "Cycles over those of the best static policy" in shown and "Each run" in shown
    assert "No static policy is the best" in shown or "is the best static policy" in shown


@pytest.mark.parametrize("words, sentence", [
    (["--kernel", "gem"], "--kernel must name some of gemm, conv, fc, gru, embedding, embedding-back, bn, bn-back, "
                          "act, act-back, pool, pool-back, lrn, softmax, reduction, not 'gem'."),
    (["--kernel", "act,act"], "--kernel must not repeat a name, as 'act,act' does."),
    (["--policy", ""], "--policy must name some of uncached, cache-r, cache-rw, bypass, rinse, combined, regions, "
                       "not ''."),
    (["--rate", "x"], "--rate must be numbers separated by commas, not 'x'."),
    (["--rate", "-1"], "--rate must be from 0 to 1024 bytes per cycle, not -1."),
    (["--rate", "nan"], "--rate must be from 0 to 1024 bytes per cycle, not nan."),
    (["--plot", "x.svg"], "--plot writes PNG, so its file must end in .png, not 'x.svg'."),
    (["--set", "cache.sets=0"], "cache.sets must be an integer from 1 to 65,536, not 0."),
    (["--set", "cache.sets=many"], "cache.sets must be like 256, not 'many'."),
])
def test_wrong_options_are_one_sentence(words, sentence, capsys):
    assert main(["caches", *words]) != 0
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
