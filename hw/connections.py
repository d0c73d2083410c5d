# SPDX-License-Identifier: Apache-2.0
"""Find inputs without a driver.

In Amaranth, an input that is never assigned silently keeps its initial value. :func:`check` searches an elaborated
design and refuses such inputs, however its modules are connected.
"""

from collections.abc import Iterator

from amaranth.hdl import Fragment, Instance, Value
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._ir import IOBufferInstance
from amaranth.hdl._mem import MemoryInstance
from amaranth.lib import wiring

__all__ = ["UndrivenInput", "check"]


class UndrivenInput(Exception):
    """An input of a submodule is neither driven nor said to be tied off."""


def check(fragment: Fragment) -> None:
    """Raise :class:`UndrivenInput`, which names them, if inputs of submodules have no driver.

    An input that keeps its initial value on purpose is assigned it: ``part.unused.eq(part.unused.init)``, or
    :meth:`hw.common.wiring.Wiring.tie_off`.

    Parameters
    ----------
    fragment : Fragment
        Elaborated, as :meth:`Fragment.get` returns it.
    """
    driven = SignalSet()
    _collect(fragment, driven)
    missing = sorted(_undriven(fragment, driven, ()))
    if missing:
        raise UndrivenInput(f"Inputs without a driver: {', '.join(missing)}.")


def _collect(fragment: Fragment, driven: SignalSet) -> None:
    """Add the names of all signals that are assigned, or are an output of a memory or a foreign cell."""
    for statements in fragment.statements.values():
        for statement in statements:
            driven.update(statement._lhs_signals())
    if isinstance(fragment, MemoryInstance):
        for port in fragment._read_ports:
            driven.update(port._data._lhs_signals())
    elif isinstance(fragment, Instance):
        for _, (value, direction) in {**fragment.ports}.items():
            if direction == "o" and isinstance(value, Value):
                driven.update(value._lhs_signals())
    elif isinstance(fragment, IOBufferInstance) and fragment.i is not None:
        driven.update(fragment.i._lhs_signals())
    for inner, _, _ in fragment.subfragments:
        _collect(inner, driven)


def _undriven(fragment: Fragment, driven: SignalSet, path: tuple[str, ...]) -> Iterator[str]:
    for index, (inner, name, _) in enumerate(fragment.subfragments):
        where = (*path, name or f"U${index}")
        for origin in inner.origins or ():
            if isinstance(origin, wiring.Component):
                for member_path, member, value in origin.signature.flatten(origin):
                    value = Value.cast(value)
                    if member.flow is wiring.Out or not len(value):
                        continue
                    if not any(signal in driven for signal in value._lhs_signals()):
                        yield ".".join(map(str, (*where, *member_path)))
        yield from _undriven(inner, driven, where)
