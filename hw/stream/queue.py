# SPDX-License-Identifier: Apache-2.0
"""A first-in first-out queue of a typed stream.

Latency: 1 cycle in LUT RAM (up to 32 entries); in block RAM 2 cycles, 3 with ``output_register``, 1 with
``empty_bypass``.  Throughput: 1 transfer per cycle, also when full or nearly empty.  ``i.ready``, ``o.valid`` and
``level`` depend on registers only: no combinational path runs through the queue.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .storage import LUT_RAM_DEPTH, check_ram, has_registered_read, make_storage, registered_output, show_registered

__all__ = ["Queue"]


class Queue(wiring.Component):
    """Hold up to ``depth`` items, first in, first out.

    Parameters
    ----------
    shape : shape-like
        Payload shape, usually a :class:`data.Struct`.
    depth : int
        Number of items held, at least 2. A power of two saves the wrap-around compares. In block RAM, full rate takes 3
        items, with ``output_register`` 4, with ``empty_bypass`` 2.
    ram : ``"lut"``, ``"block"`` or ``None``
        Kind of memory, and with it the latency. ``None`` has an asynchronous read up to ``LUT_RAM_DEPTH`` entries and a
        registered read beyond, and leaves the kind to the synthesis tool; a name also sets ``ram_style``.
    output_register : bool
        Register the oldest item, for deep logic behind it. One cycle more with block RAM, none with LUT RAM.
    empty_bypass : bool
        An item that finds the block RAM empty bypasses it through a register: the same cycles as with LUT RAM. No
        effect with LUT RAM. Excludes ``output_register``.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while fewer than ``depth`` items are held.
    o : ``Out(stream.Signature(shape))``
        Offers the oldest item: from LUT RAM by an asynchronous read, from block RAM's read register, or from the
        register that the options name.
    level : ``Out(range(depth + 1))``
        Number of items held, from the cycle after they were accepted until they are taken. Registered.

    Raises
    ------
    ValueError
        If ``depth`` is less than 2, ``ram`` is no kind of memory, or both options are set.
    """

    LUT_RAM_DEPTH = LUT_RAM_DEPTH

    def __init__(self, shape: ShapeLike, *, depth: int, ram: str | None = None, output_register: bool = False,
                 empty_bypass: bool = False) -> None:
        if not isinstance(depth, int) or depth < 2:
            raise ValueError(f"Queue depth must be an integer of at least 2, not {depth!r}")
        check_ram("Queue", ram)
        if output_register and empty_bypass:
            raise ValueError("A Queue has either output_register or empty_bypass, not both")
        self.shape = shape
        self.depth = depth
        self.ram = ram
        self.output_register = output_register
        self.empty_bypass = empty_bypass
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
            "level": Out(range(depth + 1)),
        })

    @property
    def latency(self) -> int:
        """Cycles from the transfer on ``i`` to the item's first cycle on ``o`` of an empty queue."""
        return 1 + (self._registered_read and not self.empty_bypass) * (1 + self.output_register)

    @property
    def _registered_read(self) -> bool:
        return has_registered_read(self.depth, self.ram)

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = storage = make_storage(self.shape, self.depth, self.ram)

        # Occupancy: `full` and `level` are registers, so that both ends start from a flip-flop.
        push = Signal()
        pop = Signal()
        full = Signal()
        m.d.comb += [
            push.eq(self.i.valid & ~full),
            pop.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~full),
        ]
        with m.If(push & ~pop):
            m.d.sync += [self.level.eq(self.level + 1), full.eq(self.level == self.depth - 1)]
        with m.Elif(pop & ~push):
            m.d.sync += [self.level.eq(self.level - 1), full.eq(0)]

        # Accepted items go to the next free row.
        w_port = storage.write_port()
        past = Signal()                             # goes directly to the register
        m.d.comb += [w_port.data.eq(self.i.payload), w_port.en.eq(push & ~past)]
        with m.If(w_port.en):
            m.d.sync += w_port.addr.eq(self._after(w_port.addr))

        if self._registered_read and self.empty_bypass:
            self._read_bypassed(m, storage, push, past)
        elif self._registered_read:
            self._read_registered(m, storage, push)
        elif self.output_register:
            self._read_lut_register(m, storage, push, past)
        else:
            self._read_asynchronous(m, storage, push, pop)
        return m

    def _after(self, row):
        """The row after ``row``; a power of two wraps by itself."""
        if self.depth & (self.depth - 1) == 0:
            return row + 1
        return Mux(row == self.depth - 1, 0, row + 1)

    def _read_asynchronous(self, m, storage, push, pop):
        """Show the oldest row directly."""
        oldest = Signal(range(self.depth))
        some = Signal()
        r_port = storage.read_port(domain="comb")
        m.d.comb += [r_port.addr.eq(oldest), self.o.payload.eq(r_port.data), self.o.valid.eq(some)]
        with m.If(pop):
            m.d.sync += oldest.eq(self._after(oldest))
        with m.If(push & ~pop):
            m.d.sync += some.eq(1)
        with m.Elif(pop & ~push):
            m.d.sync += some.eq(self.level != 1)

    def _read_lut_register(self, m, storage, push, past):
        """Show a register, loaded from the oldest row, or from ``i`` while no row is used: rows hold ``level - 1``."""
        oldest = Signal(range(self.depth))
        some, load = Signal(name="some"), Signal(name="load")
        output = Signal(Shape.cast(self.shape).width, reset_less=True)
        r_port = storage.read_port(domain="comb")
        m.d.comb += [
            r_port.addr.eq(oldest), load.eq(~self.o.valid | self.o.ready), past.eq(load & ~some),
            Value.cast(self.o.payload).eq(output),
        ]
        with m.If(load):
            m.d.sync += [self.o.valid.eq(some | push),
                         output.eq(Mux(some, Value.cast(r_port.data), Value.cast(self.i.payload)))]
        with m.If(load & some):
            m.d.sync += oldest.eq(self._after(oldest))
            with m.If(~push):
                m.d.sync += some.eq(self.level != 2)
        with m.Elif(push & ~past):
            m.d.sync += some.eq(1)

    def _read_registered(self, m, storage, push):
        """Show the memory's read register, or the output register behind it."""
        shown = registered_output(m, wiring.flipped(self.o), clear=0) if self.output_register else self.o
        self._move_rows(m, storage, shown, push)

    def _read_bypassed(self, m, storage, push, past):
        """Show the bypass register, loaded while there is no other item, then the memory's read register."""
        shown = stream.Signature(self.shape).create(path=("shown",))
        bypass = Signal(Shape.cast(self.shape).width, reset_less=True)
        held = Signal()
        some = self._move_rows(m, storage, shown, push & ~past)
        m.d.comb += [
            past.eq(~some & (self.o.ready & ~(held & shown.valid) | ~self.o.valid)),
            shown.ready.eq(self.o.ready & ~held),
            self.o.valid.eq(held | shown.valid),
            Value.cast(self.o.payload).eq(Mux(held, bypass, Value.cast(shown.payload))),
        ]
        with m.If(push & past):
            m.d.sync += [bypass.eq(Value.cast(self.i.payload)), held.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += held.eq(0)

    def _move_rows(self, m, storage, shown, push):
        """Move the oldest row to the memory's read register as soon as that is free; returns whether there is one.

        A row is read only while it holds an item, and written only while it holds none: never both in one cycle.
        """
        oldest = Signal(range(self.depth))
        waiting = Signal(range(self.depth + 1))  # items in rows, not counting the read register
        some = Signal()  # waiting != 0
        load, _ = show_registered(m, storage, shown, oldest, some)
        with m.If(load):
            m.d.sync += oldest.eq(self._after(oldest))
        with m.If(push & ~load):
            m.d.sync += [waiting.eq(waiting + 1), some.eq(1)]
        with m.Elif(load & ~push):
            m.d.sync += [waiting.eq(waiting - 1), some.eq(waiting != 1)]
        return some
