# SPDX-License-Identifier: Apache-2.0
"""The extents table: length and start of each rank's part of a buffer, for collectives with parts of different lengths.

Registers -> Extents -> decoder, movers' address generators.  Latency: 1 cycle from a request to its extent.
Throughput: one extent per cycle of send buffers, and one of receive buffers.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .config import COUNT_WIDTH, OFFSET_WIDTH, AceConfig

__all__ = ["ExtentLayout", "ExtentRead", "ExtentWrite", "Extents"]

ExtentLayout = data.StructLayout({"count": COUNT_WIDTH, "displacement": OFFSET_WIDTH})
"""A part of a buffer: ``count`` elements, starting at element ``displacement``."""


class ExtentRead(wiring.Signature):
    """Read port of one half of the extents table.

    The reader holds ``valid`` and ``row`` until ``ready``; ``extent`` is that of the row in the next cycle, for one
    cycle. Two readers share each half, of which the first is never stalled.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "ready": In(1), "row": Out(config.extent_bits), "extent": In(ExtentLayout)})


class ExtentWrite(wiring.Signature):
    """Write of one row of both halves, from the registers: in the cycle of ``valid``, without back-pressure.

    Software does not write a row that a collective uses.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "row": Out(config.extent_bits), "send": Out(ExtentLayout),
                          "receive": Out(ExtentLayout)})


class Extents(wiring.Component):
    """Store ``extent_rows`` rows, each with an extent of a send buffer and one of a receive buffer.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    write : ``In(ExtentWrite)``
    sends, receives : ``In(ExtentRead).array(2)``
        The first has priority.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "write": In(ExtentWrite(config)),
            "sends": In(ExtentRead(config)).array(2), "receives": In(ExtentRead(config)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        for name, clients in (("send", self.sends), ("receive", self.receives)):
            m.submodules[name] = rows = memory.Memory(
                shape=ExtentLayout.size, depth=self.config.extent_rows, init=[],
                attrs={"ram_style": "block", "no_rw_check": 1})
            write, read = rows.write_port(), rows.read_port()
            first, second = clients
            m.d.comb += [
                write.en.eq(self.write.valid), write.addr.eq(self.write.row),
                write.data.eq(getattr(self.write, name)),
                read.en.eq(first.valid | second.valid), read.addr.eq(Mux(first.valid, first.row, second.row)),
                first.ready.eq(1), second.ready.eq(~first.valid),
                first.extent.eq(read.data), second.extent.eq(read.data),
            ]
        return m
