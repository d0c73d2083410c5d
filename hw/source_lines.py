# SPDX-License-Identifier: Apache-2.0
"""The source line of each assignment in RTLIL, which Amaranth knows and does not write.

Amaranth writes the line of each operator and of each signal's declaration. Mutants and coverage are reported by the
line of the assignment in a branch, too.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

__all__ = ["source_lines", "with_relative_sources"]

_ROOT = Path(__file__).resolve().parents[1]

_CASE = re.compile(r'^( *)(case(?: [^\n]*)?\n *# src "([^"\n]+)"\n)', flags=re.MULTILINE)


@contextmanager
def source_lines(backend: Any) -> Iterator[None]:
    """In this block, ``backend`` (``amaranth.back.rtlil``) writes ``# src "FILE:LINE"`` before each assignment.

    Yosys ignores the comments. The first assignment of a process is the default, with the line of the declaration.
    """
    lines: Iterator[Any] = iter(())
    of_list = backend.ModuleEmitter.emit_assignment_list
    of_assignment = backend.Assignment.emit

    def emit_assignment_list(self: Any, index: int, cell: Any) -> None:
        nonlocal lines
        lines = iter([cell.src_loc, *(assignment.src_loc for assignment in cell.assignments)])
        of_list(self, index, cell)

    def assign(self: Any, left: str, right: str) -> None:
        made = backend.Assignment(left, right)
        made.src_loc = next(lines, None)
        self.contents.append(made)

    def emit(self: Any, line: Any) -> None:
        if self.src_loc is not None:
            line(f'# src "{_text(self.src_loc)}"')
        of_assignment(self, line)

    with mock.patch.object(backend.ModuleEmitter, "emit_assignment_list", emit_assignment_list), \
            mock.patch.object(backend.Process, "assign", assign), mock.patch.object(backend.Case, "assign", assign), \
            mock.patch.object(backend.Assignment, "emit", emit):
        yield


def with_relative_sources(text: str) -> str:
    """RTLIL with paths relative to the checkout, and the line of its first assignment as an attribute of each case.

    Parameters
    ----------
    text : str
        RTLIL that was written in a block of :func:`source_lines`.
    """
    text = text.replace(f'"{_ROOT}/', '"')
    return _CASE.sub(r'\1attribute \\src "\3"\n\1\2', text)


def _text(location: Any) -> str:
    return location if isinstance(location, str) else f"{location[0]}:{location[1]}"
