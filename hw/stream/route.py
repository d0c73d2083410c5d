# SPDX-License-Identifier: Apache-2.0
"""Fork, join, merge and demultiplex streams.

Latency: 0, all of these are combinational from ``i`` to ``o`` and back; put a :class:`Skid` where a
path would be too long.  Throughput: 1 transfer per cycle.
"""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.arbiter import RoundRobin
from hw.stream.onehot import selected
from hw.stream.shapes import ShapeLike

__all__ = ["Demux", "Fork", "Join", "Merge"]


class Fork(wiring.Component):
    """Send every item to each of ``n`` outputs once; they may accept it in different cycles.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    n : int
        Number of outputs, at least 1.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts in the cycle in which the last output accepts. ``i.ready`` does not wait for ``i.valid``.
    o : ``Out(stream.Signature(shape)).array(n)``
        Each offers the item until it has accepted it.

    Raises
    ------
    ValueError
        If ``n`` is not a positive integer.
    """

    def __init__(self, shape: ShapeLike, n: int) -> None:
        _check_number("Fork", "outputs", n)
        self.shape = shape
        self.n = n
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)).array(n),
        })

    def elaborate(self, platform):
        m = Module()

        done = Signal(self.n)
        taken = Signal(self.n)
        for index, o in enumerate(self.o):
            m.d.comb += [
                o.payload.eq(self.i.payload),
                o.valid.eq(self.i.valid & ~done[index]),
                taken[index].eq(done[index] | o.ready),
            ]
        m.d.comb += self.i.ready.eq(taken.all())

        # Outputs that have accepted the item, until all have.
        with m.If(self.i.valid):
            m.d.sync += done.eq(Mux(taken.all(), 0, taken))

        return m


class Join(wiring.Component):
    """Wait for one item from each input, and pass them on as one.

    Parameters
    ----------
    shapes : mapping of str to shape-like
        Payload shape of each input, by name.

    Members
    -------
    i_<name> : ``In(stream.Signature(shapes[name]))``
        One input for each name. Accepts in the cycle in which ``o`` is accepted; ``ready`` depends on
        the ``valid`` of all inputs.
    o : ``Out(stream.Signature(data.StructLayout(shapes)))``
        One field for each name. Valid while all inputs are.

    Raises
    ------
    ValueError
        If ``shapes`` is not a mapping, or empty.
    """

    def __init__(self, shapes: Mapping[str, ShapeLike]) -> None:
        if not isinstance(shapes, Mapping) or not shapes:
            raise ValueError(f"Join shapes must be a mapping of at least one name to a shape, not {shapes!r}")
        self.shapes = dict(shapes)
        self.shape = data.StructLayout(self.shapes)
        super().__init__({
            **{f"i_{name}": In(stream.Signature(shape)) for name, shape in self.shapes.items()},
            "o": Out(stream.Signature(self.shape)),
        })

    def elaborate(self, platform):
        m = Module()

        inputs = {name: getattr(self, f"i_{name}") for name in self.shapes}
        m.d.comb += self.o.valid.eq(Cat(i.valid for i in inputs.values()).all())
        for name, i in inputs.items():
            m.d.comb += [
                self.o.payload[name].eq(i.payload),
                i.ready.eq(self.o.valid & self.o.ready),
            ]

        return m


class Merge(wiring.Component):
    """Merge the items of ``n`` inputs, round robin.

    The choice is a :class:`RoundRobin`'s and holds while the output is stalled.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    n : int
        Number of inputs, at least 1.
    registered_choice : bool
        Register the choice, to shorten the paths from inputs to output. It is made while the item before leaves, or
        while there is none: an item that comes alone, from another input than the last, waits for one cycle.

    Members
    -------
    i : ``In(stream.Signature(shape)).array(n)``
        An input that is kept waiting is served after at most one item of each other input.
    o : ``Out(stream.Signature(shape))``
        The item of the chosen input.
    source : ``Out(range(n))``
        Number of the input that the item on ``o`` comes from; stable like a payload.

    Raises
    ------
    ValueError
        If ``n`` is not a positive integer.
    """

    def __init__(self, shape: ShapeLike, n: int, *, registered_choice: bool = False) -> None:
        _check_number("Merge", "inputs", n)
        self.shape = shape
        self.n = n
        self.registered_choice = registered_choice
        super().__init__({
            "i": In(stream.Signature(shape)).array(n),
            "o": Out(stream.Signature(shape)),
            "source": Out(range(n)),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.arbiter = arbiter = RoundRobin(self.n)
        some = Signal(self.n)
        m.d.comb += some.eq(Cat(i.valid for i in self.i))
        choice = self._registered(m, arbiter, some) if self.registered_choice else self._direct(m, arbiter, some)

        # The chosen input's item: the others are masked out.
        for i, granted in zip(self.i, choice, strict=True):
            m.d.comb += i.ready.eq(granted & self.o.ready)
        m.d.comb += self.o.payload.eq(selected(self.shape, choice, [i.payload for i in self.i]))

        return m

    def _direct(self, m, arbiter, some):
        # While an offered item is stalled, its input is the only one that the arbiter sees.
        open_to = Signal(self.n, init=-1)
        m.d.comb += [
            arbiter.requests.eq(some & open_to),
            arbiter.advance.eq(self.o.ready),
            self.source.eq(arbiter.grant),
            self.o.valid.eq(arbiter.valid),
        ]
        m.d.sync += open_to.eq(Mux(self.o.valid & ~self.o.ready, arbiter.grant_onehot, -1))
        return arbiter.grant_onehot

    def _registered(self, m, arbiter, some):
        choice = Signal(self.n, init=1)
        m.d.comb += [
            arbiter.requests.eq(some & ~choice),
            arbiter.advance.eq(self.o.ready | ~self.o.valid),
            self.o.valid.eq((some & choice).any()),
        ]
        with m.If(arbiter.advance & arbiter.valid):
            m.d.sync += [choice.eq(arbiter.grant_onehot), self.source.eq(arbiter.grant)]
        return choice


class Demux(wiring.Component):
    """Pass each item to the one of ``n`` outputs that it names.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    n : int
        Number of outputs, at least 1.
    select : callable
        Takes the payload, gives the number of the output as a value. Numbers of ``n`` and above go to
        the last output, so that no item is lost or stuck.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts when the named output does; ``ready`` depends on the payload.
    o : ``Out(stream.Signature(shape)).array(n)``
        Items for each.

    Raises
    ------
    ValueError
        If ``n`` is not a positive integer.
    """

    def __init__(self, shape: ShapeLike, n: int, *, select: Callable[[Any], Value]) -> None:
        _check_number("Demux", "outputs", n)
        if not callable(select):
            raise ValueError(f"Demux select must be a function of the payload, not {select!r}")
        self.shape = shape
        self.n = n
        self.select = select
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)).array(n),
        })

    def elaborate(self, platform):
        m = Module()

        number = Value.cast(self.select(self.i.payload))
        for index, o in enumerate(self.o):
            named = Signal(name=f"named_{index}")
            m.d.comb += [
                named.eq(number == index if index < self.n - 1 else number >= index),
                o.payload.eq(self.i.payload),
                o.valid.eq(self.i.valid & named),
            ]
            with m.If(named):
                m.d.comb += self.i.ready.eq(o.ready)

        return m


def _check_number(block: str, ends: str, n: int) -> None:
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"{block} number of {ends} must be a positive integer, not {n!r}")
