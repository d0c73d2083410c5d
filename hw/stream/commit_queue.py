# SPDX-License-Identifier: Apache-2.0
"""A queue whose items are offered once they are committed, or dropped.

Latency: that of :class:`Queue`, from ``commit`` on.  Throughput: 1 transfer per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .storage import check_ram, has_registered_read, make_storage, registered_output, show_registered

__all__ = ["CommitQueue"]


class CommitQueue(wiring.Component):
    """Hold the items of a group until its last one commits or drops them all.

    Parameters
    ----------
    shape : shape-like
    depth : int
        Items held, committed or not; a power of two, at least 2.
    ram : ``"lut"``, ``"block"`` or ``None``
        As for :class:`Queue`.
    output_register : bool
        Register the output of block RAM, for deep logic behind it: one cycle more.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while fewer than ``depth`` items are held.
    first : ``In(1)``
        The item on ``i`` begins a group: earlier ones that were not committed are dropped.
    commit : ``In(1)``
        Commit all items up to the one that is accepted in this cycle.
    o : ``Out(stream.Signature(shape))``
    empty : ``Out(1)``
        No committed item is left. From registers.

    Raises
    ------
    ValueError
        If ``depth`` is no power of two, or less than 2, or ``ram`` is no kind of memory.
    """

    def __init__(self, shape: ShapeLike, *, depth: int, ram: str | None = None, output_register: bool = False) -> None:
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise ValueError(f"CommitQueue depth must be a power of two of at least 2, not {depth!r}")
        check_ram("CommitQueue", ram)
        self.shape, self.depth, self.ram = shape, depth, ram
        self.output_register = output_register and has_registered_read(depth, ram)
        super().__init__({
            "i": In(stream.Signature(shape)), "first": In(1), "commit": In(1), "o": Out(stream.Signature(shape)),
            "empty": Out(1),
        })

    @property
    def latency(self) -> int:
        """Cycles from ``commit`` to the first cycle of an item on ``o`` of an empty queue."""
        return 1 + has_registered_read(self.depth, self.ram) + self.output_register

    def elaborate(self, platform):
        m = Module()
        registered = has_registered_read(self.depth, self.ram)
        m.submodules.storage = storage = make_storage(self.shape, self.depth, self.ram)
        # Pointers modulo twice the depth: after the last item, after the last committed one, the next to be taken.
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
        shown = registered_output(m, wiring.flipped(self.o), clear=0) if self.output_register else self.o
        load, _ = show_registered(m, storage, shown, reading, reading != good)
        m.d.sync += reading.eq(reading + load)
        return m
