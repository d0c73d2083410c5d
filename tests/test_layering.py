# SPDX-License-Identifier: Apache-2.0
"""Rules of imports between packages, checked in the source; conditional imports count, too."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Folder -> packages of this project that it may import.
_CORE = {"hw.axi", "hw.common", "hw.regs", "hw.stream"}
_HARDWARE = {*_CORE, "hw", "hw.ace", "hw.dma_engine", "hw.card", "hw.endpoint", "hw.pcie", "hw.rdma",
             "hw.triggers"}
LAYERS = {
    "hw.stream": set(),
    "hw.axi": {"hw.stream"},
    "hw.regs": {"hw.axi", "hw.stream"},
    "hw.common": {"hw.axi", "hw.stream"},
    "hw.dma_engine": _CORE,
    "hw.ace": _CORE,
    "hw.triggers": _CORE,
    "hw.rdma": _CORE,
    "hw.endpoint": {*_CORE, "hw.ace", "hw.dma_engine", "hw.rdma", "hw.triggers"},
    "hw.pcie": _CORE,
    "hw.card": {*_CORE, "hw.ace", "hw.dma_engine", "hw.endpoint", "hw.pcie", "hw.rdma",
             "hw.triggers"},
    "hw": _HARDWARE,
    "dmace": {*_HARDWARE, "sim.verilator"},
    "sim.verilator": {"hw"},
    "sim.cpp": {*_HARDWARE, "sim", "sim.dma", "sim.verilator"},
    "sim": {*_HARDWARE, "sim.cpp", "sim.dma", "sim.verilator"},
    "sim.four_state": {*_HARDWARE, "dmace", "sim.linux", "sim.verilator"},
    "sim.dma": {*_HARDWARE, "dmace", "sim", "sim.cpp", "sim.verilator"},
    "sim.ace": {*_HARDWARE, "dmace", "sim", "sim.cpp", "sim.verilator"},
    "sim.endpoint": {*_HARDWARE, "dmace", "sim", "sim.ace", "sim.cpp", "sim.rdma", "sim.verilator"},
    "sim.cluster_server": {*_HARDWARE, "dmace", "sim", "sim.ace", "sim.endpoint"},
    "sim.fused": {*_HARDWARE, "dmace", "sim", "sim.ace", "sim.endpoint"},
    "sim.remote": {*_HARDWARE, "dmace", "sim", "sim.ace", "sim.endpoint", "sim.rdma", "sim.system"},
    "sim.pcie": {*_HARDWARE, "dmace", "sim", "sim.cpp", "sim.dma", "sim.verilator"},
    "sim.linux": {*_HARDWARE, "dmace", "sim", "sim.verilator", "sim.vfio"},
    "sim.vfio": {*_HARDWARE, "sim", "sim.ace", "sim.cpp", "sim.pcie", "sim.verilator"},
    "sim.rdma": {*_HARDWARE, "dmace", "sim", "sim.cpp", "sim.linux", "sim.verilator"},
    "sim.triggers": {*_HARDWARE, "sim.cpp", "sim.verilator"},
    "sim.system": _HARDWARE,
    "sim.validation": {*_HARDWARE, "dmace", "sim", "sim.ace", "sim.system"},
    "sim.cache": {*_HARDWARE, "sim.cpp", "sim.dma", "sim.verilator"},
    "sim.cli": {*_HARDWARE, "dmace", "sim", "sim.ace", "sim.cache", "sim.cluster_server", "sim.cpp", "sim.dma",
                "sim.endpoint", "sim.fused", "sim.pcie", "sim.rdma", "sim.remote", "sim.system", "sim.triggers",
                "sim.validation", "sim.verilator", "sim.vfio"},
    "fpga": {*_HARDWARE, "dmace", "sim", "sim.verilator"},
}

# Modules that software and hardware share, and the modules that they may import: no gateware, so that a driver needs
# nothing else.
SHARED = {
    "hw.common.sizes": set(),
    "hw.common.timing": set(),
    "hw.common.words": {"hw.common.sizes"},
    "hw.common.c_header": {"hw.common.words"},
    "hw.dma_engine.timing": {"hw.common.timing"},
    "hw.dma_engine.config": {"hw.common.sizes", "hw.dma_engine.timing"},
    "hw.dma_engine.words": {"hw.common.sizes", "hw.common.words", "hw.dma_engine.config"},
    "hw.dma_engine.queue_settings": {"hw.common.sizes", "hw.dma_engine.config", "hw.dma_engine.words"},
    "hw.dma_engine.registers": {"hw.common.sizes", "hw.dma_engine.config", "hw.dma_engine.queue_settings",
                                "hw.dma_engine.words", "hw.regs"},
    "hw.dma_engine.header": {"hw.common.c_header", "hw.common.sizes", "hw.common.words", "hw.dma_engine.config",
                             "hw.dma_engine.descriptors", "hw.dma_engine.words", "hw.dma_engine.registers", "hw.regs"},
    "hw.dma_engine.descriptors": {"hw.common.sizes", "hw.common.words", "hw.dma_engine.config", "hw.dma_engine.words"},
    "hw.dma_engine.model": {"hw.common.sizes", "hw.common.words", "hw.dma_engine.config", "hw.dma_engine.descriptors",
                            "hw.dma_engine.queue_settings", "hw.dma_engine.words"},
    "hw.ace.collectives": set(),
    "hw.ace.timing": {"hw.common.timing"},
    "hw.ace.config": {"hw.ace.collectives", "hw.common.sizes", "hw.ace.timing"},
    "hw.ace.numerics.formats": {"hw.ace.config"},
    "hw.ace.words": {"hw.ace.collectives", "hw.ace.config", "hw.ace.numerics.formats", "hw.common.words"},
    "hw.ace.registers": {"hw.ace.collectives", "hw.ace.config", "hw.ace.words", "hw.common.sizes", "hw.regs"},
    "hw.ace.header": {"hw.ace.collectives", "hw.ace.config", "hw.ace.numerics.formats", "hw.ace.registers",
                      "hw.ace.words", "hw.common.c_header", "hw.common.words", "hw.regs"},
    "hw.ace.programs.program": {"hw.ace.config", "hw.ace.words"},
    "hw.ace.programs.one_shot": {"hw.ace.programs.program", "hw.ace.programs.ring", "hw.ace.words"},
    "hw.ace.programs.rank_order": {"hw.ace.collectives", "hw.ace.programs.program", "hw.ace.words"},
    "hw.ace.programs.ring": {"hw.ace.collectives", "hw.ace.config", "hw.ace.programs.program", "hw.ace.words"},
    "hw.ace.programs.schedule": {"hw.ace.collectives", "hw.ace.config", "hw.ace.programs.program",
                                 "hw.ace.programs.ring",
                                 "hw.ace.programs.one_shot", "hw.ace.programs.parts", "hw.ace.programs.rank_order",
                                 "hw.ace.words"},
    "hw.ace.programs.parts": {"hw.ace.programs.ring", "hw.ace.words"},
    "hw.ace.model": {"hw.ace.collectives", "hw.ace.config", "hw.ace.numerics.formats"},
    "hw.triggers.config": {"hw.common.sizes"},
    "hw.triggers.words": {"hw.common.words", "hw.triggers.config"},
    "hw.triggers.model": {"hw.common.sizes", "hw.common.words", "hw.triggers.config", "hw.triggers.words"},
    "hw.rdma.config": {"hw.common.sizes"},
    "hw.rdma.protocol": set(),
    "hw.rdma.fault": set(),
    "hw.rdma.registers": {"hw.common.sizes", "hw.rdma.config", "hw.rdma.protocol", "hw.regs"},
    "hw.endpoint.config": {"hw.ace.config", "hw.common.sizes", "hw.dma_engine.config", "hw.rdma.config",
                           "hw.triggers.config"},
    "hw.endpoint.registers": {"hw.ace.registers", "hw.dma_engine.registers", "hw.endpoint.config", "hw.rdma.registers",
                              "hw.regs", "hw.triggers.config"},
    "hw.endpoint.header": {"hw.common.c_header", "hw.common.sizes", "hw.dma_engine.words", "hw.endpoint.config",
                           "hw.endpoint.registers", "hw.regs", "hw.triggers.config", "hw.triggers.words"},
}
TOPS = ("dmace", "hw", "sim", "fpga")


@cache
def _modules():
    """Name -> path of every module of this project except tests."""
    modules = {}
    for path in sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def _imports(name, *, for_types=True):
    """Absolute names that a module imports, as modules if they belong to this project; ``for_types``: including those
    under ``if TYPE_CHECKING``."""
    path = _modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    never_run = {id(node) for block in ast.walk(tree) if _is_type_checking(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if not for_types and id(node) in never_run:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[:len(package.split(".")) - node.level + 1], *filter(None, [base])])
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in _modules() else base for alias in node.names}
    return frozenset(found)


def _is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _ours(name, *, for_types=True):
    return {used for used in _imports(name, for_types=for_types) if used.partition(".")[0] in (*TOPS, "tests")}


def _layer(name):
    return max((layer for layer in LAYERS if name == layer or name.startswith(f"{layer}.")), key=len)


def test_sees_what_is_imported():
    assert {"hw.dma_engine.config", "hw.dma_engine.engine"} <= _imports("hw.dma_engine")
    assert {"hw.axi", "amaranth", "hw.dma_engine.mover.mover"} <= _imports("hw.dma_engine.engine")
    assert {"hw.errors", "hw.dma_engine.registers"} <= _imports("hw.verilog_cli")
    assert "amaranth.back" in _imports("hw.emit")


def test_layers():
    wrong = [f"{name} imports {used}" for name in _modules() for used in sorted(_ours(name) - {"hw.errors"})
             if _layer(used) not in {_layer(name), *LAYERS[_layer(name)]}]
    assert not wrong


def test_nothing_imports_tests():
    for name in _modules():
        assert not {used for used in _imports(name) if used.partition(".")[0] in ("tests", "pytest", "conftest")}, name


def test_what_software_shares_has_no_gateware():
    wrong = []
    for name in _modules():
        shared = max((key for key in SHARED if name == key or name.startswith(f"{key}.")), key=len, default=None)
        if shared is not None:
            wrong += [f"{name} imports {used}" for used in sorted(_ours(name) - {*SHARED[shared], "hw.errors"})
                      if not f"{used}.".startswith(f"{shared}.")]
            # Registers are described with hw.regs, which can make gateware of them; of Amaranth itself, nothing.
            wrong += [f"{name} imports {used}" for used in _imports(name) if used.partition(".")[0] == "amaranth"]
    assert not wrong


def test_software_does_without_amaranth():
    modules = [f"hw.{name}" for name in (
        "dma_engine.config", "dma_engine.queue_settings", "dma_engine.words", "dma_engine.model",
        "ace.collectives", "ace.model", "ace.numerics.formats", "ace.programs.schedule")]
    code = f"import sys, {', '.join(modules)}; sys.exit('amaranth' in sys.modules)"
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
        # Modules of a package must not import the package's ``__init__``.
        for used in _ours(name, for_types=False):
            visit(used, [*path, name])
        done.add(name)

    for name in _modules():
        visit(name, [])
