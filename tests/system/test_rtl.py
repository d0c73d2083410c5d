"""The accelerator's RTL beside the simulator, with constants that are measured from the same RTL."""

import json
from dataclasses import asdict, replace

import pytest

from hw.ace.config import TINY
from hw.cli import main
from sim.ace.bench import Bench, calibration, simulated
from sim.ace.shared_library import build_library
from sim.system import Calibration

pytestmark = pytest.mark.rtl


@pytest.fixture(scope="module")
def bench():
    return Bench(TINY, build_library(TINY), link_rate=0.25, link_latency=100)


@pytest.fixture(scope="module")
def measured(bench):
    return calibration.measure(bench)


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
def test_file_is_up_to_date(measured):
    """Else: ``dmace bench ace --calibration sim/system/calibration.json``."""
    ours, found = (asdict(one) | {"measured": None} for one in (Calibration.load(), measured))
    assert ours == found


def test_train(tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main(["train", "--nodes", "2x2", "--workload", "resnet50", "--check-rtl", "--json", str(file)]) in (0, 1)
    rows = json.loads(file.read_text())
    assert [row["what"] for row in rows] and all(row["rtl_cycles"] > 500 for row in rows)
    assert "RTL and simulator" in capsys.readouterr().out
    assert main(["train", "--nodes", "4x8x4", "--check-rtl"]) == 2
    assert "has 128" in capsys.readouterr().err
