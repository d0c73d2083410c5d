# SPDX-License-Identifier: Apache-2.0
"""Received packets by queue pair: requests to the responder, responses to the requester, CNPs to its rate limiter.

FrameParser -> ReceiveDispatch -> responder; requester's transport.

::

    cycle  0                            1                   2
           packet: look-up of its QP    sender, QPN, kind   packet

Latency: 2 cycles; 2 to the strobes as well.  Throughput: one beat per cycle, one packet per cycle.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.table import ram_of
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import receive_layout
from hw.rdma.ports import ConnectionWrite, MarkSignature
from hw.rdma.protocol import QPN_WIDTH, Opcode
from hw.stream.storage import NO_COLLISION

__all__ = ["DispatchCounts", "ReceiveDispatch"]

_RETURNS = (Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST, Opcode.READ_ONLY, Opcode.ACKNOWLEDGE)


class DispatchCounts(wiring.Signature):
    """Event strobes of ReceiveDispatch, from registers: a packet was dropped, because its queue pair is not open;
    because its sender is not the peer."""

    def __init__(self) -> None:
        super().__init__({"unknown": Out(1), "wrong_source": Out(1)})


class ReceiveDispatch(wiring.Component):
    """Find the queue pair of each packet, and pass the packet to the half of it that it concerns.

    The lower bits of a QPN are the number of the queue pair; all 24 bits are compared. A packet is dropped if its queue
    pair is closed, or if its source is not the peer's IP address. All queue pairs are closed after reset; one that
    software opens or closes is so for packets from the next cycle on.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    connections : ``In(ConnectionWrite)``
    i : ``In(stream.Signature(receive_layout(config)))``
    requests, returns : ``Out(stream.Signature(receive_layout(config)))``
        SEND, WRITE and READ requests; ACKNOWLEDGE and READ responses. ``header.qp`` is valid. From registers.
    marked, notified : ``Out(MarkSignature(config))``
        A packet that was accepted met congestion, so that a CNP is due; a CNP was received. From registers.
    counts : ``Out(DispatchCounts())``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        packets = stream.Signature(receive_layout(config))
        super().__init__({
            "connections": In(ConnectionWrite(config)), "i": In(packets), "requests": Out(packets),
            "returns": Out(packets), "marked": Out(MarkSignature(config)), "notified": Out(MarkSignature(config)),
            "counts": Out(DispatchCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, known = self.config, self._look_up(m)
        beat, valid, taken = Signal(receive_layout(config), reset_less=True), Signal(), Signal()
        m.d.comb += self.i.ready.eq(~valid | taken)
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), beat.eq(self.i.payload)]

        # Cycle 1: the decision is made with the first beat, and applies to all beats of the packet.
        header = beat.header
        matches, ours, wanted, returns, notifies = (Signal(name=name) for name in (
            "matches", "ours", "wanted", "returns", "notifies"))
        goes = Signal(2)
        held = Signal.like(goes)
        m.d.comb += [
            matches.eq(known.open & (header.qpn == Cat(header.qpn[:config.qp_bits], known.upper))),
            ours.eq(header.source == known.ip), wanted.eq(matches & ours), notifies.eq(header.opcode == Opcode.CNP),
            goes.eq(Mux(beat.first, Mux(wanted & ~notifies, Cat(~returns, returns), 0), held)),
        ]
        with m.Switch(header.opcode):
            with m.Case(*(one.value for one in _RETURNS)):
                m.d.comb += returns.eq(1)

        # Cycle 2.
        payload, offered, free = Signal(receive_layout(config), reset_less=True), Signal(2), Signal()
        outputs = self.requests, self.returns
        m.d.comb += [
            *(o.valid.eq(one) for o, one in zip(outputs, offered, strict=True)),
            *(o.payload.eq(payload) for o in outputs),
            free.eq((~offered | Cat(o.ready for o in outputs)).all()), taken.eq(valid & (free | (goes == 0))),
        ]
        with m.If(free):
            m.d.sync += [offered.eq(Mux(valid, goes, 0)), payload.eq(beat),
                         payload.header.qp.eq(header.qpn[:config.qp_bits])]
        begins = taken & beat.first
        with m.If(taken):
            m.d.sync += held.eq(goes)
        m.d.sync += [
            self.marked.valid.eq(begins & wanted & ~notifies & header.ce), self.marked.qp.eq(header.qpn),
            self.notified.valid.eq(begins & wanted & notifies), self.notified.qp.eq(header.qpn),
            self.counts.unknown.eq(begins & ~matches), self.counts.wrong_source.eq(begins & matches & ~ours),
        ]
        return m

    def _look_up(self, m):
        """Cycle 0: the entry of the packet's queue pair, in the next cycle; it follows a write."""
        config = self.config
        upper = QPN_WIDTH - config.qp_bits
        row = data.StructLayout({"upper": upper, "ip": 128})
        known = Signal(data.StructLayout({"open": 1, "upper": upper, "ip": 128}))
        m.submodules.rows = rows = memory.Memory(
            shape=row, depth=config.queue_pairs, init=[], attrs=ram_of(config.queue_pairs) | NO_COLLISION)
        write, read = rows.write_port(), rows.read_port()
        is_open, opened = Signal(config.queue_pairs), Signal()
        number, written = self.i.payload.header.qpn[:config.qp_bits], self.connections
        load = self.i.ready & self.i.valid & self.i.payload.first
        m.d.comb += [
            write.en.eq(written.valid), write.addr.eq(written.qp), write.data.ip.eq(written.entry.peer_ip),
            write.data.upper.eq(written.entry.qpn >> config.qp_bits), read.addr.eq(number), read.en.eq(load),
            known.open.eq(opened), known.upper.eq(read.data.upper), known.ip.eq(read.data.ip),
        ]
        with m.If(written.valid):
            m.d.sync += is_open.bit_select(written.qp, 1).eq(written.entry.open)
        with m.If(load):
            # A row that is written while it is read has either value.
            m.d.sync += opened.eq(is_open.bit_select(number, 1) & ~(written.valid & (written.qp == number)))
        return known
