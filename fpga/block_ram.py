"""When an ECP5's block RAM has read, told to ABC.

ABC takes outputs of cells that it knows nothing of to be there when the clock rises. Those of block RAM come more than
5 ns later, so that it would make no haste with the logic behind them. So while logic is mapped, a box with that delay
stands behind each.
"""

__all__ = ["BOXED", "BOXES", "UNBOXED"]

_DELAY_PS = 5000
"""About what nextpnr has for speed grade 6 from the clock to an output, 5.61 ns, less what it has for a flip-flop."""

_INPUTS = [f"{bus}{side}{bit}" for side in "AB" for bus, width in (("DI", 18), ("AD", 14)) for bit in range(width)] + [
    f"{pin}{side}{number}" for side in "AB" for pin, number in (
        ("CE", ""), ("OCE", ""), ("CLK", ""), ("WE", ""), ("CS", 0), ("CS", 1), ("CS", 2), ("RST", ""))]
_OUTPUTS = [f"DO{side}{bit}" for side in "AB" for bit in range(18)]
_PARAMETERS = {
    **{f"{name}_{side}": value for side in "AB" for name, value in (
        ("DATA_WIDTH", 18), ("REGMODE", '"NOREG"'), ("CSDECODE", '"0b000"'), ("WRITEMODE", '"NORMAL"'))},
    "CLKAMUX": '"CLKA"', "CLKBMUX": '"CLKB"', "GSR": '"ENABLED"',
    "RESETMODE": '"SYNC"', "ASYNC_RESET_RELEASE": '"SYNC"',
    **{f"INITVAL_{row:02X}": "320'd0" for row in range(64)}}
"""With what they are where nothing is said (Lattice FPGA-TN-02204)."""

_BOX = "DP16KD_READ"

BOXES = f"""\
(* abc9_box, lib_whitebox *)
module {_BOX} (input I, output O);
  assign O = I;
  specify
    (I => O) = {_DELAY_PS};
  endspecify
endmodule
"""
"""Verilog of the box, a library cell."""

BOXED = "\n".join([
    f"module DP16KD({', '.join(_INPUTS + _OUTPUTS)});",
    *(f"  parameter {name} = {value};" for name, value in _PARAMETERS.items()),
    f"  input {', '.join(_INPUTS)};", f"  output {', '.join(_OUTPUTS)};",
    f"  wire {', '.join(f'{pin}_' for pin in _OUTPUTS)};",
    "  DP16KD #(" + ", ".join(f".{name}({name})" for name in _PARAMETERS) + ") _TECHMAP_REPLACE_ (",
    "    " + ", ".join([f".{pin}({pin})" for pin in _INPUTS] + [f".{pin}({pin}_)" for pin in _OUTPUTS]) + ");",
    *(f"  {_BOX} box_{pin} (.I({pin}_), .O({pin}));" for pin in _OUTPUTS),
    "endmodule", ""])
"""A rule for ``techmap``: a box behind each output of a block RAM. It is to be used once."""

UNBOXED = f"""\
module {_BOX} (input I, output O);
  assign O = I;
endmodule
"""
"""A rule for ``techmap``: boxes are wires again."""
