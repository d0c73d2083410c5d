# SPDX-License-Identifier: Apache-2.0
"""``dmace bench``: what it writes, and what it refuses."""

import json

import pytest

from dmace import cli
from hw.dma_engine.config import TINY
from sim.dma.bench import GROUPS
from sim.dma.bench.ablation import VARIANTS
from sim.dma.bench.fairness import jain


@pytest.mark.rtl
@pytest.mark.parametrize("extra", [
    pytest.param((), id="aligned"), pytest.param(("--unaligned",), id="unaligned", marks=pytest.mark.soak)])
def test_bench_writes_json_and_plot(capsys, tmp_path, extra):
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "bench.json", tmp_path / "bench.png"
    status = cli.main(["bench", "dma", "--config", "tiny", "--latency", "10,100", "--sizes", "64,1024",
                       "--json", str(out), "--plot", str(plot), *extra])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    assert "Jain's index" in shown.out
    for name in ("bench.png", "bench-ablation.png", "bench-latency.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG\r\n"), name

    result = json.loads(out.read_text())
    rows = result["results"]
    assert [(row["latency"], row["size"]) for row in rows] == [(10, 64), (10, 1024), (100, 64), (100, 1024)]
    for row in rows:
        assert row["queues"] == 4
        assert 0 < row["bus_share"] <= 1
        assert row["requests_per_cycle"] == pytest.approx(row["bus_share"] * 8 / row["size"], abs=1e-4)
        assert row["closed_loop"]["to_seen"]["p50"] > 2 * row["latency"]
        assert row["word_delay"]["max"] >= row["word_delay"]["p50"] > 0
    assert rows[1]["bus_share"] > 0.9 - 0.1 * bool(extra)
    alone = {(row["queue"], row["latency"], row["size"]): row for row in result["alone"]}
    assert len(alone) == len(result["alone"]) == 8
    for (_, latency, size), row in alone.items():
        assert row["window"] == TINY.default_limit == 32
        # No more than there are tags per round trip of the memory.
        beats = min(size, 256) / 8 + bool(extra)
        assert 0 < row["bus_share"] <= min(1, TINY.tags * beats / (2 * latency + beats))
        # A plain queue may use as many entries as an extended one.
        assert row["bus_share"] == pytest.approx(alone["extended", latency, size]["bus_share"], rel=0.01)
    assert {"latency", "size", "doorbell_to_first_ar", "doorbell_to_done", "done_to_rc",
            "done_to_sc"} <= set(result["single"])
    assert result["single"]["latency"] == 100
    assert [(row["latency"], row["large"]) for row in result["behind"]] == [
        (latency, large) for latency in (10, 100) for large in (65_536, 1_048_576)]

    ablations = {(row["variant"], row["latency"], row["size"]): row["bus_share"] for row in result["ablations"]}
    for latency in (10, 100):
        for size in (64, 1024):
            whole = ablations["all", latency, size]
            assert all(ablations[variant, latency, size] <= whole + 0.01 for variant in VARIANTS)
        # A request's latency is paid each time, by the larger one for more bytes.
        assert ablations["one at a time", latency, 64] < 0.5 * ablations["all", latency, 64]
        assert ablations["one at a time", latency, 64] < 0.5 * ablations["one at a time", latency, 1024]
    for variant in ("every word", "one read"):
        assert ablations[variant, 100, 64] < 0.5 * ablations["all", 100, 64]
    assert result["fairness"][0]["jain"] > 0.99
    assert [(row["size"], row["limit"]) for row in result["targets"]][:2] == [(64, 0), (64, 128)]
    assert result["targets"][3]["bus_share"] > 2 * result["targets"][2]["bus_share"]
    assert 0 < result["weights"][0]["least"] <= 1 <= result["weights"][0]["most"]


@pytest.mark.rtl
@pytest.mark.parametrize(("extra", "beats"), [((), 8), (("--unaligned",), 9)], ids=["aligned", "unaligned"])
def test_json_to_standard_output(capsys, extra, beats):
    assert cli.main(["bench", "dma", "--config", "tiny", "--latency", "10", "--sizes", "64", "--only", "throughput",
                     "--json", "-", *extra]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["results"][0]["size"] == 64
    assert 0.8 * 8 / beats < result["results"][0]["bus_share"] <= 8 / beats
    assert "ablations" not in result and "load" not in result


@pytest.mark.parametrize(("options", "sentence"), [
    (["--latency", "100,x"], "--latency must be integers separated by commas, not '100,x'."),
    (["--latency", "1"], "--latency must be from 2 to 10000 cycles, not 1."),
    (["--latency", "100,100"], "--latency must not repeat a number, as '100,100' does."),
    (["--sizes", "0"], "--sizes must be from 1 to 4194304 bytes, not 0."),
    (["--sizes", ""], "--sizes must be integers separated by commas, not ''."),
    (["--queues", "5"], "--queues must be from 2 to 4 for tiny, not 5."),
    (["--only", "ablation,speed"], f"--only must name groups of {', '.join(GROUPS)}, not 'speed'."),
    (["--only", "latency", "--plot", "a.png"], "--plot draws all groups, so it cannot be combined with --only."),
    (["--seed", "-1"], "--seed must be from 0 to 9007199254740991, not -1."),
    (["--json", "/no/such/folder/a.json"], "--json: there is no folder /no/such/folder."),
    (["--plot", "plot.pdf"], "--plot writes PNG, so its file must end in .png, not 'plot.pdf'."),
    (["--config", "huge"], "--config must be one of tiny, base, wide, not 'huge'."),
])
def test_wrong_options_are_reported(capsys, options, sentence):
    status = cli.main(["bench", "dma", "--config", "tiny", *options])
    assert status == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"


@pytest.mark.parametrize(("shares", "index"), [([1], 1), ([3, 3, 3], 1), ([1, 0, 0, 0], 0.25), ([1, 3], 0.8), ([0], 0)])
def test_jain(shares, index):
    assert jain(shares) == pytest.approx(index)
