# SPDX-License-Identifier: Apache-2.0
"""Values by name."""

import re
from dataclasses import dataclass

import pytest

from hw.errors import UserError
from sim.system.settings import apply, flatten, names, parse_assignments, quantity


@dataclass(frozen=True)
class Inner:
    rate: float = 1.5
    limit: int | None = None


@dataclass(frozen=True)
class Outer:
    size: int = 4
    text: str = "x"
    name: str = "this"
    shape: tuple = (4, 2)
    fold: bool = True
    inner: Inner = Inner()
    links: tuple = (Inner(), Inner(rate=2.5))


@pytest.mark.parametrize("text, value", [
    ("64", 64), ("64KiB", 65536), ("4MiB", 4 << 20), ("25GB/s", 25_000_000_000), ("1.245GHz", 1_245_000_000),
    ("402ns", 402e-9),
    ("0.5", 0.5), ("1e-6", 1e-6), ("-3", -3), ("none", None), ("true", True), ("False", False), ("lifo", "lifo"),
    ("1_000", 1000), ("120T", 120 * 10**12), ("120TFLOPS", 120 * 10**12), (7, 7), ("2.5us", 2.5e-6),
])
def test_quantities(text, value):
    assert quantity(text) == value and type(quantity(text)) is type(value)


def test_names_and_values():
    assert names(Outer()) == ["size", "text", "fold", "inner.rate", "inner.limit", "links.0.rate", "links.0.limit",
                              "links.1.rate", "links.1.limit"]
    assert flatten(Outer())["links.1.rate"] == 2.5


def test_apply():
    made = apply(Outer(), {"size": 8, "links.1.limit": 3, "inner.rate": 2, "fold": False})
    assert made == Outer(size=8, fold=False, inner=Inner(rate=2), links=(Inner(), Inner(rate=2.5, limit=3)))
    assert apply(made, {"links.1.limit": None}).links[1].limit is None


@pytest.mark.parametrize("name, value, sentence", [
    ("sizes", 3, r"there is no setting 'sizes'; there are size, .*links\.1\.limit\."),
    ("links.2.rate", 3, r"there is no setting 'links\.2\.rate'; there are .*"),
    ("size", 1.5, r"size must be like 4, not 1\.5\."),
    ("size", True, r"size must be like 4, not True\."),
    ("fold", 1, r"fold must be like True, not 1\."),
    ("text", None, r"text must be like 'x', not None\."),
    ("name", "that", r"there is no setting 'name'; there are .*"),
    ("shape", 3, r"there is no setting 'shape'; there are .*"),
    ("inner.rate", "fast", r"inner\.rate must be like 1\.5, not 'fast'\."),
    ("inner.rate", None, r"inner\.rate must be like 1\.5, not None\."),
    ("inner.limit", "many", r"inner\.limit must be like None, not 'many'\."),
    ("inner.limit", 1.5, r"inner\.limit must be like None, not 1\.5\."),
])
def test_wrong_values(name, value, sentence):
    with pytest.raises(UserError) as caught:
        apply(Outer(), {name: value})
    assert re.fullmatch(sentence, str(caught.value))


def test_assignments():
    assert parse_assignments(["a.b = 4KiB", "c=x=y"]) == {"a.b": 4096, "c": "x=y"}
    for text in ("a", "=3", "a="):
        with pytest.raises(UserError, match=r"^--set must be NAME=VALUE, not '"):
            parse_assignments([text])
