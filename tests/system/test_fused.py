# SPDX-License-Identifier: Apache-2.0
"""Fused operations against times on paper, and ``dmace fused``."""

import json
import re

import pytest

from dmace.cli import main
from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import LinkConfig, MachineConfig, Npu
from sim.system.fused import run
from sim.system.fused_operations import embedding, gemm, gemv
from sim.system.slice_costs import DMA_ENGINES
from sim.system.slices import Fused

LATENCY, RATE = 700e-9, 25e9
EVENTS = DMA_ENGINES["hardware"].post_s + DMA_ENGINES["hardware"].complete_s


def machine(*shape):
    return MachineConfig(shape=shape, endpoint="ideal", links=LinkConfig(bytes_per_s=RATE, latency_s=LATENCY),
                         header_bytes=0)


def exchange(seconds, size):
    return Fused(name="test", arithmetic=seconds, memory_bytes=0, output_bytes=size, collective=Collective.ALL_TO_ALL)


def test_not_fused_is_one_after_the_other():
    """Two ranks have two links between them, and a put takes one: half of the output over it."""
    found = run(exchange(1e-3, 25_000_000), machine(2))
    assert found.computed == pytest.approx(1e-3)
    assert found.seconds == pytest.approx(1e-3 + EVENTS + LATENCY + 12_500_000 / RATE, rel=1e-3)


@pytest.mark.parametrize("slices", [4, 16])
def test_compute_that_hides_all_but_the_last(slices):
    """Remote last: slices of computation take longer than those of communication, so the last one is exposed."""
    found = run(exchange(2e-3, 25_000_000), machine(2), slices=slices, order="remote-last")
    assert found.seconds == pytest.approx(2e-3 + EVENTS + LATENCY + 12_500_000 / slices / RATE, rel=2e-3)
    assert run(exchange(2e-3, 25_000_000), machine(2), slices=slices).seconds == pytest.approx(2e-3)


def test_communication_that_hides_all_but_the_first():
    """Remote first: the link is busy from the first slice on, if its slices take longer than those of computation."""
    found = run(exchange(1e-4, 25_000_000), machine(2), slices=10)
    assert found.seconds == pytest.approx(1e-4 / 20 + EVENTS + LATENCY + 12_500_000 / RATE, rel=2e-3)


def test_order_by_rank_is_unfair():
    """Rank 0 computes its own first, rank 1 what rank 0 gets: so one has all long before the other."""
    by_rank = run(exchange(1e-3, 2_500_000), machine(2), slices=1, order="by-rank")
    assert by_rank.skew > 0.03
    first = run(exchange(1e-3, 2_500_000), machine(2), slices=1)
    assert first.skew == 0 and first.seconds < by_rank.seconds


def test_finer_slices_save_more_until_each_costs_something():
    times = [run(exchange(1e-3, 25_000_000), machine(4), slices=slices, order="remote-last").seconds
             for slices in (1, 4, 16, 64)]
    assert times == sorted(times, reverse=True)
    coarse, fine = (run(exchange(1e-3, 25_000_000), machine(4), slices=slices, per_slice=2e-6).seconds
                    for slices in (4, 256))
    assert fine > coarse
    assert run(exchange(1e-3, 25_000_000), machine(4), slices=64, per_slice=2e-6).computed == pytest.approx(
        1e-3 + 256 * 2e-6)


def test_an_engine_that_does_one_at_a_time_pays_for_each():
    hardware, software = (run(exchange(1e-3, 2_500_000), machine(2), slices=256, engine=engine).seconds
                          for engine in ("hardware", "software"))
    cost = DMA_ENGINES["software"]
    assert software >= 256 * (cost.post_s + cost.complete_s) > 2 * hardware


def test_all_reduce_of_slices():
    operation = Fused(name="test", arithmetic=1e-3, memory_bytes=0, output_bytes=16 << 20,
                      collective=Collective.ALL_REDUCE)
    alone = run(operation, machine(4))
    bound = 2 * 3 / 4 * (16 << 20) / (2 * RATE)
    assert alone.seconds > 1e-3 + bound
    fused = run(operation, machine(4), slices=16)
    assert 1e-3 + bound / 16 < fused.seconds < alone.seconds - 0.8 * bound


def test_work_of_the_operations():
    npu = Npu()
    one = embedding(npu, 2, batch=10, tables=3, width=8, pooling=5, element=4)
    assert one.memory_bytes == 10 * 3 * 5 * 8 * 4 and one.output_bytes == 10 * 3 * 8 * 4
    two = gemm(npu, 2, tokens=10, width=8, hidden=6, element=2)
    assert two.arithmetic == 2 * 10 * 8 * 6 / npu.flops and two.memory_bytes == 2 * (10 * 8 + 10 * 6 + 8 * 6)
    three = gemv(npu, 4, width=8, hidden=20, tokens=1, element=2)
    assert three.memory_bytes == 2 * (8 * 5 + 8 + 5) and three.output_bytes == 16


@pytest.mark.parametrize("arguments, sentence", [
    ({"slices": 0}, r"slices must be an integer from 1 to 4,096, not 0\."),
    ({"order": "random"}, r"the order of slices must be one of remote-first, remote-last, by-rank, not 'random'\."),
    ({"engine": "dpu"}, r"the engine must be one of cpu, software, hardware, triggers, not 'dpu'\."),
])
def test_wrong_values(arguments, sentence):
    with pytest.raises(UserError) as caught:
        run(exchange(1e-3, 1000), machine(2), **arguments)
    assert re.fullmatch(sentence, str(caught.value))
    with pytest.raises(UserError, match=r"^slices in the order of ranks are simulated on at most 32 ranks, not"):
        run(exchange(1e-3, 1000), machine(64), slices=1, order="by-rank")


def test_command(tmp_path, capsys):
    report = tmp_path / "r.html"
    assert main(["fused", "--slices", "1,8", "--report", str(report)]) == 0
    out = capsys.readouterr().out
    assert "by-rank" in out and "31% (mean between" in out and "<svg" in report.read_text()
    assert main(["fused", "--operation", "gemv", "--nodes", "4", "--slices", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    row, = result["rows"]
    assert main(["fused", "--operation", "gemv", "--nodes", "4", "--slices", "2", "--baseline", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["gain"] > row["gain"]
    assert row["gain"] == pytest.approx(1 - row["seconds"] / result["unfused_seconds"])


@pytest.mark.parametrize("operation, nodes, arguments", [
    ("tp-gemm", "4", []), ("moe", "4", ["--set", "operation.imbalance=0.5", "--set", "operation.tokens=512"]),
    ("dlrm", "4x2", ["--set", "operation.training=false"]), ("dlrm", "2x2", ["--set", "operation.bottom=2"]),
    ("embedding", "2", ["--engine", "triggers", "--set", "operation.batch=16"]),
])
def test_each_operation(capsys, operation, nodes, arguments):
    """The fused run is shorter than the other one, and longer than the bound."""
    assert main(["fused", "--operation", operation, "--nodes", nodes, "--slices", "4", *arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"] and result["nodes"] == nodes
    for row in result["rows"]:
        assert result["bound_seconds"] * 0.999 <= row["seconds"] < result["unfused_seconds"]
        assert row["gain"] == 1 - row["seconds"] / result["unfused_seconds"] <= result["bound_gain"] + 1e-3
        assert row["phases"].keys() == result["unfused_phases"].keys()
    assert result["paper"] and all(0 < share < 1 for share in result["paper"].values())


def test_causes_and_workgroups(capsys):
    arguments = ["fused", "--operation", "gemm", "--slices", "4", "--set", "workgroups.resident=8", "--set",
                 "workgroups.lost=0.125", "--set", "workgroups.tasks=56", "--causes"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "occupancy: fewer resident workgroups" in out and "by-rank" in out
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["workgroups"] == {"resident": 8, "tasks": 56, "lost": 0.125, "saturation": 1.0}
    first = result["rows"][0]
    assert sum(first["causes"].values()) == pytest.approx(first["seconds"] - first["cause_bound_seconds"])
    assert first["causes"]["occupancy"] == pytest.approx(result["unfused_compute_seconds"] / 7)
    assert [row["order"] for row in result["rows"] if "causes" not in row] == ["by-rank"]


def test_phases_of_dlrm(capsys):
    assert main(["fused", "--operation", "dlrm", "--nodes", "2x2", "--slices", "2"]) == 0
    out = capsys.readouterr().out
    assert "ends of phases" in out and "reduction" in out and "128 nodes" in out


@pytest.mark.parametrize("name", ["plot.png", "plot.svg"])
def test_plot(tmp_path, capsys, name):
    def draw(path):
        assert main(["fused", "--slices", "1,8", "--plot", str(path)]) == 0
        return path.read_bytes()

    first = draw(tmp_path / name)
    assert first[:4] in (b"\x89PNG", b"<?xm") and f"Plot: {tmp_path / name}" in capsys.readouterr().out
    if name.endswith("png"):
        assert draw(tmp_path / f"again-{name}") == first


@pytest.mark.parametrize("arguments, sentence", [
    (["--slices", "few"], r"--slices must be integers separated by commas, not 'few'\."),
    (["--set", "operation.rows=3"], r"there is no setting 'operation\.rows'; there are operation\.batch, .*"),
    (["--set", "operation.per_slice=abc"],
     r"operation\.per_slice must be at least 0 and less than 1 second, not 'abc'\."),
    (["--set", "operation.per_slice=-1"],
     r"operation\.per_slice must be at least 0 and less than 1 second, not -1\."),
    (["--set", "operation.batch=0.5"], r"operation\.batch must be an integer from 1, not 0\.5\."),
    (["--operation", "conv"], r"--operation must be one of embedding, gemm, gemv, tp-gemm, moe, dlrm, not 'conv'\."),
    (["--operation", "moe", "--set", "operation.imbalance=much"],
     r"operation\.imbalance must be a number, not 'much'\."),
    (["--operation", "moe", "--set", "operation.imbalance=-1"], r"operation\.imbalance must be from 0 to 1, not -1\."),
    (["--operation", "dlrm", "--set", "operation.training=3"], r"operation\.training must be true or false, not 3\."),
    (["--operation", "dlrm", "--set", "operation.bottom=-1"], r"operation\.bottom must be an integer from 0, not -1\."),
    (["--operation", "moe", "--nodes", "64", "--slices", "1", "--set", "operation.imbalance=0.1"],
     r"experts of different loads are simulated on at most 32 ranks, not on 64\."),
    (["--set", "workgroups.slots=3"], r"there is no setting 'workgroups\.slots'; there are workgroups\.resident, .*"),
    (["--set", "workgroups.resident=0"], r"resident of workgroups must be an integer from 1 to 65,536, not 0\."),
    (["--slices", "0"], r"slices must be an integer from 1 to 4,096, not 0\."),
    (["--plot", "plot.gif"], r"--plot writes PNG or SVG, so its file must end in \.png or \.svg, not 'plot\.gif'\."),
    (["--plot", "/nowhere/plot.png"], r"--plot: there is no folder /nowhere\."),
])
def test_wrong_arguments(capsys, arguments, sentence):
    assert main(["fused", *arguments]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)
