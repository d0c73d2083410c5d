"""What queues have in common: the memory of their rows, and the register behind it that shows the next one."""

from amaranth import *
from amaranth.lib import memory, wiring

from hw.stream.shapes import ShapeLike

from .skid import Skid

__all__ = ["LUT_RAM_DEPTH", "NO_COLLISION", "check_ram", "has_registered_read", "in_front", "make_storage",
           "read_late", "show_registered"]

LUT_RAM_DEPTH = 32
"""Most rows that go to LUT RAM unless told otherwise: the depth of one LUT6 memory cell."""

_RAM_STYLE = {
    "lut": {"ram_style": "distributed"},
    "block": {"ram_style": "block"},
    None: {},
}

NO_COLLISION = {"no_rw_check": 1}
"""Tells Yosys that a row is never read and written in one cycle, which saves it a bypass on ECP5."""


def check_ram(name: str, ram: str | None) -> None:
    """Raise ValueError if ``ram`` is no kind of memory that a ``name`` can have."""
    if ram not in _RAM_STYLE:
        raise ValueError(f'{name} memory must be "lut", "block" or None, not {ram!r}')


def has_registered_read(depth: int, ram: str | None) -> bool:
    """Whether rows are read into a register, as block RAM needs, or directly."""
    return ram == "block" or (ram is None and depth > LUT_RAM_DEPTH)


def make_storage(shape: ShapeLike, depth: int, ram: str | None) -> memory.Memory:
    """Memory of ``depth`` rows that are never read and written in one cycle."""
    return memory.Memory(shape=shape, depth=depth, init=[],
                         attrs=_RAM_STYLE[ram] | (NO_COLLISION if has_registered_read(depth, ram) else {}))


def read_late(m, rows, *, addr, en):
    """Data of a row one cycle after its number, which comes late in its own.

    Of LUT RAM it is the number that is registered, of block RAM what is read. The row may not be written before the
    next is read.
    """
    if rows.depth > LUT_RAM_DEPTH:
        port = rows.read_port()
        m.d.comb += [port.addr.eq(addr), port.en.eq(en)]
    else:
        port = rows.read_port(domain="comb")
        with m.If(en):
            m.d.sync += port.addr.eq(addr)
    return port.data


def show_registered(m, storage, o, row, some):
    """Move ``row``, where there is ``some``, to the memory's output register as soon as that is free.

    Parameters
    ----------
    m : Module
    storage : Memory
    o : stream
        Shows the register.
    row : Value
    some : Value

    Returns
    -------
    load, loaded : Signal
        The row is moved in this cycle; the register holds one. What the user gives ``loaded`` afterwards goes first.
    """
    loaded, load = Signal(name="loaded"), Signal(name="load")
    r_port = storage.read_port()
    m.d.comb += [
        load.eq(some & (~loaded | o.ready)),
        r_port.addr.eq(row), r_port.en.eq(load), o.payload.eq(r_port.data), o.valid.eq(loaded),
    ]
    with m.If(load):
        m.d.sync += loaded.eq(1)
    with m.Elif(o.valid & o.ready):
        m.d.sync += loaded.eq(0)
    return load, loaded


def in_front(m, o, *, forget):
    """A stream whose items are on ``o`` a cycle later, from registers; ``forget`` drops those that are on the way.

    Block RAM shows late in its cycle what it has read: on an ECP5, when half of it is over.
    """
    m.submodules.front = front = ResetInserter(Value.cast(forget))(Skid(o.payload.shape()))
    wiring.connect(m, front.o, o)
    return front.i
