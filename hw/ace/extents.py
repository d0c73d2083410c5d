"""The extents table: how many elements each rank's part of a buffer has, and where it begins, for collectives whose
parts are of different lengths.

Registers -> Extents -> decoder, movers' address generators.  Latency: 1 cycle from a request to its extent.
Throughput: one extent per cycle of send buffers, and one of receive buffers.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .config import COUNT_WIDTH, OFFSET_WIDTH

__all__ = ["ExtentLayout", "ExtentRead", "Extents"]

ExtentLayout = data.StructLayout({"count": COUNT_WIDTH, "displacement": OFFSET_WIDTH})
"""A part of a buffer: ``count`` elements from the one of number ``displacement`` on."""


def ExtentRead(config):
    """One client: while ``valid``, it asks for ``row``; ``extent`` is that of the row that was ready in the cycle
    before."""
    return wiring.Signature({"valid": Out(1), "ready": In(1), "row": Out(config.extent_bits),
                             "extent": In(ExtentLayout)})


class Extents(wiring.Component):
    """Keep ``extent_rows`` rows, each with an extent of a send buffer and one of a receive buffer.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    write : ``In(1)``, write_row, write_send, write_receive : ``In``
        Not while a collective uses the row.
    sends, receives : arrays of 2 ``In(ExtentRead)``
        The first goes first.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "write": In(1), "write_row": In(config.extent_bits),
            "write_send": In(ExtentLayout), "write_receive": In(ExtentLayout),
            "sends": In(ExtentRead(config)).array(2), "receives": In(ExtentRead(config)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        for name, clients, row in (("send", self.sends, self.write_send),
                                   ("receive", self.receives, self.write_receive)):
            m.submodules[name] = rows = memory.Memory(
                shape=ExtentLayout.size, depth=self.config.extent_rows, init=[],
                attrs={"ram_style": "block", "no_rw_check": 1})
            write, read = rows.write_port(), rows.read_port()
            first, second = clients
            m.d.comb += [
                write.en.eq(self.write), write.addr.eq(self.write_row), write.data.eq(row),
                read.en.eq(first.valid | second.valid), read.addr.eq(Mux(first.valid, first.row, second.row)),
                first.ready.eq(1), second.ready.eq(~first.valid),
                first.extent.eq(read.data), second.extent.eq(read.data),
            ]
        return m
