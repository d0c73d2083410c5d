# SPDX-License-Identifier: Apache-2.0
"""The accelerator's RTL beside the simulator, with constants that are measured from the same RTL."""

import json
from dataclasses import asdict, replace

import pytest

from dmace.cli import main
from hw.ace.config import TINY
from hw.ace.words import Collective
from sim.ace.bench import Bench
from sim.ace.bench.runner import MEMORY_LATENCY
from sim.ace.shared_library import build_library
from sim.system import Calibration
from sim.validation import calibrate, simulated
from sim.validation.as_rtl import as_rtl, cycles

pytestmark = pytest.mark.rtl


@pytest.fixture(scope="module")
def bench():
    return Bench(TINY, build_library(TINY), link_rate=0.25, link_latency=100)


@pytest.fixture(scope="module")
def measured(bench):
    return calibrate.measure(bench)


@pytest.mark.parametrize("shape", [(2,), (4,), (4, 2, 2)])
def test_as_many_cycles(bench, measured, shape):
    row = simulated.compare(bench, shape, 64 << 10, calibration=measured)
    assert abs(row["difference"]) <= row["allowed"], row


def test_constants_make_the_difference(bench, measured):
    """A hop that takes 40 cycles longer is not the RTL's."""
    slower = replace(measured, receive_cycles=measured.receive_cycles + 40)
    row = simulated.compare(bench, (8,), 4096, calibration=slower)
    assert row["difference"] > row["allowed"]


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


@pytest.mark.parametrize("case", ["4x2/7", "1/64", "9x9/64", "4x2"])
def test_cases_that_are_none(case, capsys):
    assert main(["validate", "--check-rtl", case]) == 2
    assert case in capsys.readouterr().err
