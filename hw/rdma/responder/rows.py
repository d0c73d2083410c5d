# SPDX-License-Identifier: Apache-2.0
"""A table with registered reads: one write port, any number of read ports.

Latency: 1 cycle from the address to the row; a row that is written in the cycle of its address is read with its new
value.  Throughput: one write and one read per port and cycle.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.stream.shapes import ShapeLike

from ..config import RdmaConfig

__all__ = ["LUT_RAM_ROWS", "RowRead", "RowTable"]

LUT_RAM_ROWS = 64
"""Longest table in LUT RAM."""


class RowRead(wiring.Signature):
    """A read port, of the reader: ``data`` is the row of the ``addr`` of the last cycle in which ``en`` was set."""

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        super().__init__({"addr": Out(range(depth)), "en": Out(1), "data": In(shape)})


class RowTable(wiring.Component):
    """Keep one row per queue pair, region or packet. While the sweep after reset is active, all rows become 0.

    Parameters
    ----------
    config : RdmaConfig
    shape : shape-like
        Row.
    depth : int
        Rows; a power of two.
    reads : int
        Read ports; each costs a copy of the table.
    swept : bool
        False if each row is written before it is read.

    Members
    -------
    init : ``In(SweepSignature)``
        If ``swept``. Its last address must not be below ``depth``.
    write : ``In``; ``en``, ``addr``, ``data``
    read : ``In(RowRead).array(reads)``
    """

    def __init__(self, config: RdmaConfig, shape: ShapeLike, *, depth: int, reads: int = 1, swept: bool = True) -> None:
        if swept and depth > config.sweep_rows:
            raise ValueError(f"A table of {depth} rows is longer than the sweep after reset")
        self.shape, self.depth, self.reads, self.swept = shape, depth, reads, swept
        super().__init__(({"init": In(SweepSignature(config))} if swept else {}) | {
            "write": In(wiring.Signature({"en": Out(1), "addr": Out(range(depth)), "data": Out(shape)})),
            "read": In(RowRead(shape, depth)).array(reads),
        })

    def elaborate(self, platform):
        m = Module()
        width = Shape.cast(self.shape).width
        m.submodules.rows = rows = memory.Memory(
            shape=unsigned(width), depth=self.depth, init=[],
            attrs={"ram_style": "distributed" if self.depth <= LUT_RAM_ROWS else "block"})
        write = rows.write_port()
        m.d.comb += [write.en.eq(self.write.en), write.addr.eq(self.write.addr), write.data.eq(_bits(self.write.data))]
        if self.swept:
            with m.If(self.init.active):
                m.d.comb += [write.en.eq(1), write.addr.eq(self.init.address), write.data.eq(0)]
        for port in self.read:
            read = rows.read_port(transparent_for=[write])
            m.d.comb += [read.addr.eq(port.addr), read.en.eq(port.en), _bits(port.data).eq(read.data)]
        return m


def _bits(value):
    return value.as_value() if isinstance(value, data.View) else Value.cast(value)
