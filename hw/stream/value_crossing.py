# SPDX-License-Identifier: Apache-2.0
"""A value of several bits, always consistent, from one clock domain to another.

Any logic of ``i_domain`` -> ValueCrossing -> any logic of ``o_domain``.  Latency: that of :class:`AsyncQueue`, a
further cycle of ``o_domain``, and one for each sample ahead, at most ``DEPTH``.  Throughput: samples as fast as the
queue of ``DEPTH`` rows takes them.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .async_queue import AsyncQueue

__all__ = ["ValueCrossing"]

DEPTH = 4


class ValueCrossing(wiring.Component):
    """Send samples of ``i`` all the time; ``o`` shows the newest one that has arrived.

    Parameters
    ----------
    shape : shape-like
        Shape of the value.
    i_domain, o_domain : str
        Clock domains.
    stages : int
        Flip-flops of each synchroniser, 2 or 3.

    Members
    -------
    i : ``In(shape)``
    o : ``Out(shape)``
        Registered; 0 after a reset of ``o_domain``, and unchanged after one of ``i_domain``, until a sample arrives.
    """

    def __init__(self, shape: ShapeLike, *, i_domain: str, o_domain: str, stages: int = 2) -> None:
        self.shape, self.i_domain, self.o_domain, self.stages = shape, i_domain, o_domain, stages
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.samples = samples = AsyncQueue(
            Shape.cast(self.shape).width, depth=DEPTH, write_domain=self.i_domain, read_domain=self.o_domain,
            stages=self.stages)
        value = Signal(Shape.cast(self.shape).width)
        m.d.comb += [
            samples.i.valid.eq(1), samples.i.payload.eq(Value.cast(self.i)), samples.o.ready.eq(1),
            Value.cast(self.o).eq(value),
        ]
        with m.If(samples.o.valid):
            m.d[self.o_domain] += value.eq(samples.o.payload)
        return m
