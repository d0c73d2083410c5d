# SPDX-License-Identifier: Apache-2.0
"""The complete flow from Verilog to a bitstream, for a counter and for the smallest design of a board."""

import json
from collections import Counter

import pytest

from dmace.cli import main
from fpga.build import implement
from fpga.floorplan import _block, draw
from fpga.netlist import netlist
from fpga.paths import WIRE_NS, timing_paths
from fpga.targets import TARGETS
from hw.errors import UserError

COUNTER = """module board(input clk, rx, output tx, idle, busy, error);
reg [23:0] count;
always @(posedge clk) count <= count + 24'd1;
assign tx = rx;
assign {idle, busy, error} = count[23:21];
endmodule
"""


@pytest.mark.synth
@pytest.mark.parametrize("target", ["ulx3s-25f", "tang-nano-9k"])
def test_flow(target, tmp_path, monkeypatch):
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    messages = []
    clock_hz = TARGETS[target].clock_hz
    made = implement(COUNTER, target, name="counter", clock_hz=clock_hz,
                     status=lambda what, done, total: messages.append(what.partition(",")[0]))
    if TARGETS[target].family == "ecp5":
        # The preamble of an ECP5's configuration (Lattice FPGA-TN-02039), after the comment.
        assert b"\xff\xff\xbd\xb3" in made.bitstream.read_bytes()[:400]
        assert "SIR" in (made.folder / "board.svf").read_text()
    else:
        # Bits as text, with the preamble and the part's ID (Gowin UG290).
        lines = made.bitstream.read_text().splitlines()
        assert "1010010111000011" in lines and any(f"{0x1100481B:032b}" in line for line in lines)
    assert (made.report["used"]["FF"], made.report["met"], made.reused) == (24, True, False)
    assert made.report["mhz"] > 100
    assert {name for name, _ in made.report["critical"]} & {"count"}
    assert messages[0].startswith("synthesising") and messages[-2:] == ["packing the bitstream", "packed"]
    assert implement(COUNTER, target, name="counter", clock_hz=clock_hz).reused
    placement = json.loads((made.folder / "placement.json").read_text())
    assert sum(cells for sites in placement.values() for *_, cells in sites) >= 24
    draw(placement, tmp_path / "floorplan.png", title="counter")
    assert (tmp_path / "floorplan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.synth
def test_fastest_seed(tmp_path, monkeypatch):
    """The result equals that of the fastest seed alone, whichever seed ends first."""
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    alone = {seed: implement(COUNTER, "ulx3s-25f", name="counter", clock_hz=25_000_000, seeds=(seed,))
             for seed in (1, 2, 3)}
    reached = {str(seed): made.report["mhz"] for seed, made in alone.items()}
    assert len(set(reached.values())) > 1
    best = alone[max(alone, key=lambda seed: (reached[str(seed)], -seed))]
    for seeds in ((1, 2, 3), (3, 2, 1)):
        made = implement(COUNTER, "ulx3s-25f", name="counter", clock_hz=25_000_000, seeds=seeds)
        assert made.report["mhz_by_seed"] == reached
        assert made.report["mhz"] == best.report["mhz"] == max(reached.values())
        assert (made.folder / "board.config").read_text() == (best.folder / "board.config").read_text()
        assert made.bitstream.read_bytes() == best.bitstream.read_bytes()
        assert not list(made.folder.glob("seed_*"))


MEMORY = """module board(input clk, rx, output tx, idle, busy, error);
reg [8:0] row;
reg [15:0] rows [511:0], bits;
reg [15:0] word;
reg all;
reg [3:0] quarters;
initial rows[3] = 16'hA5C3;
always @(posedge clk) begin
    row <= {row, rx};
    bits <= {bits, tx};
    if (rx) rows[row] <= bits;
    word <= rows[bits[8:0]];
    all <= ^bits ^ word[0];
    quarters <= {^word[15:12], ^word[11:8], ^word[7:4], ^word[3:0]};
end
assign {tx, idle, busy, error} = {^quarters, all, word[15], word[7]};
endmodule
"""


@pytest.mark.synth
def test_block_ram_has_its_clock_to_output_delay(tmp_path, monkeypatch):
    """Data read passes at most one LUT if possible. The boxes with delays for ABC are removed, and no logic is lost."""
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    text = (netlist(MEMORY, name="memory") / "board.json").read_text()
    cells = json.loads(text)["modules"]["board"]["cells"].values()
    assert not [cell for cell in cells if cell["type"].startswith(("LATE_", "OPAQUE_"))]
    ram, = (cell for cell in cells if cell["type"] == "DP16KD")
    assert ram["parameters"]["INITVAL_00"].count("1") == bin(0xA5C3).count("1")
    modes = {ram["parameters"][f"{name}_{side}"] for name in ("REGMODE", "WRITEMODE", "CSDECODE") for side in "AB"}
    assert modes <= {"NOREG", "NORMAL", "READBEFOREWRITE", "WRITETHROUGH", *(f"0b{n:03b}" for n in range(8))}
    read = {bit for pin, bits in ram["connections"].items() if pin.startswith("DO") for bit in bits}
    used = {bit for cell in cells if cell is not ram for bits in cell["connections"].values() for bit in bits}
    assert sum(isinstance(bit, int) for bit in read & used) == 16
    # From the block RAM through a LUT to the register: two nets.
    to_all = [timing_path.ns for timing_path in timing_paths(text) if timing_path.start.startswith("rows")
              and timing_path.end.startswith(("all", "idle"))]
    assert to_all == [pytest.approx(5.61 + 0.24 + 2 * WIRE_NS)]


@pytest.mark.synth
def test_twins(tmp_path, monkeypatch):
    """A module ``engine`` with two instances is synthesised once, and its cells appear twice."""
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    engine = COUNTER.replace("module board", "module engine")
    board = """module board(input clk, rx, output tx, idle, busy, error);
wire between, a, b, c, d;
engine first(clk, rx, between, idle, a, b), second(clk, between, tx, c, d, error);
assign busy = a ^ b ^ c ^ d;
endmodule
"""
    folder = netlist(board + engine, name="twins")
    modules = json.loads((folder / "board.json").read_text())["modules"]
    kinds = Counter(cell["type"] for cell in modules["board"]["cells"].values())
    assert (kinds["TRELLIS_FF"], kinds["engine"]) == (48, 0)
    assert (folder / "yosys.log").read_text().count("from module `engine' to a netlist") == 1


@pytest.mark.synth
def test_port_without_a_pin(tmp_path, monkeypatch):
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    unplaced = COUNTER.replace("error);", "error, extra);").replace("assign tx", "assign extra = rx;\nassign tx")
    with pytest.raises(UserError, match=r"^nextpnr-ecp5 failed with status \d+: ERROR: .* The log is .*nextpnr\.log"):
        implement(unplaced, "ulx3s-25f", name="counter", clock_hz=25_000_000)


@pytest.mark.parametrize("name, block", [
    ("core.engine0.legalizer.b_valid_LUT4_D", "engine0.legalizer"),
    ("core.engine1.histogram$937.rows.0.0", "engine1.histogram"), ("core.memory1.rows.0.3", "memory"),
    ("core.bridge.state_TRELLIS_FF_Q", "bridge"), ("core.engine0.irq_LUT4_Z", "all else"), ("idle_LUT4_Z", "all else"),
])
def test_block_of_a_cell(name, block):
    assert _block(name) == block


@pytest.mark.synth
def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path / "build"))
    out = tmp_path / "out"
    arguments = ["fpga", "build", "--target", "ulx3s-25f", "--design", "probe", "-o", str(out),
                 "--floorplan", str(tmp_path / "plan.png")]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "probe tiny on ulx3s-25f" in shown and "Critical path" in shown
    report = json.loads((out / "report.json").read_text())
    assert report["met"] and report["mhz"] > 50 and report["used"]["block RAM"] == 16
    assert {path.name for path in out.iterdir()} == {"board.bit", "board.svf", "board.lpf", "report.json"}
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    # Built once.
    assert main([*arguments[:6], "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == report
