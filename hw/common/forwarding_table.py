# SPDX-License-Identifier: Apache-2.0
"""A table whose rows are read, changed and written in a pipeline: one write port, any number of read ports.

Latency: reads 2 cycles; a row shows all writes before the cycle in which it is shown.  Throughput: one write, and one
read of each port, per cycle.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from hw.common.table import data_bits, ram_of
from hw.stream.shapes import ShapeLike

__all__ = ["ForwardingTable"]


class ForwardingTable(wiring.Component):
    """Block RAM if it is deep, and a register behind it, with the members of :class:`~.table.Table`.

    Parameters
    ----------
    shape : shape-like
        Row.
    depth : int
        Rows; a power of two. Every row is written before it is read.
    reads : int
        Read ports; each costs a copy of the table.

    Members
    -------
    write : ``In``; ``en``, ``addr``, ``data``
    read : array of ``In``; ``addr`` in, ``data`` out, 2 cycles later
    """

    def __init__(self, shape: ShapeLike, *, depth: int, reads: int) -> None:
        self.shape = shape
        self.depth = depth
        self.reads = reads
        super().__init__({
            "write": In(wiring.Signature({"en": wiring.Out(1), "addr": wiring.Out(range(depth)),
                                          "data": wiring.Out(shape)})),
            "read": In(wiring.Signature({"addr": wiring.Out(range(depth)), "data": In(shape)})).array(reads),
        })

    def elaborate(self, platform):
        m = Module()
        width = Shape.cast(self.shape).width
        m.submodules.memory = rows = memory.Memory(
            shape=unsigned(width), depth=self.depth, init=[], attrs=ram_of(self.depth))
        write = rows.write_port()
        m.d.comb += [write.en.eq(self.write.en), write.addr.eq(self.write.addr),
                     write.data.eq(data_bits(self.write.data))]
        for number, port in enumerate(self.read):
            # The memory shows a write in the cycle of the address, the multiplexer one in the cycle after it.
            read = rows.read_port(transparent_for=[write])
            addr = Signal.like(port.addr, name=f"addr_{number}", reset_less=True)
            shown = Signal(width, name=f"shown_{number}", reset_less=True)
            m.d.sync += [addr.eq(port.addr),
                         shown.eq(Mux(write.en & (write.addr == addr), write.data, read.data))]
            m.d.comb += [read.addr.eq(port.addr), data_bits(port.data).eq(shown)]
        return m
