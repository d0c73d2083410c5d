# SPDX-License-Identifier: Apache-2.0
"""Access to registers: one AXI4-Lite access per double word, and all completions.

RequestSplit -> RegisterAccess -> CompletionPacker.  Latency: 5 cycles from a read of one double word to the end of its
completion, if the access takes up to 3.  Throughput: one access at a time.  Source: PCI Express Base 2.3.1.1; PG213,
"Completer Completion Descriptor Format", "Completions with Error Status".
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, Resp

from ..config import LENGTH_WIDTH
from ..tlp import CompleterCompletion, CompletionStatus, RequestType
from .byte_counts import byte_count, first_offset, is_memory_read
from .layouts import WORD_WIDTH, PayloadDword, RegisterRequest, RequestKind

__all__ = ["RegisterAccess"]

BOUNDARY_DWORDS = 32
"""Read completion boundary of endpoints, 128 bytes; also the smallest maximum payload size."""

DESCRIPTOR_DWORDS, UNSUPPORTED_DWORDS = 3, 8


class RegisterAccess(wiring.Component):
    """Execute requests in order: each starts after the last response to the one before.

    *Reads* complete in packets that end at each multiple of 128 bytes, which is legal for any maximum payload size. If
    an access gets an error response, the packet that it belongs to is replaced by a completion without data with the
    status unsupported request (UR), and the request ends. Zero reads access nothing.

    *Writes* are posted: an error response only strobes ``unsupported``.

    *UR completions* are followed by the request's byte enables and descriptor, which the hard block logs. Processing
    hints, which it would log as well, are reported as absent.

    Members
    -------
    requests : ``In(stream.Signature(RegisterRequest))``, words : ``In(stream.Signature(128))``
        Requests, which are accepted when they have ended, and the payload of writes.
    registers : ``Out(AxiLiteSignature)``
        ``valid``, address and data are registered; ``bready`` and ``rready`` depend on registers only.
    dwords : ``Out(stream.Signature(PayloadDword))``
        Packets for CC.
    written : ``Out(1)``
        Strobe: a write has its last response.
    unsupported : ``Out(1)``
        Strobe: an access got an error response in the cycle before.
    """

    def __init__(self) -> None:
        super().__init__({
            "requests": In(stream.Signature(RegisterRequest)), "words": In(stream.Signature(WORD_WIDTH)),
            "registers": Out(AxiLiteSignature(addr_width=16, data_width=32)),
            "dwords": Out(stream.Signature(PayloadDword)), "written": Out(1), "unsupported": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus, item = self.registers, self.requests.payload
        descriptor, output = item.descriptor, self.dwords.payload
        address, lane = Signal(14, reset_less=True), Signal(2)
        remaining = Signal(LENGTH_WIDTH, reset_less=True)       # DW of the request
        piece = Signal(range(BOUNDARY_DWORDS + 1))              # DW of the completion
        left = Signal(13, reset_less=True)                      # bytes of the request from this completion on
        low, final, step = Signal(7, reset_less=True), Signal(), Signal(3)
        failed, refusing, access = Signal(), Signal(), Signal()
        m.d.comb += [
            access.eq(item.kind == RequestKind.REGISTER_READ),
            bus.awaddr.eq(address << 2), bus.araddr.eq(address << 2), bus.awprot.eq(0), bus.arprot.eq(0),
        ]
        for channel in ("aw", "w", "ar"):
            with m.If(getattr(bus, f"{channel}ready")):
                m.d.sync += getattr(bus, f"{channel}valid").eq(0)
        m.d.sync += self.unsupported.eq(failed)

        packet = self._packet(m, refusing, piece, left, low)
        descriptor_dword = Signal(32)
        m.d.comb += descriptor_dword.eq(packet.word_select(step, 32))

        with m.FSM(name="access"):
            with m.State("Request"):
                m.d.sync += [
                    address.eq(descriptor.address), remaining.eq(descriptor.dwords), step.eq(0), lane.eq(0),
                    left.eq(byte_count(descriptor, item.first_be, item.last_be)),
                    low.eq(Mux(is_memory_read(descriptor.request_type),
                               Cat(first_offset(item.first_be)[:2], descriptor.address[:5]), 0)),
                ]
                with m.If(self.requests.valid):
                    with m.If(item.kind == RequestKind.REGISTER_WRITE):
                        m.next = "Write"
                    with m.Elif(item.kind == RequestKind.UNSUPPORTED):
                        m.next = "Refuse"
                    with m.Else():
                        m.next = "Split"

            # -- Writes.
            with m.State("Write"):
                first, last = remaining == descriptor.dwords, remaining == 1
                m.d.sync += [
                    bus.wdata.eq(self.words.payload.word_select(lane, 32)),
                    bus.wstrb.eq(Mux(first, item.first_be, Mux(last, item.last_be, ~0))),
                ]
                with m.If(self.words.valid):
                    m.d.sync += [bus.awvalid.eq(1), bus.wvalid.eq(1)]
                    m.next = "Response"
            with m.State("Response"):
                m.d.comb += bus.bready.eq(1)
                with m.If(bus.bvalid):
                    m.d.comb += [
                        failed.eq(_is_error(bus.bresp)), self.words.ready.eq((lane == 3) | (remaining == 1)),
                        self.written.eq(remaining == 1), self.requests.ready.eq(remaining == 1),
                    ]
                    m.d.sync += [address.eq(address + 1), lane.eq(lane + 1), remaining.eq(remaining - 1)]
                    m.next = "Write"
                    with m.If(remaining == 1):
                        m.next = "Request"

            # -- Reads: the first access of a completion runs while its descriptor is sent.
            with m.State("Split"):
                to_boundary = Signal(range(BOUNDARY_DWORDS + 1))
                m.d.comb += to_boundary.eq(BOUNDARY_DWORDS - address[:5])
                m.d.sync += [piece.eq(Mux(remaining <= to_boundary, remaining, to_boundary)),
                             final.eq(remaining <= to_boundary), bus.arvalid.eq(access)]
                m.next = "Descriptor"
            with m.State("Descriptor"):
                m.d.comb += [self.dwords.valid.eq(1), output.data.eq(descriptor_dword), output.first.eq(step == 0)]
                with m.If(self.dwords.ready):
                    m.d.sync += step.eq(step + 1)
                    with m.If(step == DESCRIPTOR_DWORDS - 1):
                        m.d.sync += step.eq(0)
                        m.next = "Data"
            with m.State("Data"):
                wrong = access & _is_error(bus.rresp)
                m.d.comb += [
                    self.dwords.valid.eq(Mux(access, bus.rvalid & ~wrong, 1)),
                    output.data.eq(Mux(access, bus.rdata, 0)), output.last.eq(piece == 1),
                    bus.rready.eq(access & self.dwords.ready),
                ]
                with m.If(wrong & bus.rvalid & bus.rready):
                    m.d.comb += failed.eq(1)
                    m.next = "Refuse"
                with m.Elif(self.dwords.valid & self.dwords.ready):
                    m.d.sync += [address.eq(address + 1), remaining.eq(remaining - 1), piece.eq(piece - 1)]
                    with m.If(piece != 1):
                        m.d.sync += bus.arvalid.eq(access)
                    with m.Else():
                        m.d.comb += self.requests.ready.eq(final)
                        m.d.sync += [left.eq(left - (4 * BOUNDARY_DWORDS - low)), low.eq(0)]
                        m.next = "Split"
                        with m.If(final):
                            m.next = "Request"

            # -- Unsupported.
            with m.State("Refuse"):
                m.d.comb += [
                    refusing.eq(1), self.dwords.valid.eq(1), output.data.eq(descriptor_dword),
                    output.first.eq(step == 0), output.last.eq(step == UNSUPPORTED_DWORDS - 1),
                ]
                with m.If(self.dwords.ready):
                    m.d.sync += step.eq(step + 1)
                    with m.If(output.last):
                        m.d.comb += self.requests.ready.eq(1)
                        m.next = "Request"
        return m

    def _packet(self, m, refusing, piece, left, low):
        """Descriptor of a completion, and what follows it if the request is refused."""
        item = self.requests.payload
        descriptor, head = item.descriptor, Signal(CompleterCompletion)
        m.d.comb += [
            head.lower_address.eq(low), head.byte_count.eq(left), head.dwords.eq(Mux(refusing, 0, piece)),
            head.locked.eq(descriptor.request_type == RequestType.LOCKED_READ),
            head.status.eq(Mux(refusing, CompletionStatus.UNSUPPORTED_REQUEST, CompletionStatus.SUCCESSFUL)),
            head.completer_function.eq(descriptor.target_function),
            *(head[name].eq(descriptor[name]) for name in (
                "address_type", "requester_id", "tag", "traffic_class", "attributes")),
        ]
        log = Cat(item.first_be, item.last_be, Const(0, 24), descriptor.as_value())
        return Cat(data.View.as_value(head), log)


def _is_error(resp):
    return (resp == Resp.SLVERR) | (resp == Resp.DECERR)
