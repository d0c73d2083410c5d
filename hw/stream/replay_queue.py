# SPDX-License-Identifier: Apache-2.0
"""A queue that keeps items after they were taken, until they are released, and can replay them.

Latency and throughput: those of :class:`Queue`; the latency from ``rewind`` to the first item is the same.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .storage import check_ram, has_registered_read, make_storage, registered_output, show_registered

__all__ = ["ReplayQueue"]


class ReplayQueue(wiring.Component):
    """Offer items in order, and keep those that were taken for a sender that may have to retransmit them.

    Parameters
    ----------
    shape : shape-like
    depth : int
        Items held, taken or not; a power of two, at least 2.
    ram : ``"lut"``, ``"block"`` or ``None``
        As for :class:`Queue`.
    output_register : bool
        Register the output of block RAM, for deep logic behind it: one cycle more.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while fewer than ``depth`` items are held.
    o : ``Out(stream.Signature(shape))``
    release : ``In(range(depth + 1))``
        Release this many of the oldest items, which were taken. Items that were taken before a ``rewind`` may be
        released before they are taken again; then ``rewind`` follows before any other is taken.
    rewind : ``In(1)``
        Offer from the oldest item on, beginning with the next cycle; nothing is taken or released in this one.
    clear : ``In(1)``
        Drop all items.
    level, fresh : ``Out(range(depth + 1))``
        Items held, and those of them that were never taken. Registered.

    Raises
    ------
    ValueError
        If ``depth`` is no power of two, or less than 2, or ``ram`` is no kind of memory.
    """

    def __init__(self, shape: ShapeLike, *, depth: int, ram: str | None = None, output_register: bool = False) -> None:
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise ValueError(f"ReplayQueue depth must be a power of two of at least 2, not {depth!r}")
        check_ram("ReplayQueue", ram)
        self.shape, self.depth, self.ram = shape, depth, ram
        self.output_register = output_register and has_registered_read(depth, ram)
        super().__init__({
            "i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
            "release": In(range(depth + 1)), "rewind": In(1), "clear": In(1),
            "level": Out(range(depth + 1)), "fresh": Out(range(depth + 1)),
        })

    @property
    def latency(self) -> int:
        """Cycles from the transfer on ``i`` to the item's first cycle on ``o`` of an empty queue."""
        return 1 + has_registered_read(self.depth, self.ram) + self.output_register

    def elaborate(self, platform):
        m = Module()
        registered = has_registered_read(self.depth, self.ram)
        m.submodules.storage = storage = make_storage(self.shape, self.depth, self.ram)
        # Pointers modulo twice the depth: to be written, to be taken next, the oldest.
        written, taken, oldest = (Signal(range(2 * self.depth), name=name) for name in ("written", "taken", "oldest"))
        push, pop, full, known = Signal(), Signal(), Signal(), Signal()
        w_port = storage.write_port()
        m.d.comb += [
            full.eq(self.level == self.depth), self.i.ready.eq(~full),
            push.eq(self.i.valid & ~full), pop.eq(self.o.valid & self.o.ready),
            known.eq(self.fresh != (written - taken)[:len(self.fresh)]),
            w_port.addr.eq(written[:-1]), w_port.data.eq(self.i.payload), w_port.en.eq(push),
        ]
        # ``pop`` arrives late: it only selects between two sums.
        m.d.sync += [
            written.eq(written + push), taken.eq(Mux(pop, taken + 1, taken)), oldest.eq(oldest + self.release),
            self.level.eq(self.level + push - self.release),
            self.fresh.eq(Mux(pop & ~known, self.fresh - 1 + push, self.fresh + push)),
        ]
        if registered:
            self._read_registered(m, storage, written, oldest)
        else:
            r_port = storage.read_port(domain="comb")
            # Compared bit by bit: the difference computed above would add its carry chain.
            m.d.comb += [r_port.addr.eq(taken[:-1]), self.o.payload.eq(r_port.data),
                         self.o.valid.eq((taken ^ written).any())]
        with m.If(self.rewind):
            m.d.sync += taken.eq(oldest)
        with m.If(self.clear):
            m.d.sync += [written.eq(0), taken.eq(0), oldest.eq(0), self.level.eq(0), self.fresh.eq(0)]
        return m

    def _read_registered(self, m, storage, written, oldest):
        """Move the next item to the memory's read register as soon as that is free."""
        reading = Signal.like(written)
        shown = self.o
        if self.output_register:
            shown = registered_output(m, wiring.flipped(self.o), clear=self.rewind | self.clear)
        load, loaded = show_registered(m, storage, shown, reading, reading != written)
        m.d.sync += reading.eq(reading + load)
        with m.If(self.rewind):
            m.d.sync += [reading.eq(oldest), loaded.eq(0)]
        with m.If(self.clear):
            m.d.sync += [reading.eq(0), loaded.eq(0)]
