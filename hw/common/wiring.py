# SPDX-License-Identifier: Apache-2.0
"""Connect submodules by named interfaces, and refuse to build if a port is left unconnected.

A missing assignment silently leaves an input at its initial value. :class:`Wiring` knows every port of every
part: each must be connected, tied off or left open, exactly once.
"""

import re

from amaranth.hdl import Module, Shape, ShapeCastable, Signal, Value
from amaranth.lib import wiring

__all__ = ["Wiring", "WiringError", "unused"]


class WiringError(Exception):
    """A port is unconnected or connected twice, does not exist, or does not fit its counterpart."""


def unused(m: Module, interface: wiring.PureInterface) -> None:
    """State in a module without :class:`Wiring` that the outputs of a part's interface are unused."""
    _read(m, dict(_leaves(interface)))


class Wiring:
    """The connections of a module that only connects: no logic, no assignment.

    A path names a part and, below it, an interface, an array of interfaces, one element of an array or a port:
    ``"scheduler.segments"``, ``"links"``, ``"self.tx[0]"``.

    Parameters
    ----------
    m : Module
        Receives parts as submodules, and connections.
    owner : wiring.Component
        The component that is being elaborated. Its own ports must be connected too, under the name ``self``.
    """

    def __init__(self, m: Module, owner: wiring.Component) -> None:
        self._m, self._owner = m, owner
        self._ports = {"self": dict(_leaves(owner))}
        self._used: dict[tuple[str | int, ...], str] = {}

    def add(self, **parts):
        """Add submodules under their names; return the only one, or a tuple in order."""
        for name, part in parts.items():
            if name in self._ports:
                raise WiringError(f"{type(self._owner).__name__} has two parts named {name}.")
            self._m.submodules[name] = part
            self._ports[name] = dict(_leaves(part))
        made = tuple(parts.values())
        return made[0] if len(made) == 1 else made

    def connect(self, first, second):
        """Connect two interfaces, arrays of interfaces or ports of equal shape and opposite direction."""
        ours, theirs = self._take(first), self._take(second)
        self._same(first, ours, second, theirs)
        for path, (member, value) in ours.items():
            other_member, other = theirs[path]
            if member.flow == other_member.flow:
                both = "an output" if member.flow is wiring.Out else "an input"
                raise WiringError(f"{first} and {second} cannot be connected in {self._name}: "
                                  f"{_at(path)} is {both} of both.")
            source, sink = (value, other) if member.flow is wiring.Out else (other, value)
            self._m.d.comb += Value.cast(sink).eq(Value.cast(source))

    def broadcast(self, source, *sinks):
        """Drive several interfaces of equal shape from one with outputs only, such as a table write."""
        ours = self._take(source)
        self._one_way(source, ours, wiring.Out)
        for sink in sinks:
            theirs = self._take(sink)
            self._same(source, ours, sink, theirs)
            self._one_way(sink, theirs, wiring.In)
            for path, (_, value) in ours.items():
                self._m.d.comb += Value.cast(theirs[path][1]).eq(Value.cast(value))

    def leave_open(self, path, why):
        """State that these outputs are unused, and why."""
        self._explained(path, why)
        ports = self._take(path)
        self._one_way(path, ports, wiring.Out)
        _read(self._m, ports)

    def tie_off(self, path, why):
        """State that these inputs keep their initial values, and why."""
        self._explained(path, why)
        ports = self._take(path)
        self._one_way(path, ports, wiring.In)
        self._hold(ports)

    def idle(self, path, why):
        """State that an interface is unused, and why: its inputs keep their initial values."""
        self._explained(path, why)
        ports = self._take(path)
        self._hold(ports)
        _read(self._m, ports)

    def _hold(self, ports):
        for member, value in ports.values():
            if member.flow is wiring.In:
                signal = Value.cast(value)
                self._m.d.comb += signal.eq(signal.init)

    def finish(self):
        """
        Raises
        ------
        WiringError
            If a port of a part, or of the module itself, is neither connected nor declared unused.
        """
        missing = set()
        for name, ports in self._ports.items():
            for path in ports:
                full = (name, *path)
                if not any(full[:length] in self._used for length in range(1, len(full) + 1)):
                    # An interface without any connection is listed once, by its own name.
                    length = next((length for length in range(2, len(full))
                                   if not any(used[:length] == full[:length] for used in self._used)), len(full))
                    missing.add(_text(full[:length]))
        if missing:
            raise WiringError(f"Not connected in {self._name}: {', '.join(sorted(missing))}.")

    @property
    def _name(self) -> str:
        return type(self._owner).__name__

    def _take(self, text):
        """Ports below a path: path below it -> (member, value), seen from inside the module."""
        full = _parse(text)
        found = {path[len(full) - 1:]: entry for path, entry in self._ports.get(full[0], {}).items()
                 if path[:len(full) - 1] == full[1:]}
        if not found or len(full) == 1:
            raise WiringError(f"There is no {text} in {self._name}.")
        for used, name in self._used.items():
            shorter = min(len(used), len(full))
            if used[:shorter] == full[:shorter]:
                raise WiringError(f"{text} is connected twice in {self._name}." if used == full else
                                  f"{text} is connected twice in {self._name}: {name} is connected too.")
        self._used[full] = text
        if full[0] == "self":
            found = {path: (member.flip(), value) for path, (member, value) in found.items()}
        return found

    def _same(self, first, ours, second, theirs):
        if ours.keys() != theirs.keys():
            odd = min(ours.keys() ^ theirs.keys(), key=_text)
            has, lacks = (first, second) if odd in ours else (second, first)
            raise WiringError(f"{first} and {second} cannot be connected in {self._name}: "
                              f"{has} has {_at(odd)}, which {lacks} lacks.")
        for path, (member, _) in ours.items():
            other = theirs[path][0]
            if _comparable(member.shape) != _comparable(other.shape):
                raise WiringError(f"{first} and {second} cannot be connected in {self._name}: {_at(path)} is "
                                  f"{member.shape!r} in the one and {other.shape!r} in the other.")

    def _one_way(self, path, ports, flow):
        for below, (member, _) in ports.items():
            if member.flow is not flow:
                what = ("an input, so it must be driven" if member.flow is wiring.In
                        else "an output, so it must be read by one")
                raise WiringError(f"In {path} of {self._name}, {_at(below)} is {what}.")

    def _explained(self, path, why):
        if not why:
            raise WiringError(f"{path} of {self._name} is left unconnected without a reason.")


def _read(m, ports):
    """Read outputs into unused signals, for :mod:`hw.connections`."""
    for member, value in ports.values():
        if member.flow is wiring.Out:
            signal = Value.cast(value)
            m.d.comb += Value.cast(Signal(signal.shape(), name="unused")).eq(signal)


def _leaves(part):
    """Path -> (member, value) of every port."""
    for path, member, value in part.signature.flatten(part):
        yield path, (member, value)


def _comparable(shape):
    """Shape in a form that compares equal for ``8`` and ``unsigned(8)``; layouts and enumerations stay unchanged."""
    return shape if isinstance(shape, ShapeCastable) else Shape.cast(shape)


def _parse(text):
    """``"a.b[0].c"`` as a tuple of names and numbers."""
    return tuple(int(step) if step.isdecimal() else step for step in re.split(r"[.\[\]]+", text) if step)


def _text(full):
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in full).removeprefix(".")


def _at(path):
    return _text(path) or "the port itself"
