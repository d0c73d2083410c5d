# SPDX-License-Identifier: Apache-2.0
"""Mutation operators: which mutants a cell or process has, and the RTLIL of each beside the original.

A mutant replaces one signal by another while its number is selected, so that one netlist holds any number of mutants
(:mod:`tests.mutation.schemata`).

=============  ========================================================================================
operator       the mutant
=============  ========================================================================================
operator       another operator: and/or, add/sub, equal/unequal, less/less or equal, reduced and/or, shifts
negation       a condition or inverter is inverted: comparisons, ``~``, and the selection of a branch
constant       a constant operand or an assigned constant is one more
branches       the two values of a ``Mux`` are exchanged
stuck          one bit of a result or a register is always 0 or always 1
reset          a register has no reset: after a reset it holds the inverse of its reset value
=============  ========================================================================================
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.mutation.netlist import Item, Module, bits, constant, width

__all__ = ["OPERATORS", "Mutant", "mutants_of"]

OPERATORS = ("operator", "negation", "constant", "branches", "stuck", "reset")

_SWAPS = {"and": "or", "or": "and", "xor": "or", "add": "sub", "sub": "add", "eq": "ne", "ne": "eq", "lt": "le",
          "le": "lt", "gt": "ge", "ge": "gt", "reduce_or": "reduce_and", "reduce_and": "reduce_or", "shl": "shr",
          "shr": "shl"}
_INVERTED = ("eq", "ne", "lt", "le", "gt", "ge", "reduce_or", "reduce_and", "and", "or")
_STUCK = ("and", "or", "xor", "add", "sub", "mux", "eq", "lt", "gt", "ge", "le", "shl", "shr", "shift", "not", "dff")
_WIDEST_CONSTANT = 16
_RESET = re.compile(r"switch \\(?:\w+_)?rst(?:\$\d+)? \[0\]")
_ASSIGN = re.compile(r'^( *)assign (.+?) (\d+\'[01]+)$')

Wires = Callable[[int], str]


@dataclass(frozen=True)
class Mutant:
    """A mutant of one signal of an item.

    Parameters
    ----------
    module : str
        Path of the module.
    item, line : int
        The item's number in the module; the line in the item's text that is changed.
    operator : str
        One of :data:`OPERATORS`.
    change : str
        What is changed, in words.
    source : str
        ``FILE:LINE`` in the Amaranth source.
    bit : int
        Of the signal, where only that one is changed.
    """

    module: str
    item: int
    line: int
    operator: str
    change: str
    source: str
    bit: int = 0
    kind: str = field(default="", compare=False)

    @property
    def file(self) -> str:
        return self.source.rpartition(":")[0]

    @property
    def key(self) -> str:
        """A name that is equal in all builds of the same design."""
        return f"{self.module}/{self.item}/{self.line}/{self.operator}/{self.bit}/{self.change}"


def mutants_of(module: Module, item: Item, widths: dict[str, int]) -> Iterator[Mutant]:
    """All mutants of an item."""
    def make(line: int, operator: str, change: str, *, source: str = "", bit: int = 0) -> Mutant:
        return Mutant(module.path, item.number, line, operator, change, source or item.source, bit, item.kind)

    if item.kind == "process":
        yield from _of_process(item, make)
        return
    lines = item.text.split("\n")
    output = item.port("Q") if item.kind == "dff" else item.port("Y")
    if not output:
        return
    at = next(index for index, line in enumerate(lines) if line.startswith("    connect \\Y ") or
              line.startswith("    connect \\D "))
    size = width(output, widths)
    if item.kind in _SWAPS and not (item.kind.startswith("reduce") and item.parameter("A_WIDTH") < 2):
        yield make(at, "operator", f"{item.kind} -> {_SWAPS[item.kind]}")
    if item.kind in _INVERTED and size == 1:
        yield make(at, "negation", f"{item.kind} inverted")
    if item.kind == "not" and item.parameter("A_WIDTH") == size:
        yield make(at, "negation", "not left out")
    if item.kind in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub"):
        operand = constant(item.port("B"))
        widest = item.parameter("A_WIDTH")
        if operand is not None and 0 < widest <= _WIDEST_CONSTANT:
            more = (operand[1] + 1) % (1 << widest)
            if more != operand[1]:
                yield make(at, "constant", f"{item.kind} {operand[1]} -> {more}")
    if item.kind == "mux":
        yield make(at, "branches", "values of a Mux exchanged")
    if item.kind in _STUCK:
        for bit in {0, size - 1}:
            for level in (0, 1):
                what = "register" if item.kind == "dff" else item.kind
                yield make(at, "stuck", f"{what} bit {bit} of {size} stuck at {level}", bit=bit)


def _of_process(item: Item, make: Callable[..., Mutant]) -> Iterator[Mutant]:
    source, resetting = "", False
    signal = _target(item)
    lines = item.text.split("\n")
    for index, line in enumerate(lines):
        text = line.strip()
        if text.startswith("# src "):
            source = text[7:-1]
        elif _RESET.fullmatch(text):
            resetting = True
        elif text.startswith("switch ") and text != "switch {}":
            following = next((one.strip()[7:-1] for one in lines[index:] if one.strip().startswith("# src ")), "")
            for bit, part in enumerate(reversed(_single_bits(text[7:]))):
                if not part.startswith(("0", "1")):
                    yield make(index, "negation", f"branch of {signal} taken if not {_plain(part)}", source=following,
                               bit=bit)
        elif found := _ASSIGN.match(line):
            size, value = constant(found[3]) or (0, 0)
            if resetting:
                yield make(index, "reset", f"no reset of {signal}", source=source)
            elif 0 < size <= _WIDEST_CONSTANT:
                yield make(index, "constant", f"{signal}: {value} -> {(value + 1) % (1 << size)}", source=source)


def _target(item: Item) -> str:
    """Name of the signal that a process drives: a register's own, where the process assigns it to itself."""
    found = re.search(r"^    assign (\S+) \[[\d:]+\] (\S+)", item.text, flags=re.MULTILINE)
    if not found:
        return "a signal"
    name = found[2] if found[1].startswith("$") and found[2].startswith("\\") else found[1]
    return _plain(name) if name.startswith("\\") else "an unnamed signal"


def _plain(part: str) -> str:
    """A signal's name without the marks of RTLIL."""
    name = part.partition(" ")[0]
    return "a condition" if name.startswith("$") else re.sub(r"\$\d+$", "", name.removeprefix("\\"))


def _single_bits(signal: str) -> list[str]:
    """The parts of a signal if each is one bit, else none of them."""
    parts = bits(signal)
    return parts if all(re.search(r" \[\d+\]$", part) or re.match(r"1'", part) for part in parts) else []


def guarded(item: Item, mutants: list[tuple[int, Mutant]], widths: dict[str, int]) -> tuple[str, str]:
    """The item with mutants, and the wires and cells that it needs.

    Parameters
    ----------
    mutants : list of (number, Mutant)
        Of this item; at most one of a cell, and at most one of a bit or constant of a process.

    Returns
    -------
    (str, str)
        RTLIL of wires, and of the item with further cells.
    """
    made = _Guards()
    if item.kind == "process":
        lines = item.text.split("\n")
        for number, mutant in mutants:
            lines[mutant.line] = made.process_line(number, mutant, lines[mutant.line])
        return made.wires, made.cells + "\n".join(lines)
    (number, mutant), = mutants
    return made.cell(number, mutant, item, widths)


class _Guards:
    """RTLIL of the selection of mutants."""

    def __init__(self) -> None:
        self.wires = self.cells = ""

    def wire(self, name: str, size: int) -> str:
        self.wires += f"  wire width {size} {name}\n"
        return name

    def unary(self, kind: str, name: str, operand: str, size: int, output: str) -> None:
        self.cells += (f"  cell ${kind} {name}\n    parameter \\A_SIGNED 0\n    parameter \\A_WIDTH {size}\n"
                       f"    parameter \\Y_WIDTH {size}\n    connect \\A {operand}\n    connect \\Y {output}\n  end\n")

    def selected(self, number: int) -> str:
        name = self.wire(f"$mutant{number}_selected", 1)
        self.cells += (f"  cell $eq $mutant{number}_equal\n    parameter \\A_SIGNED 0\n    parameter \\B_SIGNED 0\n"
                       f"    parameter \\A_WIDTH 16\n    parameter \\B_WIDTH 16\n    parameter \\Y_WIDTH 1\n"
                       f"    connect \\A \\mutant_number\n    connect \\B 16'{number:016b}\n"
                       f"    connect \\Y {name}\n  end\n")
        return name

    def choose(self, number: int, original: str, mutated: str, size: int, output: str) -> None:
        selected = self.selected(number)
        self.cells += (f"  cell $mux $mutant{number}_choice\n    parameter \\WIDTH {size}\n    connect \\A {original}\n"
                       f"    connect \\B {mutated}\n    connect \\S {selected}\n    connect \\Y {output}\n  end\n")

    def process_line(self, number: int, mutant: Mutant, line: str) -> str:
        if mutant.operator == "negation":
            parts = bits(line.strip()[7:])
            place = len(parts) - 1 - mutant.bit
            original = parts[place]
            inverse = self.wire(f"$mutant{number}_inverse", 1)
            self.unary("not", f"$mutant{number}_not", original, 1, inverse)
            parts[place] = self.wire(f"$mutant{number}_value", 1)
            self.choose(number, original, inverse, 1, parts[place])
            return f"{line[:len(line) - len(line.lstrip())]}switch {{ {' '.join(parts)} }}"
        begin, left, value = _ASSIGN.match(line).groups()
        size, number_value = constant(value)
        changed = number_value ^ ((1 << size) - 1) if mutant.operator == "reset" else (number_value + 1) % (1 << size)
        wire = self.wire(f"$mutant{number}_value", size)
        self.choose(number, value, f"{size}'{changed:0{size}b}", size, wire)
        return f"{begin}assign {left} {wire}"

    def cell(self, number: int, mutant: Mutant, item: Item, widths: dict[str, int]) -> tuple[str, str]:
        port = "D" if item.kind == "dff" else "Y"
        output = item.port(port)
        size = width(output, widths)
        if port == "D":
            wire = self.wire(f"$mutant{number}_value", size)
            self.choose(number, output, self.stuck(output, mutant, size, widths), size, wire)
            return self.wires, self.cells + item.text.replace(f"connect \\D {output}\n", f"connect \\D {wire}\n")
        original = self.wire(f"$mutant{number}_original", size)
        text = item.text.replace(f"connect \\Y {output}\n", f"connect \\Y {original}\n")
        if mutant.operator == "stuck":
            mutated = self.stuck(original, mutant, size, {original: size})
        elif mutant.change == "not left out":
            mutated = item.port("A")
        elif mutant.operator == "negation":
            mutated = self.wire(f"$mutant{number}_mutated", size)
            self.unary("not", f"$mutant{number}_not", original, size, mutated)
        else:
            mutated = self.wire(f"$mutant{number}_mutated", size)
            self.cells += self.replaced(number, mutant, item, output, mutated)
        self.choose(number, original, mutated, size, output)
        return self.wires, self.cells + text

    @staticmethod
    def stuck(signal: str, mutant: Mutant, size: int, widths: dict[str, int]) -> str:
        level, bit = mutant.change[-1], mutant.bit
        single = []
        for part in bits(signal):
            if found := re.fullmatch(r"(\d+)'([01x]+)", part):
                single += [f"1'{value}" for value in found[2]]
                continue
            name, high, low = re.fullmatch(r"(\S+)(?: \[(\d+)(?::(\d+))?\])?", part).groups()
            top = widths[name] - 1 if high is None else int(high)
            end = 0 if high is None else top if low is None else int(low)
            single += [f"{name} [{index}]" for index in range(top, end - 1, -1)]
        single[size - 1 - bit] = f"1'{level}"
        return f"{{ {' '.join(single)} }}"

    @staticmethod
    def replaced(number: int, mutant: Mutant, item: Item, output: str, mutated: str) -> str:
        """The item as another cell, whose output is ``mutated``."""
        text = re.sub(r"^  attribute [^\n]*\n", "", item.text, flags=re.MULTILINE)
        text = re.sub(r"^  cell \S+ \S+\n", f"  cell ${item.kind} $mutant{number}_cell\n", text)
        text = text.replace(f"connect \\Y {output}\n", f"connect \\Y {mutated}\n")
        if mutant.operator == "operator":
            return text.replace(f"cell ${item.kind} ", f"cell ${_SWAPS[item.kind]} ", 1)
        if mutant.operator == "branches":
            return re.sub(r"connect \\([AB]) ", lambda port: f"connect \\{'BA'['AB'.index(port[1])]} ", text)
        size = item.parameter("A_WIDTH")
        more = int(mutant.change.rpartition(" ")[2])
        text = re.sub(r"parameter \\B_WIDTH \d+", rf"parameter \\B_WIDTH {size}", text)
        return re.sub(r"connect \\B .*", lambda _: f"connect \\B {size}'{more:0{size}b}", text)
