# SPDX-License-Identifier: Apache-2.0
"""Levels from one clock domain to another.

Any logic of ``i_domain`` -> LevelCrossing -> any logic of ``o_domain``.  Latency: 1 cycle of ``i_domain``, then
``stages`` to ``stages + 1`` of ``o_domain``.  Throughput: a level must last longer than a cycle of ``o_domain`` to be
seen.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

__all__ = ["LevelCrossing"]

STAGES = (2, 3)
"""Numbers of synchroniser stages; the third is for clocks far above 250 MHz."""


class LevelCrossing(wiring.Component):
    """Register levels in their own clock domain, then synchronise each bit.

    Bits that change in the same cycle may arrive in different cycles: for values of several bits, use a gray code, or
    :class:`ValueCrossing`. No reset acts on the registers; those of the other domain show ``i`` at all times.

    Parameters
    ----------
    shape : shape-like
        Shape of the levels, all initially 0.
    i_domain, o_domain : str
        Clock domains.
    stages : int
        Flip-flops of the synchroniser, 2 or 3.

    Members
    -------
    i : ``In(shape)``
    o : ``Out(shape)``
        Registered.

    Raises
    ------
    ValueError
        If ``stages`` is out of its range.
    """

    def __init__(self, shape: ShapeLike, *, i_domain: str, o_domain: str, stages: int = 2) -> None:
        if stages not in STAGES:
            raise ValueError(f"Stages of a synchroniser must be 2 or 3, not {stages!r}")
        self.i_domain, self.o_domain, self.stages = i_domain, o_domain, stages
        self.width = Shape.cast(shape).width
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        # Nothing but this register drives the synchroniser: no glitch, and a name for constraints.
        source = Signal(self.width, reset_less=True, attrs={"DONT_TOUCH": "TRUE", "keep": 1})
        m.d[self.i_domain] += source.eq(Value.cast(self.i))
        for stage in range(self.stages):
            register = Signal(self.width, name=f"stage{stage}", reset_less=True, attrs={"ASYNC_REG": "TRUE", "keep": 1})
            m.d[self.o_domain] += register.eq(source)
            source = register
        m.d.comb += Value.cast(self.o).eq(source)
        return m
