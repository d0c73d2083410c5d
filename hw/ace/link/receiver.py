# SPDX-License-Identifier: Apache-2.0
"""The receiving end of a link: delivers packets that are intact and in order, and drops all others.

::

    cycle  0      1                                              2
           rx     CRC and number compared, beat to its buffer    from the buffer; the packet's fields, to the sender

Latency: 2 cycles from a packet's last beat on ``rx`` to its first on ``o``, 3 where the buffer is block RAM, 4 with
``receive_output_register``; one more with ``registered_header_crc``.  Throughput: 1 beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.config import LINK_CREDIT_WIDTH, LINK_HIGH_WIDTH, LINK_SEQUENCE_WIDTH, AceConfig
from hw.ace.layouts import (
    LinkState,
    PacketKind,
    flit_layout,
    implied_layout,
    link_header_layout,
    link_layout,
    received_layout,
)
from hw.common.crc import CRC_WIDTH
from hw.common.delay import delayed
from hw.common.event import EventSignature
from hw.stream import CommitQueue

from .packet_crc import header_crc, packet_crc
from .session import LinkSession
from .window import Acknowledged

__all__ = ["LinkReceiver", "ReceivedHeader", "ReceiverStatus"]


class ReceivedHeader(EventSignature):
    """Fields of an intact packet, for the own port: broadcast by LinkReceiver, from registers."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(received_layout(config))


class ReceiverStatus(wiring.Signature):
    """LinkReceiver's status for the port's other stages, in every cycle, without handshake.

    Members
    -------
    expected : ``Out``
        Number of the next expected packet.
    taken : ``Out(LINK_CREDIT_WIDTH).array(link_channels)``
        Beats read from each buffer, modulo 2 ** 13.
    nak, round : ``Out(1)``
        Strobe: request a replay from the peer, in this round.
    empty : ``Out(1)``
        All buffers are empty.
    repeated, wrong, missed, stale : ``Out(1)``
        Strobes, for a packet that is a duplicate; corrupt; out of sequence; of an earlier session or too old.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "expected": Out(LINK_SEQUENCE_WIDTH + LINK_HIGH_WIDTH),
            "taken": Out(LINK_CREDIT_WIDTH).array(config.link_channels), "nak": Out(1), "round": Out(1),
            "empty": Out(1), "repeated": Out(1), "wrong": Out(1), "missed": Out(1), "stale": Out(1),
        })


class LinkReceiver(wiring.Component):
    """Store packets in their channel's buffer, and commit each that is intact and has the expected number.

    A packet that is corrupt or out of sequence makes the receiver request a replay, once in each of the peer's rounds.
    The bits of :func:`implied_layout` are assumed to be those of the nearest number and of the lowest acknowledgement
    not below the last one; a packet is intact if its CRC matches with them. If the CRC matches the right session and
    other numbers, the packet is stale: it is dropped without a NAK.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    session : ``In(LinkSession)``
        Packets are accepted in INIT and UP; in other states only CREDIT packets count.
    acknowledged : ``In(Acknowledged)``
    rx : ``In(stream.Signature(link_layout))``
        Always ready.
    o : ``Out(stream.Signature(flit_layout)).array(link_channels)``
    received : ``Out(ReceivedHeader)``, status : ``Out(ReceiverStatus)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        flits = stream.Signature(flit_layout(config))
        super().__init__({
            "session": In(LinkSession()), "acknowledged": In(Acknowledged()),
            "rx": In(stream.Signature(link_layout(config))), "o": Out(flits).array(config.link_channels),
            "received": Out(ReceivedHeader(config)), "status": Out(ReceiverStatus(config)),
        })

    def elaborate(self, platform):
        m = Module()
        state, known = self.session.state, self.acknowledged
        self._restarts, self._accepts = Signal(), Signal()
        m.d.comb += [
            self._restarts.eq((state == LinkState.DOWN) | (state == LinkState.START)),
            self._accepts.eq((state == LinkState.INIT) | (state == LinkState.UP)),
        ]
        beat = Signal(link_layout(self.config), reset_less=True)
        header = Signal(link_header_layout(self.config), reset_less=True)
        valid = Signal()
        crc = Signal(CRC_WIDTH, reset_less=True)
        arrives, arriving, alone = self.rx.valid, self.rx.payload, header_crc(m, self.rx.payload.header)
        m.d.comb += self.rx.ready.eq(1)
        if self.config.timing.registered_header_crc:
            arrives = delayed(m, arrives, 1, name="arrives", reset_less=False)
            arriving, alone = delayed(m, arriving, 1, name="arriving"), delayed(m, alone, 1, name="alone")
        following = packet_crc(m, arriving, crc, alone)
        m.d.sync += valid.eq(arrives)
        with m.If(arrives):
            m.d.sync += [beat.eq(arriving), crc.eq(following)]
        with m.If(arrives & arriving.first):
            m.d.sync += header.eq(arriving.header)

        # Whether the first beat of this packet was received; ``header`` is that of the latest first beat.
        inside, some = Signal(name="inside"), Signal()
        m.d.comb += some.eq(valid & (beat.first | inside))
        with m.If(some):
            m.d.sync += inside.eq(~beat.last)

        whole, good, credit, due, ahead = Signal(), Signal(), Signal(), Signal(), Signal()
        low, high = self.status.expected[:LINK_SEQUENCE_WIDTH], self.status.expected[LINK_SEQUENCE_WIDTH:]
        behind, carried = Signal(LINK_SEQUENCE_WIDTH), Signal()
        # The CRC leaves the implied bits; its other bits must match.
        left, claimed, differs = Signal(CRC_WIDTH), Signal(implied_layout()), Signal()
        # The high bits are one more behind an overflow of the low bits. Compared with both, as overflows are
        # late-arriving.
        sequence_overflows, ack_overflows = Signal(), Signal()
        same_sequence = Mux(sequence_overflows, _equal(claimed.sequence_high, high + 1),
                            _equal(claimed.sequence_high, high))
        ack_high = Mux(ack_overflows, known.high + 1, known.high)[:len(known.high)]
        same_ack = Mux(ack_overflows, _equal(claimed.ack_high, known.high + 1), _equal(claimed.ack_high, known.high))
        outdated, ours, packet = Signal(), Signal(), header.packet
        m.d.comb += [
            whole.eq(some & beat.last), credit.eq(packet.kind == PacketKind.CREDIT),
            # Compared by XOR: the carries of the difference would arrive late.
            due.eq(~(low ^ header.sequence).any() & ~credit & self._accepts),
            Cat(behind, carried).eq(low - header.sequence),
            ahead.eq((behind > 1 << LINK_SEQUENCE_WIDTH - 1) & ~credit & self._accepts),
            sequence_overflows.eq(ahead & ~carried), ack_overflows.eq(header.ack < known.ack),
            left.eq(crc ^ beat.crc), claimed.eq(left), differs.eq(left[len(Value.cast(claimed)):].any()),
            good.eq(Mux(credit, ~left.any(), ours & same_sequence & same_ack)),
            ours.eq(self._accepts & ~differs & ~(claimed.session ^ self.session.number).any()),
            outdated.eq(~good & ~credit & ours),
        ]
        fits, commit = Signal(name="fits"), Signal()
        self._buffers(m, beat, header, some & due, commit, fits)
        m.d.comb += commit.eq(whole & good & due & fits)

        # Reports to the sender and the control, one cycle later.
        received = self.received.payload
        m.d.sync += [
            self.received.valid.eq(whole & good), self.status.stale.eq(whole & outdated),
            received.recent.eq(~credit | _equal(packet.ack_high, ack_high)),
            received.session.eq(packet.session), received.named.eq(~(packet.peer ^ self.session.number).any()),
            received.ack.eq(header.ack), received.credits.eq(header.credits), received.round.eq(header.round),
            received.control.eq(credit), received.state.eq(packet.state),
            *(received[name].eq(credit & packet[name]) for name in ("nak", "ask", "refuse")),
            self.status.wrong.eq(whole & ~good & ~outdated & (credit | self._accepts)
                                 | valid & beat.first & inside | valid & beat.last & ~beat.first & ~inside),
            self.status.missed.eq(whole & good & (ahead | (due & ~fits))),
            self.status.repeated.eq(whole & good & ~due & ~ahead & ~credit & self._accepts),
        ]
        self._complain(m, whole, good, header, commit)
        with m.If(commit):
            m.d.sync += self.status.expected.eq(self.status.expected + 1)
        with m.If(self._restarts):
            m.d.sync += self.status.expected.eq(0)
        return m

    def _buffers(self, m, beat, header, keep, commit, fits):
        """The buffers of all channels. The peer's credits prevent overflow; a packet that overflows is not
        committed."""
        config = self.config
        ready, empty = (Signal(config.link_channels, name=name) for name in ("ready", "empty"))
        lost = Signal()
        for number, o in enumerate(self.o):
            m.submodules[f"buffer_{number}"] = buffer = CommitQueue(
                flit_layout(config), depth=config.link_beats, output_register=config.timing.receive_output_register)
            connect(m, buffer.o, flipped(o))
            mine = header.channel == number if config.link_channels > 1 else C(1)
            flit = buffer.i.payload
            m.d.comb += [
                buffer.i.valid.eq(keep & mine), buffer.first.eq(beat.first), buffer.commit.eq(commit & mine),
                flit.data.eq(beat.data), flit.header.eq(header.packet), flit.first.eq(beat.first),
                flit.last.eq(beat.last), ready[number].eq(buffer.i.ready | ~mine), empty[number].eq(buffer.empty),
            ]
            with m.If(self._restarts):
                m.d.sync += self.status.taken[number].eq(0)
            with m.Else():
                m.d.sync += self.status.taken[number].eq(self.status.taken[number] + (o.valid & o.ready))
        m.d.comb += [fits.eq(ready.all() & (beat.first | ~lost)), self.status.empty.eq(empty.all())]
        with m.If(keep):
            m.d.sync += lost.eq(~fits)

    def _complain(self, m, whole, good, header, commit):
        """A NAK for each round in which a packet is missing; a corrupt packet is assumed to be of the round of the last
        intact one."""
        said, said_round, last_round = Signal(), Signal(), Signal()
        m.d.sync += self.status.nak.eq(0)
        with m.If(self.status.wrong & self._accepts & ~said):
            m.d.sync += [self.status.nak.eq(1), self.status.round.eq(last_round), said.eq(1), said_round.eq(last_round)]
        seen = Signal()
        m.d.sync += seen.eq(header.round)
        with m.If(self.status.missed & ~(said & (said_round == seen))):
            m.d.sync += [self.status.nak.eq(1), self.status.round.eq(seen), said.eq(1), said_round.eq(seen)]
        with m.If(commit):
            m.d.sync += said.eq(0)
        with m.If(whole & good & (header.packet.kind != PacketKind.CREDIT)):
            m.d.sync += last_round.eq(header.round)
        with m.If(self._restarts):
            m.d.sync += [said.eq(0), last_round.eq(0), self.status.nak.eq(0)]


def _equal(bits, number):
    """Whether ``bits`` are the low bits of ``number``, by XOR: without the carries of a difference."""
    return ~(bits ^ number[:len(bits)]).any()
