"""A queue that hands nothing on before it is committed, and forgets the rest.

Latency: that of :class:`Queue`, from ``commit`` on.  Throughput: 1 transfer per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .storage import check_ram, has_registered_read, in_front, make_storage, show_registered

__all__ = ["CommitQueue"]


class CommitQueue(wiring.Component):
    """Keep items that belong together, and offer them when it is known that they are good.

    Parameters
    ----------
    shape : shape-like
    depth : int
        Items held, committed or not; a power of two, at least 2.
    ram : ``"lut"``, ``"block"`` or ``None``
        As for :class:`Queue`.
    front : bool
        Registers behind block RAM, for deep logic behind them: a cycle more.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while fewer than ``depth`` items are held.
    first : ``In(1)``
        The item on ``i`` is the first one after those that were committed: others are forgotten.
    commit : ``In(1)``
        All items up to the one on ``i``, which is accepted in this cycle, will be offered.
    o : ``Out(stream.Signature(shape))``
    empty : ``Out(1)``
        Nothing committed is left. From registers.

    Raises
    ------
    ValueError
        If ``depth`` is no power of two, or less than 2, or ``ram`` is no kind of memory.
    """

    def __init__(self, shape: ShapeLike, *, depth: int, ram: str | None = None, front: bool = False) -> None:
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise ValueError(f"CommitQueue depth must be a power of two of at least 2, not {depth!r}")
        check_ram("CommitQueue", ram)
        self.shape, self.depth, self.ram = shape, depth, ram
        self.front = front and has_registered_read(depth, ram)
        super().__init__({
            "i": In(stream.Signature(shape)), "first": In(1), "commit": In(1), "o": Out(stream.Signature(shape)),
            "empty": Out(1),
        })

    @property
    def latency(self) -> int:
        """Cycles from ``commit`` to the first cycle of an item on ``o`` of an empty queue."""
        return 1 + has_registered_read(self.depth, self.ram) + self.front

    def elaborate(self, platform):
        m = Module()
        registered = has_registered_read(self.depth, self.ram)
        m.submodules.storage = storage = make_storage(self.shape, self.depth, self.ram)
        # Modulo twice the depth: behind the last item, behind the last committed one, the one to be taken.
        written, good, taken = (Signal(range(2 * self.depth), name=name) for name in ("written", "good", "taken"))
        row = Signal.like(written)
        push, pop = Signal(), Signal()
        w_port = storage.write_port()
        m.d.comb += [
            row.eq(Mux(self.first, good, written)),
            self.i.ready.eq((row ^ taken) != self.depth),
            push.eq(self.i.valid & self.i.ready), pop.eq(self.o.valid & self.o.ready),
            w_port.addr.eq(row[:-1]), w_port.data.eq(self.i.payload), w_port.en.eq(push),
            self.empty.eq(good == taken),
        ]
        m.d.sync += taken.eq(taken + pop)
        with m.If(push):
            m.d.sync += written.eq(row + 1)
        with m.If(push & self.commit):
            m.d.sync += good.eq(row + 1)
        if not registered:
            r_port = storage.read_port(domain="comb")
            m.d.comb += [r_port.addr.eq(taken[:-1]), self.o.payload.eq(r_port.data), self.o.valid.eq(good != taken)]
            return m
        reading = Signal.like(written)
        shown = in_front(m, wiring.flipped(self.o), forget=0) if self.front else self.o
        load, _ = show_registered(m, storage, shown, reading, reading != good)
        m.d.sync += reading.eq(reading + load)
        return m
