# SPDX-License-Identifier: Apache-2.0
"""Modules that connect others do nothing else, and each of their connections is needed.

They are found in the source: every module that imports :class:`Wiring`.
"""

import ast
import gc
import importlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw import connections
from hw.ace import config as ace_config
from hw.ace.engine import AceEngine
from hw.ace.timing import AceTimingOptions
from hw.card import config as card_config
from hw.common import wiring as hw_wiring
from hw.common.wiring import Wiring, WiringError
from hw.dma_engine import config as dma_config
from hw.endpoint import config as endpoint_config
from hw.pcie.config import PcieConfig
from hw.rdma import config as rdma_config

ROOT = Path(__file__).parents[1]
LONGEST_ENGINE = 160
CALLS = ("connect", "broadcast", "leave_open", "tie_off", "idle")
"""Methods of :class:`Wiring` that account for a port."""

CONFIGS = {"ace": replace(ace_config.TINY, link_channels=2), "dma_engine": dma_config.TINY,
           "endpoint": endpoint_config.TINY.with_rdma(rdma_config.TINY), "card": card_config.TINY,
           "pcie": PcieConfig(data_width=128, axi_id_width=4, doorbell_addr_width=14),
           "rdma": rdma_config.TINY, "triggers": endpoint_config.TINY.triggers}
"""Package -> the configuration that its wiring modules are built with: one with all optional parts."""

REDUCED = {
    "counters": {"counters": False}, "varying": {"varying": False}, "dimensions": {"dimensions": 1},
    "all": {"counters": False, "varying": False, "prod": False, "fp8": False, "avg": False, "widen": False,
            "dimensions": 1, "timing": AceTimingOptions.all()},
}
"""Accelerators without some of their parts."""


@pytest.fixture(autouse=True)
def _collected():
    """Collect parts that are connected, but not elaborated, while the warning about them is off."""
    yield
    gc.collect()


def _imports_wiring(tree):
    return any(isinstance(node, ast.ImportFrom) and node.module and node.module.endswith("wiring")
               and any(alias.name == "Wiring" for alias in node.names) for node in ast.walk(tree))


def _makes_wiring(tree):
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Wiring"
               for node in ast.walk(tree))


@cache
def _modules():
    """Path below the root -> syntax tree of each module that imports ``Wiring``."""
    trees = {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
             for path in sorted((ROOT / "hw").rglob("*.py"))}
    return {path: tree for path, tree in trees.items() if _imports_wiring(tree)}


def _classes():
    return [pytest.param(path, node.name, id=node.name) for path, tree in _modules().items() for node in tree.body
            if isinstance(node, ast.ClassDef) and _makes_wiring(node)]


def _logic(tree):
    """Lines with an assignment or with another statement of a hardware module."""
    modules = {target.id for node in ast.walk(tree) if isinstance(node, ast.Assign)
               and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "Module"
               for target in node.targets if isinstance(target, ast.Name)}
    return sorted({node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and (
        node.attr == "eq" or (isinstance(node.value, ast.Name) and node.value.id in modules))})


def test_finds_assignments():
    """The rule below sees what it forbids."""
    text = "n = Module()\nn.d.comb += a.b.eq(c)\nwires.connect('a', 'b')\nwith n.If(d):\n    e.eq(f)"
    assert _logic(ast.parse(text)) == [2, 4, 5]


@pytest.mark.parametrize("path", _modules(), ids=str)
def test_only_connects(path):
    assert not _logic(_modules()[path]), f"{path}: a module that connects has no logic"


def test_each_module_has_one_class_that_connects():
    assert sorted(param.values[0] for param in _classes()) == sorted(_modules())


def test_engines_are_short_wiring_modules():
    engines = {path for path in _modules() if path.name == "engine.py"}
    assert engines == {Path("hw", name, "engine.py") for name in ("ace", "dma_engine", "endpoint")}
    for path in engines:
        assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= LONGEST_ENGINE


def _recorded(monkeypatch, component):
    """The component's calls of its wiring: ``(method, arguments, keywords)``, in order."""
    calls = []

    def recording(name, method):
        def record(self, *arguments, **keywords):
            calls.append((name, arguments, keywords))
            return method(self, *arguments, **keywords)

        return record

    with monkeypatch.context() as patch:
        for name in ("add", "finish", *CALLS):
            patch.setattr(Wiring, name, recording(name, getattr(Wiring, name)))
        component.elaborate(None)
    return calls


class _Assignments:
    """Stands for values and for a domain; assignments are dropped."""

    comb, init = property(lambda self: self, lambda self, value: None), 0

    def __iadd__(self, assignment):
        return self

    def eq(self, value):
        return self

    def shape(self):
        return 0

    @classmethod
    def cast(cls, value):
        return cls()


def _repeat(component, calls):
    """Make the component's connections again, by these calls."""
    wires = Wiring(SimpleNamespace(submodules={}, d=_Assignments()), component)
    for name, arguments, keywords in calls:
        getattr(wires, name)(*arguments, **keywords)


def _without_one(calls):
    """The calls without each connection in turn, and without each sink of a broadcast."""
    for index, (name, arguments, keywords) in enumerate(calls):
        before, after = calls[:index], calls[index + 1:]
        if name in CALLS:
            yield before + after
        if name == "broadcast":
            for sink in range(1, len(arguments)):
                yield [*before, (name, arguments[:sink] + arguments[sink + 1:], keywords), *after]


def _superfluous(monkeypatch, component):
    """Calls that can be left out unnoticed, and the number of those that were tried."""
    calls = _recorded(monkeypatch, component)
    missing = rf"^Not connected in {type(component).__name__}: "
    with monkeypatch.context() as patch:
        leaves = {}         # of the parts, which are the same in each repetition

        def known(part, original=hw_wiring._leaves):
            if id(part) not in leaves:
                leaves[id(part)] = list(original(part))
            return leaves[id(part)]

        patch.setattr(hw_wiring, "_leaves", known)
        # When the calls were recorded, shapes were compared and assignments made. What remains is the book-keeping.
        patch.setattr(hw_wiring, "_comparable", lambda shape: None)
        patch.setattr(hw_wiring, "Value", _Assignments)
        _repeat(component, calls)
        cases, unnoticed = list(_without_one(calls)), []
        for fewer in cases:
            try:
                with pytest.raises(WiringError, match=missing):
                    _repeat(component, fewer)
            except pytest.fail.Exception:
                unnoticed.append(next(one for one in calls if one not in fewer))
    return unnoticed, len(cases)


@pytest.mark.parametrize(("path", "name"), _classes())
def test_each_connection_that_is_left_out_is_refused(monkeypatch, path, name):
    package = path.parts[1]
    assert package in CONFIGS, f"CONFIGS lacks a configuration for {path}."
    component = getattr(importlib.import_module(".".join(path.with_suffix("").parts)), name)(CONFIGS[package])
    unnoticed, tried = _superfluous(monkeypatch, component)
    assert not unnoticed, f"{name} builds without {unnoticed}"
    assert tried > 5


class _Part(wiring.Component):
    i: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m


class _Unfinished(_Part):
    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(part=_Part())
        wires.connect("self.i", "part.i")
        wires.connect("part.o", "self.o")
        return m


def test_a_module_without_finish_is_found(monkeypatch):
    unnoticed, tried = _superfluous(monkeypatch, _Unfinished())
    assert len(unnoticed) == tried == 2


@pytest.mark.parametrize("left_out", REDUCED)
def test_what_may_be_left_out_leaves_no_input_undriven(left_out):
    connections.check(Fragment.get(AceEngine(replace(ace_config.TINY, **REDUCED[left_out])), None))
