# SPDX-License-Identifier: Apache-2.0
"""Parts common to all queues: the memory, its read register, and an output register."""

from amaranth import *
from amaranth.lib import memory, wiring

from hw.stream.shapes import ShapeLike

from .skid import Skid

__all__ = ["LUT_RAM_DEPTH", "NO_COLLISION", "check_ram", "has_registered_read", "make_storage",
           "registered_address_read",
           "registered_output", "show_registered"]

LUT_RAM_DEPTH = 32
"""Largest depth that uses LUT RAM by default: the depth of one LUT6 memory cell."""

_RAM_STYLE = {
    "lut": {"ram_style": "distributed"},
    "block": {"ram_style": "block"},
    None: {},
}

NO_COLLISION = {"no_rw_check": 1}
"""Attribute for Yosys: no row is read and written in the same cycle, so an ECP5 needs no bypass logic."""


def check_ram(name: str, ram: str | None) -> None:
    """Raise ValueError if ``ram`` is no kind of memory; ``name`` is the component's, for the message."""
    if ram not in _RAM_STYLE:
        raise ValueError(f'{name} memory must be "lut", "block" or None, not {ram!r}')


def has_registered_read(depth: int, ram: str | None) -> bool:
    """Whether rows are read into a register, as block RAM requires, or combinationally."""
    return ram == "block" or (ram is None and depth > LUT_RAM_DEPTH)


def make_storage(shape: ShapeLike, depth: int, ram: str | None) -> memory.Memory:
    """Memory of ``depth`` rows; no row may be read and written in the same cycle."""
    return memory.Memory(shape=shape, depth=depth, init=[],
                         attrs=_RAM_STYLE[ram] | (NO_COLLISION if has_registered_read(depth, ram) else {}))


def registered_address_read(m, rows, *, addr, en):
    """Data of a row one cycle after its address, for a late-arriving address.

    LUT RAM registers the address, block RAM (by the memory's attribute ``ram_style``) the data. The row must not be
    written until another row is read.
    """
    if rows.attrs["ram_style"] == "block":
        port = rows.read_port()
        m.d.comb += [port.addr.eq(addr), port.en.eq(en)]
    else:
        port = rows.read_port(domain="comb")
        with m.If(en):
            m.d.sync += port.addr.eq(addr)
    return port.data


def show_registered(m, storage, o, row, some):
    """Load ``row``, if ``some``, into the memory's read register as soon as the register is free.

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
        The row is loaded in this cycle; the register is full. A later assignment to ``loaded`` takes precedence.
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


def registered_output(m, o, *, clear):
    """A stream that feeds ``o`` a cycle later, through a skid buffer that ``clear`` empties."""
    m.submodules.output = output = ResetInserter(Value.cast(clear))(Skid(o.payload.shape()))
    wiring.connect(m, output.o, o)
    return output.i
