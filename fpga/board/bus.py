# SPDX-License-Identifier: Apache-2.0
"""The board's bus of single words, and its bridges to the buses of an engine.

``valid`` requests a word until ``done``, which comes with the word read and an error bit. ``valid`` falls for at least
one cycle between words.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature, Burst

__all__ = ["DoorbellBridge", "LiteBridge", "WordSignature"]


class WordSignature(wiring.Signature):
    """One word at a time, seen from the manager.

    Members
    -------
    valid, write : ``Out(1)``
        Requests a word; hold until ``done``.
    last : ``Out(1)``
        The word is the last of its frame.
    address : ``Out(32)``
        In bytes.
    write_data : ``Out(32)``
        The word to write.
    done : ``In(1)``
        For one cycle: the access has completed.
    read_data : ``In(32)``
        With ``done``, the word read.
    error : ``In(1)``
        With ``done``, the access failed.
    """

    def __init__(self) -> None:
        super().__init__({
            "valid": Out(1), "write": Out(1), "last": Out(1), "address": Out(32), "write_data": Out(32),
            "done": In(1), "read_data": In(32), "error": In(1),
        })


class LiteBridge(wiring.Component):
    """Words -> AXI4-Lite.

    Parameters
    ----------
    addr_width : int
        Of the AXI4-Lite bus.

    Members
    -------
    i : ``In(WordSignature())``
    o : ``Out(AxiLiteSignature)``
    """

    def __init__(self, addr_width: int) -> None:
        super().__init__({"i": In(WordSignature()), "o": Out(AxiLiteSignature(addr_width=addr_width, data_width=32))})

    def elaborate(self, platform):
        m = Module()
        i, o = self.i, self.o
        m.d.comb += [
            o.awaddr.eq(i.address), o.araddr.eq(i.address), o.wdata.eq(i.write_data), o.wstrb.eq(0b1111),
            o.bready.eq(1), o.rready.eq(1), o.awprot.eq(0), o.arprot.eq(0),
        ]
        busy = Signal()
        m.d.sync += [
            i.done.eq(o.bvalid | o.rvalid), i.read_data.eq(o.rdata),
            i.error.eq((o.bvalid & o.bresp.as_value().any()) | (o.rvalid & o.rresp.as_value().any())),
        ]
        with m.If(o.awready):
            m.d.sync += o.awvalid.eq(0)
        with m.If(o.wready):
            m.d.sync += o.wvalid.eq(0)
        with m.If(o.arready):
            m.d.sync += o.arvalid.eq(0)
        with m.If(i.valid & ~busy & ~i.done):
            m.d.sync += [busy.eq(1), o.awvalid.eq(i.write), o.wvalid.eq(i.write), o.arvalid.eq(~i.write)]
        with m.If(o.bvalid | o.rvalid):
            m.d.sync += busy.eq(0)
        return m


class DoorbellBridge(wiring.Component):
    """Words of a frame -> one store to a doorbell page, as a GPU thread would do it. Reads are refused.

    Parameters
    ----------
    signature : AxiSignature
        Of the doorbells; 128-bit data.

    Members
    -------
    i : ``In(WordSignature())``
        ``last`` sends the store off; all words of it lie in the same 16 bytes.
    o : ``Out(signature)``
    """

    def __init__(self, signature: AxiSignature) -> None:
        if not isinstance(signature, AxiSignature) or signature.data_width != 128:
            raise ValueError(f"Doorbells need 128-bit data, not {signature!r}")
        super().__init__({"i": In(WordSignature()), "o": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        i, o = self.i, self.o
        m.d.comb += [o.awsize.eq(4), o.awburst.eq(Burst.INCR), o.wlast.eq(1), o.bready.eq(1), o.rready.eq(1)]
        m.d.comb += [getattr(o, f"aw{name}").eq(0) for name in ("id", "len", "cache", "prot", "qos")]
        m.d.comb += [getattr(o, f"ar{name}").eq(0)
                     for name in ("id", "addr", "len", "size", "burst", "cache", "prot", "qos", "valid")]
        m.d.comb += i.read_data.eq(0)
        busy = Signal()
        m.d.sync += [i.done.eq(o.bvalid), i.error.eq(o.bresp.as_value().any())]
        with m.If(o.awready):
            m.d.sync += o.awvalid.eq(0)
        with m.If(o.wready):
            m.d.sync += o.wvalid.eq(0)
        with m.If(o.bvalid):
            m.d.sync += [busy.eq(0), o.wstrb.eq(0)]
        with m.If(i.valid & ~busy & ~i.done):
            with m.If(~i.write):
                m.d.sync += [i.done.eq(1), i.error.eq(1)]
            with m.Else():
                lane = i.address[2:4]
                m.d.sync += [o.wdata.word_select(lane, 32).eq(i.write_data), o.wstrb.word_select(lane, 4).eq(0b1111),
                             o.awaddr.eq(Cat(C(0, 4), i.address[4:]))]
                with m.If(i.last):
                    m.d.sync += [busy.eq(1), o.awvalid.eq(1), o.wvalid.eq(1)]
                with m.Else():
                    m.d.sync += [i.done.eq(1), i.error.eq(0)]
        return m
