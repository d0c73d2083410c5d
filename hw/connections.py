# SPDX-License-Identifier: Apache-2.0
"""Find ports without a driver, and interfaces without a reader.

In Amaranth, an input or output that is never assigned silently keeps its initial value, and an unread output is
dropped. :func:`check` searches an elaborated design and refuses both, however its modules are connected.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Cat, Fragment, Instance, Value
from amaranth.hdl._ast import Assign, Concat, Operator, Part, Signal, SignalDict, SignalSet, Slice, SwitchValue
from amaranth.hdl._ir import IOBufferInstance
from amaranth.hdl._mem import MemoryInstance
from amaranth.hdl._xfrm import DomainCollector
from amaranth.lib import wiring

__all__ = ["UndrivenInput", "UndrivenOutput", "UnreadInterface", "check"]

_Path = tuple[str | int, ...]


class UndrivenInput(Exception):
    """An input of a submodule is neither driven nor tied off."""


class UndrivenOutput(Exception):
    """A component declares an output and never drives it."""


class UnreadInterface(Exception):
    """An interface of a submodule has outputs only, and none of them is read."""


def check(fragment: Fragment) -> None:
    """Refuse ports without a driver and interfaces without a reader; the message names them.

    A port that keeps its initial value on purpose is assigned it: ``part.unused.eq(part.unused.init)``, or
    :meth:`hw.common.wiring.Wiring.tie_off`. An interface with inputs needs no reader: if it is left unconnected, its
    inputs have no driver. A single port, such as the level of a queue, needs none either.

    Parameters
    ----------
    fragment : Fragment
        Elaborated, as :meth:`Fragment.get` returns it.

    Raises
    ------
    UndrivenInput
        If inputs of submodules have no driver.
    UndrivenOutput
        If outputs of components, submodules or the top, have no driver.
    UnreadInterface
        If an interface of a submodule has outputs only, and none of them is read outside the submodule.
    """
    design = _Design(fragment)
    inputs, outputs, unread = [], [], []
    for path, part, component in design.components:
        for member_path, member, value in component.signature.flatten(component):
            if not design.is_driven(value):
                if member.flow is wiring.Out:
                    outputs.append((*path, *member_path))
                elif path:
                    inputs.append((*path, *member_path))
        if path:
            unread += [(*path, *name) for name, ports in _interfaces(component)
                       if not any(design.is_read(value, part) for value in ports)]
    for found, error, sentence in ((inputs, UndrivenInput, "Inputs without a driver"),
                                   (outputs, UndrivenOutput, "Outputs without a driver"),
                                   (unread, UnreadInterface, "Interfaces without a reader")):
        if found:
            raise error(f"{sentence}: {', '.join(sorted('.'.join(map(str, path)) for path in found))}.")


def _interfaces(component: wiring.Component) -> Iterator[tuple[_Path, list[Any]]]:
    """Innermost interfaces that have outputs only, with their ports."""
    interfaces: dict[_Path, list[tuple[wiring.Member, Any]]] = {}
    for path, member, value in component.signature.flatten(component):
        while path and isinstance(path[-1], int):       # an element of an array of ports
            path = path[:-1]
        interfaces.setdefault(path[:-1], []).append((member, value))
    for path, ports in interfaces.items():
        if path and all(member.flow is wiring.Out for member, value in ports if len(Value.cast(value))):
            yield path, [value for _, value in ports]


class _Design:
    """The components of a design, and the drivers and readers of its signals."""

    def __init__(self, fragment: Fragment) -> None:
        self.components: list[tuple[_Path, range, wiring.Component]] = []
        self._driven, self._readers, self._count = SignalSet(), SignalDict(), 0
        self._visit(fragment, ())

    def is_driven(self, port: Any) -> bool:
        """Whether a port has a driver, or no bits."""
        value = Value.cast(port)
        return not len(value) or any(signal in self._driven for signal in value._lhs_signals())

    def is_read(self, port: Any, part: range) -> bool:
        """Whether a port is read outside of a part of the design."""
        return any(number not in part for signal in Value.cast(port)._lhs_signals()
                   for number in self._readers.get(signal, ()))

    def _visit(self, fragment: Fragment, path: _Path) -> None:
        number = self._count
        self._count += 1
        reads = _Reads()
        for statements in fragment.statements.values():
            reads.on_statement(statements)
            for statement in statements:
                self._driven.update(statement._lhs_signals())
        if isinstance(fragment, MemoryInstance):
            for read in fragment._read_ports:
                self._driven.update(read._data._lhs_signals())
                reads.on_value(Cat(read._addr, read._en))
            for write in fragment._write_ports:
                reads.on_value(Cat(write._addr, write._en, write._data))
        elif isinstance(fragment, Instance):
            for value, direction in fragment.ports.values():
                if isinstance(value, Value):
                    if direction != "i":
                        self._driven.update(value._lhs_signals())
                    if direction != "o":
                        reads.on_value(value)
        elif isinstance(fragment, IOBufferInstance):
            if fragment.i is not None:
                self._driven.update(fragment.i._lhs_signals())
            if fragment.o is not None:
                reads.on_value(fragment.o)
                reads.on_value(fragment.oe)
        for signal in reads.signals:
            self._readers.setdefault(signal, []).append(number)
        for index, (inner, name, _) in enumerate(fragment.subfragments):
            self._visit(inner, (*path, name or f"U${index}"))
        self.components += [(path, range(number, self._count), origin) for origin in fragment.origins or ()
                            if isinstance(origin, wiring.Component)]


class _Reads(DomainCollector):
    """The signals that statements and values read, not those that they assign."""

    def __init__(self) -> None:
        super().__init__()      # type: ignore[no-untyped-call]     # Amaranth's
        self.signals = SignalSet()

    def on_Signal(self, value: Signal) -> None:
        self.signals.add(value)

    def on_Assign(self, stmt: Assign) -> None:
        self.on_value(stmt.rhs)
        self._target(stmt.lhs)

    def _target(self, value: Value) -> None:
        """The indexes in what is assigned."""
        if isinstance(value, Slice | Part):
            self._target(value.value)
            if isinstance(value, Part):
                self.on_value(value.offset)
        elif isinstance(value, SwitchValue):
            self.on_value(value.test)
            for _, case in value.cases:
                self._target(case)
        elif isinstance(value, Concat | Operator):
            for part in value.parts if isinstance(value, Concat) else value.operands:
                self._target(part)
