# SPDX-License-Identifier: Apache-2.0
"""The DMA engine with random values in registers and memories before its reset, as RTL and as gates.

Copies of bytes and completion words are right, and take as many cycles as with the initial values.
"""

import re

import pytest

from fpga.gates import gate_netlist
from hw.dma_engine.config import TINY
from hw.dma_engine.engine import DmaEngine
from sim.cpp import Flow, HarnessFailed, Target, build_harness
from sim.cpp.clocked import ClockedInputs
from sim.verilator.design import Design, verilog_of
from tests.harness.fast import fast

pytestmark = [pytest.mark.rtl, pytest.mark.long]

TOP = "fast"
FLOWS = [Flow(count=2, size=300, depth=16, ring=3, records=1, burst=3, requests=60, random_shift=600, size_from=1),
         Flow(first=2, count=2, size=40, depth=8, requests=40, random_shift=600, size_from=1)]


def _verilog():
    return verilog_of(Design(ClockedInputs, Design(DmaEngine, TINY)), name=TOP, assertions=False)


def _results(harness, seed):
    found = harness.run(FLOWS, [Target(read_latency=20, write_latency=20)], seed=seed, limit=100_000,
                        out_of_order=True, jitter=30)
    assert found["checked"]["requests"] == 200
    return {name: value for name, value in found.items() if "second" not in name}


def test_rtl(seed):
    random_start, start = build_harness(TINY, random_initial=True), fast(TINY)
    for number in range(seed, seed + 8):
        assert _results(random_start, number) == _results(start, number)


@pytest.mark.soak
def test_a_missing_reset_is_found(seed):
    """That of the sweep over tables."""
    text = _verilog()
    wrong, count = re.subn(r"(module \\\S+\.sweep\b.*?)    if \(\w*rst\) begin\n.*?    end\n(.*?endmodule)", r"\1\2",
                           text, flags=re.DOTALL)
    assert count == 1
    harness = build_harness(TINY, verilog=(TOP, wrong), random_initial=True)
    with pytest.raises(HarnessFailed):
        for number in range(seed, seed + 8):
            _results(harness, number)


@pytest.fixture(scope="module")
def gates():
    return build_harness(TINY, verilog=(TOP, gate_netlist(_verilog(), top=TOP)), random_initial=True)


@pytest.mark.soak
def test_gates(gates, seed):
    for number in range(seed, seed + 8):
        assert _results(gates, number) == _results(fast(TINY), number)
