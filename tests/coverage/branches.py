# SPDX-License-Identifier: Apache-2.0
"""Source lines of branches: from RTLIL into Verilog, and from Verilog into a map of its lines.

Yosys writes the source line of a statement as an attribute before it, that of an operator inside its expression, and
that of a case as a comment. It drops those of the branches of an ``if``; so each switch gets a list of the lines of its
cases, which becomes an attribute of the ``if``.
"""

import re
from collections.abc import Iterator

__all__ = ["line_map", "with_branch_sources", "with_few_toggles"]

_COMMENT = re.compile(r'\s*# src "([^"]+)"')
_SOURCE = re.compile(r'\(\* src = "([^"]+)" \*\)')
_CASE_SOURCE = re.compile(r'^\s*/\* src = "([^"]+)" \*/$')
_CASE = re.compile(r"^\s*(?:[0-9]+'[hdbo]|default\b)[^;=]*:\s*(?:/\*.*\*/)?$")
NONE = "-"


def with_branch_sources(text: str) -> str:
    """RTLIL of :func:`hw.emit.netlist` with ``sources``, with the source line of each case at its switch."""
    lines = text.split("\n")
    made: list[str] = []
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith("switch ") and line.strip() != "switch {}":
            if found := list(_cases(lines, index + 1, indent)):
                made.append(f'{line[:indent]}attribute \\src "{"|".join(found)}"')
        made.append(line)
    return "\n".join(made)


_DECLARATION = re.compile(r"^  (input|output|inout|wire|reg)(?: \[(\d+):0\])? (\S+)(?: = [^;]*)?\s*;$")
WIDEST = 64
"""Bits of a signal whose toggles are counted."""


def with_few_toggles(verilog: str) -> str:
    """Verilog in which toggles are counted only of registers and of signals that branches assign, with names and of at
    most 64 bits; the counts of all wires would be nine times as long. Lines keep their numbers.
    """
    made: list[str] = []
    for module in re.split(r"(?<=\nendmodule\n)", verilog):
        lines = module.split("\n")
        wanted = {found[3] for found in map(_DECLARATION.match, lines)
                  if found and found[1] == "reg" and int(found[2] or 0) < WIDEST and not found[3].startswith("\\$")}
        made.append("\n".join(
            line if not (found := _DECLARATION.match(line)) or found[3] in wanted
            else f"  /*verilator coverage_off*/ {line.strip()} /*verilator coverage_on*/" for line in lines))
    return "".join(made)


def _cases(lines: list[str], begin: int, indent: int) -> Iterator[str]:
    """The first source line in each case of a switch."""
    open_ = False
    first = ""
    for line in lines[begin:]:
        here = len(line) - len(line.lstrip())
        if here == indent + 2 and re.match(r"\s*case\b", line):
            if open_:
                yield first or NONE
            open_, first = True, ""
        elif here <= indent:
            break
        elif open_ and not first and (found := _COMMENT.match(line)):
            first = found[1]
    if open_:
        yield first or NONE


def line_map(verilog: str) -> dict[int, str]:
    """Line of Verilog -> ``FILE:LINE`` of the source, of those that are known.

    Parameters
    ----------
    verilog : str
        From :func:`hw.emit.verilog_of` with ``sources``.
    """
    found: dict[int, str] = {}
    pending = ""
    # For each open block: its own source line, and those of the branches of its statement that are to come.
    blocks: list[tuple[str, list[str]]] = []
    for number, line in enumerate(verilog.split("\n"), 1):
        text = line.strip()
        if case := _CASE_SOURCE.match(line):
            pending = case[1]
            continue
        if text.startswith("(*"):
            if source := _SOURCE.search(text):
                pending = source[1]
            if text.endswith("*)"):
                continue
        inside = next((source for source, _ in reversed(blocks) if source), "")
        inline = _SOURCE.findall(text)
        if re.match(r"end else\b", text) and blocks:
            branches = blocks.pop()[1]
            here = branches.pop(0) if branches else ""
            found[number] = here or inside
            blocks.append((here, branches))
        elif re.match(r"(if|casez?) ?\(", text) and not text.endswith("end"):
            branches = [source if source != NONE else "" for source in pending.split("|")] if pending else []
            here = branches.pop(0) if branches and text.startswith("if") else ""
            found[number] = here or inside
            blocks.append((here, branches))
            pending = ""
        elif text in ("end", "endcase", "endmodule") or text.startswith("end "):
            if blocks:
                blocks.pop()
        elif re.match(r"always\b.*\bbegin$|initial begin", text):
            found[number] = pending or inside
            blocks.append((pending, []))
            pending = ""
        elif _CASE.match(line):
            if blocks:
                blocks[-1] = pending, blocks[-1][1]
            found[number] = pending
            pending = ""
        else:
            found[number] = (inline[0] if inline else pending or inside).split("|")[0]
            if text.endswith(";"):
                pending = pending if re.match(r"(input|output|inout)\b", text) else ""
            elif re.match(r"always\b", text):
                pending = pending.split("|")[0]
    return {number: source for number, source in found.items() if source and source != NONE}
