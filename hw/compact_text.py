# SPDX-License-Identifier: Apache-2.0
"""Shorter text for a netlist: no wires that nothing reads, and loops for the initial contents of memories.

Amaranth writes a wire for each field of a structure, for waveforms only; they are a third of the text of a large
design. Yosys writes a line for each row of a memory.
"""

import re
from collections import Counter
from itertools import groupby

__all__ = ["with_initial_loops", "without_unread_wires"]

_MODULE = re.compile(r"^module \\\S+\n.*?^end\n", flags=re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\\\S+")
_WIRE = re.compile(r"^(?:  attribute [^\n]*\n)*  wire width \d+ (?:signed )?(\\\S+)\n\n?", flags=re.MULTILINE)
_CONNECT = re.compile(r"^connect (\\\S+) [^\n]*\n", flags=re.MULTILINE)

_INITIAL = re.compile(r"^  initial begin\n((?:    (?:\\\S+ |\w+)\[\d+\] = [^\n;]+;\n)+)  end\n", flags=re.MULTILINE)
_ROW = re.compile(r"    (\\\S+ |\w+)\[(\d+)\] = ([^\n;]+);\n")
_SHORTEST_LOOP = 4


def without_unread_wires(text: str) -> str:
    """RTLIL without the wires that are driven by a plain connection, are not ports, and that nothing reads."""
    def module(found: re.Match[str]) -> str:
        body = found[0]
        uses = Counter(_NAME.findall(body))
        # The declaration and the connection that drives it.
        unread = {name for name in _CONNECT.findall(body) if uses[name] == 2} & set(_WIRE.findall(body))
        if not unread:
            return body
        for kind in (_WIRE, _CONNECT):
            body = kind.sub(lambda line: "" if line[1] in unread else line[0], body)
        return body

    return _MODULE.sub(module, text)


def with_initial_loops(text: str) -> str:
    """Verilog with a loop for each run of consecutive rows of a memory that have the same initial value."""
    def block(found: re.Match[str]) -> str:
        rows = [(name, int(number), value) for name, number, value in _ROW.findall(found[1])]
        lines: list[str] = []
        looped = False
        for (name, value, _), run in groupby(
                enumerate(rows), key=lambda row: (row[1][0], row[1][2], row[1][1] - row[0])):
            numbers = [number for _, (_, number, _) in run]
            if len(numbers) < _SHORTEST_LOOP:
                lines += [f"    {name}[{number}] = {value};\n" for number in numbers]
            else:
                looped = True
                lines.append(f"    for (row = {numbers[0]}; row < {numbers[-1] + 1}; row = row + 1)"
                             f" {name}[row] = {value};\n")
        if not looped:
            return found[0]
        label = f"\\initial${rows[0][0].strip().removeprefix(chr(92))} "
        return f"  initial begin : {label}\n    integer row;\n{''.join(lines)}  end\n"

    return _INITIAL.sub(block, text)
