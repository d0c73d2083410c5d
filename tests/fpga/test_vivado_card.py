# SPDX-License-Identifier: Apache-2.0
"""The Vivado project of a card, as far as it can be checked without Vivado: connections, options, constraints.

The IP is an empty module with the ports of the table. The card's pins are those of its signature, so that its Verilog,
which takes minutes for large presets, is not necessary.
"""

import json
import re
import subprocess

import pytest

from dmace.cli import main
from fpga.area import run_yosys
from fpga.package import NOT_RUN
from fpga.vivado import card
from fpga.vivado.boards import BOARDS
from fpga.vivado.constraints import xdc
from fpga.vivado.hard_block import LANES, MODULE, TIED, UNUSED, options, ports
from fpga.vivado.top import top
from hw import emit
from hw.axi import AxiLiteSignature
from hw.card.card import Card
from hw.card.config import PRESETS
from hw.pcie.crossing import AxiLiteCrossing
from hw.pcie.registers import MSIX_PENDING, MSIX_TABLE
from sim.pcie.hard_block import LINKS
from sim.verilator.toolchain import find_verilator

from . import tcl

PROJECT = tcl.stand_ins("""create_project add_files create_ip set_msg_config update_compile_order launch_runs
    wait_on_run open_run report_timing_summary report_utilization report_cdc current_fileset get_files get_ips
    get_runs get_timing_paths""".split())

# Properties of the IP are kept, and the run always succeeds.
PROPERTIES = """
proc set_property args {
    lappend ::calls [list set_property {*}$args]
    if {[lindex $args 0] eq "-dict"} {
        foreach {name value} [lindex $args 1] { set ::ip($name) $value }
    }
}
proc get_property {name object} {
    if {$name eq "PROGRESS"} { return "100%" }
    if {$name eq "SLACK"} { return 0.012 }
    return $::ip($name)
}
"""

CONSTRAINTS = tcl.stand_ins("set_property create_clock set_false_path set_operating_conditions".split()) + """
proc get_ports name { return $name }
proc current_design {} { return design }
"""

SHOW = "foreach call $calls { puts $call }\n"


def _pins(preset):
    """``pins.json`` of a card."""
    pins = emit.pins(Card(PRESETS[preset]), text="module card (clk, rst);")
    return {"module": "card", "config": preset, **pins}


def _lanes(preset):
    return LANES[PRESETS[preset].pcie.data_width]


def _empty(name, listed):
    """Verilog of a module without contents: ``listed`` are names, directions and widths of its ports."""
    header = ",\n".join(f"    {direction} wire [{width - 1}:0] {port}" for port, direction, width in listed)
    return f"(* blackbox *)\nmodule {name} (\n{header}\n);\nendmodule\n"


def _modules(preset):
    """Verilog of the empty modules below the top."""
    width = PRESETS[preset].pcie.data_width
    return ("/* verilator lint_off UNDRIVEN */\n"
            + _empty(MODULE, [(port.name, port.direction, port.width) for port in ports(width, LANES[width])])
            + _empty("card", [(pin["name"], pin["direction"], pin["width"]) for pin in _pins(preset)["pins"]])
            + _empty("IBUFDS_GTE4 #(parameter [1:0] REFCLK_HROW_CK_SEL = 3)", [
                (name, direction, 1) for name, direction in (
                    ("I", "input"), ("IB", "input"), ("CEB", "input"), ("O", "output"), ("ODIV2", "output"))]))


def test_each_port_has_one_use():
    listed = {port.name: port.direction for port in ports(512, 16)}
    assert len(listed) == 133
    assert {listed[name] for name in TIED} == {"input"} and {listed[name] for name in UNUSED} == {"output"}
    assert {name for name, value in TIED.items() if value} == {
        "cfg_mgmt_byte_enable", "cfg_power_state_change_ack", "cfg_link_training_enable", "cfg_config_space_enable"}


@pytest.mark.parametrize("preset", PRESETS)
def test_top_is_clean(tmp_path, preset):
    (tmp_path / "top.v").write_text(top(_pins(preset), lanes=_lanes(preset)))
    (tmp_path / "empty.v").write_text(_modules(preset))
    verilator = find_verilator()
    done = subprocess.run(
        [verilator.path, "--lint-only", "-Wall", "-Wno-DECLFILENAME", "-Wno-PINCONNECTEMPTY", "-Wno-UNUSEDSIGNAL",
         "-Wno-UNUSEDPARAM", "--top-module", "top", "top.v", "empty.v"],
        env=verilator.env(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("preset", PRESETS)
def test_top_connects(tmp_path, preset):
    """Bit by bit, by Yosys's netlist: packets, configuration, clocks, resets, lanes, links and constants."""
    pins = _pins(preset)
    (tmp_path / "top.v").write_text(top(pins, lanes=_lanes(preset)))
    (tmp_path / "empty.v").write_text(_modules(preset))
    run_yosys(["read_verilog empty.v top.v", "hierarchy -check -top top", "proc", "opt_clean", "write_json top.json"],
              tmp_path)
    netlist = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]
    cells, outer = netlist["cells"], {name: port["bits"] for name, port in netlist["ports"].items()}
    block, core, buffer = (cells[name]["connections"] for name in ("pcie", "card", "refclk_buffer"))
    streams = {"rq": "s_axis_rq", "cc": "s_axis_cc", "rc": "m_axis_rc", "cq": "m_axis_cq"}
    seen = {"clk", "rst"}
    for pin in pins["pins"]:
        bus, _, name = pin["name"].partition("__")
        if bus in streams:
            theirs = block[f"{streams[bus]}_{name}"]
            assert core[pin["name"]] == (theirs[:1] if name == "tready" else theirs), pin
        elif bus == "cfg":
            assert core[pin["name"]] == block[name], pin
        seen |= {pin["name"]} if bus in (*streams, "cfg") else set()
    for side, other in ((0, 1), (1, 0)):
        assert core[f"tx__{side}__payload"] == core[f"rx__{other}__payload"]
        assert core[f"tx__{side}__valid"] == core[f"rx__{other}__valid"]
        assert core[f"tx__{side}__ready"] == core[f"rx__{other}__ready"]
    assert {pin["name"] for pin in pins["pins"]} - seen == {
        f"{way}__{port}__{name}" for way in ("tx", "rx") for port in range(PRESETS[preset].endpoint.ports)
        for name in ("payload", "valid", "ready")}
    for port in range(2, PRESETS[preset].endpoint.ports):
        assert core[f"rx__{port}__valid"] == ["0"] and core[f"tx__{port}__ready"] == ["1"]
    # Constants of the IP.
    for name, value in TIED.items():
        assert int("".join(reversed(block[name])), 2) == value, name
    # Clocks, resets and lanes.
    assert core["clk"] == block["user_clk"] and block["sys_reset"] == outer["pcie_perst_n"]
    assert (block["sys_clk_gt"], block["sys_clk"]) == (buffer["O"], buffer["ODIV2"])
    assert (buffer["I"], buffer["IB"], buffer["CEB"]) == (outer["pcie_refclk_p"], outer["pcie_refclk_n"], ["0"])
    assert int(cells["refclk_buffer"]["parameters"]["REFCLK_HROW_CK_SEL"], 2) == 0
    for name in ("rxp", "rxn", "txp", "txn"):
        assert block[f"pci_exp_{name}"] == outer[f"pcie_{name}"] and len(outer[f"pcie_{name}"]) == _lanes(preset)
    registers = [cell for cell in cells.values() if cell["type"] == "$dff"]
    assert [cell["connections"]["CLK"] for cell in registers] == [block["user_clk"]]
    assert registers[0]["connections"]["D"] == [*block["user_reset"], registers[0]["connections"]["Q"][0]]
    assert core["rst"] == registers[0]["connections"]["Q"][1:]


@pytest.mark.parametrize(("name", "changed"), [("cfg__cfg_max_payload", {"width": 3}),
                                               ("rc__tvalid", {"direction": "output"}), ("sideband__x", {})])
def test_top_refuses_what_does_not_fit(name, changed):
    pins = _pins("tiny")
    pins["pins"] = [{**pin, **changed} if pin["name"] == name else pin for pin in pins["pins"]]
    if not changed:
        pins["pins"].append({"name": name, "direction": "input", "width": 1})
    with pytest.raises(AssertionError, match=name):
        top(pins, lanes=4)


def _project(tmp_path, script, *, before="", after=SHOW):
    (tmp_path / "build.tcl").write_text(script)
    return tcl.run(f"{PROJECT}{PROPERTIES}{before}\nsource {{{tmp_path / 'build.tcl'}}}\n{after}", tmp_path)


@pytest.mark.parametrize("target", BOARDS)
def test_project_script(tmp_path, target):
    board = BOARDS[target]
    adapter = PRESETS[board.preset].pcie
    said = _project(tmp_path, card.build_tcl(target, board.preset, not_run=NOT_RUN),
                    after=f"{SHOW}foreach name [array names ip] {{ puts \"$name=$ip($name)\" }}\n")
    assert f"-part {board.part} -force" in said
    for module in (MODULE, "card"):
        assert f"set_msg_config -id {{Synth 8-689}} -string {{{{module '{module}'}}}} -new_severity ERROR" in said
    assert "create_ip -vendor xilinx.com -library ip -name pcie4_uscale_plus -version 1.3 " \
           "-module_name pcie4_uscale_plus_0" in said
    kept = dict(re.findall(r"^CONFIG\.(\w+)=(.*)$", said, re.MULTILINE))
    assert kept == options(adapter)
    assert all(kept.values())
    wide = adapter.data_width == 512
    assert kept["PL_LINK_CAP_MAX_LINK_WIDTH"] == f"X{board.lanes}" == ("X16" if wide else "X8")
    assert kept["axisten_if_width"] == f"{adapter.data_width}_bit"
    assert {name: kept.get(f"AXISTEN_IF_EXT_512_{name}_STRADDLE") for name in ("RQ", "RC", "RC_4TLP", "CQ", "CC")} == (
        {"RQ": "true", "RC": "true", "RC_4TLP": "false", "CQ": "false", "CC": "false"} if wide
        else dict.fromkeys(("RQ", "RC", "RC_4TLP", "CQ", "CC")))
    # Settings that the adapter relies on: alignment, its own tags, messages on RQ, resets of the function.
    assert kept.items() >= {
        "AXISTEN_IF_CQ_ALIGNMENT_MODE": "DWORD_Aligned", "AXISTEN_IF_RQ_ALIGNMENT_MODE": "DWORD_Aligned",
        "axisten_if_enable_client_tag": "true", "extended_tag_field": "true", "pf0_dev_cap_max_payload": "1024_bytes",
        "pf0_msix_enabled": "true", "MSI_X_OPTIONS": "MSI-X_External", "pf0_msi_enabled": "false",
        "PF0_DEV_CAP_FUNCTION_LEVEL_RESET_CAPABLE": "true", "axisten_freq": "250"}.items()
    assert wide or kept.get("AXISTEN_IF_RC_STRADDLE") == "false"
    # BARs, MSI-X table and pending bits, as the adapter has them.
    units = {"Kilobytes": 1 << 10, "Megabytes": 1 << 20}
    sizes = [int(kept[f"pf0_bar{bar}_size"]) * units[kept[f"pf0_bar{bar}_scale"]] for bar in (0, 2)]
    assert sizes == [64 << 10, 1 << adapter.doorbell_addr_width]
    assert [kept[f"pf0_bar{bar}_{kind}"] for bar in (0, 2) for kind in ("64bit", "prefetchable")] == [
        "false", "false", "true", "true"]
    assert int(kept["PF0_MSIX_CAP_TABLE_SIZE"], 16) == adapter.vectors - 1
    assert int(kept["PF0_MSIX_CAP_TABLE_OFFSET"], 16) == MSIX_TABLE == 0x8000
    assert int(kept["PF0_MSIX_CAP_PBA_OFFSET"], 16) == MSIX_PENDING == 0x9000
    assert kept["PF0_MSIX_CAP_TABLE_BIR"] == kept["PF0_MSIX_CAP_PBA_BIR"] == "BAR_0"
    # Each file of the project is among those written.
    named = set(re.findall(r"[\w.]+\.(?:v|xdc)\b", " ".join(re.findall(r"^add_files .*", said, re.MULTILINE))))
    assert named == {"card.v", "top.v", "card.xdc"}


def test_an_option_that_the_ip_does_not_keep_is_an_error(tmp_path):
    other = "proc get_property {name ip} { if {$name eq {CONFIG.pf0_bar2_size}} { return 1 }; return $::ip($name) }"
    with pytest.raises(Exception, match=r"The PCIe IP has pf0_bar2_size 1 instead of \d+\."):
        _project(tmp_path, card.build_tcl("kcu116", "tiny", not_run=NOT_RUN), before=other)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("PROGRESS", "40%", r"There is no bitstream: see the logs in project\."),
    ("SLACK", "-0.25", r"The clock is missed by 0\.25 ns, so that the card would not work reliably: see timing\.rpt\."),
])
def test_a_failed_run_is_an_error(tmp_path, name, value, message):
    failed = ("rename get_property others\nproc get_property {name object} "
              f"{{ if {{$name eq {{{name}}}}} {{ return {value} }}; return [others $name $object] }}")
    with pytest.raises(Exception, match=message):
        _project(tmp_path, card.build_tcl("kcu116", "tiny", not_run=NOT_RUN), before=failed)


def test_crossings_of_a_card_with_two_clocks(monkeypatch):
    bus = AxiLiteSignature(addr_width=14, data_width=32)
    monkeypatch.setattr(card, "Card", lambda config: AxiLiteCrossing(
        bus, manager_domain="pcie", subordinate_domain="engine"))
    clocks = [{"name": name} for name in ("clk", "rst", "engine_clk", "engine_rst", "cfg__x_clk")]
    assert card._crossings(PRESETS["tiny"], {"pins": clocks[:2]}) == {}
    text = card._crossings(PRESETS["tiny"], {"pins": clocks})["crossings.xdc"]
    cells = re.findall(r"get_cells \{([^}]*)\}", text)
    assert cells and all(cell.startswith("card/") for cell in cells)


def test_constraints_of_crossings_apply_after_synthesis(tmp_path):
    said = _project(tmp_path, card.build_tcl("kcu116", "tiny", crossings=("crossings.xdc",), not_run=NOT_RUN))
    assert "set_property USED_IN_SYNTHESIS false crossings.xdc" in said
    assert "set_property PROCESSING_ORDER LATE crossings.xdc" in said


@pytest.mark.parametrize("target", BOARDS)
def test_constraints(tmp_path, target):
    board = BOARDS[target]
    (tmp_path / "card.xdc").write_text(xdc(board, lanes=board.lanes))
    said = tcl.run(f"{CONSTRAINTS}source {{{tmp_path / 'card.xdc'}}}\n{SHOW}", tmp_path)
    # Each port of the top has one pin of its own.
    header = top(_pins(board.preset), lanes=board.lanes).partition(");")[0]
    wanted = {f"{name}[{bit}]" if high else name
              for high, name in re.findall(r"(?:input|output) wire (?:\[(\d+):0\] )?(\w+)", header)
              for bit in range(int(high or 0) + 1)}
    placed = {name: site for site, name in re.findall(r"PACKAGE_PIN (\w+).*? \{?(pcie_\w+(?:\[\d+\])?)\}?$", said,
                                                      re.MULTILINE)}
    assert set(placed) == wanted
    assert len(set(placed.values())) == len(placed) == said.count("PACKAGE_PIN")
    assert "create_clock -name pcie_refclk -period 10.000 pcie_refclk_p" in said
    assert "set_false_path -from pcie_perst_n" in said
    assert said.count("set_property") == len(placed) + len(board.properties)


def test_fewer_lanes_than_the_board(tmp_path):
    text = xdc(BOARDS["alveo-u250"], lanes=4)
    assert len(re.findall(r"pcie_[rt]x[pn]\[", text)) == 16 and "[4]" not in text


def test_lanes_are_those_of_the_simulated_hard_block():
    assert LANES == {width: lanes for width, (_, lanes) in LINKS.items()}


@pytest.mark.long
def test_files(tmp_path, capsys):
    """The smallest card: its Verilog has the pins that the top connects."""
    folder = tmp_path / "out"
    assert main(["fpga", "package", "--target", "alveo-u250", "--config", "tiny", "-o", str(folder)]) == 0
    printed = capsys.readouterr().out
    names = {"card.v", "top.v", "pins.json", "card.xdc", "build.tcl", "README.md"}
    assert {path.name for path in folder.iterdir()} == names and NOT_RUN in printed
    assert all(str(folder / name) in printed for name in names)
    pins = json.loads((folder / "pins.json").read_text())
    assert pins == _pins("tiny")
    assert (folder / "top.v").read_text() == top(pins, lanes=4)
    for name in ("build.tcl", "README.md"):
        assert NOT_RUN in (folder / name).read_text()
    module = re.search(r"^module card ?\((.*?)\);\n(.*?)^endmodule", (folder / "card.v").read_text(),
                       re.MULTILINE | re.DOTALL)
    declared = {name: (direction, int(high or 0) + 1) for direction, high, name in
                re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", module[2], re.MULTILINE)}
    assert declared == {pin["name"]: (pin["direction"], pin["width"]) for pin in pins["pins"]}
