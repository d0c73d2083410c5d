# SPDX-License-Identifier: Apache-2.0
"""Signals inside a block, for the invariants of proofs by induction."""

from amaranth.hdl import Signal, Value
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._xfrm import TransformedElaboratable
from amaranth.lib import wiring

__all__ = ["elaborated", "internal", "opened", "row_of"]


def internal(parts, name):
    """The signal ``name`` that the module ``parts`` drives.

    Parameters
    ----------
    parts : :class:`Module`
        From ``elaborate()`` of the block; add it to the wrapper in place of the block.
    name : str

    Raises
    ------
    LookupError
        If no signal, or several that are no ports of submodules, have this name.
    """
    found = [signal for signal in parts._driving if isinstance(signal, Signal) and signal.name == name]
    if len(found) > 1:
        ports = SignalSet(signal for component, _ in parts._named_submodules.values()
                          for signal in _port_signals(component))
        found = [signal for signal in found if signal not in ports]
    if len(found) != 1:
        names = sorted(signal.name for signal in parts._driving)
        raise LookupError(f"{len(found)} signals are named {name!r}, of {names}")
    return found[0]


def _port_signals(component):
    if isinstance(component, TransformedElaboratable):
        component = component._elaboratable_
    if isinstance(component, wiring.Component):
        for _, _, value in component.signature.flatten(component):
            yield from Value.cast(value)._lhs_signals()


def elaborated(component):
    """The module of ``component``, to be added to a wrapper in its place."""
    component._MustUse__used = True
    return component.elaborate(None)


def opened(parts, name):
    """Elaborate the submodule ``name`` of the module ``parts`` in its place, and return its module."""
    component, location = parts._named_submodules[name]
    if isinstance(component, TransformedElaboratable):
        component._MustUse__used = True
        module = elaborated(component._elaboratable_)
        replaced = TransformedElaboratable(module)
        replaced._transforms_ = component._transforms_
    else:
        replaced = module = elaborated(component)
    parts._named_submodules[name] = (replaced, location)
    return module


def row_of(m, memory, number):
    """Contents of a row of ``memory``, which is not elaborated yet; ``number`` is a Value or int."""
    port = memory.read_port(domain="comb")
    m.d.comb += port.addr.eq(number)
    return port.data
