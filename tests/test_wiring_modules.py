# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Wiring modules contain no logic, and each of their connections is needed."""

import ast
import copy
import gc
import importlib
from functools import cache
from pathlib import Path

import pytest
from amaranth.lib import wiring

from hw.common.wiring import WiringError
from hw.dma_engine import config as dma_config

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

ROOT = Path(__file__).parents[1]
LONGEST_ENGINE = 150
CONFIGS = {"hw.dma_engine": dma_config.TINY}
"""Package -> the configuration that its wiring modules are built with."""
CONNECTIONS = ("connect", "broadcast", "leave_open", "tie_off")


def _uses_wiring(tree):
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Wiring"
               for node in ast.walk(tree))


@cache
def _wiring_modules():
    """Name -> (path, syntax tree) of each module that creates a ``Wiring``."""
    found = {}
    for path in sorted((ROOT / "hw").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if _uses_wiring(tree):
            found[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path, tree
    return found


def _logic(tree):
    """Line numbers of assignments and other statements of a hardware module."""
    return sorted({node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and (
        node.attr == "eq" or (isinstance(node.value, ast.Name) and node.value.id == "m"))})


def test_finds_assignments():
    """The rule below detects the statements that it forbids."""
    assert _logic(ast.parse("m.d.comb += a.b.eq(c)\nwires.connect('a', 'b')\nwith m.If(d):\n    e.eq(f)")) == [1, 3, 4]


@pytest.mark.parametrize("name", list(_wiring_modules()))
def test_only_connects(name):
    path, tree = _wiring_modules()[name]
    assert not _logic(tree), f"{path}: a module that connects has no logic"


@pytest.mark.parametrize("path", [path for path, _ in _wiring_modules().values() if path.name == "engine.py"], ids=str)
def test_engine_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_ENGINE


def test_engines_are_wiring_modules():
    assert "hw.dma_engine.engine" in _wiring_modules()


def _without_one_connection(function):
    """Copies of a function, each without one connection or one sink of a broadcast, with the missing connection."""
    def calls(tree):
        return [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute) and node.value.func.attr in CONNECTIONS]

    for number, call in enumerate(calls(function)):
        changed = copy.deepcopy(function)
        calls(changed)[number].value = ast.Constant(None)
        yield f"line {call.lineno}: {ast.unparse(call)}", changed
        if call.value.func.attr == "broadcast":
            for index in range(1, len(call.value.args)):
                changed = copy.deepcopy(function)
                sink = calls(changed)[number].value.args.pop(index)
                yield f"line {call.lineno}: {ast.unparse(sink)}", changed


def _wiring_classes():
    """Class definitions with their module and configuration."""
    for name, (_, tree) in _wiring_modules().items():
        config = next((config for package, config in CONFIGS.items() if name.startswith(f"{package}.")), None)
        if config is not None:
            yield from (pytest.param(name, node, config, id=node.name) for node in tree.body
                        if isinstance(node, ast.ClassDef) and _uses_wiring(node))


def _made_once(cls):
    """Function that replaces the class of a part and creates one instance per set of arguments, for all modules."""
    made = {}

    def make(*arguments, **options):
        key = repr((arguments, options))
        if key not in made:
            made[key] = cls(*arguments, **options)
        return made[key]

    return make


def _superfluous(name, definition, config):
    """Connections without which the module builds."""
    module = importlib.import_module(name)
    component = getattr(module, definition.name)
    elaborate, = (node for node in definition.body
                  if isinstance(node, ast.FunctionDef) and node.name == "elaborate")
    names = {name: _made_once(value) if isinstance(value, type) and issubclass(value, wiring.Component) else value
             for name, value in vars(module).items()}
    owner = component(config)

    def build(function):
        scope, tree = {}, ast.fix_missing_locations(ast.Module([function], []))
        exec(compile(tree, module.__file__, "exec"), names, scope)
        scope["elaborate"](owner, None)

    build(elaborate)
    for missing, changed in _without_one_connection(elaborate):
        try:
            build(changed)
        except WiringError:
            continue
        yield missing


@pytest.mark.parametrize(("name", "definition", "config"), list(_wiring_classes()))
def test_every_connection_is_needed(name, definition, config):
    """A module without any one of its connections is refused."""
    built = list(_superfluous(name, definition, config))
    gc.collect()        # collect the parts, which are never elaborated, while their warnings are ignored
    assert not built, f"{definition.name} builds without {built}"
