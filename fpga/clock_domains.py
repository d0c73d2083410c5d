# SPDX-License-Identifier: Apache-2.0
"""Paths of a design between its clock domains, found in the flat netlist.

A path leads from a register, a memory or an input to a register or a memory, through logic of any kind. The fan-in of
each input of these cells is traced; those that depend on another clock than the cell's own are listed.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .area import run_yosys
from .yosys_json import Cell, Module

__all__ = ["Crossing", "find_crossings", "flat_netlist", "register_names"]


@dataclass(frozen=True, order=True)
class Crossing:
    """Paths from one name to another.

    ``source``, ``target``: names of registers, memories or inputs, joined by dots along the hierarchy. ``direct``:
    without logic, on each path. ``clocks``: names of the ports.
    """

    source: str
    target: str
    direct: bool
    clocks: tuple[str, str]


def flat_netlist(text: str, *, top: str) -> Module:
    """The netlist of Verilog text without hierarchy, bit by bit where cells act on single bits.

    Raises :class:`UserError` if Yosys is missing or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="dmace-domains-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, encoding="utf-8")
        bitwise = " ".join(f"t:${kind}" for kind in _BITWISE)
        run_yosys(["read_verilog -sv design.v", f"hierarchy -check -top {top}", "proc", "flatten", "memory_collect",
                   "opt_clean", f"simplemap {bitwise}", "write_json flat.json"], folder)
        netlist: Module = json.loads((folder / "flat.json").read_text())["modules"][top]
        return netlist


_BITWISE = ("and", "or", "xor", "xnor", "not", "mux", "pmux", "bwmux", "logic_and", "logic_or", "logic_not")


def register_names(netlist: Module) -> dict[int, list[str]]:
    """Net -> its names, those of the source only."""
    names: dict[int, list[str]] = {}
    for name, net in netlist["netnames"].items():
        if not name.startswith("$"):
            for bit in net["bits"]:
                if isinstance(bit, int) and name not in names.setdefault(bit, []):
                    names[bit].append(name)
    return names


def find_crossings(netlist: Module, *, inputs: Mapping[str, str] | None = None) -> list[Crossing]:
    """All paths from one clock domain to another.

    Parameters
    ----------
    netlist : Module
        From :func:`flat_netlist`.
    inputs : mapping of str to str
        Input -> clock, where its clock is known. A reset ``NAME_rst`` belongs to ``NAME_clk`` in any case; paths from
        other inputs are not checked.
    """
    return _Domains(netlist, inputs or {}).crossings()


class _Domains:
    def __init__(self, netlist: Module, inputs: Mapping[str, str]) -> None:
        self._names = register_names(netlist)
        self._ports = {bit: name for name, port in netlist["ports"].items() for bit in port["bits"]
                       if isinstance(bit, int) and port["direction"] == "input"}
        self._starts: dict[int, list[tuple[str, str]]] = {}     # net -> source and its clock, of those that start there
        self._fan_in: dict[int, list[int]] = {}                 # net -> nets it depends on through a cell
        self._ends: list[tuple[int, str, str]] = []             # net, target, its clock
        self._clocks: dict[int, frozenset[str]] = {}
        for name, port in netlist["ports"].items():
            clock = inputs.get(name) or (f"{name[:-3]}clk" if name.endswith("rst") else None)
            if port["direction"] == "input" and clock in netlist["ports"]:
                for bit in _nets(port["bits"]):
                    self._starts[bit] = [(name, clock)]
        for name, cell in netlist["cells"].items():
            if cell["type"] == "$mem_v2":
                self._memory(cell)
            elif "CLK" in cell["connections"]:
                self._register(name, cell)
            else:
                self._logic(cell)

    def _register(self, cell_name: str, cell: Cell) -> None:
        wires = cell["connections"]
        clock, module = self._clock(wires["CLK"][0]), _module(cell_name)
        for index, bit in enumerate(wires["Q"]):
            assert isinstance(bit, int)
            names = self._names.get(bit, [cell_name])
            name = min(names, key=lambda one: (not one.startswith(module), "$" in one, len(one), one))
            self._starts[bit] = [(name, clock)]
            for port, others in wires.items():
                if cell["port_directions"][port] == "input" and port != "CLK":
                    # Data of the same bit, and what acts on all bits.
                    for other in _nets([others[index]] if len(others) == len(wires["Q"]) else others):
                        self._ends.append((other, name, clock))

    def _memory(self, cell: Cell) -> None:
        wires, parameters = cell["connections"], cell["parameters"]
        name = parameters["MEMID"].removeprefix("\\")
        bits, width = int(parameters["ABITS"], 2), int(parameters["WIDTH"], 2)
        writes = set()
        for port in range(int(parameters["WR_PORTS"], 2)):
            writes.add(clock := self._clock(wires["WR_CLK"][port]))
            for kind, size in (("WR_ADDR", bits), ("WR_DATA", width), ("WR_EN", width)):
                self._ends += [(bit, name, clock) for bit in _nets(wires[kind][port * size:(port + 1) * size])]
        # A registered read is a register behind an asynchronous one.
        assert "1" not in parameters["RD_CLK_ENABLE"]
        for port in range(int(parameters["RD_PORTS"], 2)):
            rows = _nets(wires["RD_DATA"][port * width:(port + 1) * width])
            self._starts |= {bit: [(name, write) for write in sorted(writes)] for bit in rows}
            self._fan_in |= dict.fromkeys(rows, _nets(wires["RD_ADDR"][port * bits:(port + 1) * bits]))

    def _logic(self, cell: Cell) -> None:
        inputs = [bit for port, bits in cell["connections"].items() if cell["port_directions"].get(port) == "input"
                  for bit in _nets(bits)]
        self._fan_in |= {bit: inputs for port, bits in cell["connections"].items()
                         if cell["port_directions"].get(port) == "output" for bit in _nets(bits)}

    def _clock(self, bit: int | str) -> str:
        if isinstance(bit, str):
            return "a constant"
        return self._ports.get(bit) or min(self._names.get(bit, [f"net {bit}"]))

    def _on(self, net: int) -> frozenset[str]:
        """Clocks of the sources in the fan-in of a net."""
        stack = [net]
        while stack:
            last = stack[-1]
            missing = [before for before in self._fan_in.get(last, ()) if before not in self._clocks]
            if last in self._clocks:
                stack.pop()
            elif missing:
                # A loop of logic would not end; none is left in a design that Yosys has checked.
                stack += missing
            else:
                stack.pop()
                self._clocks[last] = frozenset(clock for _, clock in self._starts.get(last, ())).union(
                    *(self._clocks[before] for before in self._fan_in.get(last, ())))
        return self._clocks[net]

    def _foreign(self, net: int, clock: str) -> Iterator[tuple[str, str, bool]]:
        """Sources of other clocks in the fan-in of a net: name, clock, and whether the net is the source itself."""
        stack, seen = [net], {net}
        while stack:
            last = stack.pop()
            yield from ((name, other, last == net) for name, other in self._starts.get(last, ()) if other != clock)
            following = [before for before in self._fan_in.get(last, ())
                         if before not in seen and self._on(before) - {clock}]
            seen.update(following)
            stack += following

    def crossings(self) -> list[Crossing]:
        found: dict[tuple[str, str, tuple[str, str]], bool] = {}
        for net, target, clock in self._ends:
            if self._on(net) - {clock}:
                for source, other, direct in self._foreign(net, clock):
                    key = source, target, (other, clock)
                    found[key] = found.get(key, True) and direct
        return sorted(Crossing(source, target, direct, clocks) for (source, target, clocks), direct in found.items())


def _module(cell: str) -> str:
    r"""Path of the module of a cell, with a dot at its end: ``$flatten\\a.\\b.$procdff$1`` is in ``a.b.``."""
    return "".join(f"{part}." for part in cell.removeprefix("$flatten").replace("\\", "").split(".")[:-1])


def _nets(bits: Iterable[int | str]) -> list[int]:
    return [bit for bit in bits if isinstance(bit, int)]
