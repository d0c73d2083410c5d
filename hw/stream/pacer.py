# SPDX-License-Identifier: Apache-2.0
"""A rate limit for a stream: a token bucket.

Latency: 0 cycles while the limit is kept.  Throughput: one item per cycle in a burst, else one per ``interval`` cycles.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

__all__ = ["Pacer"]


class Pacer(wiring.Component):
    """Pass at most ``burst`` items and one more for every ``interval`` cycles, in any span of time.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    interval : int
        Cycles per item on average, 2 to 1024.
    burst : int
        Items that may pass in successive cycles after a break, 1 to 64.

    Members
    -------
    i : ``In(stream.Signature(shape))``, o : ``Out(stream.Signature(shape))``
        ``valid`` and ``ready`` pass through one gate with a register; the payload is not changed.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    def __init__(self, shape: ShapeLike, *, interval: int, burst: int) -> None:
        for name, value, low, high in (("interval", interval, 2, 1024), ("burst", burst, 1, 64)):
            if not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} of a Pacer must be an integer from {low} to {high}, not {value!r}")
        self.shape, self.interval, self.burst = shape, interval, burst
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        most = self.interval * self.burst
        tokens, following, free = Signal(range(most + 1), init=most), Signal(range(most + 1)), Signal(init=1)
        m.d.comb += [
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & free), self.i.ready.eq(self.o.ready & free),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.comb += following.eq(tokens - (self.interval - 1))
        with m.Else():
            m.d.comb += following.eq(tokens + (tokens != most))
        m.d.sync += [tokens.eq(following), free.eq(following >= self.interval)]
        return m
