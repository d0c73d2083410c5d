# SPDX-License-Identifier: Apache-2.0
"""Levels of LUTs between registers, on small netlists in Yosys's JSON, and on those that Yosys makes."""

import pytest

from fpga.area import measure_endpoints
from fpga.depth import depth_of, endpoints_over


def _cell(kind, inputs, outputs):
    return {"type": kind, "parameters": {}, "attributes": {},
            "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
            "connections": inputs | outputs}


def _netlist(cells, *, names, outputs=()):
    nets = {bit for cell in cells for bits in cell["connections"].values() for bit in bits if isinstance(bit, int)}
    # Yosys names every net.
    names = {f"${net}": net for net in sorted(nets - set(names.values()))} | names
    return {
        "cells": {f"cell_{index}": cell for index, cell in enumerate(cells)},
        "ports": {name: {"direction": "output", "bits": [names[name]]} for name in outputs},
        "netnames": {name: {"bits": [net]} for name, net in names.items()}}


def _register(d, q):
    return _cell("REGISTER", {"I": [d]}, {"Q": [q]})


def _lut(inputs, output):
    return _cell("$lut", {"A": inputs}, {"Y": [output]})


def _two_starts():
    """a -> two LUTs -> three LUTs -> end; b -> three LUTs -> end; b -> one LUT -> other, and a port."""
    return _netlist(
        [_register(100, 1), _register(100, 2), _lut([1], 3), _lut([3], 4), _lut([4, 2], 5), _lut([5], 6),
         _lut([6], 7), _register(7, 8), _lut([2], 9), _register(9, 10)],
        names={"a": 1, "b": 2, "middle": 4, "end": 8, "other": 10, "port": 6, "zero": 100}, outputs=["port"])


def test_longest_path():
    depth = depth_of(_two_starts())
    assert depth.levels == 5
    assert depth.paths["end"] == ["a", "middle", "port"]
    assert list(depth.paths) == ["end", "port", "other", "a", "b"]


@pytest.mark.parametrize("over, ends", [
    (5, {}),
    (4, {"end": {"a": 5}}),
    (3, {"end": {"a": 5}, "port": {"a": 4}}),
    (2, {"end": {"a": 5, "b": 3}, "port": {"a": 4}}),
    (1, {"end": {"a": 5, "b": 3}, "port": {"a": 4, "b": 2}}),
    (0, {"end": {"a": 5, "b": 3}, "port": {"a": 4, "b": 2}, "other": {"b": 1}})])
def test_starts_of_the_paths_over_a_limit(over, ends):
    assert {found.name: found.starts for found in endpoints_over(_two_starts(), over)} == ends


@pytest.mark.parametrize("over", range(4))
def test_longer_of_two_branches(over):
    # From a to the end there are a path of one LUT and one of four.
    found, = endpoints_over(_netlist(
        [_register(100, 1), _lut([1], 2), _lut([2], 3), _lut([3], 4), _lut([1, 4], 5), _register(5, 6)],
        names={"a": 1, "end": 6, "zero": 100}), over)
    assert (found.name, found.levels, found.bits, found.starts) == ("end", 4, 1, {"a": 4})


@pytest.mark.parametrize("deep, shallow", [(1, 2), (2, 1)])
def test_bits_of_a_register_are_one_start(deep, shallow):
    netlist = _netlist([_register(100, 1), _register(100, 2), _lut([deep], 3), _lut([3, shallow], 4),
                        _lut([4, deep], 5), _register(5, 6), _lut([shallow], 7), _register(7, 8)],
                       names={"a[0]": 1, "a[1]": 2, "end[0]": 6, "end[1]": 8})
    found, = endpoints_over(netlist, 0)
    assert (found.name, found.bits, found.starts) == ("end", 2, {"a": 3})


def test_lut_ram_is_a_level_from_its_address():
    ram = _cell("LUT_RAM_READ", {"A": [2]}, {"O": [3]})
    netlist = _netlist([_register(100, 1), _lut([1], 2), ram, _lut([3], 4), _register(4, 5)],
                       names={"a": 1, "end": 5, "zero": 100})
    assert {found.name: found.starts for found in endpoints_over(netlist, 1)} == {"end": {"a": 3}}
    assert depth_of(netlist).levels == 3


def test_latch_ends_a_path():
    latch = _cell("$_DLATCH_P_", {"D": [2], "E": [1]}, {"Q": [3]})
    netlist = _netlist([_register(100, 1), _lut([1], 2), latch, _lut([3], 4), _register(4, 5)],
                       names={"a": 1, "latch": 3, "end": 5, "zero": 100})
    assert depth_of(netlist).levels == 1


def test_unknown_memory():
    with pytest.raises(NotImplementedError, match=r"^Levels through memory cells RAM99X1D are not counted$"):
        depth_of(_netlist([_cell("RAM99X1D", {"A": [1]}, {"O": [2]})], names={"a": 1, "b": 2}))


@pytest.mark.synth
def test_same_levels_as_measure():
    # 64 inputs take three levels of 6-input LUTs; the single one, one level.
    text = ("module wide_and(input clk, input [63:0] a, output reg y, output reg z);\n"
            "reg [63:0] s;\nalways @(posedge clk) begin s <= a; y <= &s; z <= ~s[0]; end\nendmodule\n")
    found, = measure_endpoints(text, top="wide_and", over=2)
    assert (found.name, found.levels, found.starts) == ("y", 3, {"s": 3})


@pytest.mark.synth
@pytest.mark.parametrize("width, levels", [(32, 5), (64, 6)])
def test_adder_is_a_prefix_adder(width, levels):
    text = (f"module sum(input clk, input [{width - 1}:0] a, b, output reg [{width - 1}:0] y);\n"
            f"reg [{width - 1}:0] c, d;\nalways @(posedge clk) begin c <= a; d <= b; y <= c + d; end\nendmodule\n")
    found = measure_endpoints(text, top="sum", over=levels - 2)
    assert max(end.levels for end in found) <= levels


@pytest.mark.synth
@pytest.mark.parametrize("depth, width, levels", [(32, 14, 3), (64, 1, 3), (256, 2, 4)])
def test_lut_ram_of_every_kind(depth, width, levels):
    # A LUT before the address, one behind the data, and with 256 rows a multiplexer of two memories. The data comes
    # back to the address, which is no loop, as there is a register between them.
    bits = (depth - 1).bit_length()
    text = (f"module table(input clk, input [{bits - 1}:0] a, input [{width - 1}:0] d, input w,\n"
            f"output reg [{width - 1}:0] q);\n"
            f'(* ram_style = "distributed" *) reg [{width - 1}:0] mem [0:{depth - 1}];\n'
            f"reg [{bits - 1}:0] s, t; reg [{width - 1}:0] r; reg v;\n"
            f"wire [{bits - 1}:0] at = s ^ {{{bits}{{v}}}};\n"
            "always @(posedge clk) begin v <= w; t <= a; r <= d; if (&d) s <= mem[at] ^ a; else s <= t;\n"
            "if (v) mem[t] <= r; q <= mem[at] & {" + f"{width}{{w}}" + "}; end\nendmodule\n")
    ends = {end.name: end for end in measure_endpoints(text, top="table", over=0)}
    assert ends["q"].starts["s"] == levels == max(end.levels for end in ends.values())
