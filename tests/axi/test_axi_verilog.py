# SPDX-License-Identifier: Apache-2.0
"""The command that writes the rules of AXI as Verilog."""

import pytest

from hw.axi_verilog import main


@pytest.mark.parametrize(("arguments", "name", "has", "has_not"), [
    (["axi4"], "axi4_properties", ["awlen", "arid"], ["awlock"]),
    (["axi4", "--exclusive", "--all-bursts", "--name", "rules"], "rules", ["awlen", "awlock"], []),
    (["axi4", "--id-width", "2"], "axi4_properties", ["awlen", "arid"], ["awlock"]),
    (["axi4-lite", "--manager", "assume"], "axi4_lite_properties", ["awprot", "bresp"], ["awlen", "arid"])])
def test_verilog(arguments, name, has, has_not, capsys):
    assert main(arguments) == 0
    text = capsys.readouterr().out
    ports = text.partition(f"module {name}(")[2].partition(")")[0].split(", ")
    assert set(has) < set(ports) and not set(has_not) & set(ports)
    assert text.count("assume") > 0 if "assume" in arguments else "assume" not in text


def test_file(tmp_path):
    path = tmp_path / "rules.v"
    assert main(["axi4-lite", "-o", str(path)]) == 0
    assert "module axi4_lite_properties(" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["axi4", "--data-width", "33"], "AXI4 data width must be a power of two from 8 to 1024, not 33."),
    (["axi4", "--max-outstanding", "0"], "AxiChecker max_outstanding must be an integer from 1 to 16384, not 0."),
    (["axi4", "--id-width", "0"],
     "--id-width must be from 1 to 14, not 0; connect a constant to the IDs of a port without IDs."),
    (["axi4", "--name", "1x"], "Module name must be a Verilog identifier, not '1x'."),
    (["axi4-lite", "--id-width", "4"], "--id-width is an option of axi4, not of axi4-lite."),
    (["axi4-lite", "--all-bursts"], "--all-bursts is an option of axi4, not of axi4-lite."),
    (["axi4-lite", "--exclusive"], "--exclusive is an option of axi4, not of axi4-lite."),
    (["axi4-lite", "-o", "/nowhere/rules.v"], "Cannot write to /nowhere/rules.v: No such file or directory.")])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"{sentence}\n"
