# SPDX-License-Identifier: Apache-2.0
"""Yosys commands for the netlist of gates whose levels of 6-input LUTs are counted (:mod:`.depth`).

Carry chains become LUTs, as parallel prefix adders (Kogge and Stone, IEEE Transactions on Computers C-22, 1973): 32
bits take 5 levels, where UltraScale+ has a LUT and four CARRY8. Yosys's other adder (Brent and Kung) takes 8.

Registers and LUT RAM become cells of our own. A LUT RAM is split into its reads, each a level from its address to its
data, and its write, where paths end.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["READ", "REGISTER", "WRITE", "commands", "write_cells"]

READ, WRITE, REGISTER = "LUT_RAM_READ", "LUT_RAM_WRITE", "REGISTER"
"""Types of the cells: a read of a LUT RAM, its write, and a flip-flop without its clock."""

_LIBRARY = f"""
(* blackbox *)
module {READ} (input [8:0] A, output O);
endmodule
(* blackbox *)
module {WRITE} #(parameter WIDTH = 1) (input [WIDTH-1:0] I);
endmodule
(* blackbox *)
module {REGISTER} #(parameter WIDTH = 1) (input [WIDTH-1:0] I, output Q);
endmodule
"""

# Number of ports, bits of each, bits of the address.
_WIDE = {"RAM32M": (4, 2, 5), "RAM32M16": (8, 2, 5), "RAM64M": (4, 1, 6), "RAM64M8": (8, 1, 6)}

# Bits of the address, and whether it is one vector.
_DUAL = {"RAM32X1D": (5, False), "RAM64X1D": (6, False), "RAM128X1D": (7, True), "RAM256X1D": (8, True)}
_SINGLE = {"RAM32X1S": (5, False), "RAM64X1S": (6, False), "RAM128X1S": (7, False), "RAM256X1S": (8, True),
           "RAM512X1S": (9, True)}


def write_cells(folder: Path) -> None:
    """Write the files that :func:`commands` read."""
    (folder / "level_cells.v").write_text(_LIBRARY, encoding="utf-8")
    (folder / "level_map.v").write_text("".join((*_memories(), *_registers())), encoding="utf-8")


def commands(top: str) -> list[str]:
    """From a design with mapped memories (``synth_xilinx -run begin:map_ffram``) to the netlist ``gates.json``."""
    return [
        "read_verilog -lib level_cells.v", "opt -fast -full", "memory_map", "opt -undriven -fine",
        "techmap -map +/techmap.v -map +/choices/kogge-stone.v", "opt -fast", "techmap -map level_map.v", "opt_clean",
        f"json -o gates.json {top}"]


def _memories() -> Iterator[str]:
    """Technology map of LUT RAM."""
    for kind, (count, width, bits) in _WIDE.items():
        letters = "ABCDEFGH"[:count]
        ports = [port for letter in letters for port in (
            f"output [{width - 1}:0] DO{letter}", f"input [{bits - 1}:0] ADDR{letter}",
            f"input [{width - 1}:0] DI{letter}")]
        reads = [(f"ADDR{letter}", f"DO{letter}[{bit}]") for letter in letters for bit in range(width)]
        written = [f"ADDR{letters[-1]}", *(f"DI{letter}" for letter in letters)]
        yield _memory(kind, ports, reads, written, bits + width * count)
    for kind, (bits, vector) in _DUAL.items():
        (port, address), (second, read) = _address("A", bits, vector), _address("DPRA", bits, vector)
        yield _memory(kind, ["output DPO, SPO", "input D", port, second], [(read, "DPO"), (address, "SPO")],
                      [address, "D"], bits + 1)
    for kind, (bits, vector) in _SINGLE.items():
        port, address = _address("A", bits, vector)
        yield _memory(kind, ["output O", "input D", port], [(address, "O")], [address, "D"], bits + 1)


def _address(name: str, bits: int, vector: bool) -> tuple[str, str]:
    """Declaration of an address, and its value."""
    if vector:
        return f"input [{bits - 1}:0] {name}", name
    wires = [f"{name}{bit}" for bit in reversed(range(bits))]
    return f"input {', '.join(wires)}", f"{{{', '.join(wires)}}}"


def _memory(kind: str, ports: Sequence[str], reads: Sequence[tuple[str, str]], written: Sequence[str],
            bits: int) -> str:
    initial = [f"INIT{letter}" for letter in ("", *(f"_{letter}" for letter in "ABCDEFGH"))]
    return "\n".join([
        f'(* techmap_celltype = "{kind}" *)', f"module _{kind} ({', '.join(ports)}, input WCLK, WE);",
        *(f"  parameter {name} = 0;" for name in (*initial, "IS_WCLK_INVERTED")),
        *(f"  {READ} read_{index} (.A({address}), .O({output}));" for index, (address, output) in enumerate(reads)),
        f"  {WRITE} #(.WIDTH({bits + 1})) write (.I({{WE, {', '.join(written)}}}));", "endmodule\n"])


def _registers() -> Iterator[str]:
    """Technology map of flip-flops with synchronous resets and clock enables."""
    enables, resets = [f"E_{level}" for level in "PN"], [f"R_{level}{value}" for level in "PN" for value in "01"]
    kinds = {
        ("D",): ["$_DFF_P_"],
        ("D", "E"): [f"$_DFFE_P{enable[-1]}_" for enable in enables],
        ("D", "R"): [f"$_SDFF_P{reset[2:]}_" for reset in resets],
        ("D", "R", "E"): [f"$_{kind}_P{reset[2:]}{enable[-1]}_" for kind in ("SDFFE", "SDFFCE") for reset in resets
                          for enable in enables]}
    for pins, cells in kinds.items():
        yield "\n".join([
            f'(* techmap_celltype = "{" ".join(cells)}" *)',
            f"module _register_{''.join(pins)} (input C, {', '.join(pins)}, output Q);",
            f"  {REGISTER} #(.WIDTH({len(pins)})) _TECHMAP_REPLACE_ (.I({{{', '.join(pins)}}}), .Q(Q));",
            "endmodule\n"])
