# SPDX-License-Identifier: Apache-2.0
"""Critical paths of an ECP5's netlist before placement.

Logic has the delays of nextpnr-ecp5 for speed grade 6, rounded, and each connection between two slices
:data:`WIRE_NS`. The figures show which paths are critical and how many; their final delays come from nextpnr.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hw.errors import UserError

from .timing import source_name
from .yosys_json import Bits, Cell

__all__ = ["WIRE_NS", "TimingPath", "longest", "timing_paths"]

_Arrival = tuple[float, str | None]
"""Arrival time of a bit in ns, and the cell where its path starts: None for constants and pins."""

WIRE_NS = 1.0
"""Routing delay of a connection, as on the critical path of a placed DMA engine: 10.8 ns for 11 of them."""

_LUT_NS, _REGISTER_NS, _BLOCK_RAM_NS, _CARRY_IN_NS, _CARRY_NS, _SUM_NS = 0.24, 0.52, 5.61, 0.45, 0.06, 0.40

_STARTS = {"TRELLIS_FF": _REGISTER_NS, "DP16KD": _BLOCK_RAM_NS}
_WITHIN = {"PFUMX": _LUT_NS, "L6MUX21": _LUT_NS}
"""Muxes beside the LUTs of their slice: no wire to them."""
_ENDS = {"TRELLIS_FF": {"CLK"}, "DP16KD": {"CLKA", "CLKB"}, "TRELLIS_DPR16X4": {"RAD", "WCK"}}
"""Cells where timing paths end, and which of their inputs are not endpoints."""


@dataclass(frozen=True)
class TimingPath:
    """The timing path with the largest delay to one input of a register or a memory.

    Attributes
    ----------
    ns : float
    start, end : str
        Names of the cells.
    """

    ns: float
    start: str
    end: str


def timing_paths(netlist: str) -> list[TimingPath]:
    """List of :class:`TimingPath`, the longest first, of Yosys's JSON text of a module ``board``.

    Raises :class:`UserError` if a loop has no register.
    """
    cells: dict[str, Cell] = {
        name: cell for name, cell in json.loads(netlist)["modules"]["board"]["cells"].items()
        if cell["type"] != "$scopeinfo"}
    arrivals = _arrivals(cells)
    found: list[TimingPath] = []
    for name, cell in cells.items():
        if cell["type"] not in _ENDS:
            continue
        for port, bits in _inputs(cell):
            if port not in _ENDS[cell["type"]]:
                found += [TimingPath(ns + WIRE_NS, start, name) for ns, start in (arrivals[bit] for bit in bits)
                          if start is not None]
    return sorted(found, key=lambda path: -path.ns)


def longest(found: Iterable[TimingPath], *, over: float) -> list[tuple[str, str, float, int]]:
    """Timing paths of more than ``over`` ns as ``(from, to, ns, count)`` by blocks of the source, slowest first."""
    groups: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for path in found:
        if path.ns <= over:
            break
        groups[_block(path.start), _block(path.end)].append(path.ns)
    return [(start, end, round(numbers[0], 2), len(numbers)) for (start, end), numbers in groups.items()]


def _arrivals(cells: Mapping[str, Cell]) -> defaultdict[int | str, _Arrival]:
    """:data:`_Arrival` of each bit."""
    drivers = {bit: name for name, cell in cells.items() for port, bits in cell["connections"].items()
               if cell["port_directions"][port] == "output" for bit in bits if not isinstance(bit, str)}
    arrivals: defaultdict[int | str, _Arrival] = defaultdict(lambda: (0.0, None))
    done: set[str] = set()
    for name, cell in cells.items():
        if cell["type"] in _STARTS:
            done.add(name)
            arrivals |= {bit: (_STARTS[cell["type"]], name) for port in cell["connections"]
                         if cell["port_directions"][port] == "output" for bit in cell["connections"][port]}
    # Depth first, without recursion: a carry chain is longer than Python's stack.
    for name in cells:
        waiting = [] if name in done else [name]
        visited: set[str] = set()
        while waiting:
            one = waiting[-1]
            behind = {drivers[bit] for bit in _input_bits(cells[one]) if bit in drivers} - done
            if behind:
                if one in visited:
                    raise UserError(f"The netlist has a loop without a register, through {source_name(one)}.")
                visited.add(one)
                waiting += behind
                continue
            waiting.pop()
            if one not in done:
                done.add(one)
                arrivals |= _through(cells[one], arrivals)
    return arrivals


def _through(cell: Cell, arrivals: defaultdict[int | str, _Arrival]) -> dict[int | str, _Arrival]:
    """When the outputs of a cell are there."""
    ports, kind = cell["connections"], cell["type"]
    if kind == "CCU2C":
        into, start = max((arrivals[bit] for port, bits in _inputs(cell) if port != "CIN" for bit in bits), key=_when)
        into += WIRE_NS + _CARRY_IN_NS
        carry, before = max((arrivals[bit] for bit in ports.get("CIN", ())), key=_when, default=(0.0, None))
        out: dict[int | str, _Arrival] = {}
        for port, more in (("COUT", _CARRY_NS), ("S0", _SUM_NS), ("S1", _SUM_NS)):
            there: _Arrival = (carry + more, before) if before is not None and carry + more > into else (into, start)
            out |= dict.fromkeys(ports.get(port, ()), there)
        return out
    ns, start = max((arrivals[bit] for bit in _input_bits(cell)), key=_when, default=(0.0, None))
    ns += _WITHIN.get(kind, WIRE_NS + _LUT_NS)
    return {bit: (ns, start) for port, bits in ports.items() if cell["port_directions"][port] == "output"
            for bit in bits}


def _input_bits(cell: Cell) -> Bits:
    """Bits that its outputs depend on within a cycle."""
    if cell["type"] == "EHXPLLL":
        return []
    return [bit for port, bits in _inputs(cell) if port == "RAD" or cell["type"] != "TRELLIS_DPR16X4" for bit in bits]


def _inputs(cell: Cell) -> list[tuple[str, Bits]]:
    return [(port, bits) for port, bits in cell["connections"].items() if cell["port_directions"][port] == "input"]


def _when(arrival: _Arrival) -> float:
    return arrival[0] if arrival[1] is not None else -1.0


def _block(cell: str) -> str:
    """The block that a cell is in: at most three names, as ``engine0.legalizer.segments``."""
    return ".".join(name for name in source_name(cell).split(".")[:3] if not name.startswith("$"))
