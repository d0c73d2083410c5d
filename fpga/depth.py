# SPDX-License-Identifier: Apache-2.0
"""Logic depth of a netlist in 6-input LUTs: the levels on the timing paths between registers, memories and ports.

Yosys's netlist of gates (:mod:`.lut_levels`), mapped to LUTs (:mod:`.cuts`) -> the longest path, or every endpoint
beyond a limit with the registers where its paths start. A LUT RAM's read counts as one level, from its address to its
data.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from .cuts import best_cuts
from .lut_levels import READ, WRITE
from .yosys_json import Cell, Module

__all__ = ["Depth", "Endpoint", "depth_of", "endpoints_over"]


@dataclass(frozen=True, kw_only=True)
class Depth:
    """Most LUT levels between registers, block RAM and ports; a LUT RAM's read counts as one level.

    Carry chains are mapped to LUTs, too (:mod:`.lut_levels`). All paths have the fewest levels that their gates allow
    (:mod:`.cuts`).
    """

    levels: int
    paths: dict[str, list[str]]
    """Names along the longest path to each of the worst endpoints, from its start."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A register, a memory or a port where paths of more levels than the limit end.

    Attributes
    ----------
    name : str
    levels : int
        Of its longest path.
    bits : int
        Inputs where such paths end.
    starts : dict
        Name of each register, memory or port where such a path starts -> levels of its longest one, the most first.
    path : list
        Names along the longest path, from its start.
    """

    name: str
    levels: int
    bits: int
    starts: dict[str, int]
    path: list[str]


_GATE = re.compile(r"\$_(BUF|NOT|AND|NAND|OR|NOR|XOR|XNOR|ANDNOT|ORNOT|N?MUX|AOI[34]|OAI[34])_")
"""Combinational cells. All others are registers, latches, memories or arithmetic blocks, where paths start and end."""

_CLOCKS = ("C", "CLK", "WCLK", "CLKA", "CLKB", "CLKARDCLK", "CLKBWRCLK")


class _Graph:
    """Nets, the nets that each depends on within a cycle, and the endpoints.

    ``levels`` has the number of LUTs and LUT-RAM reads from the nearest registers to each net before an endpoint.
    """

    def __init__(self, netlist: Module) -> None:
        self.names = _net_names(netlist)
        self._gates: dict[int, list[int]] = {}      # net -> the inputs of the cell that drives it
        self._boxes: dict[int, list[int]] = {}
        self.ends: list[tuple[int, str]] = []       # net, name of the endpoint
        for name, cell in netlist["cells"].items():
            self._add(name, cell)
        for name, pins in netlist["ports"].items():
            if pins["direction"] == "output":
                self.ends += [(bit, name) for bit in pins["bits"] if isinstance(bit, int)]
        found = best_cuts(self._gates, self._boxes, [net for net, _ in self.ends])
        self.sources = {net: sorted(inputs) for net, inputs in found.items()}
        self.levels: dict[int, int] = {}
        for last, _ in self.ends:
            self._count(last)

    def _add(self, name: str, cell: Cell) -> None:
        inputs, outputs = _nets(cell, "input"), _nets(cell, "output")
        if cell["type"] in ("$lut", READ):
            self._boxes |= dict.fromkeys(outputs, inputs)
            return
        if _GATE.fullmatch(cell["type"]):
            self._gates |= dict.fromkeys(outputs, inputs)
            return
        if cell["type"].startswith("RAM") and not cell["type"].startswith("RAMB"):
            raise NotImplementedError(f"Levels through memory cells {cell['type']} are not counted")
        # A write has no output, and is named after its memory.
        memory = cell["type"] == WRITE or cell["type"].startswith("RAMB")
        end = _memory(name) if memory else min((self.names[bit] for bit in outputs), default=name)
        self.ends += [(bit, end) for bit in inputs]

    def _count(self, last: int) -> None:
        # Without recursion: paths may be longer than Python's stack.
        levels, sources, stack = self.levels, self.sources, [last]
        while stack:
            net = stack[-1]
            missing = [before for before in sources.get(net, ()) if before not in levels]
            if missing and net not in levels:
                stack += missing
                continue
            stack.pop()
            levels[net] = 1 + max((levels[before] for before in sources[net]), default=0) if net in sources else 0

    def path(self, net: int) -> list[str]:
        """Names along the longest path to a net."""
        path = [net]
        while self.sources.get(path[0]):
            path.insert(0, max(self.sources[path[0]], key=self.levels.__getitem__))
        return [self.names[step] for step in path if not self.names[step].startswith("$")]

    def starts(self, nets: set[int], over: int) -> Iterator[tuple[int, int]]:
        """Each net where a path of more than ``over`` levels to one of ``nets`` starts, with its levels."""
        behind = dict.fromkeys(nets, 0)             # net -> most levels from it to one of ``nets``
        waiting: defaultdict[int, list[int]] = defaultdict(list)
        for net in nets:
            waiting[self.levels[net]].append(net)
        # A net's levels are more than those of all nets that it depends on: its own figure is final here.
        for level in range(max(waiting), -1, -1):
            for net in waiting[level]:
                if not self.sources.get(net):
                    yield net, behind[net]
                for before in self.sources.get(net, ()):
                    if self.levels[before] + behind[net] + 1 <= over:
                        continue
                    if before not in behind:
                        waiting[self.levels[before]].append(before)
                    behind[before] = max(behind.get(before, 0), behind[net] + 1)


def depth_of(netlist: Module, *, worst: int = 10) -> Depth:
    """:class:`Depth` of a module, with the paths to the ``worst`` endpoints."""
    graph = _Graph(netlist)
    paths: dict[str, list[str]] = {}
    for net, end in sorted(graph.ends, key=lambda item: (-graph.levels[item[0]], item[1])):
        if (end := _register(end)) not in paths and len(paths) < worst:
            paths[end] = graph.path(net)
    return Depth(levels=max((graph.levels[net] for net, _ in graph.ends), default=0), paths=paths)


def endpoints_over(netlist: Module, over: int) -> list[Endpoint]:
    """Every endpoint of a module with paths of more than ``over`` levels, the one with the most first."""
    graph = _Graph(netlist)
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for net, end in graph.ends:
        if graph.levels[net] > over:
            groups[_register(end)].add(net)
    found: list[Endpoint] = []
    for name, nets in groups.items():
        starts: dict[str, int] = {}
        for net, levels in graph.starts(nets, over):
            start = _register(graph.names[net])
            starts[start] = max(levels, starts.get(start, 0))
        last = max(nets, key=graph.levels.__getitem__)
        found.append(Endpoint(name=name, levels=graph.levels[last], bits=len(nets), path=graph.path(last),
                              starts=dict(sorted(starts.items(), key=lambda item: (-item[1], item[0])))))
    return sorted(found, key=lambda endpoint: (-endpoint.levels, endpoint.name))


def _memory(name: str) -> str:
    """A memory's name, without those that a technology map has added."""
    return name.removeprefix("$techmap").removesuffix(".write")


def _register(name: str) -> str:
    """A register's or memory's name without the number of a bit or of a cell."""
    return re.sub(r"\[\d+\]$|(\.\d+)+$", "", name)


def _nets(cell: Cell, direction: str) -> list[int]:
    return [bit for port, bits in cell["connections"].items()
            if cell["port_directions"].get(port) == direction and port not in _CLOCKS
            for bit in bits if isinstance(bit, int)]


def _net_names(netlist: Module) -> dict[int, str]:
    """Net -> the shortest of its names, those of the source before Yosys's own."""
    best: dict[int, tuple[tuple[bool, int, str], str]] = {}
    for name, net in netlist["netnames"].items():
        hidden = name.startswith("$") or "$auto" in name
        for index, bit in enumerate(net["bits"]):
            rank = (hidden, len(name), name)
            if isinstance(bit, str):
                continue
            if bit not in best or rank < best[bit][0]:
                best[bit] = rank, (f"{name}[{index}]" if len(net["bits"]) > 1 else name)
    return {bit: ("$" if rank[0] else "") + name.lstrip("$") for bit, (rank, name) in best.items()}
