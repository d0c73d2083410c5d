# SPDX-License-Identifier: Apache-2.0
"""Docstrings name what exists: a component or a member that was renamed is renamed in them, too."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("dmace", "fpga", "hw", "sim")

WORDS = {"NaNs"}
"""Words that are spelled like names of classes."""

PINS = {"m_axi__awaddr", "m_axi_awaddr", "tx__0__payload", "tx_0_tdata", "_lo", "_hi", "oneof"}
"""Names of Verilog, of IP-XACT and of protobuf, and endings of names."""


def _docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) \
                    and isinstance(statement.value.value, str):
                yield statement.value


def _names(tree):
    """Identifiers, and words of strings other than docstrings, which name members and registers."""
    documents = {id(constant) for constant in _docstrings(tree)}
    for node in ast.walk(tree):
        for kind in ("id", "attr", "arg", "name", "asname", "module"):
            name = getattr(node, kind, None)
            if isinstance(name, str):
                yield from name.split(".")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield from re.findall(r"\w+", node.value)


def _named(text):
    """Names of components and members that a docstring mentions."""
    yield from re.findall(r"``([a-z_][a-z_0-9]*)``", text)
    yield from re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", text)


def _pipeline(text):
    """Components of the line ``upstream -> this -> downstream`` of a hardware file."""
    for line in text.splitlines():
        if re.match(r"[A-Z]\w+(?:, \w+)* -> ", line):
            yield from re.findall(r"\b[A-Z][a-z]{2,}[A-Za-z]*\b", line.partition("Latency")[0].partition(". ")[0])


@cache
def _trees():
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
            for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}


@cache
def _known():
    names = {name for tree in _trees().values() for name in _names(tree)}
    sources = [path for folder in FOLDERS for suffix in ("cpp", "h", "h.in")
               for path in (ROOT / folder).rglob(f"*.{suffix}")]
    foreign = {word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    # A payload stands for its layout, a file for what it describes, and a word of a text format for an enumeration's.
    payloads = {name.removesuffix("_layout").capitalize() for name in names if name.endswith("_layout")}
    files = {path.stem.capitalize() for path in _trees()}
    return names | {name.lower() for name in names} | foreign | payloads | files | WORDS | PINS


def unknown(text, known, *, pipeline=False):
    return [name for name in (*_named(text), *(_pipeline(text) if pipeline else ())) if name not in known]


def test_docstrings_name_what_exists():
    found = [f"{path}:{constant.lineno}: {name}" for path, tree in _trees().items() for constant in _docstrings(tree)
             for name in unknown(constant.value, _known(),
                                 pipeline=path.parts[0] == "hw" and constant is tree.body[0].value)]
    assert not found, "\n".join(["Names in docstrings that no code has:", *found])


def test_names_that_nothing_has_are_found():
    text = "Doorbell -> Intake -> Decoder.  Latency: 4 cycles from ``valid`` to ``look`` of WordAnswers."
    assert unknown(text, {"Doorbell", "Decoder", "valid"}, pipeline=True) == ["look", "WordAnswers", "Intake"]
    assert not {"Intake", "WordAnswers", "Places"} & _known()
