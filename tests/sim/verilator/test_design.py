# SPDX-License-Identifier: Apache-2.0
"""Verilog of a :class:`Design` is that of its component, and is emitted again when anything that counts changes."""

from dataclasses import dataclass

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from sim.verilator import design as module
from sim.verilator.design import Design, component_of, verilog_of


@dataclass(frozen=True)
class Width:
    bits: int


class Inverter(wiring.Component):
    def __init__(self, width, *, registered=False):
        self.registered = registered
        super().__init__({"i": In(width.bits), "o": Out(width.bits)})

    def elaborate(self, platform):
        m = Module()
        m.d["sync" if self.registered else "comb"] += self.o.eq(~self.i)
        return m


class Outer(wiring.Component):
    def __init__(self, inner):
        self.inner = inner
        super().__init__(inner.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = self.inner
        m.d.comb += [self.inner.i.eq(self.i), self.o.eq(self.inner.o)]
        return m


@pytest.fixture
def emitted(tmp_path, monkeypatch):
    """Components that were emitted, in an empty build directory."""
    monkeypatch.setenv("DMACE_BUILD_DIR", str(tmp_path))
    components, right = [], emit.verilog

    def verilog(component, **options):
        components.append(component)
        return right(component, **options)

    monkeypatch.setattr(emit, "verilog", verilog)
    return components


def test_emitted_once(emitted):
    text = verilog_of(Design(Outer, Design(Inverter, Width(4), registered=True)), name="top")
    again = verilog_of(Design(Outer, Design(Inverter, Width(4), registered=True)), name="top")
    assert len(emitted) == 1
    assert text == again == emit.verilog(Outer(Inverter(Width(4), registered=True)), name="top")


def test_everything_counts(emitted):
    for design, options in (
            (Design(Inverter, Width(4)), {"name": "top"}), (Design(Inverter, Width(5)), {"name": "top"}),
            (Design(Inverter, Width(4), registered=True), {"name": "top"}),
            (Design(Outer, Design(Inverter, Width(4))), {"name": "top"}),
            (Design(Inverter, Width(4)), {"name": "other"}),
            (Design(Inverter, Width(4)), {"name": "top", "assertions": False}),
            (Design(Inverter, Width(4)), {"name": "top", "waves": True})):
        before = len(emitted)
        verilog_of(design, **options)
        assert len(emitted) == before + 1


@pytest.mark.parametrize("package", ["hw", "sim", "tests"])
def test_changed_source(emitted, monkeypatch, package):
    """Sources of the hardware, of what wraps it, and of the package that defines the class."""
    sources = module._sources
    verilog_of(Design(Inverter, Width(4)), name="top")
    monkeypatch.setattr(module, "_sources", lambda name: "changed" if name == package else sources(name))
    verilog_of(Design(Inverter, Width(4)), name="top")
    assert len(emitted) == 2


def test_sources_are_read(tmp_path, monkeypatch):
    found = set()
    for content in ("a = 1\n", "a = 2\n"):
        package = tmp_path / f"dmace_design_test_{len(found)}"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "one.py").write_text(content)
        monkeypatch.syspath_prepend(tmp_path)
        found.add(module._sources(package.name))
    assert len(found) == 2


def test_component_is_emitted_every_time(emitted):
    for _ in range(2):
        verilog_of(Inverter(Width(4)), name="top")
    assert len(emitted) == 2
    inverter = Inverter(Width(4))
    assert component_of(inverter) is inverter


@dataclass
class Thawed:
    bits: int = 4


@pytest.mark.parametrize("argument", [Thawed(), [1], object()])
def test_wrong_arguments(argument):
    with pytest.raises(TypeError, match=r"^Arguments of a Design must be frozen dataclasses or plain values, not "):
        Design(Inverter, argument)
