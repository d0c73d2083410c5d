# SPDX-License-Identifier: Apache-2.0
"""The accelerator's RTL beside the simulator, with constants that are measured from the same RTL."""

import json
from dataclasses import asdict, replace

import pytest

from dmace.cli import main
from hw.ace.config import TINY, ULTRA
from hw.ace.words import Collective
from sim.ace.bench import Bench
from sim.ace.bench.runner import MEMORY_LATENCY
from sim.ace.shared_library import build_library
from sim.system import Calibration
from sim.validation import calibrate, simulated
from sim.validation.as_rtl import as_rtl, cycles
from sim.validation.points import LONG, POINTS, operating_point

pytestmark = pytest.mark.rtl


@pytest.fixture(scope="module")
def bench():
    return Bench(TINY, build_library(TINY), link_rate=0.25, link_latency=100)


@pytest.fixture(scope="module")
def measured(bench):
    return calibrate.measure(bench)


@pytest.mark.parametrize("shape", [(2,), (4,), (16,), (4, 2, 2)])
def test_as_many_cycles(bench, measured, shape):
    row = simulated.compare(bench, shape, 64 << 10, calibration=measured)
    assert abs(row["difference"]) <= row["allowed"], row
    # Nothing collides on short rings: the simulator counts every cycle.
    assert len(shape) > 1 or shape[0] > 4 or abs(row["ours_cycles"] - row["rtl_cycles"]) <= 8, row


def test_constants_make_the_difference(bench, measured):
    """A hop that takes 40 cycles longer is not the RTL's."""
    slower = replace(measured, receive_cycles=measured.receive_cycles + 40)
    row = simulated.compare(bench, (8,), 4096, calibration=slower)
    assert row["difference"] > row["allowed"]


def test_rows_of_the_command(tmp_path, capsys):
    """Links of a quarter of a beat and the preset; those that are named with a latency have a whole one."""
    file = tmp_path / "rows.json"
    assert main(["validate", "--check-rtl", "2/4096,4/16384", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rtl"]
    assert [row["what"] for row in rows] == ["2 ALL_REDUCE 4,096 B, rate 0.25, latency 100",
                                             "4 ALL_REDUCE 16,384 B, rate 0.25, latency 100"]
    assert "Worst: " in capsys.readouterr().out


def test_points():
    """All are within the RTL's limits; those with links of a beat per cycle have pipes by the rule."""
    points = [*POINTS, *LONG]
    assert len({str(point) for point in points}) == len(points)
    full = [point for point in points if point.link_rate == 1]
    assert {(point.shape, point.link_latency) for point in full} >= {
        *(((ranks,), latency) for ranks in (4, 8, 16) for latency in (20, 100, 500)), ((2, 2, 2), 100),
        ((4, 2, 2), 100), ((4, 4, 4), 100)}
    assert all(point.size >= 256 << 10 and point.config.pipes == (2 if len(point.shape) == 1 else 4) for point in full)
    assert all(point.config == TINY for point in points if point.link_rate < 1)


def test_points_of_a_preset():
    """Its own sizes, with a latency or without."""
    for latency, rate in ((None, 0.25), (20, 1)):
        point = operating_point((4, 4, 4), 1 << 20, latency, "ultra")
        assert point.config == ULTRA and point.link_rate == rate
    assert str(point) == "ultra, 4x4x4 ALL_REDUCE 1,048,576 B, rate 1, latency 20"
    point = operating_point((4, 4, 4), 1 << 20, 20, "ultra", sums=True)
    assert str(point) == "ultra, sums only, 4x4x4 ALL_REDUCE 1,048,576 B, rate 1, latency 20"
    assert point.config == ULTRA.for_sums() != ULTRA and point.config.lanes == ULTRA.lanes


@pytest.mark.soak
def test_full_rate():
    """Rings and a torus with pipes by the rule of sizes."""
    for shape, latency in (((4,), 20), ((4,), 100), ((2, 2, 2), 100)):
        point = operating_point(shape, 256 << 10, latency)
        full = Bench(point.config, build_library(point.config), link_rate=1, link_latency=latency)
        row = simulated.compare(full, shape, point.size)
        assert abs(row["difference"]) <= 0.005, row


@pytest.mark.soak
def test_pipes():
    """A pipe for each direction of a ring, at full link rate: with one pipe, the simulator takes 30 % longer."""
    config = replace(TINY, pipes=2)
    full = Bench(config, build_library(config), link_rate=1, link_latency=100)
    row = simulated.compare(full, (4,), 256 << 10)
    assert abs(row["difference"]) <= row["allowed"], row
    one = as_rtl(TINY, (4,), link_rate=1, link_latency=100, memory_latency=MEMORY_LATENCY)
    assert cycles(one, Collective.ALL_REDUCE, 256 << 10) > 1.3 * row["rtl_cycles"]


@pytest.mark.soak
def test_file_is_up_to_date(measured):
    """Else: ``dmace bench ace --calibration sim/system/calibration.json``."""
    ours, found = (asdict(one) | {"measured": None} for one in (Calibration.load(), measured))
    assert ours == found


def test_train(tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main(["train", "--nodes", "4", "--workload", "resnet50", "--check-rtl", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert rows and all(row["rtl_cycles"] > 500 and abs(row["difference"]) <= row["allowed"] for row in rows)
    assert "RTL and simulator" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--nodes", "4x8x4"], "has 128"), (["--report", "a.html"], "leave out --report"),
    (["--set", "endpoint.fsms=8"], "leave out --set endpoint.fsms"), (["--layers"], "leave out --layers"),
])
def test_train_refuses_options_that_exclude_rtl(arguments, message, capsys):
    assert main(["train", "--check-rtl", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_long_needs_the_cases_of_the_command(capsys):
    for arguments in (["--long"], ["--check-rtl", "4/64", "--long"]):
        assert main(["validate", *arguments]) == 2
        assert "--long adds cases" in capsys.readouterr().err


def test_sums_needs_cases(capsys):
    for arguments in (["--sums"], ["--check-rtl", "--sums"]):
        assert main(["validate", *arguments]) == 2
        assert "--sums is about the RTL of --check-rtl" in capsys.readouterr().err


@pytest.mark.parametrize("case", ["4x2/7", "1/64", "9x9/64", "4x2", "4/64/", "4/64/0", "4/64/x", "4/64/100/1",
                                  "wild:4/64", ":4/64", "ultra:4", "ultra:tiny:4/64"])
def test_cases_that_are_none(case, capsys):
    assert main(["validate", "--check-rtl", case]) == 2
    assert case in capsys.readouterr().err
