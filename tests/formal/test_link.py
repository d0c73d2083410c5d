# SPDX-License-Identifier: Apache-2.0
"""Link port: packets are delivered once and in order over a channel that drops, duplicates, corrupts and delays them.
By induction: the window of unacknowledged packets, and what the receiver accepts. Bounded: a sender, a channel and a
receiver.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Cover, Format, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.ace.config import LINK_HIGH_WIDTH, LINK_SEQUENCE_WIDTH
from hw.ace.layouts import LinkState, PacketKind, implied_layout, link_header_layout, link_layout
from hw.ace.link.packet_crc import header_crc, packet_crc
from hw.ace.link.receiver import LinkReceiver
from hw.ace.link.sender import LinkSender
from hw.ace.link.window import LinkWindow
from hw.common.crc import CRC_WIDTH
from tests.formal.small import ACE
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]

LOW, WHOLE = LINK_SEQUENCE_WIDTH, LINK_SEQUENCE_WIDTH + LINK_HIGH_WIDTH


class Numbered(wiring.Component):
    """The window, compared with numbers that do not wrap so soon: those of the oldest stored packet, of the peer's
    acknowledgement, of the next packet, and of the first that was never sent.

    The sender is modelled as ``sender.py`` uses the window: when packets begin, and when it drains and rewinds.
    Acknowledgements are any numbers. The numbers here are two bits longer and wrap, too; only differences are compared.
    """

    def __init__(self):
        super().__init__({"received": In(1), "ack": In(LOW), "begin": In(1), "beat": In(1), "last": In(1),
                          "again": In(1), "reset": In(1)})

    def elaborate(self, platform):
        m = Module()
        dut = LinkWindow(ACE, 2)
        m.submodules.dut = parts = elaborated(dut)
        inside, again, skip = (Signal(name=name) for name in ("inside", "again_wanted", "skip_wanted"))
        draining, begins, rewind, moves = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            draining.eq(again | skip),
            begins.eq(self.begin & ~inside & ~draining & ~(dut.replaying & dut.progress)
                      & Mux(dut.replaying, dut.source.any(), dut.window) & ~self.reset),
            moves.eq(begins | (inside & self.beat)), rewind.eq(draining & ~inside & dut.settled),
            dut.reset.eq(self.reset), dut.rewind.eq(rewind), dut.draining.eq(draining & ~inside),
            dut.received_valid.eq(self.received), dut.ack.eq(self.ack), dut.beat.eq(moves), dut.last.eq(self.last),
            dut.chosen.eq(1),
        ]
        with m.If(moves):
            m.d.sync += inside.eq(~self.last)
        with m.If(dut.overtaken):
            m.d.sync += skip.eq(1)
        with m.If(self.again):
            m.d.sync += again.eq(1)
        with m.If(rewind):
            m.d.sync += [again.eq(0), skip.eq(0)]
        with m.If(self.reset):
            m.d.sync += [inside.eq(0), again.eq(0), skip.eq(0)]

        acked, peer, number, end = (Signal(WHOLE + 2, name=f"whole_{name}")
                                    for name in ("acked", "peer", "number", "end"))
        low_acked, low_end = internal(parts, "acked"), internal(parts, "end")
        done = moves & self.last

        def ahead(one, other):
            """How far ``one`` is ahead of ``other``."""
            return (one - other)[:WHOLE + 2]

        new = ahead(Cat(self.ack, acked[LOW:]), acked)[:LOW]     # of the acknowledgement, from the oldest packet
        accepts = self.received & (new <= ahead(end, acked)) & (new >= ahead(peer, acked))
        with m.If(done & ~dut.replaying):
            m.d.sync += end.eq(end + 1)
        with m.If(low_acked != dut.peer):
            with m.If((low_acked != dut.sequence) | (draining & ~inside)):
                m.d.sync += acked.eq(acked + 1)
        with m.If(rewind):
            m.d.sync += number.eq(acked)
        with m.Elif(done):
            m.d.sync += number.eq(number + 1)
        with m.If(accepts):
            m.d.sync += peer.eq(acked + new)
        with m.If(self.reset):
            m.d.sync += [acked.eq(0), peer.eq(0), number.eq(0), end.eq(0)]

        stored, depth = ahead(end, acked), ACE.link_window
        m.d.comb += [
            Assert((low_acked == acked[:LOW]) & (low_end == end[:LOW]) & (dut.peer == peer[:LOW])
                   & (dut.sequence == number[:LOW]), Format("the numbers")),
            Assert(stored < depth, Format("more packets than rows")),
            Assert(~(dut.window | (inside & ~dut.replaying)) | (stored < depth - 1), Format("a packet without a row")),
            Assert(ahead(peer, acked) <= stored, Format("an acknowledgement of a packet that was never sent")),
            Assert(ahead(end, number) < depth, Format("a packet beyond the end")),
            Assert(draining | (ahead(number, acked) <= stored), Format("a packet that was released")),
            Assert(dut.high == peer[LOW:WHOLE], Format("the acknowledgement's high bits")),
            Assert(dut.replaying == (number != end), Format("replaying")),
            Assert(~begins | (ahead(number, peer) <= stored), Format("a packet begins that the peer has received")),
            Assert(~begins | (dut.sequence_high == number[LOW:WHOLE]), Format("a packet's high bits")),
        ]
        return m


class Accepted(wiring.Component):
    """Each packet that the receiver commits, compared with the beats on ``rx``, which are any.

    A packet is committed if, and only if, its beats came one after the other, from the first to the last one, its
    number is the expected one, and its CRC matches these beats, the expected number's high bits, the acknowledgement's
    high bits and the session. So if a CRC matches only what was sent under it, the packets are those that the sender
    numbered 0, 1, 2 and so on, in this order.
    """

    def __init__(self):
        super().__init__({"state": In(LinkState), "number": In(8), "ack": In(LOW), "high": In(LINK_HIGH_WIDTH),
                          "valid": In(1), "beat": In(link_layout(ACE)), "ready": In(1)})

    def elaborate(self, platform):
        m = Module()
        dut = LinkReceiver(ACE)
        m.submodules.dut = parts = elaborated(dut)
        state = Value.cast(self.state)
        m.d.comb += [
            Assume(Cat(state == one.value for one in LinkState).any()),
            dut.session.state.eq(self.state), dut.session.number.eq(self.number), dut.acknowledged.ack.eq(self.ack),
            dut.acknowledged.high.eq(self.high), dut.rx.valid.eq(self.valid), dut.rx.payload.eq(self.beat),
            dut.o[0].ready.eq(self.ready),
        ]
        # The packet so far: its header, whether it is whole, its CRC, and whether all of it found a free entry.
        begun, crc = Signal(), Signal(CRC_WIDTH, name="crc_so_far")
        first, header = Signal(link_header_layout(ACE), name="first_header"), Signal(link_header_layout(ACE))
        now = Signal(link_layout(ACE), name="now")
        present, total = Signal(), Signal(CRC_WIDTH, name="crc_total")
        following = packet_crc(m, self.beat, crc, header_crc(m, self.beat.header))
        m.d.sync += [present.eq(self.valid)]
        with m.If(self.valid):
            m.d.sync += [crc.eq(following), now.eq(self.beat), total.eq(following)]
        continues = Signal()
        m.d.comb += [header.eq(Mux(now.first, now.header, first)), continues.eq(present & (now.first | begun))]
        with m.If(continues):
            m.d.sync += [begun.eq(~now.last), first.eq(header)]
        buffer = parts.submodules.buffer_0
        expected = dut.status.expected
        accepts = (state == LinkState.INIT.value) | (state == LinkState.UP.value)
        wanted = Signal(implied_layout())
        high = Mux(header.ack < self.ack, self.high + 1, self.high)[:LINK_HIGH_WIDTH]
        m.d.comb += [wanted.session.eq(self.number), wanted.sequence_high.eq(expected[LOW:]), wanted.ack_high.eq(high)]
        matches = (total ^ now.crc) == Value.cast(wanted)
        is_next = (header.sequence == expected[:LOW]) & (Value.cast(header.packet.kind) != PacketKind.CREDIT.value)
        flit = buffer.i.payload
        fits = internal(parts, "fits")
        mine = continues & is_next & accepts
        counted, entered = Signal(WHOLE), Signal(init=1)        # entered: the beats of the packet before this one
        with m.If(mine):
            m.d.sync += entered.eq(buffer.i.ready & (now.first | entered))
        with m.If(~accepts):
            m.d.sync += counted.eq(0)
        with m.Elif(buffer.commit):
            m.d.sync += counted.eq(counted + 1)
        m.d.comb += [
            Assert(buffer.commit == (mine & now.last & matches & fits), Format("a packet is accepted, or dropped")),
            Assert(buffer.i.valid == mine, Format("a beat is lost, or from nowhere")),
            Assert(~mine | ((flit.data == now.data) & (Value.cast(flit.header) == Value.cast(header.packet))
                            & (flit.first == now.first) & (flit.last == now.last) & (buffer.first == now.first)),
                   Format("another beat")),
            Assert(~buffer.commit | (buffer.i.ready & (now.first | entered)),
                   Format("a packet is committed that did not fit")),
            Assert(expected == counted, Format("a number is skipped or repeated")),
            # The block's registers are these.
            Assert(internal(parts, "inside") == begun), Assert(internal(parts, "valid") == present),
            Assert(internal(parts, "beat") == Value.cast(now)), Assert(internal(parts, "crc") == crc),
            Assert(~now.first | (internal(parts, "header") == Value.cast(now.header))), Assert(total == crc),
            Assert(~begun | (present & now.first) | (internal(parts, "header") == Value.cast(first))),
            Assert(internal(parts, "lost") == ~entered),
        ]
        return m


class Channel(wiring.Component):
    """A sender, a channel and a receiver. The packets have no payload, and consecutive numbers.

    In each cycle the channel delivers the sent packet, an earlier one, the sent one with a wrong CRC, or none. The
    receiver's reports arrive at any later time, in any order, or not; a time-out may come at any time.
    """

    def __init__(self, flaw=None):
        self.flaw = flaw
        super().__init__({"push": In(1), "keep": In(1), "choice": In(2), "report": In(1), "old_report": In(1),
                          "nak": In(1), "timeout": In(1), "tx_ready": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender = sender = LinkSender(ACE)
        m.submodules.receiver = receiver = LinkReceiver(ACE)
        pushed, delivered = Signal(8), Signal(8)
        m.d.comb += [
            sender.session.state.eq(LinkState.UP), receiver.session.state.eq(LinkState.UP),
            sender.signals.valid.eq(self.push), sender.signals.payload.kind.eq(PacketKind.GRANT),
            sender.signals.payload.sequence.eq(pushed), sender.tx.ready.eq(self.tx_ready), receiver.o[0].ready.eq(1),
        ]
        with m.If(self.push & sender.signals.ready):
            m.d.sync += pushed.eq(pushed + 1)
        # The channel.
        kept, some = Signal(link_layout(ACE)), Signal()
        sent = sender.tx.valid & self.tx_ready
        with m.If(sent & self.keep):
            m.d.sync += [kept.eq(sender.tx.payload), some.eq(1)]
        with m.Switch(self.choice):
            with m.Case(1):
                m.d.comb += [receiver.rx.valid.eq(sent), receiver.rx.payload.eq(sender.tx.payload)]
            with m.Case(2):
                m.d.comb += [receiver.rx.valid.eq(some), receiver.rx.payload.eq(kept)]
            with m.Case(3):
                m.d.comb += [receiver.rx.valid.eq(sent), receiver.rx.payload.eq(sender.tx.payload),
                             receiver.rx.payload.crc.eq(sender.tx.payload.crc ^ 1)]
        # Reports: the receiver's present number, or an earlier one.
        earlier, expected = Signal(LOW), receiver.status.expected[:LOW]
        with m.If(self.keep):
            m.d.sync += earlier.eq(expected)
        received = sender.received.payload
        m.d.comb += [
            sender.received.valid.eq(self.report), sender.commands.current.eq(self.report),
            # The receiver of reports drops older ones: their high bits are covered by the CRC.
            received.recent.eq(received.ack >= sender.acknowledged.ack),
            received.ack.eq(Mux(self.old_report, earlier, expected)), received.nak.eq(self.nak),
            received.control.eq(1), sender.commands.replay.eq(self.timeout),
            received.credits[0].eq(receiver.status.taken[0]),
        ]
        out = receiver.o[0]
        with m.If(out.valid):
            m.d.sync += delivered.eq(delivered + 1)
        m.d.comb += [
            Assert(~out.valid | (out.payload.header.sequence == delivered),
                   Format("a packet is lost, duplicated or out of order")),
            Assert(~out.valid | (delivered != pushed), Format("a packet from nowhere")),
            Assert(~sender.status.violated, Format("a violation")),
            Cover((delivered == 2) & sender.status.replayed),
        ]
        return m


def test_window():
    prove(Numbered(), name="link-window", depth=2, mode="prove")


def test_receiver():
    prove(Accepted(), name="link-receiver", depth=2, mode="prove")


def test_channel():
    prove(Channel(), name="link-channel", depth=13)
