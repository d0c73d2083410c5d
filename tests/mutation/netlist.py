# SPDX-License-Identifier: Apache-2.0
"""The parts of Amaranth's RTLIL that can be mutated: cells and processes, with their source lines.

Text from :func:`hw.emit.netlist` with ``sources``. A part is named by its module, without the name of the top module,
and by its number there, so that the same design in another wrapper has parts of the same names.
"""

import re
from dataclasses import dataclass

__all__ = ["Item", "Module", "bits", "constant", "modules", "observable", "width"]

_MODULE = re.compile(r"^module (\\\S+)\n(.*?)^end\n", flags=re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r'^(?:  attribute [^\n]*\n)*  (cell (\S+) (\S+)|process (\S+))\n(.*?)^  end\n',
                   flags=re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r'attribute \\src "([^"]+)"')
_WIRE = re.compile(r"^  wire width (\d+) (?:(?:input|output|inout) \d+ )? ?(?:signed )?(\\\S+|\$\S+)$",
                   flags=re.MULTILINE)
_CONSTANT = re.compile(r"(\d+)'([01x]+)")
_SLICE = re.compile(r"(\\\S+|\$\S+)(?: \[(\d+)(?::(\d+))?\])?")


@dataclass(frozen=True)
class Item:
    """A cell or process: ``kind`` is the cell's type without ``$``, or ``process``; ``text`` is that of the whole item
    from its first attribute on, which begins at ``begin`` in the module's body."""

    number: int
    kind: str
    source: str
    text: str
    begin: int

    def port(self, name: str) -> str:
        """The signal at a port of the cell; an empty string if the cell has no such port."""
        found = re.search(rf"^    connect \\{name} (.*)$", self.text, flags=re.MULTILINE)
        return found[1] if found else ""

    def parameter(self, name: str) -> int:
        """A numeric parameter of the cell. Raises KeyError."""
        found = re.search(rf"^    parameter (?:signed )?\\{name} (\d+)$", self.text, flags=re.MULTILINE)
        if not found:
            raise KeyError(name)
        return int(found[1])


@dataclass(frozen=True)
class Module:
    """A module: its path below the top module, its contents, and the widths of its wires."""

    name: str
    path: str
    body: str
    begin: int

    def items(self) -> list[Item]:
        """Cells of Yosys and processes, in the order of the text; not instances of modules, nor assertions."""
        found = []
        for match in _ITEM.finditer(self.body):
            if match[1].startswith("cell") and (not match[2].startswith("$") or match[2] == "$check"):
                continue
            source = _SOURCE.search(match[0])
            found.append(Item(len(found), match[2][1:] if match[2] else "process", source[1] if source else "",
                              match[0], match.start()))
        return found

    def widths(self) -> dict[str, int]:
        """Wire -> bits."""
        return {name: int(bits) for bits, name in _WIRE.findall(self.body)}


def modules(text: str, *, below: str = "") -> list[Module]:
    """The modules of RTLIL, in its order.

    Parameters
    ----------
    below : str
        Path of the instance whose modules are wanted, such as ``component.engine``; its path is then empty.
    """
    top = _MODULE.search(text)
    if top is None:
        raise ValueError("The text has no RTLIL module.")
    prefix = ".".join(part for part in (top[1], below) if part)
    return [Module(match[1], match[1][len(prefix):].lstrip("."), match[2], match.start(2))
            for match in _MODULE.finditer(text) if match[1] == prefix or match[1].startswith(f"{prefix}.")]


def constant(signal: str) -> tuple[int, int] | None:
    """``(bits, value)`` of a constant, ``(0, 0)`` of an empty signal; None of anything else, or with undefined bits."""
    if re.fullmatch(r"\{\s*\}", signal):
        return 0, 0
    found = _CONSTANT.fullmatch(signal)
    return (int(found[1]), int(found[2], 2)) if found and "x" not in found[2] else None


def bits(signal: str) -> list[str]:
    """The parts of a signal, from the highest on: slices of wires, and constants."""
    inner = signal.strip()
    if inner.startswith("{"):
        inner = inner[1:-1].strip()
    parts = []
    while inner:
        found = _CONSTANT.match(inner) or _SLICE.match(inner)
        if found is None:
            raise ValueError(f"This is no RTLIL signal: {signal!r}")
        parts.append(found[0])
        inner = inner[found.end():].lstrip()
    return parts


def width(signal: str, widths: dict[str, int]) -> int:
    """Bits of a signal.

    Parameters
    ----------
    widths : dict
        Of the module's wires.
    """
    total = 0
    for part in bits(signal):
        if found := _CONSTANT.fullmatch(part):
            total += int(found[1])
            continue
        name, high, low = _SLICE.fullmatch(part).groups()
        total += widths[name] if high is None else 1 if low is None else int(high) - int(low) + 1
    return total


_NAME = re.compile(r"\\[^\s]+|\$[^\s]+")
_OUTPUT = re.compile(r"^  wire width \d+ (?:output|inout) .*?(\\\S+)$", flags=re.MULTILINE)
_INSTANCE = re.compile(r"^  cell \\\S+ \S+\n(.*?)^  end\n", flags=re.MULTILINE | re.DOTALL)
_CONNECTED = re.compile(r"^ *connect (\\\S+|\$\S+) (.*)$", flags=re.MULTILINE)
_DRIVEN = ("Y", "Q", "DATA")


def observable(module: Module) -> set[int]:
    """Numbers of the items that something else than an assertion depends on."""
    alive = set(_OUTPUT.findall(module.body))
    for instance in _INSTANCE.findall(module.body):
        alive.update(_NAME.findall(" ".join(value for _, value in _CONNECTED.findall(instance))))
    wires = [(set(_NAME.findall(left)), set(_NAME.findall(right)))
             for left, right in re.findall(r"^connect (.*?) (\S.*)$", module.body, flags=re.MULTILINE)]
    open_: dict[int, tuple[set[str], set[str]]] = {}
    found: set[int] = set()
    for item in module.items():
        if item.kind == "process":
            names = set(_NAME.findall(re.sub(r"(?:attribute|# src|process) .*", "", item.text)))
            driven = {name for line in re.findall(r"^ *assign (.*?\]) ", item.text, flags=re.MULTILINE)
                      for name in _NAME.findall(line)}
        else:
            ports = dict(re.findall(r"^    connect \\(\S+) (.*)$", item.text, flags=re.MULTILINE))
            reads = item.kind.startswith("memwr")
            driven = set() if reads else {name for port in _DRIVEN for name in _NAME.findall(ports.get(port, ""))}
            names = {name for port, value in ports.items() if reads or port not in _DRIVEN
                     for name in _NAME.findall(value)}
            if reads:
                alive |= names
                found.add(item.number)
                continue
        open_[item.number] = driven, names
    while True:
        reached = [number for number, (driven, _) in open_.items() if driven & alive]
        further = [pair for pair in wires if pair[0] & alive and not pair[1] <= alive]
        if not reached and not further:
            return found
        for number in reached:
            alive |= open_.pop(number)[1]
            found.add(number)
        for _, right in further:
            alive |= right
