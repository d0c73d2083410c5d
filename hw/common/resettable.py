# SPDX-License-Identifier: Apache-2.0
"""A component with a reset input, beside the reset of its clock domain."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

__all__ = ["Resettable"]


class Resettable(wiring.Component):
    """Pass all ports of a component through, and reset it while ``reset`` is 1.

    Parameters
    ----------
    inner : wiring.Component

    Members
    -------
    reset : ``In(1)``
        Synchronous.
    """

    def __init__(self, inner: wiring.Component) -> None:
        self.inner = inner
        super().__init__({"reset": In(1), **dict(inner.signature.members.items())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = ResetInserter(self.reset)(self.inner)
        for name, member in self.inner.signature.members.items():
            ours, theirs = getattr(self, name), getattr(self.inner, name)
            if member.is_signature:
                for outer, inside in zip(_interfaces(ours), _interfaces(theirs), strict=True):
                    connect(m, inside, flipped(outer))
            elif member.flow is In:
                m.d.comb += theirs.eq(ours)
            else:
                m.d.comb += ours.eq(theirs)
        return m


def _interfaces(value):
    """The interfaces of an array, or the only one."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from _interfaces(element)
    else:
        yield value
