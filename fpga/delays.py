# SPDX-License-Identifier: Apache-2.0
"""Delays of an ECP5's cells for ABC: nextpnr's for speed grade 6, plus routing.

ABC knows the delays of LUTs and takes all others from Yosys's library, where block RAM has no clock-to-output delay and
the inputs of LUT RAM and carry chains no delay; ABC would not optimise the paths behind them. During mapping,
therefore, a box with the missing delay is inserted at each of their outputs.
"""

from collections.abc import Mapping

__all__ = ["BOXED", "BOXES", "LUTS", "OPAQUE", "UNBOXED"]

_WIRE_PS = 1000
"""Routing delay as on nextpnr's critical paths. With ``synth_ecp5``'s 300, ABC rates two LUTs in a row too often as
equal to a wide one."""

_LUT_PS = 240
"""Delay of a LUT4 from any input, and of each multiplexer that combines LUT4s into wider ones."""

LUTS = "".join(f"{inputs} {area} {_WIRE_PS + levels * _LUT_PS}\n" for inputs, area, levels in (
    (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 2, 2), (6, 4, 3), (7, 8, 4)))
"""ABC's library of LUTs: inputs, LUT4s, ps with the wire to it."""

_BLOCK_RAM_PS = 5000
"""From the clock to an output, about 5.61 ns, less what a flip-flop takes."""

_LUT_RAM_PS = _WIRE_PS + _LUT_PS
"""From an address in another slice to what it reads."""

_SUM_PS = _WIRE_PS + 300
"""Routing to the slice, and the part of the 0.85 ns from there to a sum that Yosys's library lacks."""


_Ports = Mapping[str, int]
"""Name -> width."""


def _block_ram() -> tuple[str, dict[str, object], _Ports, _Ports]:
    inputs = [f"{bus}{side}{bit}" for side in "AB" for bus, width in (("DI", 18), ("AD", 14)) for bit in range(width)]
    inputs += [f"{pin}{side}{number}" for side in "AB" for pin, number in (
        ("CE", ""), ("OCE", ""), ("CLK", ""), ("WE", ""), ("CS", 0), ("CS", 1), ("CS", 2), ("RST", ""))]
    # With what they are where nothing is said (Lattice FPGA-TN-02204).
    parameters: dict[str, object] = {
        **{f"{name}_{side}": value for side in "AB" for name, value in (
            ("DATA_WIDTH", 18), ("REGMODE", '"NOREG"'), ("CSDECODE", '"0b000"'), ("WRITEMODE", '"NORMAL"'))},
        "CLKAMUX": '"CLKA"', "CLKBMUX": '"CLKB"', "GSR": '"ENABLED"',
        "RESETMODE": '"SYNC"', "ASYNC_RESET_RELEASE": '"SYNC"',
        **{f"INITVAL_{row:02X}": "320'd0" for row in range(64)}}
    return "DP16KD", parameters, dict.fromkeys(inputs, 1), {f"DO{side}{bit}": 1 for side in "AB" for bit in range(18)}


_CELLS: tuple[tuple[int, str, Mapping[str, object], _Ports, _Ports, _Ports], ...] = (
    (_BLOCK_RAM_PS, *_block_ram(), {}),
    (_LUT_RAM_PS, "TRELLIS_DPR16X4", {"WCKMUX": '"WCK"', "WREMUX": '"WRE"', "INITVAL": "64'd0"},
     {"DI": 4, "WAD": 4, "WRE": 1, "WCK": 1, "RAD": 4}, {"DO": 4}, {}),
    (_SUM_PS, "CCU2C", {"INIT0": "16'd0", "INIT1": "16'd0", "INJECT1_0": '"YES"', "INJECT1_1": '"YES"'},
     dict.fromkeys(("CIN", "A0", "B0", "C0", "D0", "A1", "B1", "C1", "D1"), 1), {"S0": 1, "S1": 1}, {"COUT": 1}),
)
"""ps, name, parameters, inputs, outputs with a box behind them, outputs without: a carry ripples without delay."""


def _box(ps: int) -> str:
    return f"LATE_{ps}"


def _port(direction: str, name: str, width: int) -> str:
    return f"  {direction} {f'[{width - 1}:0] ' if width > 1 else ''}{name};"


def _boxed(ps: int, cell: str, parameters: Mapping[str, object], inputs: _Ports, late: _Ports, early: _Ports) -> str:
    ports = [*inputs, *late, *early]
    return "\n".join([
        f"module {cell}({', '.join(ports)});",
        *(f"  parameter {name} = {value};" for name, value in parameters.items()),
        *(_port("input", name, width) for name, width in inputs.items()),
        *(_port("output", name, width) for name, width in (*late.items(), *early.items())),
        *(_port("wire", f"{name}_", width) for name, width in late.items()),
        f"  {cell} #(" + ", ".join(f".{name}({name})" for name in parameters) + ") _TECHMAP_REPLACE_ (",
        "    " + ", ".join(f".{name}({name}_)" if name in late else f".{name}({name})" for name in ports) + ");",
        *(f"  {_box(ps)} box_{name}_{bit} (.I({name}_{at}), .O({name}{at}));" for name, width in late.items()
          for bit in range(width) for at in (f"[{bit}]" if width > 1 else "",)),
        "endmodule", ""])


OPAQUE = "OPAQUE_FF"
"""Flip-flops while logic is mapped. Yosys assumes that each ``TRELLIS_FF`` has a timing path through an asynchronous
reset, finds loops where a counter resets itself, and cuts them; ABC then misses the timing paths through the cut."""

_OPAQUE_PARAMETERS = ("GSR", "CEMUX", "CLKMUX", "LSRMUX", "LSRMODE", "SRMODE", "REGSET")

BOXES = "".join(f"""\
(* abc9_box *)
module {_box(ps)} (input I, output O);
  specify
    (I => O) = {ps};
  endspecify
endmodule
""" for ps, *_ in _CELLS) + f"""\
(* blackbox *)
module {OPAQUE} (input CLK, LSR, CE, DI, M, output Q);
  parameter {", ".join(f"{name} = 0" for name in _OPAQUE_PARAMETERS)};
endmodule
"""
"""Verilog of library cells. Boxes are black: what is in a white one ABC finds to be a wire, and removes it."""

BOXED = "\n".join(_boxed(*cell) for cell in _CELLS)
"""Rules for ``techmap``: boxes behind the outputs of cells. They are to be used once."""

UNBOXED = "".join(f"""\
module {_box(ps)} (input I, output O);
  assign O = I;
endmodule
""" for ps, *_ in _CELLS)
"""Rules for ``techmap``: boxes are wires again."""
