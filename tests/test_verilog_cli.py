# SPDX-License-Identifier: Apache-2.0
"""``dmace verilog``: the files, that they are the same every time, and what is said when something is wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dmace.cli import main
from hw.endpoint.config import PRESETS
from hw.endpoint.engine import Endpoint
from sim.verilator.design import Design, verilog_of

ROOT = Path(__file__).parents[1]
FILES = {"dma_engine.v", "pins.json", "registers.json", "registers.md", "registers.rdl", "dmace.h"}


def _dmace(*arguments, cwd, hash_seed="0"):
    """Run ``dmace`` as a person would: another process, another folder."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "dmace", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder with the files of ``tiny``."""
    folder = tmp_path_factory.mktemp("verilog")
    done = _dmace("verilog", "dma_engine", "--config", "tiny", "-o", folder / "new" / "tiny", cwd=folder)
    assert (done.returncode, done.stderr.splitlines()) == (0, [
        f"dma_engine, tiny: {step}" for step in ("elaborate", "make a netlist", "write Verilog")])
    assert {Path(line).name for line in done.stdout.splitlines()} == FILES
    return folder / "new" / "tiny"


def test_writes_the_files(written):
    assert {path.name for path in written.iterdir()} == FILES
    assert all(path.stat().st_size > 1000 for path in written.iterdir())


def test_text_is_the_same_every_time(written, tmp_path):
    done = _dmace("verilog", "dma_engine", "--config", "tiny", "-o", tmp_path, cwd=tmp_path, hash_seed="4711")
    assert done.returncode == 0
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_text_names_no_path_and_no_time(written):
    for name in FILES:
        text = (written / name).read_text()
        assert str(ROOT) not in text and str(written) not in text and str(Path.home()) not in text, name
        assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text), name
    assert "\\src " not in (written / "dma_engine.v").read_text()


def test_pins_are_the_ports(written):
    listed = json.loads((written / "pins.json").read_text())
    assert (listed["module"], listed["config"]) == ("dma_engine", "tiny")
    text = (written / "dma_engine.v").read_text()
    module = re.search(r"^module dma_engine ?\((.*?)\);\n(.*?)^endmodule", text, re.MULTILINE | re.DOTALL)
    header, body = module.groups()
    ports = {}
    for direction, high, name in re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", body, re.MULTILINE):
        ports[name] = (direction, int(high or 0) + 1)
    assert set(ports) == {name.strip() for name in header.split(",")}
    pins = {pin["name"]: (pin["direction"], pin["width"]) for pin in listed["pins"]}
    assert pins == ports
    assert len(listed["pins"]) == len(pins)
    assert (pins["clk"], pins["rst"], pins["irq"]) == (("input", 1), ("input", 1), ("output", 1))
    assert pins["m_axi__wdata"] == ("output", 64) and pins["m_axi__rdata"] == ("input", 64)
    assert pins["s_axi_db__wdata"] == ("input", 128) and pins["s_axil__wdata"] == ("input", 32)
    interfaces = {name.partition("__")[0] for name in pins}
    assert interfaces == {"clk", "rst", "irq", "m_axi", "s_axi_db", "s_axil", "events", "interrupts"}


def test_registers_agree(written):
    registers = {register["name"]: register["offset"]
                 for register in json.loads((written / "registers.json").read_text())["registers"]}
    header = (written / "dmace.h").read_text()
    defined = dict(re.findall(r"^#define DMACE_DMA_(\w+)_OFFSET 0x([0-9a-f]+)u", header, re.MULTILINE))
    assert {name: int(offset, 16) for name, offset in defined.items()} == registers
    for name in ("registers.md", "registers.rdl"):
        assert all(register in (written / name).read_text() for register in registers)


@pytest.mark.long
def test_assertions_can_be_left_out(tmp_path, capsys):
    assert main(["verilog", "dma_engine", "--config", "tiny", "-o", str(tmp_path), "--no-assertions"]) == 0
    assert not re.search(r"\b(assert|\$write|\$display)\b", (tmp_path / "dma_engine.v").read_text())
    capsys.readouterr()


MISTAKES = {
    "unknown preset": (["verilog", "dma_engine", "--config", "tyni", "-o", "x"], "tiny, base, wide"),
    "unknown design": (["verilog", "dma_engin", "-o", "x"], "dma_engine"),
    "no design": (["verilog"], "DESIGN"),
    "folder is a file": (["verilog", "dma_engine", "--config", "tiny", "-o", "file"], "file"),
    "folder below a file": (["verilog", "dma_engine", "--config", "tiny", "-o", "file/below"], "file"),
    "unknown option": (["verilog", "dma_engine", "--confg", "tiny"], "--config"),
    "no value": (["verilog", "dma_engine", "-o"], "-o"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_one_sentence(mistake, tmp_path):
    (tmp_path / "file").write_text("in the way")
    arguments, named = MISTAKES[mistake]
    done = _dmace(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"dmace: [^\n]+[.?]\n", done.stderr), done.stderr
    assert named in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_may_not_be_written(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    done = _dmace("verilog", "dma_engine", "--config", "tiny", "-o", "closed/new", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "dmace: Cannot write to closed/new: Permission denied.\n")


@pytest.mark.long
def test_ace(tmp_path):
    """The accelerator's files are as those of the DMA engine, with a port to each neighbour."""
    assert main(["verilog", "ace", "--config", "tiny", "-o", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "ace.v", "pins.json", "registers.json", "registers.md", "registers.rdl", "dmace_ace.h", "dmace.h"}
    pins = {pin["name"]: pin["direction"] for pin in json.loads((tmp_path / "pins.json").read_text())["pins"]}
    for port in range(6):
        assert (pins[f"tx__{port}__valid"], pins[f"tx__{port}__ready"]) == ("output", "input")
        assert (pins[f"rx__{port}__valid"], pins[f"rx__{port}__ready"]) == ("input", "output")


@pytest.mark.long
def test_card(tmp_path):
    """The pins of the hard block, the links, and the registers of BAR 0."""
    assert main(["verilog", "card", "--config", "tiny", "-o", str(tmp_path), "--no-assertions"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "card.v", "pins.json", "registers.json", "registers.md", "registers.rdl", "dmace_endpoint.h", "dmace_ace.h",
        "dmace.h"}
    pins = {pin["name"]: pin["width"] for pin in json.loads((tmp_path / "pins.json").read_text())["pins"]}
    assert {name.partition("__")[0] for name in pins} == {
        "clk", "rst", "rq", "rc", "cq", "cc", "cfg", "tx", "rx"}
    assert [pins[f"{name}__tuser"] for name in ("rq", "rc", "cq", "cc")] == [62, 75, 88, 33]
    assert pins["rq__tdata"] == 128 and pins["cfg__cfg_max_payload"] == 2
    registers = {register["name"]: register["offset"]
                 for register in json.loads((tmp_path / "registers.json").read_text())["registers"]}
    assert (registers["DMA_ID"], registers["ENDPOINT_ID"], registers["PCIE_ID"]) == (0, 0x2000, 0x4000)


@pytest.mark.long
def test_card_with_two_clocks(tmp_path):
    assert main(["verilog", "card", "--config", "tiny", "--two-clocks", "-o", str(tmp_path), "--no-assertions"]) == 0
    pins = [pin["name"] for pin in json.loads((tmp_path / "pins.json").read_text())["pins"]]
    assert pins[:4] == ["clk", "engine_clk", "engine_rst", "rst"]


def test_two_clocks_are_for_the_card(tmp_path, capsys):
    assert main(["verilog", "ace", "--two-clocks", "-o", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "dmace: --two-clocks is an option of card, not of ace.\n"
    assert not (tmp_path / "new").exists()


def test_preset_of_the_accelerator_alone(tmp_path, capsys):
    assert main(["verilog", "endpoint", "--config", "ultra", "-o", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "dmace: --config ultra is a preset of ace; endpoint has tiny, base, wide.\n"
    assert not (tmp_path / "new").exists()


def test_preset_of_the_card_alone(tmp_path, capsys):
    assert main(["verilog", "ace", "--config", "card", "-o", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "dmace: --config card is a preset of card; ace has tiny, base, wide, ultra.\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_endpoint(tmp_path):
    """One port of each kind for both engines; registers of all in one map, whose offsets the header has by window."""
    assert main(["verilog", "endpoint", "--config", "tiny", "-o", str(tmp_path), "--no-assertions"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "endpoint.v", "pins.json", "registers.json", "registers.md", "registers.rdl", "dmace_endpoint.h", "dmace_ace.h",
        "dmace.h"}
    pins = {pin["name"]: pin["width"] for pin in json.loads((tmp_path / "pins.json").read_text())["pins"]}
    assert {name.partition("__")[0] for name in pins} == {
        "clk", "rst", "irq", "m_axi", "s_axi_db", "s_axil", "tx", "rx", "events", "interrupts"}
    assert pins["s_axil__awaddr"] == 14 and pins["s_axi_db__awaddr"] == 12 + 4 and pins["m_axi__wdata"] == 64
    registers = {register["name"]: register["offset"]
                 for register in json.loads((tmp_path / "registers.json").read_text())["registers"]}
    for name, header in (("DMA", "dmace.h"), ("ACE", "dmace_ace.h"), ("ENDPOINT", "dmace_endpoint.h")):
        defined = dict(re.findall(rf"^#define DMACE_{name}_(\w+)_OFFSET 0x([0-9a-f]+)u",
                                  (tmp_path / header).read_text(), re.MULTILINE))
        windows = dict(re.findall(r"^#define DMACE_ENDPOINT_(\w+)_REGISTERS 0x([0-9a-f]+)u",
                                  (tmp_path / "dmace_endpoint.h").read_text(), re.MULTILINE))
        base = int(windows["OWN" if name == "ENDPOINT" else name], 16)
        assert {f"{name}_{register}": base + int(offset, 16) for register, offset in defined.items()} == {
            register: offset for register, offset in registers.items() if register.startswith(f"{name}_")}


@pytest.mark.long
def test_text_is_short():
    """Modules are emitted once, without wires for waveforms and lines for the rows of memories."""
    text = verilog_of(Design(Endpoint, PRESETS["base"]), name="endpoint")
    assert len(text) < 5_000_000
    assert len(re.findall(r"^module ", text, flags=re.MULTILINE)) < 400
