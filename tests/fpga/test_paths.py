# SPDX-License-Identifier: Apache-2.0
"""Timing paths of a netlist written by hand, against sums computed by hand."""

import json

import pytest

from dmace.cli import main
from fpga.paths import longest, timing_paths
from hw.errors import UserError

FF, LUT, WIRE, RAM = 0.52, 0.24, 1.0, 5.61


def _cell(kind, out, **ports):
    """A cell with these inputs; ``out`` is port -> bits."""
    return {"type": kind, "connections": {**ports, **out},
            "port_directions": {**dict.fromkeys(ports, "input"), **dict.fromkeys(out, "output")}}


def _timing_paths(**cells):
    return timing_paths(json.dumps({"modules": {"board": {"cells": cells}}}))


def _ns(found):
    return {(timing_path.start, timing_path.end): round(timing_path.ns, 2) for timing_path in found}


def test_luts_and_muxes_between_registers():
    found = _timing_paths(
        a=_cell("TRELLIS_FF", {"Q": [1]}, CLK=[90], DI=[2]),
        b=_cell("LUT4", {"Z": [2]}, A=[1], B=["0"], C=[91], D=["1"]),
        c=_cell("LUT4", {"Z": [3]}, A=[2], B=["0"], C=["0"], D=["0"]),
        d=_cell("PFUMX", {"Z": [4]}, ALUT=[3], BLUT=[2], C0=[1]),
        e=_cell("TRELLIS_FF", {"Q": [5]}, CLK=[90], DI=[4], CE=["1"]),
    )
    assert _ns(found) == {("a", "a"): round(FF + WIRE + LUT + WIRE, 2),
                          ("a", "e"): round(FF + 2 * (WIRE + LUT) + LUT + WIRE, 2)}
    assert [timing_path.end for timing_path in found] == ["e", "a"]


def test_memories():
    found = _timing_paths(**{
        "core.engine0.table.0.1": _cell("DP16KD", {"DOA0": [1]}, CLKA=[90], ADA0=[3]),
        # Its output feeds its own data input: a timing path, not a loop.
        "core.engine0.rows.0": _cell("TRELLIS_DPR16X4", {"DO": [2]}, RAD=[1], DI=[2], WCK=[90], WRE=["1"]),
        "core.engine0.next$12_LUT4_Z": _cell("LUT4", {"Z": [3]}, A=[2], B=[1], C=["0"], D=["0"]),
    })
    rows = RAM + WIRE + LUT
    assert _ns(found) == {("core.engine0.table.0.1", "core.engine0.rows.0"): round(rows + WIRE, 2),
                          ("core.engine0.table.0.1", "core.engine0.table.0.1"): round(rows + WIRE + LUT + WIRE, 2)}
    assert longest(found, over=8) == [("engine0.table.0", "engine0.table.0", round(rows + 2 * WIRE + LUT, 2), 1)]
    assert longest(found, over=20) == []


def test_a_carry_chain_is_fast_and_may_be_long():
    chain = {f"c{n}": _cell("CCU2C", {"S0": [10_000 + n], "COUT": [20_000 + n]}, A0=[1], B0=["0"], A1=["0"],
                            B1=["0"], CIN=[19_999 + n if n else "0"]) for n in reversed(range(3000))}
    found = _timing_paths(a=_cell("TRELLIS_FF", {"Q": [1]}, CLK=[90], DI=[10_000 + 2999]), **chain)
    first = FF + WIRE + 0.45
    assert _ns(found) == {("a", "a"): round(first + 2998 * 0.06 + 0.40 + WIRE, 2)}


def test_a_timing_path_begins_at_a_register():
    assert _timing_paths(pll=_cell("EHXPLLL", {"CLKOP": [1]}, CLKI=[90], CLKFB=[1]),
                         a=_cell("TRELLIS_FF", {"Q": [2]}, CLK=[1], DI=[91], CE=["1"])) == []


def test_a_loop_is_reported():
    with pytest.raises(UserError, match=r"^The netlist has a loop without a register, through [ab]\.$"):
        _timing_paths(a=_cell("LUT4", {"Z": [1]}, A=[2], B=["0"]), b=_cell("LUT4", {"Z": [2]}, A=[1], B=[3]),
                      c=_cell("TRELLIS_FF", {"Q": [3]}, CLK=[90], DI=[2]))


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--target", "tang-nano-9k", "--design", "probe"],
     "Timing paths are estimated only for an ECP5, not for tang-nano-9k."),
    (["--design", "probe", "--config", "wide"], "A probe has no engine that could be wide: leave --config out."),
    (["--over", "nan"], "--over must be from 0 to 1,000, not nan."),
    (["--over", "x"], "--over invalid float value: 'x'"),
])
def test_wrong_arguments(capsys, arguments, sentence):
    assert main(["fpga", "paths", *arguments]) == 2
    assert sentence in capsys.readouterr().err
