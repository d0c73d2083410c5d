# SPDX-License-Identifier: Apache-2.0
"""Types that mypy does not demand: of hardware modules, it checks the annotations that are there and no others."""

import ast
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _unannotated(text):
    """Names of constructors and properties that lack an annotation."""
    for cls in ast.walk(ast.parse(text)):
        for function in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(function, ast.FunctionDef) and (function.name == "__init__" or any(
                    ast.unparse(decorator) == "property" for decorator in function.decorator_list)):
                arguments = [*function.args.posonlyargs, *function.args.args][1:] + function.args.kwonlyargs
                if function.returns is None or any(argument.annotation is None for argument in arguments):
                    yield f"{cls.name}.{function.name}"


@pytest.mark.parametrize("folder", ["hw", "fpga/board"])
def test_constructors_and_properties_have_types(folder):
    missing = [f"{path.relative_to(ROOT)}: {name}" for path in sorted((ROOT / folder).rglob("*.py"))
               for name in _unannotated(path.read_text(encoding="utf-8"))]
    assert not missing


@pytest.mark.parametrize("text, found", [
    ("class A:\n def __init__(self, x): pass", ["A.__init__"]),
    ("class A:\n def __init__(self, *, x: int): pass", ["A.__init__"]),
    ("class A:\n @property\n def x(self): pass", ["A.x"]),
    ("class A:\n def __init__(self, x: int) -> None: pass\n def y(self): pass", []),
])
def test_sees_what_is_missing(text, found):
    assert list(_unannotated(text)) == found


def test_only_hardware_is_checked_less():
    """A module that mypy checks as hardware builds some."""
    hardware, software = (next(entry["module"] for entry in _overrides()
                               if entry.get("disallow_untyped_defs") is strict) for strict in (False, True))
    wrong = []
    for path in sorted(path for top in ("hw", "sim", "fpga") for path in (ROOT / top).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        less = any(_matches(name, one) for one in hardware) and not any(_matches(name, one) for one in software)
        if less and "def " in text and "amaranth" not in text:
            wrong.append(name)
    assert wrong == ["hw.common.carry_save"]     # an expression of values


def _overrides():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]


def _matches(name, pattern):
    return fnmatch(name, pattern) or fnmatch(f"{name}.", pattern)
