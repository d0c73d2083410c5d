# SPDX-License-Identifier: Apache-2.0
"""The builder and runner of simulations, on a counter: cache, failures, interruption, progress."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import cocotb
import pytest
from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from hw import emit
from sim.progress import report
from sim.verilator.build import BuildFailed, SimulationFailed, build


class Counter(wiring.Component):
    """Count while ``en``; ``limit`` is never to be passed."""

    def __init__(self, width=8):
        self.width = width
        super().__init__({"en": In(1), "limit": In(width), "count": Out(width)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.en):
            m.d.sync += self.count.eq(self.count + 1)
        m.d.sync += Assert(self.count <= self.limit, Format("count {} passed {}", self.count, self.limit))
        return m


@pytest.fixture(scope="module")
def counter():
    return build(Counter(), name="counter")


@pytest.mark.rtl
def test_passes_and_reports_progress(counter):
    seen = []
    result = counter.run(__name__, testcase="counts", seed=7, env={"CYCLES": 20}, progress=seen.append)
    assert [test.name for test in result.tests] == ["counts"]
    assert result.tests[0].sim_ns == 205
    assert seen == [{"done": done, "total": 20} for done in range(1, 21)]
    assert result.seed == 7
    assert "Seeding Python random module with 7" in result.log.read_text()


@pytest.mark.rtl
def test_writes_to_the_given_folder(counter, tmp_path):
    log, results = tmp_path / "out" / "a.log", tmp_path / "out" / "a.xml"
    counter.run(__name__, testcase="counts", env={"CYCLES": 3}, log=log, results=results)
    assert log.is_file() and results.is_file()


@pytest.mark.rtl
def test_is_not_built_twice(counter):
    before = counter.binary.stat()
    again = build(Counter(), name="counter")
    assert again.reused
    assert again.binary.stat() == before
    assert build(Counter(width=4), name="counter").folder != counter.folder


@pytest.mark.rtl
def test_failing_test_is_reported(counter):
    with pytest.raises(SimulationFailed) as caught:
        counter.run(__name__, testcase="is_wrong", seed=11)
    assert caught.value.reason == "Test is_wrong failed on counter: the count is not 41"
    assert any("AssertionError: the count is not 41" in line for line in caught.value.lines)
    assert "seed 11" in str(caught.value)
    assert not caught.value.result.tests[0].passed


@pytest.mark.rtl
def test_failing_assertion_is_reported(counter):
    with pytest.raises(SimulationFailed) as caught:
        counter.run(__name__, testcase="passes_limit")
    assert re.fullmatch(r"Assertion failed in the hardware of counter: count 6 passed 5 "
                        r"\(in counter, counter\.v:\d+, at 70 ns\)", caught.value.reason)


@pytest.mark.rtl
def test_missing_test_and_module_are_reported(counter):
    with pytest.raises(SimulationFailed) as caught:
        counter.run(__name__, testcase="nope")
    assert caught.value.reason == "tests.sim.verilator.test_build has no cocotb test named 'nope'."
    with pytest.raises(SimulationFailed) as caught:
        counter.run("tests.nothing")
    assert caught.value.reason == ("tests.nothing could not be run on counter: "
                                   "ModuleNotFoundError: No module named 'tests.nothing'")


@pytest.mark.rtl
def test_endless_simulation_is_stopped(counter):
    with pytest.raises(SimulationFailed) as caught:
        counter.run(__name__, testcase="never_ends", timeout=2)
    assert caught.value.reason == "The simulation of counter was stopped after 2 s without an end."


@pytest.mark.long
@pytest.mark.rtl
def test_waves(tmp_path):
    made = build(Counter(), name="counter", waves=True)
    result = made.run(__name__, testcase="counts", env={"CYCLES": 5}, waves=tmp_path / "counter.trace")
    assert result.waves == tmp_path / "counter.trace"
    assert result.waves.stat().st_size > 100


@pytest.mark.rtl
def test_interrupted_build_is_done_again(counter, tmp_path, monkeypatch):
    # Verilator's own library need not be compiled once more.
    for library in counter.folder.parent.glob("verilator-*"):
        shutil.copytree(library, tmp_path / "sim" / library.name)
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    script = f"from {__name__} import Counter, build; build(Counter(), name='counter')"
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, process_group=0,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("sim/counter-*/cpp/Vtop.json")):
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    (half,) = tmp_path.glob("sim/counter-*")
    assert not (half / "complete.json").exists()

    made = build(Counter(), name="counter")
    assert not made.reused
    assert made.folder == half
    assert json.loads((half / "complete.json").read_text())["name"] == "counter"
    made.run(__name__, testcase="counts", env={"CYCLES": 3})


def test_refused_design_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    monkeypatch.setattr(emit, "verilog", lambda component, name, **options: f"module {name}(; endmodule")
    with pytest.raises(BuildFailed) as caught:
        build(None, name="counter")
    assert re.match(r"verilator(_bin)? failed with status 1\.\n    %Error: counter\.v:1:", str(caught.value))


async def _start(dut, limit):
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    dut.rst.value, dut.en.value, dut.limit.value = 1, 0, limit
    await FallingEdge(dut.clk)
    dut.rst.value, dut.en.value = 0, 1


@cocotb.test()
async def counts(dut):
    total = int(os.environ["CYCLES"])
    await _start(dut, 255)
    for cycle in range(total):
        assert dut.count.value == cycle
        await FallingEdge(dut.clk)
        report(done=cycle + 1, total=total)


@cocotb.test()
async def is_wrong(dut):
    await _start(dut, 255)
    await FallingEdge(dut.clk)
    assert dut.count.value == 41, "the count is not 41"


@cocotb.test()
async def passes_limit(dut):
    await _start(dut, 5)
    for _ in range(20):
        await FallingEdge(dut.clk)


@cocotb.test()
async def never_ends(dut):
    await _start(dut, 255)
    dut.en.value = 0
    while True:
        await FallingEdge(dut.clk)
