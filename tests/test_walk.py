# SPDX-License-Identifier: Apache-2.0
"""The reader's walk in docs/architecture.md names files that exist and connections that the source makes."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<source>[^|]+) \| `(?P<module>hw/[\w/]+\.py)` \| `(?P<first>[\w.\[\]]+)` to "
                 r"`(?P<second>[\w.\[\]]+)` \| (?P<sink>[^|]+) \| [^|]+ \|$", re.MULTILINE)


def _rows():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return [match.groupdict() for match in ROW.finditer(text)]


def _text(argument):
    if isinstance(argument, ast.Constant):
        return argument.value
    return "".join(part.value if isinstance(part, ast.Constant) else "n" for part in argument.values)


@cache
def _connections(module):
    """``(first, second)`` of each connect, and ``(source, sink)`` of each broadcast; ``n`` stands for a number."""
    made = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("connect", "broadcast")):
            names = [_text(argument) for argument in node.args if isinstance(argument, ast.Constant | ast.JoinedStr)]
            made |= {(names[0], name) for name in names[1:]}
            if node.func.attr == "connect":
                made |= {(name, names[0]) for name in names[1:]}
    return made


def test_both_walks_are_found():
    modules = {row["module"].split("/")[1] for row in _rows()}
    assert modules == {"dma_engine", "ace"} and len(_rows()) > 40


@pytest.mark.parametrize("row", _rows(), ids=lambda row: f"{row['first']} to {row['second']}")
def test_each_hop_is_a_connection(row):
    first, second = row["first"], row["second"]
    assert (first, second) in _connections(row["module"])
    for end in ("source", "sink"):
        if row[end].startswith("`"):
            assert (ROOT / row[end].strip("`")).is_file()
