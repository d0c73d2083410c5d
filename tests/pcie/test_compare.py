# SPDX-License-Identifier: Apache-2.0
"""Short runs of ``dmace compare pcie``, with faults and resets; errors that are planted are found."""

import json
import warnings
from collections import Counter

import cocotb
import pytest

from dmace.cli import main
from hw.dma_engine.words import Status
from sim.pcie.compare import PcieComparison
from sim.pcie.compare_bench import PcieTestbench
from sim.pcie.dma_card import DmaCard, small_dma
from sim.verilator.design import Design

warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

RESULT = {
    "width": 512, "seed": 3, "requests": 12, "cycles": 1000, "seconds": 1.0, "waves": None,
    "faults": {"poisoned": 2}, "resets": {"hot": 1}, "failures": {"READ_SLVERR": 2}, "leaked": 0, "mismatches": 1,
    "first_mismatches": ["Cycle 77: tags 5 are not used any more."],
}


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize(("width", "requests", "resets"), [
    (512, 40, 0),
    *(pytest.param(*run, marks=pytest.mark.soak) for run in (
        (512, 150, 0), (512, 80, 4), (128, 500, 4), (256, 500, 4), (512, 3000, 24))),
])
def test_compare(width, requests, resets, seed, tmp_path):
    path = tmp_path / "result.json"
    status = main(["compare", "pcie", "--width", str(width), "--requests", str(requests), "--resets", str(resets),
                   "--seed", str(seed), "--json", str(path)])
    result = json.loads(path.read_text())
    assert not result["mismatches"] and not result["leaked"], result["first_mismatches"]
    assert status == 0
    assert result["requests"] >= requests and result["width"] == width and result["seed"] == seed
    assert sum(result["resets"].values()) == resets
    assert {"READ_SLVERR", "READ_DECERR"} <= set(result["failures"]) or requests < 100


@pytest.mark.rtl
@pytest.mark.soak
@pytest.mark.parametrize("planted", ["memory_byte", "status", "leaked_tag"])
def test_planted_errors(simulate, planted):
    simulate(Design(DmaCard, *small_dma(512)), testcase=planted)


async def _found(dut, plant):
    """Mismatches of a run with an error."""
    bench = PcieTestbench(dut, *small_dma(512), seed=cocotb.RANDOM_SEED)
    await bench.start()
    comparison = PcieComparison(bench, 20, 0)
    plant(bench)
    await comparison.run()
    return bench.mismatches


@cocotb.test()
async def memory_byte(dut):
    """A byte in front of a region changes."""
    def plant(bench):
        check = bench.check_memory

        def changed():
            address = next(region.base for region in bench.model.regions.values() if not region.paged) - 1
            bench.memory.write(address, bytes([bench.memory.read(address, 1)[0] ^ 1]))
            check()

        bench.check_memory = changed

    found = await _found(dut, plant)
    assert any("memory differs" in sentence and "1 wrong byte" in sentence for sentence in found), found


@cocotb.test()
async def status(dut):
    """The model expects the wrong status of reads that fail."""
    other = {Status.READ_SLVERR: Status.READ_DECERR, Status.READ_DECERR: Status.READ_SLVERR}

    def plant(bench):
        fail = bench.fail_page

        def wrong(address, **responses):
            fail(address, **responses)
            faults = bench.model.faults["read"]
            if "read" in responses and address in faults:
                faults[address] = other[faults[address]]

        bench.fail_page = wrong

    found = await _found(dut, plant)
    assert any("READ_" in sentence and "expected" in sentence for sentence in found), found


@cocotb.test()
async def leaked_tag(dut):
    """A tag is not used."""
    class Without(Counter):
        def __setitem__(self, tag, number):
            if tag != 5:
                super().__setitem__(tag, number)

    def plant(bench):
        bench.tags = Without()

    found = await _found(dut, plant)
    assert any("tags 5 are not used any more" in sentence for sentence in found), found


@pytest.fixture
def different(monkeypatch):
    """A run that finds a difference."""
    import sim.cli.compare_pcie
    monkeypatch.setattr(sim.cli.compare_pcie, "simulate", lambda *_: RESULT)


def test_a_difference_is_reported(different, capsys):
    assert main(["compare", "pcie"]) == 1
    shown = capsys.readouterr().out
    assert RESULT["first_mismatches"][0] in shown
    assert all(name in shown for name in ("completion: poisoned", "reset: hot", "READ_SLVERR", "leaked tags"))


def test_json_to_standard_output(different, capsys):
    assert main(["compare", "pcie", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == RESULT


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--width", "64"], "--width must be 128, 256 or 512, not 64."),
    (["--requests", "0"], "--requests must be from 1 to 10,000,000, not 0."),
    (["--resets", "-1"], "--resets must be from 0 to 1,000,000, not -1."),
    (["--seed", "-1"], "--seed must be from 0 to 9,223,372,036,854,775,807, not -1."),
    (["--json", "/no/such/folder/x.json"], "--json: there is no folder /no/such/folder."),
])
def test_bad_options(arguments, sentence, capsys):
    assert main(["compare", "pcie", *arguments]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
