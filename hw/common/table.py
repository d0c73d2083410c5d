# SPDX-License-Identifier: Apache-2.0
"""A small table in LUT RAM: one write port, any number of asynchronous read ports.

Latency: reads 0 cycles, a write is seen in the next cycle.  Throughput: one write per cycle.
"""

from collections.abc import Callable
from typing import Any

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In

from hw.stream.shapes import ShapeLike
from hw.stream.storage import LUT_RAM_DEPTH, NO_COLLISION

__all__ = ["BLOCK_RAM", "Table", "ram_of"]

BLOCK_RAM = NO_COLLISION | {"ram_style": "block"}


def ram_of(depth: int) -> dict[str, str]:
    """Attributes of a memory with registered reads: LUT RAM up to ``LUT_RAM_DEPTH`` rows, else block RAM.

    On an ECP5 the clock-to-output delay of block RAM is 5.6 ns, of a flip-flop 0.5 ns (Project Trellis, speed grade 6).
    """
    return {"ram_style": "block" if depth > LUT_RAM_DEPTH else "distributed"}


class Table(wiring.Component):
    """Keep one row per queue, tag or slot.

    While the sweep after reset is active, each row is set to ``reset``.

    Parameters
    ----------
    shape : shape-like
        Row.
    depth : int
        Rows; a power of two.
    reads : int
        Read ports; each costs a copy of the table.
    init : wiring.Signature or None
        Signature of the sweep; None if every row is written before it is read.
    reset : int or function
        Bits of a row after the sweep; or a function of the row's address, a Value, that returns them as a Value.

    Members
    -------
    init : ``In(init)``
        Unless that is None.
    write : ``In``; ``en``, ``addr``, ``data``
    read : array of ``In``; ``addr`` in, ``data`` out, combinational

    Raises
    ------
    ValueError
        If the sweep does not reach the last row.
    """

    def __init__(self, shape: ShapeLike, *, depth: int, reads: int, init: wiring.Signature | None,
                 reset: int | Callable[[Value], Value] = 0) -> None:
        self.shape = shape
        self.depth = depth
        self.reads = reads
        self._swept = init is not None
        self._reset = reset
        if init is not None and depth > 1 << len(init.create().address):
            raise ValueError(f"A table of {depth} rows is longer than the sweep after reset")
        super().__init__(({"init": In(init)} if self._swept else {}) | {
            "write": In(wiring.Signature({"en": wiring.Out(1), "addr": wiring.Out(range(depth)),
                                          "data": wiring.Out(shape)})),
            "read": In(wiring.Signature({"addr": wiring.Out(range(depth)), "data": In(shape)})).array(reads),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = rows = memory.Memory(
            shape=unsigned(Shape.cast(self.shape).width), depth=self.depth, init=[], attrs=self._attributes())
        write = rows.write_port()
        m.d.comb += [write.en.eq(self.write.en), write.addr.eq(self.write.addr),
                     write.data.eq(data_bits(self.write.data))]
        if self._swept:
            with m.If(self.init.active):
                m.d.comb += [write.en.eq(1), write.addr.eq(self.init.address), write.data.eq(
                    self._reset(self.init.address) if callable(self._reset) else self._reset)]
        for number, port in enumerate(self.read):
            m.d.comb += data_bits(port.data).eq(self._read(m, rows, write, number, port.addr))
        return m

    def _attributes(self) -> dict[str, Any]:
        return {"ram_style": "distributed"}

    def _read(self, m: Module, rows: memory.Memory, write: memory.WritePort, number: int, addr: Value) -> Value:
        """The row at ``addr``, for read port ``number``."""
        read = rows.read_port(domain="comb")
        m.d.comb += read.addr.eq(addr)
        return read.data


def data_bits(value: Any) -> Value:
    """The bits of a value or a view."""
    return value.as_value() if isinstance(value, data.View) else Value.cast(value)
