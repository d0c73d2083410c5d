"""A queue that keeps what was taken until it is released, and can begin again with it.

Latency and throughput: those of :class:`Queue`; after ``rewind`` the first item is offered as late as it would be
behind an item that was put in in that cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .storage import check_ram, has_registered_read, in_front, make_storage, show_registered

__all__ = ["ReplayQueue"]


class ReplayQueue(wiring.Component):
    """Hand items on in order; keep those that were taken in the same memory, for a sender that may have to repeat them.

    Parameters
    ----------
    shape : shape-like
    depth : int
        Items held, taken or not; a power of two, at least 2.
    ram : ``"lut"``, ``"block"`` or ``None``
        As for :class:`Queue`.
    front : bool
        Registers behind block RAM, for deep logic behind them: a cycle more.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while fewer than ``depth`` items are held.
    o : ``Out(stream.Signature(shape))``
    release : ``In(range(depth + 1))``
        Forget the oldest so many, which were taken. Items that were taken before a ``rewind`` may be released though
        they have not been taken again; then ``rewind`` follows before any other is taken.
    rewind : ``In(1)``
        From the next cycle on, begin again with the oldest item; nothing is taken or released in this one.
    clear : ``In(1)``
        Forget everything.
    level, fresh : ``Out(range(depth + 1))``
        Items held, and those of them that were never taken. Registered.

    Raises
    ------
    ValueError
        If ``depth`` is no power of two, or less than 2, or ``ram`` is no kind of memory.
    """

    def __init__(self, shape: ShapeLike, *, depth: int, ram: str | None = None, front: bool = False) -> None:
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise ValueError(f"ReplayQueue depth must be a power of two of at least 2, not {depth!r}")
        check_ram("ReplayQueue", ram)
        self.shape, self.depth, self.ram = shape, depth, ram
        self.front = front and has_registered_read(depth, ram)
        super().__init__({
            "i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
            "release": In(range(depth + 1)), "rewind": In(1), "clear": In(1),
            "level": Out(range(depth + 1)), "fresh": Out(range(depth + 1)),
        })

    @property
    def latency(self) -> int:
        """Cycles from the transfer on ``i`` to the item's first cycle on ``o`` of an empty queue."""
        return 1 + has_registered_read(self.depth, self.ram) + self.front

    def elaborate(self, platform):
        m = Module()
        registered = has_registered_read(self.depth, self.ram)
        m.submodules.storage = storage = make_storage(self.shape, self.depth, self.ram)
        # Modulo twice the depth: rows to be written, to be taken next, and the oldest.
        written, taken, oldest = (Signal(range(2 * self.depth), name=name) for name in ("written", "taken", "oldest"))
        push, pop, full, known = Signal(), Signal(), Signal(), Signal()
        w_port = storage.write_port()
        m.d.comb += [
            full.eq(self.level == self.depth), self.i.ready.eq(~full),
            push.eq(self.i.valid & ~full), pop.eq(self.o.valid & self.o.ready),
            known.eq(self.fresh != (written - taken)[:len(self.fresh)]),
            w_port.addr.eq(written[:-1]), w_port.data.eq(self.i.payload), w_port.en.eq(push),
        ]
        # Both sums are ready before ``pop``, which comes late, chooses.
        m.d.sync += [
            written.eq(written + push), taken.eq(Mux(pop, taken + 1, taken)), oldest.eq(oldest + self.release),
            self.level.eq(self.level + push - self.release),
            self.fresh.eq(Mux(pop & ~known, self.fresh - 1 + push, self.fresh + push)),
        ]
        if registered:
            self._read_registered(m, storage, written, oldest)
        else:
            r_port = storage.read_port(domain="comb")
            # Not by the difference that there is already, whose carries would come late.
            m.d.comb += [r_port.addr.eq(taken[:-1]), self.o.payload.eq(r_port.data),
                         self.o.valid.eq((taken ^ written).any())]
        with m.If(self.rewind):
            m.d.sync += taken.eq(oldest)
        with m.If(self.clear):
            m.d.sync += [written.eq(0), taken.eq(0), oldest.eq(0), self.level.eq(0), self.fresh.eq(0)]
        return m

    def _read_registered(self, m, storage, written, oldest):
        """Move the next item to the memory's output register as soon as that is free."""
        reading = Signal.like(written)
        shown = in_front(m, wiring.flipped(self.o), forget=self.rewind | self.clear) if self.front else self.o
        load, loaded = show_registered(m, storage, shown, reading, reading != written)
        m.d.sync += reading.eq(reading + load)
        with m.If(self.rewind):
            m.d.sync += [reading.eq(oldest), loaded.eq(0)]
        with m.If(self.clear):
            m.d.sync += [reading.eq(0), loaded.eq(0)]
