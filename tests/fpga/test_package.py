# SPDX-License-Identifier: Apache-2.0
"""Vivado projects of single cores, as far as they can be checked without Vivado: Tcl, files, ports and widths."""

import json
import re
from xml.etree import ElementTree

import pytest

from dmace.cli import main
from fpga.package import NOT_RUN, TARGETS, designs
from fpga.vivado.bridge import CARDS, CORES, build_tcl, xdc

from . import tcl

S = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"

STAND_INS = tcl.stand_ins("""create_project set_property update_ip_catalog create_bd_design create_bd_cell
    create_bd_intf_port create_bd_port connect_bd_intf_net connect_bd_net make_bd_intf_pins_external assign_bd_address
    validate_bd_design save_bd_design make_wrapper update_compile_order launch_runs wait_on_run open_run
    report_timing_summary report_utilization create_clock set_false_path current_project current_fileset get_bd_cells
    get_bd_pins get_bd_ports get_bd_intf_ports get_bd_intf_pins get_bd_addr_segs get_files get_ports
    add_files""".split())


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """Folder of each design's project for the card, with the smallest preset."""
    folders = {design: tmp_path_factory.mktemp(design) / "card" for design in CORES}
    for design, folder in folders.items():
        assert main(["fpga", "package", "--target", "nitefury", "--design", design, "-o", str(folder)]) == 0
    return folders


@pytest.mark.long
@pytest.mark.parametrize(("name", "design"), [(name, design) for name, card in CARDS.items() for design in card.cores])
def test_tcl(tmp_path, projects, name, design):
    card, pins = CARDS[name], json.loads((projects[design] / "ip/pins.json").read_text())
    (tmp_path / "build.tcl").write_text(build_tcl(name, design, pins, not_run=NOT_RUN))
    (tmp_path / "card.xdc").write_text(xdc(card))
    if name == "nitefury":
        assert (projects[design] / "build.tcl").read_text() == (tmp_path / "build.tcl").read_text()
    said = tcl.run(f"{STAND_INS}\nsource {{{tmp_path / 'build.tcl'}}}\nsource {{{tmp_path / 'card.xdc'}}}\n"
                   "foreach call $calls { puts $call }\n", tmp_path)
    assert f"-part {card.part} -force" in said
    made = set(re.findall(r"^create_bd_cell .* (\w+)$", said, re.MULTILINE))
    used = set(re.findall(r"get_bd_(?:intf_)?pins (\w+)/", said))
    assert made == used == {"pcie", "refclk", "engine", "to_memory", "from_host"}
    for site in card.pins[:3]:
        assert re.search(rf"\bPACKAGE_PIN {site}\b", said)
    # The address of a port and the spans in BAR 0.
    doorbells, registers = (1 << pin["width"] for bus in ("s_axi_db", "s_axil") for pin in pins["pins"]
                            if pin["name"] == f"{bus}__awaddr")
    assert {bus: (int(offset, 0), int(span, 0)) for offset, span, bus in re.findall(
        r"^assign_bd_address -offset (\w+) -range (\w+) .*\bengine/(\w+)/reg0", said, re.MULTILINE)} == {
            "s_axi_db": (0, doorbells), "s_axil": (max(doorbells, 0x10000), max(registers, 4096))}
    # Each connected interface belongs to the IP.
    root = ElementTree.parse(projects[design] / "ip/component.xml").getroot()
    buses = {bus.findtext(f"{S}name") for bus in root.iter(f"{S}busInterface")}
    assert set(re.findall(r"get_bd_(?:intf_)?pins engine/(\w+)", said)) <= buses
    assert ("tx_0" in buses) == ("engine/rx_1" in said) == (design != "dma")


def test_tcl_errors_are_seen(tmp_path):
    with pytest.raises(Exception, match="create_bd_sell"):
        tcl.run(f"{STAND_INS}\ncreate_bd_sell -type ip pcie\n", tmp_path)


def test_designs():
    assert {target: designs(target) for target in TARGETS} == {
        "alveo-u250": ("card", "dma", "ace"), "vcu118": ("card",), "kcu116": ("card",),
        "kcu105": ("dma", "ace", "endpoint"), "nitefury": ("dma", "ace", "endpoint")}


@pytest.mark.parametrize(("arguments", "message"), [
    (["alveo-u250", "--design", "endpoint"], "alveo-u250 has no design endpoint: choose card or dma or ace."),
    (["vcu118", "--design", "dma"], "vcu118 has no design dma: choose card."),
    (["kcu105", "--design", "card"], "kcu105 has no design card: choose dma or ace or endpoint."),
    (["kcu105", "--config", "wide"], "kcu105 has dma only as base, to fit its PCIe bridge: omit --config."),
    (["kcu116", "--config", "wide"],
     "kcu116 has 8 lanes, and the card wide needs 16: choose a smaller --config."),
])
def test_errors(tmp_path, capsys, arguments, message):
    assert main(["fpga", "package", "--target", *arguments, "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"dmace: {message}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("design", CORES)
def test_project(projects, design):
    folder, module = projects[design], CORES[design][0]
    pins = json.loads((folder / "ip/pins.json").read_text())
    outer = {"clk": "aclk", "rst": "aresetn"}
    for flow, number in ((flow, number) for flow in ("tx", "rx") for number in range(6)):
        outer |= {f"{flow}__{number}__{name}": f"{flow}_{number}_{axis}" for name, axis in (
            ("payload", "tdata"), ("valid", "tvalid"), ("ready", "tready"))}
    expected = {outer.get(pin["name"], pin["name"].replace("__", "_")): (pin["direction"], pin["width"])
                for pin in pins["pins"] if not pin["name"].startswith(("events__", "interrupts__"))}

    text = (folder / f"ip/dmace_{module}.v").read_text()
    header = text[text.index("("):text.index(");")]
    ports = {name: (direction, int(high or 0) + 1) for direction, high, name in
             re.findall(r"(input|output) wire (?:\[(\d+):0\] )?(\w+)", header)}
    assert ports == expected

    root = ElementTree.parse(folder / "ip/component.xml").getroot()
    listed = {port.find(f"{S}name").text:
              ({"in": "input", "out": "output"}[port.find(f"{S}wire/{S}direction").text],
               int(port.findtext(f"{S}wire/{S}vector/{S}left", "0")) + 1) for port in root.iter(f"{S}port")}
    assert listed == expected
    mapped = [port.find(f"{S}name").text for port in root.iter(f"{S}physicalPort")]
    alone = {"ace": ["link_down"]}.get(design, [])
    assert sorted([*mapped, *alone]) == sorted(expected)
    for file in root.iter(f"{S}file"):
        assert (folder / "ip" / file.find(f"{S}name").text).is_file()
    # The wrapper binds each port of the engine once, by name.
    core = (folder / f"ip/{module}.v").read_text()
    bound = re.findall(r"\.(\w+)\(", text)
    assert len(bound) == len(set(bound)) == len(expected)
    for name in bound:
        assert re.search(rf"^  (?:input|output) (?:\[\d+:0\] )?{name};", core, re.MULTILINE), name
