"""Vivado projects, as far as they can be checked without Vivado: Tcl, files, ports and widths."""

import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from fpga.package import CARDS, build_tcl, xdc
from hw.cli import main
from hw.dma_engine import PRESETS

S = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"

# Commands of Vivado that do nothing but say that they were called; any other unknown command is an error.
STUBS = """
set calls [list]
foreach command {create_project set_property update_ip_catalog create_bd_design create_bd_cell create_bd_intf_port
        create_bd_port connect_bd_intf_net connect_bd_net make_bd_intf_pins_external assign_bd_address
        validate_bd_design save_bd_design make_wrapper update_compile_order launch_runs wait_on_run open_run
        report_timing_summary
        report_utilization create_clock set_false_path current_project current_fileset get_bd_cells get_bd_pins
        get_bd_ports get_bd_intf_ports get_bd_intf_pins get_bd_addr_segs get_files get_ports add_files} {
    proc $command args [format {lappend ::calls [list %s {*}$args]; return $args} $command]
}
"""


def _tcl(script, folder):
    """What a Tcl interpreter prints for a script."""
    if program := shutil.which("tclsh"):
        # From a file: what comes on standard input goes on after an error.
        (folder / "script.tcl").write_text(script)
        done = subprocess.run([program, folder / "script.tcl"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    tkinter = pytest.importorskip("tkinter")
    printed = []
    interpreter = tkinter.Tcl()
    interpreter.createcommand("puts", lambda text: printed.append(text))
    interpreter.eval(script)
    return "\n".join(printed) + "\n"


@pytest.mark.parametrize("name", CARDS)
def test_tcl(tmp_path, name):
    card = CARDS[name]
    (tmp_path / "build.tcl").write_text(build_tcl(name, card, name="dmace_dma_engine", config=PRESETS[card.preset]))
    (tmp_path / "card.xdc").write_text(xdc(card))
    said = _tcl(f"{STUBS}\nsource {{{tmp_path / 'build.tcl'}}}\nsource {{{tmp_path / 'card.xdc'}}}\n"
                "foreach call $calls { puts $call }\n", tmp_path)
    assert f"-part {card.part} -force" in said
    made = set(re.findall(r"^create_bd_cell .* (\w+)$", said, re.MULTILINE))
    used = set(re.findall(r"get_bd_(?:intf_)?pins (\w+)/", said))
    assert made == used == {"pcie", "refclk", "engine", "to_memory", "from_host"}
    for site in card.pins[:3]:
        assert re.search(rf"\bPACKAGE_PIN {site}\b", said)


def test_tcl_errors_are_seen(tmp_path):
    with pytest.raises(Exception, match="create_bd_sell"):
        _tcl(f"{STUBS}\ncreate_bd_sell -type ip pcie\n", tmp_path)


def test_project(tmp_path):
    folder = tmp_path / "card"
    assert main(["fpga", "package", "--target", "nitefury", "-o", str(folder)]) == 0
    pins = json.loads((folder / "ip/pins.json").read_text())
    expected = {re.sub("^clk$", "aclk", re.sub("^rst$", "aresetn", pin["name"])).replace("__", "_"):
                (pin["direction"], pin["width"]) for pin in pins["pins"] if not pin["name"].startswith("events__")}

    text = (folder / "ip/dmace_dma_engine.v").read_text()
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
    assert sorted(mapped) == sorted(expected)
    for file in root.iter(f"{S}file"):
        assert (folder / "ip" / file.find(f"{S}name").text).is_file()
    # The engine inside is bound by its own names, each once.
    module = (folder / "ip/dma_engine.v").read_text()
    bound = re.findall(r"\.(\w+)\(", text)
    assert len(bound) == len(set(bound)) == len(expected)
    for name in bound:
        assert re.search(rf"^  (?:input|output) (?:\[\d+:0\] )?{name};", module, re.MULTILINE), name
