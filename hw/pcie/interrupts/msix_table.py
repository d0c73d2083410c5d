# SPDX-License-Identifier: Apache-2.0
"""The MSI-X table and the pending bit array.

software -> MsixTable -> MessageSender.  Latency: 2 cycles from a read's address, 4 from a write's address and data, to
the response.  Throughput: a read per 2 cycles, a write per 4.  Source: PCI Local Bus 3.0, 6.8.2.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, Resp

from ..config import PcieConfig
from ..layouts import MessageLayout

__all__ = ["ADDR_WIDTH", "PENDING_BASE", "MsixTable"]

ADDR_WIDTH = 14

PENDING_BASE = 0x1000
"""Address of the pending bit array; the table is at 0."""

ROW_BITS = 4
"""Log2 of an entry's bytes: address low and high, data, vector control."""

CONTROL = 3
"""Position of vector control in an entry, in double words."""


class MsixTable(wiring.Component):
    """Hold an entry per vector, all of them masked after reset; addresses and data are undefined until written.

    A write changes the bytes whose strobes are set. Vector control has only the mask bit. Writes to the pending bits,
    and accesses beyond both structures, have no effect; such reads return 0. All responses are OKAY. A message that was
    chosen before its vector was masked is on offer when the response to that write arrives, or earlier.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    bus : ``In(AxiLiteSignature)``
        All outputs are registered, or depend on registers only.
    masked : ``Out(config.vectors)``
        Mask bits.
    pending : ``In(config.vectors)``
    vector : ``In(range(config.vectors))``, message : ``Out(MessageLayout)``
        An entry as a message, combinational.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.vectors = config.vectors
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=ADDR_WIDTH, data_width=32)),
            "masked": Out(self.vectors, init=-1), "pending": In(self.vectors),
            "vector": In(range(self.vectors)), "message": Out(MessageLayout),
        })

    def elaborate(self, platform):
        m = Module()
        width = MessageLayout.size
        m.submodules.rows = rows = memory.Memory(
            shape=unsigned(width), depth=self.vectors, init=[], attrs={"ram_style": "distributed"})
        self._write(m, rows.write_port(granularity=8))
        self._read(m, rows.read_port(domain="comb"))
        entry = rows.read_port(domain="comb")
        m.d.comb += [entry.addr.eq(self.vector), self.message.eq(entry.data), self.message.address[:2].eq(0)]
        return m

    def _parts(self, address):
        """Whether the table is accessed, the row, and the DW in it."""
        row_end = ROW_BITS + (self.vectors - 1).bit_length()
        return ~address[row_end:].any(), address[ROW_BITS:row_end], address[2:ROW_BITS]

    def _write(self, m, port):
        bus = self.bus
        address, word, strb = (Signal.like(pin, reset_less=True) for pin in (bus.awaddr, bus.wdata, bus.wstrb))
        some_address, some_word, write, settling = Signal(), Signal(), Signal(), Signal(2)
        m.d.comb += [bus.awready.eq(~some_address), bus.wready.eq(~some_word), bus.bresp.eq(Resp.OKAY),
                     write.eq(some_address & some_word & ~settling.any() & ~bus.bvalid)]
        m.d.sync += settling.eq(Cat(write, settling[0]))
        with m.If(bus.awready):
            m.d.sync += [some_address.eq(bus.awvalid), address.eq(bus.awaddr)]
        with m.If(bus.wready):
            m.d.sync += [some_word.eq(bus.wvalid), word.eq(bus.wdata), strb.eq(bus.wstrb)]
        with m.If(write):
            m.d.sync += [some_address.eq(0), some_word.eq(0)]
        with m.If(bus.bready | ~bus.bvalid):
            m.d.sync += bus.bvalid.eq(settling[1])

        table, row, dword = self._parts(address)
        m.d.comb += [port.addr.eq(row), port.data.eq(word.replicate(CONTROL))]
        for number in range(CONTROL):
            m.d.comb += port.en[4 * number:4 * number + 4].eq(Mux(write & table & (dword == number), strb, 0))
        mask = write & table & (dword == CONTROL) & strb[0]
        for number in range(self.vectors):
            with m.If(mask & (row == number)):
                m.d.sync += self.masked[number].eq(word[0])

    def _read(self, m, port):
        bus, address, some = self.bus, Signal(ADDR_WIDTH, reset_less=True), Signal()
        m.d.comb += [bus.arready.eq(~some), bus.rresp.eq(Resp.OKAY)]
        with m.If(bus.arready):
            m.d.sync += [some.eq(bus.arvalid), address.eq(bus.araddr)]
        table, row, dword = self._parts(address)
        m.d.comb += port.addr.eq(row)
        entry = Cat(port.data, self.masked.bit_select(row, 1), Const(0, 31))
        pending = Cat(self.pending, Const(0, 64 - self.vectors))
        is_pending = address[3:] == PENDING_BASE >> 3
        with m.If(bus.rready | ~bus.rvalid):
            m.d.sync += [
                bus.rvalid.eq(some),
                bus.rdata.eq(Mux(table, entry.word_select(dword, 32), 0)
                             | Mux(is_pending, pending.word_select(address[2], 32), 0)),
            ]
            with m.If(some):
                m.d.sync += some.eq(0)
