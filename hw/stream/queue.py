"""A first-in first-out queue of a typed stream.

Latency: 1 cycle in LUT RAM (up to 32 entries), 2 cycles in block RAM, 3 with registers behind that, 1 with a register
beside.  Throughput: 1 transfer per cycle, also when full or nearly empty.  ``i.ready``, ``o.valid`` and ``level``
depend on registers only: no path runs through the queue.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .storage import LUT_RAM_DEPTH, check_ram, has_registered_read, in_front, make_storage, show_registered

__all__ = ["Queue"]


class Queue(wiring.Component):
    """Keep up to ``depth`` items, and hand them on in order.

    Parameters
    ----------
    shape : shape-like
        Payload shape, usually a :class:`data.Struct`.
    depth : int
        Number of items held, at least 2; need not be a power of two. Powers of two save the
        wrap-around compares. Two in block RAM cannot keep up the full rate; three can, with ``front`` four.
    ram : ``"lut"``, ``"block"`` or ``None``
        Kind of memory, and with it the latency. ``None`` takes LUT RAM up to ``LUT_RAM_DEPTH``
        entries and a registered read beyond, and leaves the last word to the synthesis tool; a name
        is also written down as a ``ram_style``.
    front : bool
        The oldest item is in a register, for deep logic behind it. In front of LUT RAM the latency stays, in front of
        block RAM it is a cycle more.
    prompt : bool
        What finds no item in block RAM goes past it, into a register beside: cycle for cycle as with LUT RAM, also with
        two items. Changes nothing with LUT RAM. Not with ``front``.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Accepts while fewer than ``depth`` items are held.
    o : ``Out(stream.Signature(shape))``
        Offers the oldest item. Unless it is in ``front``, in LUT RAM the payload is an asynchronous read, in block RAM
        the memory's output register; in a ``prompt`` one it is chosen from that and another register.
    level : ``Out(range(depth + 1))``
        Number of items held, from the cycle after they were accepted until they are taken.
        Registered.

    Latency
    -------
    An item accepted by an empty queue is visible on ``o`` in the next cycle from LUT RAM, and one
    cycle later from block RAM, unless it is ``prompt``. ``latency`` holds this number.

    Raises
    ------
    ValueError
        If ``depth`` is less than 2, or ``ram`` is no kind of memory, or the queue both ``front`` and ``prompt``.
    """

    LUT_RAM_DEPTH = LUT_RAM_DEPTH

    def __init__(self, shape: ShapeLike, *, depth: int, ram: str | None = None, front: bool = False,
                 prompt: bool = False) -> None:
        if not isinstance(depth, int) or depth < 2:
            raise ValueError(f"Queue depth must be an integer of at least 2, not {depth!r}")
        check_ram("Queue", ram)
        if front and prompt:
            raise ValueError("A Queue is either front or prompt: a register in front makes it later")
        self.shape = shape
        self.depth = depth
        self.ram = ram
        self.front = front
        self.prompt = prompt
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
            "level": Out(range(depth + 1)),
        })

    @property
    def latency(self) -> int:
        """Cycles from the transfer on ``i`` to the item's first cycle on ``o`` of an empty
        queue."""
        return 1 + (self._registered_read and not self.prompt) * (1 + self.front)

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
        past = Signal()                             # goes to the register in front
        m.d.comb += [w_port.data.eq(self.i.payload), w_port.en.eq(push & ~past)]
        with m.If(w_port.en):
            m.d.sync += w_port.addr.eq(self._after(w_port.addr))

        if self._registered_read and self.prompt:
            self._read_prompt(m, storage, push, past)
        elif self._registered_read:
            self._read_registered(m, storage, push)
        elif self.front:
            self._read_front(m, storage, push, past)
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

    def _read_front(self, m, storage, push, past):
        """Show a register, which gets the oldest row, or what comes while there is none: so rows hold ``level - 1``."""
        oldest = Signal(range(self.depth))
        some, load = Signal(), Signal()
        front = Signal(Shape.cast(self.shape).width, reset_less=True)
        r_port = storage.read_port(domain="comb")
        m.d.comb += [
            r_port.addr.eq(oldest), load.eq(~self.o.valid | self.o.ready), past.eq(load & ~some),
            Value.cast(self.o.payload).eq(front),
        ]
        with m.If(load):
            m.d.sync += [self.o.valid.eq(some | push),
                         front.eq(Mux(some, Value.cast(r_port.data), Value.cast(self.i.payload)))]
        with m.If(load & some):
            m.d.sync += oldest.eq(self._after(oldest))
            with m.If(~push):
                m.d.sync += some.eq(self.level != 2)
        with m.Elif(push & ~past):
            m.d.sync += some.eq(1)

    def _read_registered(self, m, storage, push):
        """Show the memory's output register, or what it gave to the register in front."""
        shown = in_front(m, wiring.flipped(self.o), forget=0) if self.front else self.o
        self._move_rows(m, storage, shown, push)

    def _read_prompt(self, m, storage, push, past):
        """Show the register beside, which gets what comes while there is no other item, then the output register."""
        shown = stream.Signature(self.shape).create(path=("shown",))
        beside = Signal(Shape.cast(self.shape).width, reset_less=True)
        held = Signal()
        some = self._move_rows(m, storage, shown, push & ~past)
        m.d.comb += [
            past.eq(~some & (self.o.ready & ~(held & shown.valid) | ~self.o.valid)),
            shown.ready.eq(self.o.ready & ~held),
            self.o.valid.eq(held | shown.valid),
            Value.cast(self.o.payload).eq(Mux(held, beside, Value.cast(shown.payload))),
        ]
        with m.If(push & past):
            m.d.sync += [beside.eq(Value.cast(self.i.payload)), held.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += held.eq(0)

    def _move_rows(self, m, storage, shown, push):
        """Move the oldest row to the memory's output register as soon as that is free; returns whether there is one.

        A row is read only while it holds an item, and written only while it holds none: never both
        in one cycle.
        """
        oldest = Signal(range(self.depth))
        waiting = Signal(range(self.depth + 1))  # items in rows, not counting the output register
        some = Signal()  # waiting != 0
        load, _ = show_registered(m, storage, shown, oldest, some)
        with m.If(load):
            m.d.sync += oldest.eq(self._after(oldest))
        with m.If(push & ~load):
            m.d.sync += [waiting.eq(waiting + 1), some.eq(1)]
        with m.Elif(load & ~push):
            m.d.sync += [waiting.eq(waiting - 1), some.eq(waiting != 1)]
        return some
