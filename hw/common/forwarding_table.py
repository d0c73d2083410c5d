# SPDX-License-Identifier: Apache-2.0
"""A table whose rows are read, changed and written in a pipeline: one write port, any number of read ports.

Latency: reads 2 cycles; a row shows all writes before the cycle in which it is shown.  Throughput: one write, and one
read of each port, per cycle.
"""

from typing import Any

from amaranth import *
from amaranth.lib import memory

from hw.common.table import Table, ram_of
from hw.stream.shapes import ShapeLike

__all__ = ["ForwardingTable"]


class ForwardingTable(Table):
    """A :class:`Table` in block RAM, if it is deep, with a register behind it.

    Parameters
    ----------
    shape : shape-like
        Row.
    depth : int
        Rows; a power of two. Every row is written before it is read.
    reads : int
        Read ports; each costs a copy of the table.
    """

    def __init__(self, shape: ShapeLike, *, depth: int, reads: int) -> None:
        super().__init__(shape, depth=depth, reads=reads, init=None)

    def _attributes(self) -> dict[str, Any]:
        return ram_of(self.depth)

    def _read(self, m: Module, rows: memory.Memory, write: memory.WritePort, number: int, addr: Value) -> Value:
        # The memory shows a write in the cycle of the address, the multiplexer one in the cycle after it.
        read = rows.read_port(transparent_for=[write])
        latest = Signal.like(addr, name=f"addr_{number}", reset_less=True)
        shown = Signal.like(read.data, name=f"shown_{number}", reset_less=True)
        m.d.comb += read.addr.eq(addr)
        m.d.sync += [latest.eq(addr),
                     shown.eq(Mux(write.en & (write.addr == latest), write.data, read.data))]
        return shown
