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
    assert "by-rank" in out and "31 % on average" in out and "<svg" in report.read_text()
    assert main(["fused", "--operation", "gemv", "--nodes", "4", "--slices", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    row, = result["rows"]
    assert main(["fused", "--operation", "gemv", "--nodes", "4", "--slices", "2", "--baseline", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["gain"] > row["gain"]
    assert row["gain"] == pytest.approx(1 - row["seconds"] / result["unfused_seconds"])


@pytest.mark.parametrize("arguments, sentence", [
    (["--slices", "few"], r"--slices must be integers separated by commas, not 'few'\."),
    (["--set", "operation.rows=3"], r"there is no setting 'operation\.rows'; there are operation\.batch, .*"),
    (["--set", "operation.per_slice=abc"],
     r"operation\.per_slice must be at least 0 and less than 1 second, not 'abc'\."),
    (["--set", "operation.per_slice=-1"],
     r"operation\.per_slice must be at least 0 and less than 1 second, not -1\."),
    (["--set", "operation.batch=0.5"], r"operation\.batch must be an integer from 1, not 0\.5\."),
    (["--operation", "conv"], r"--operation must be one of embedding, gemm, gemv, not 'conv'\."),
])
def test_wrong_arguments(capsys, arguments, sentence):
    assert main(["fused", *arguments]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)
