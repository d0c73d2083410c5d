# SPDX-License-Identifier: Apache-2.0
"""``dmace bench ace``: closed forms, output and refused options."""

import copy
import json
from fractions import Fraction
from functools import cache
from math import prod

import pytest

from dmace import cli
from hw.ace.config import TINY, WIDE
from hw.ace.layouts import PacketKind
from hw.ace.numerics.formats import DType
from hw.ace.programs.schedule import plan
from hw.ace.words import Collective
from sim.ace.bench import Bench, latency, sweep, throughput, timeline
from sim.ace.bench.runner import differences
from sim.ace.bench.traffic import bound, conventional_ratio, hops, limit, one_way
from sim.ace.log import Packet
from sim.ace.shared_library import ClusterFailed, build_library


@cache
def _library():
    return build_library(TINY)


def _bench(**options):
    return Bench(TINY, _library(), **{"link_rate": 0.25, "link_latency": 10, **options})


@pytest.mark.parametrize(("shape", "ratio"), [
    ((4, 2, 2), 3.00), ((4, 4, 2), 3.19), ((4, 4, 4), 3.38), ((4, 8, 4), 3.47), ((2,), 1.5), ((1, 4), 2.25)])
def test_conventional_ratio(shape, ratio):
    assert conventional_ratio(shape) == pytest.approx(ratio, abs=0.006)


@pytest.mark.parametrize("shape", [(2,), (8,), (4, 2), (1, 3), (4, 2, 2), (2, 3, 4)])
def test_closed_forms_are_what_programs_send(shape):
    planned = plan(Collective.ALL_REDUCE, shape, tuple(range(len(shape))), (0,) * len(shape))
    sent, reads = [Fraction(0)] * len(shape), Fraction(0)
    for phase in planned.phases:
        part = Fraction(phase.span, planned.positions)
        sent[phase.port // 2] += part * len(phase.sends)
        reads += part * sum(2 if send.reduce else 1 for send in phase.sends)
    # Half of all chunks go in the other direction.
    assert [float(part / 2) for part in sent] == pytest.approx(one_way(shape, 1))
    assert float(reads) == pytest.approx(conventional_ratio(shape))
    # The sends with need 0 are those of one step.
    assert sum(len(phase.sends) // sum(send.need == 0 for send in phase.sends)
               for phase in planned.phases) == hops(shape)


def test_bound():
    # 96 bytes on a ring of 4 are 72 in each direction, at 4 beats of 64 bytes in 17 cycles of links that are never
    # idle.
    assert bound(WIDE, (4,), 96, 1) == pytest.approx([72 / 64 * 17 / 16])
    assert bound(WIDE, (4,), 96, 0.5) == pytest.approx([2 * 72 / 64 * 17 / 16])


def test_limit():
    """A beat per cycle of the memory port is the limit of a ring at full rate, up to 16 ranks, and not at half."""
    for ranks, rate, resource in ((4, 1, "memory port"), (16, 1, "memory port"), (18, 1, "links"), (4, 0.5, "links")):
        bounds = bound(WIDE, (ranks,), 65536, rate)
        cycles, found = limit(WIDE, bounds, 65536)
        assert (cycles, found) == (1024 if resource == "memory port" else max(bounds), resource)


@pytest.mark.rtl
@pytest.mark.parametrize(("shape", "dtype"), [((2,), DType.FP32), ((2, 2), DType.INT32)], ids=["2", "2x2"])
def test_traffic_is_counted(shape, dtype):
    row = throughput.measure(_bench(dtype=dtype), shape, 32768)
    assert row["memory_read_ratio"] == row["memory_read_ratio_closed_form"] == round(conventional_ratio(shape), 4)
    assert row["read_per_byte"] == row["written_per_byte"] == 1
    assert row["counted"]["read_bytes"] == row["witnesses"]["read_bytes"] == 32768 * prod(shape)
    assert row["header_share"] == pytest.approx(16 / 272, abs=1e-4)
    assert row["bound_cycles"] < row["cycles"] < 2 * row["bound_cycles"]
    assert row["bound_share"] == pytest.approx(row["bound_cycles"] / row["cycles"], abs=1e-3)
    assert max(row["busy"]["links"]) == row["busy"]["links"][0] > row["bound_share"]
    assert row["busy"]["memory_read"] == pytest.approx(32768 / 8 / row["cycles"], abs=1e-3)
    carried = sum(sum(shares) / len(shares) for shares in row["links_over_time"]) * 2 * prod(shape) * row["cycles"] * 2
    assert carried == pytest.approx(row["witnesses"]["payload_bytes"] + 16 * row["witnesses"]["data_packets"], rel=0.01)
    assert len(row["links_over_time"]) == len(shape) and max(map(max, row["links_over_time"])) <= 1


def test_timeline():
    """Two packets of 8 beats on two of 4 links, at 2 bytes per cycle: 40 cycles each, across the edges at 50, 100."""
    def packet(port, begin, beats=8, came=False, kind=PacketKind.DATA):
        return Packet(0, port, came, begin, begin, kind, 0, 0, 0, 0, 0, beats - 1, 0, 0)

    packets = [packet(2, 1030), packet(3, 1090), packet(3, 1090, came=True), packet(0, 1000, kind=PacketKind.GRANT)]
    shares = timeline.busy(TINY, (1, 2), packets, 0.25, 1000, 150, parts=3)
    assert shares == [[0, 0, 0], [20 / 200, 30 / 200, 30 / 200]]


@pytest.mark.rtl
def test_counts_without_an_independent_count_are_reported():
    found = _bench().run((2,), 1024)
    assert differences(TINY, found) == []
    for where, name in (("counters", "read_bytes"), ("counters", "copied_beats"), ("counters", "sent_beats_1"),
                        ("memories", "write_bytes"), ("links", "header_bytes")):
        wrong = copy.deepcopy(found)
        wrong[where][1][name] += 8
        assert len(differences(TINY, wrong)) == 1, name
    wrong = copy.deepcopy(found)
    wrong["memories"][1]["read_beats"] += 1
    assert differences(TINY, wrong) == ["Rank 1 counts 1,024 bytes read, but the memory 1,032."]


@pytest.mark.rtl
def test_wrong_results_are_reported(monkeypatch):
    bench = _bench()
    monkeypatch.setattr(bench, "check_results", lambda shape, inputs, outputs, **options: Bench.check_results(
        bench, shape, [inputs[1] ^ 1, inputs[1]], outputs))
    with pytest.raises(ClusterFailed, match=r"^Element \d+ of rank 0 is 0x[0-9a-f]{8}, but the model has 0x"):
        bench.run((2,), 64)


@pytest.mark.rtl
def test_latency_over_hops():
    rows = [case() for _, case in latency.cases(_bench(), (2,), sizes=(64,))]
    assert [(row["nodes"], row["hops"], row["bound_cycles"]) for row in rows] == [
        ([2], 2, 20), ([4], 6, 60), ([8], 14, 140)]
    line = latency.fit(TINY, rows, 0.25, 10)
    assert line["packet_cycles"] == 40
    assert 0 < line["fixed_per_hop"] <= 40
    for row in rows:
        assert row["cycles"] == pytest.approx(line["start_up"] + row["hops"] * line["cycles_per_hop"], rel=0.05)


@pytest.mark.long
@pytest.mark.rtl
def test_more_fsms_and_slots_are_faster():
    """4 FSMs do not fill the links of a ring of 8; they fill those of a ring of 4, with as many slots, too."""
    shares = {(row["fsms"], row["slots"]): row["bound_share"] for row in (case() for _, case in sweep.cases(
        _bench(link_latency=200), 65536, shapes=((8,),), fsms=(1, 4)))}
    assert list(shares) == [(1, 1), (1, 2), (1, 4), (4, 4), (4, 8)]
    assert shares[1, 1] < shares[1, 2] < shares[4, 4] < shares[4, 8]


@pytest.mark.rtl
def test_bench_writes_json_and_plot(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(latency, "SIZES", (64,))
    monkeypatch.setattr(sweep, "largest", lambda config: config)
    monkeypatch.setattr(sweep.cases, "__kwdefaults__", {"shapes": ((2,),), "fsms": (2,)})
    out, plot = tmp_path / "bench.json", tmp_path / "bench.png"
    status = cli.main(["bench", "ace", "--nodes", "2x2", "--bytes", "8192", "--latency", "10", "--sizes", "preset",
                       "--sweep", "--type", "int32", "--json", str(out), "--plot", str(plot)])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    assert "Memory is read 2.25 times less" in shown.out
    for name in ("bench.png", "bench-sweep.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG\r\n"), name
    result = json.loads(out.read_text())
    assert {"memory_read_ratio", "bound_share", "cycles", "counted", "witnesses", "busy", "latency",
            "hop"} <= set(result)
    assert result["nodes"] == [2, 2] and result["bytes"] == 8192 and result["memory_read_ratio"] == 2.25
    assert [row["sram_bytes"] for row in result["sweep"]] == [8192, 16384, 32768]


@pytest.mark.parametrize(("options", "sentence"), [
    (["--nodes", "4x"], "--nodes must be 1 to 3 sizes separated by x, like 4x2x2, not '4x'."),
    (["--nodes", "2x2x2x2"], "--nodes must be 1 to 3 sizes separated by x, like 4x2x2, not '2x2x2x2'."),
    (["--nodes", "1"], "--nodes must be 2 to 128 ranks in total, not 1."),
    (["--nodes", "8x8x8"], "--nodes must be 2 to 128 ranks in total, not 512."),
    (["--nodes", "4x8x4", "--sizes", "preset"],
     "--nodes 4x8x4 is too large for tiny: 128 positions of 64 bytes do not fit a slot of 4096 bytes."),
    (["--bytes", "0"], "--bytes must be from 64 to 67,108,864, not 0."),
    (["--bytes", "100"], "--bytes must be a multiple of 64, so that no beat is partial, not 100."),
    (["--link-rate", "0"], "--link-rate must be more than 0 and at most 1 beat per cycle, not 0."),
    (["--link-rate", "nan"], "--link-rate must be more than 0 and at most 1 beat per cycle, not nan."),
    (["--latency", "0"], "--latency must be from 1 to 10,000, not 0."),
    (["--seed", "-1"], "--seed must be from 0 to 9,007,199,254,740,991, not -1."),
    (["--json", "/no/such/folder/a.json"], "--json: there is no folder /no/such/folder."),
    (["--plot", "plot.pdf"], "--plot writes PNG, so its file must end in .png, not 'plot.pdf'."),
])
def test_wrong_options_are_reported(capsys, options, sentence):
    assert cli.main(["bench", "ace", *options]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
