# SPDX-License-Identifier: Apache-2.0
"""One register space: an AXI4-Lite bus split into windows of equal size, one per block.

s_axil -> RegisterWindow -> the blocks' register banks.  Latency: 1 cycle each way.  Throughput: one access at a time in
each direction.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, Resp

__all__ = ["RegisterWindow"]


class RegisterWindow(wiring.Component):
    """Route accesses to window ``n`` of ``bus`` to ``parts[n]``; accesses beyond the last window get DECERR.

    Parameters
    ----------
    count : int
        Number of blocks.
    window_bits : int
        Log2 of the bytes in a window.
    addr_width : int or None
        Bits of addresses on ``bus``; as many as the windows need if None.

    Members
    -------
    bus : ``In(AxiLiteSignature)``
    parts : array of ``Out(AxiLiteSignature)``
    """

    def __init__(self, count: int, *, window_bits: int = 12, addr_width: int | None = None) -> None:
        self.count, self.window_bits = count, window_bits
        width = window_bits + (count - 1).bit_length() if addr_width is None else addr_width
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=width, data_width=32)),
            "parts": Out(AxiLiteSignature(addr_width=window_bits, data_width=32)).array(count),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus

        # -- Write: address and data are held until the block has accepted both and responded.
        addr, data, strb = (Signal.like(port, reset_less=True) for port in (bus.awaddr, bus.wdata, bus.wstrb))
        prot = Signal.like(bus.awprot, reset_less=True)
        some_addr, some_data, sent_addr, sent_data = (Signal(name=name) for name in (
            "some_addr", "some_data", "sent_addr", "sent_data"))
        m.d.comb += [bus.awready.eq(~some_addr), bus.wready.eq(~some_data)]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [some_addr.eq(1), addr.eq(bus.awaddr), prot.eq(bus.awprot)]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [some_data.eq(1), data.eq(bus.wdata), strb.eq(bus.wstrb)]
        both, responded, resp = Signal(), Signal(), Signal(Resp)
        m.d.comb += [both.eq(some_addr & some_data & ~bus.bvalid),
                     responded.eq(both), resp.eq(Resp.DECERR)]
        for number, part in enumerate(self.parts):
            mine = both & (addr[self.window_bits:] == number)
            m.d.comb += [
                part.awaddr.eq(addr), part.awprot.eq(prot), part.wdata.eq(data), part.wstrb.eq(strb),
                part.awvalid.eq(mine & ~sent_addr), part.wvalid.eq(mine & ~sent_data), part.bready.eq(mine),
            ]
            with m.If(mine):
                m.d.comb += [responded.eq(part.bvalid), resp.eq(part.bresp)]
                with m.If(part.awready):
                    m.d.sync += sent_addr.eq(1)
                with m.If(part.wready):
                    m.d.sync += sent_data.eq(1)
        with m.If(responded):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(resp), some_addr.eq(0), some_data.eq(0),
                         sent_addr.eq(0), sent_data.eq(0)]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)

        # -- Read.
        address, address_prot = Signal.like(bus.araddr, reset_less=True), Signal.like(bus.arprot, reset_less=True)
        some, sent, wanted, came = Signal(), Signal(), Signal(), Signal()
        word, status = Signal(32), Signal(Resp)
        m.d.comb += [bus.arready.eq(~some), wanted.eq(some & ~bus.rvalid), came.eq(wanted), status.eq(Resp.DECERR)]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [some.eq(1), address.eq(bus.araddr), address_prot.eq(bus.arprot)]
        for number, part in enumerate(self.parts):
            mine = wanted & (address[self.window_bits:] == number)
            m.d.comb += [part.araddr.eq(address), part.arprot.eq(address_prot), part.arvalid.eq(mine & ~sent),
                         part.rready.eq(mine)]
            with m.If(mine):
                m.d.comb += [came.eq(part.rvalid), word.eq(part.rdata), status.eq(part.rresp)]
                with m.If(part.arready):
                    m.d.sync += sent.eq(1)
        with m.If(came):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(word), bus.rresp.eq(status), some.eq(0), sent.eq(0)]
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        return m
