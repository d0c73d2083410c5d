# SPDX-License-Identifier: Apache-2.0
"""All mutants of a design in one netlist, selected by a number when its simulator starts.

The number is that in the environment variable ``DMACE_MUTANT``; 0, or none, is the original design. So one build of the
simulator serves all mutants.
"""

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from hw import emit
from tests.mutation.netlist import modules
from tests.mutation.operators import Mutant, guarded, mutants_of

__all__ = ["SELECTION", "candidates", "choose", "verilog_with_mutants", "with_mutants"]

SELECTION = "DMACE_MUTANT"

_PACKAGES = "hw/"
_HEADER = re.compile(r"^((?:attribute [^\n]*\n)*module (\\\S+)\n)(.*?)^end\n", flags=re.MULTILINE | re.DOTALL)
_PORT_NUMBER = re.compile(r" (?:input|output|inout) (\d+) ")
_INSTANCE = re.compile(r"^(  cell (\\\S+) \S+\n)", flags=re.MULTILINE)


def candidates(text: str, *, below: str = "") -> list[Mutant]:
    """All mutants of the modules of an instance, in the order of the text.

    Parameters
    ----------
    text : str
        RTLIL of :func:`hw.emit.netlist` with ``sources``.
    below : str
        Path of the instance.
    """
    found = []
    for module in modules(text, below=below):
        widths = module.widths()
        for item in module.items():
            found += [mutant for mutant in mutants_of(module, item, widths) if mutant.file.startswith(_PACKAGES)]
    return found


def choose(found: Sequence[Mutant], *, seed: int) -> list[Mutant]:
    """One mutant of each operator at each source line, and at most one of each cell, in random order.

    A line may describe many equal cells, such as one for each queue; each of them would be as good.
    """
    rng = random.Random(seed)
    groups: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for mutant in found:
        groups[mutant.source, mutant.operator].append(mutant)
    used: set[tuple[object, ...]] = set()
    chosen = []
    for name in sorted(groups):
        rng.shuffle(groups[name])
        for mutant in groups[name]:
            site = (mutant.module, mutant.item,
                    *((mutant.line, mutant.bit) if mutant.kind == "process" else ()))
            if site not in used:
                used.add(site)
                chosen.append(mutant)
                break
    rng.shuffle(chosen)
    return chosen


def with_mutants(text: str, numbered: Mapping[int, Mutant], *, below: str = "") -> str:
    """RTLIL with mutants, each selected by its number in the signal ``mutant_number`` of the top module.

    Parameters
    ----------
    numbered : dict
        Number, 1 to 65535 -> mutant, from :func:`candidates` of this text or one of an equal instance.
    below : str
        Path of the instance that has the mutants.

    Raises
    ------
    ValueError
        If the text has no such item.
    """
    here: dict[str, dict[int, list[tuple[int, Mutant]]]] = defaultdict(lambda: defaultdict(list))
    for number, mutant in sorted(numbered.items()):
        if not 1 <= number < 1 << 16:
            raise ValueError(f"A mutant's number must be 1 to 65535, not {number}.")
        here[mutant.module][mutant.item].append((number, mutant))
    bodies = {}
    for module in modules(text, below=below):
        if module.path in here:
            bodies[module.name] = _mutated(module.body, module.items(), module.widths(), here.pop(module.path))
    if here:
        raise ValueError(f"The netlist has no module {next(iter(here))!r}.")
    names = {name for _, name, _ in _HEADER.findall(text)}
    top = next(name for _, name, _ in _HEADER.findall(text))

    def module(found: re.Match[str]) -> str:
        header, name, body = found.groups()
        body = bodies.get(name, body)
        port = "" if name == top else f"input {1 + max(map(int, _PORT_NUMBER.findall(body)), default=-1)} "
        body = _INSTANCE.sub(lambda cell: f"{cell[1]}    connect \\mutant_number \\mutant_number\n"
                             if cell[2] in names else cell[0], body)
        return f"{header}  wire width 16 {port}\\mutant_number\n{body}end\n"

    return _HEADER.sub(module, text)


def _mutated(body: str, items: Sequence, widths: dict[str, int],
             wanted: Mapping[int, list[tuple[int, Mutant]]]) -> str:
    parts, last, wires = [], 0, ""
    for item in items:
        if item.number in wanted:
            further, text = guarded(item, wanted[item.number], widths)
            wires += further
            parts += [body[last:item.begin], text]
            last = item.begin + len(item.text)
    if len(parts) != 2 * len(wanted):
        raise ValueError("The netlist has not all cells of the mutants.")
    return wires + "".join(parts) + body[last:]


def verilog_with_mutants(text: str, numbered: Mapping[int, Mutant], *, below: str = "") -> str:
    """Verilog of :func:`with_mutants` for Verilator, with the number from :data:`SELECTION` in the environment."""
    made = emit.verilog_of(with_mutants(text, numbered, below=below))
    selection = f'$c32("(std::getenv(\\"{SELECTION}\\") ? std::atoi(std::getenv(\\"{SELECTION}\\")) : 0)")'
    started, count = re.subn(r"^  wire \[15:0\] mutant_number;$",
                             f"  reg [15:0] mutant_number;\n  initial mutant_number = {selection};", made, count=1,
                             flags=re.MULTILINE)
    if not count:
        raise RuntimeError("The Verilog has no signal for the number of the mutant.")
    return started

