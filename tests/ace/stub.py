# SPDX-License-Identifier: Apache-2.0
"""An endpoint that only forwards beats: the ports of an accelerator, for tests of its surroundings."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.config import ADDR_WIDTH
from hw.ace.layouts import PacketKind, link_layout
from hw.ace.registers import register_map
from hw.axi import AxiLiteSignature, AxiSignature, Burst, Resp
from hw.common.doorbell import Doorbell
from hw.common.wiring import unused
from hw.regs import RegisterBank

__all__ = ["INBOX", "WORDS", "StubEndpoint", "errand"]

INBOX, WORDS = 0x10_0000, 0x20_0000
"""A packet received at port ``p`` is written to ``INBOX + 4096 * p``; the word at ``WORDS + 64 * p`` counts packets."""

ERRAND = {"address": ADDR_WIDTH, "port": 3, "kind": PacketKind, "beats": 8}


def errand(*, port, address=0, beats=1, kind=PacketKind.DATA):
    """A doorbell word: send a packet at ``port``; a data packet with ``beats`` beats from memory."""
    return (address | port << 64 | kind.value << 67 | beats << 70).to_bytes(16, "little")


def _tie_off(m, part, *used):
    """Drive the inputs of ``part`` that the stub does not use with their initial values; its outputs may be unused."""
    unused(m, part)
    for path, member, value in part.signature.flatten(part):
        if member.flow is In and not ".".join(map(str, path)).startswith(used):
            signal = Value.cast(value)
            m.d.comb += signal.eq(signal.init)


class StubEndpoint(wiring.Component):
    """Send the packets of doorbell words, and write received packets to memory.

    An error response of memory raises the interrupt.
    """

    def __init__(self, config):
        self.config = config
        link = stream.Signature(link_layout(config))
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=128,
                                        id_width=config.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=1)),
            "tx": Out(link).array(config.ports), "rx": In(link).array(config.ports), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.s_axil), bank.bus)
        size = (self.config.beat_bytes - 1).bit_length()
        m.d.comb += [
            self.irq.eq(bank.irq_status.error & bank.irq_enable.error),
            self.m_axi.arsize.eq(size), self.m_axi.awsize.eq(size),
            self.m_axi.arburst.eq(Burst.INCR), self.m_axi.awburst.eq(Burst.INCR),
            *(getattr(self.m_axi, f"{channel}{name}").eq(0)
              for channel in ("ar", "aw") for name in ("id", "cache", "prot", "qos")),
        ]
        self._send(m, bank)
        self._receive(m, bank)
        _tie_off(m, bank, "bus", "irq_status.error_set")
        return m

    def _send(self, m, bank):
        bus = self.m_axi
        m.submodules.doorbell = doorbell = Doorbell(self.config)
        connect(m, flipped(self.s_axi_db), doorbell.bus)
        _tie_off(m, doorbell, "bus", "o.ready")
        word, beat = Signal(data.StructLayout(ERRAND)), Signal(8)
        valid, ready, last, taken = Signal(), Signal(), Signal(), Signal()
        payload = Signal(link_layout(self.config))
        m.d.comb += [
            bus.araddr.eq(word.address), bus.arlen.eq(word.beats - 1), last.eq(beat == word.beats - 1),
            payload.data.eq(bus.rdata), payload.first.eq(beat == 0), payload.last.eq(last),
            payload.header.packet.kind.eq(word.kind), payload.header.packet.beats.eq(word.beats - 1),
            taken.eq(valid & ready),
        ]
        with m.Switch(word.port):
            for number, port in enumerate(self.tx):
                m.d.comb += port.payload.eq(payload)
                with m.Case(number):
                    m.d.comb += [port.valid.eq(valid), ready.eq(port.ready)]
        with m.If(taken):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))

        with m.FSM(name="send"):
            with m.State("IDLE"):
                m.d.comb += doorbell.o.ready.eq(1)
                m.d.sync += word.eq(doorbell.o.payload.data)
                with m.If(doorbell.o.valid):
                    m.next = "LOOKUP"
            with m.State("LOOKUP"):
                with m.If(word.kind == PacketKind.DATA):
                    m.next = "READ"
                with m.Else():
                    m.next = "SIGNAL"
            with m.State("READ"):
                m.d.comb += bus.arvalid.eq(1)
                with m.If(bus.arready):
                    m.next = "BEATS"
            with m.State("BEATS"):
                m.d.comb += [valid.eq(bus.rvalid), bus.rready.eq(ready)]
                with m.If(taken & (bus.rresp != Resp.OKAY)):
                    m.d.comb += bank.irq_status.error_set.eq(1)
                with m.If(taken & last):
                    m.next = "IDLE"
            with m.State("SIGNAL"):
                m.d.comb += valid.eq(1)
                with m.If(ready):
                    m.next = "IDLE"

    def _receive(self, m, bank):
        bus, ports = self.m_axi, len(self.rx)
        port, counts = Signal(range(ports)), Array(Signal(32, name=f"count_{number}") for number in range(ports))
        valid, ready, flit = Signal(), Signal(), Signal(link_layout(self.config))
        with m.Switch(port):
            for number, link in enumerate(self.rx):
                with m.Case(number):
                    m.d.comb += [valid.eq(link.valid), link.ready.eq(ready), flit.eq(link.payload)]

        def respond(then):
            m.d.comb += bus.bready.eq(1)
            with m.If(bus.bvalid):
                m.next = then
            with m.If(bus.bvalid & (bus.bresp != Resp.OKAY)):
                m.d.comb += bank.irq_status.error_set.eq(1)

        with m.FSM(name="receive"):
            with m.State("IDLE"):
                for number, link in enumerate(self.rx):
                    with m.If(link.valid):
                        m.d.sync += port.eq(number)
                        m.next = "LOOKUP"
            with m.State("LOOKUP"):
                with m.If(flit.header.packet.kind == PacketKind.DATA):
                    m.next = "ADDRESS"
                with m.Else():
                    m.d.comb += ready.eq(1)
                    m.next = "IDLE"
            with m.State("ADDRESS"):
                m.d.comb += [bus.awvalid.eq(1), bus.awaddr.eq(INBOX | port << 12),
                             bus.awlen.eq(flit.header.packet.beats)]
                with m.If(bus.awready):
                    m.next = "BEATS"
            with m.State("BEATS"):
                m.d.comb += [bus.wvalid.eq(valid), bus.wdata.eq(flit.data), bus.wstrb.eq(~0), bus.wlast.eq(flit.last),
                             ready.eq(bus.wready)]
                with m.If(valid & ready & flit.last):
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                respond("WORD")
            with m.State("WORD"):
                m.d.comb += [bus.awvalid.eq(1), bus.awaddr.eq(WORDS | port << 6)]
                with m.If(bus.awready):
                    m.d.sync += counts[port].eq(counts[port] + 1)
                    m.next = "COUNT"
            with m.State("COUNT"):
                m.d.comb += [bus.wvalid.eq(1), bus.wdata.eq(counts[port]), bus.wstrb.eq(0xFF), bus.wlast.eq(1)]
                with m.If(bus.wready):
                    m.next = "WORD RESPONSE"
            with m.State("WORD RESPONSE"):
                respond("IDLE")
