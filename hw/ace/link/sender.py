# SPDX-License-Identifier: Apache-2.0
"""The sending end of a link: stores packets until they are acknowledged, and replays them on request.

::

    cycle  0               1                 2 or 3           +1              +2
           i               to the memory     choose           beat and        CRC: tx
                                             a packet         header

Latency: 3 cycles from ``i`` to ``tx``, 4 where the memory is block RAM, 5 with ``replay_output_register``; one
more with ``registered_header_crc``.
Throughput: 1 beat per cycle, as long as memory and window cover the round trip.
"""

from functools import reduce
from operator import or_

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import LINK_SEQUENCE_WIDTH, LINK_SESSION_WIDTH, AceConfig
from hw.ace.layouts import LinkState, PacketKind, flit_layout, implied_layout, link_layout, packet_layout
from hw.common.crc import CRC_WIDTH
from hw.stream import ReplayQueue

from .credits import PeerCredits, ReportedCredits
from .packet_crc import header_crc, packet_crc
from .receiver import ReceivedHeader, ReceiverStatus
from .session import LinkSession, SenderCommands
from .window import Acknowledged, LinkWindow

__all__ = ["SIGNALS", "LinkSender", "ReplayLevels", "SenderStatus", "SignalPort"]

SIGNALS = 32
"""Entries for GRANTs that wait or are not acknowledged."""


class SignalPort(wiring.Signature):
    """Headers of packets without payload: a stream of ``packet_layout``, and credits ahead of it.

    The sender drives ``free``, from registers: credit for at least two more headers.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({**stream.Signature(packet_layout(config)).members, "free": In(1)})


class ReplayLevels(wiring.Signature):
    """Fill levels of the memory of channel 0, in beats, driven by the sender from registers.

    Members
    -------
    level : ``Out(range(replay_beats + 1))``
        Stored beats.
    fresh : ``Out(range(replay_beats + 1))``
        Those of them that were never sent.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({name: Out(range(config.replay_beats + 1)) for name in ("level", "fresh")})


class SenderStatus(wiring.Signature):
    """LinkSender's status for the port's other stages, in every cycle, without handshake.

    Members
    -------
    free : ``Out(range(link_beats + 1))``
        Free entries of the peer's buffer of channel 0, in beats.
    unacknowledged : ``Out(LINK_SEQUENCE_WIDTH)``
        Packets in flight.
    waiting : ``Out(1)``
        Packets wait that were never sent.
    progress, replayed, violated : ``Out(1)``
        Strobes: the peer has acknowledged a further packet; a replay starts; the peer has acknowledged, or returned
        credits for, beats that were never sent.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "free": Out(range(config.link_beats + 1)), "unacknowledged": Out(LINK_SEQUENCE_WIDTH),
            "waiting": Out(1), "progress": Out(1), "replayed": Out(1), "violated": Out(1),
        })


class LinkSender(wiring.Component):
    """Number packets as they start, and store them until the peer has acknowledged them (go-back-N).

    Each source of packets has its own memory, so that GRANTs precede waiting packets, and no channel waits for the
    credits of another; a table of the last packets stores the source of each.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(flit_layout)).array(link_channels)``
        Packets of each channel.
    signals : ``In(SignalPort)``
        Headers of packets without payload, of channel 0; they precede other waiting packets.
    tx : ``Out(stream.Signature(link_layout))``
        Registered.
    session : ``In(LinkSession)``, commands : ``In(SenderCommands)``
    receiver : ``In(ReceiverStatus)``
        Status of the port's own receiver, for reports to the peer.
    received : ``In(ReceivedHeader)``
    levels : ``Out(ReplayLevels)``, acknowledged : ``Out(Acknowledged)``, status : ``Out(SenderStatus)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        flits = stream.Signature(flit_layout(config))
        super().__init__({
            "i": In(flits).array(config.link_channels), "signals": In(SignalPort(config)),
            "tx": Out(stream.Signature(link_layout(config))),
            "session": In(LinkSession()), "commands": In(SenderCommands()),
            "receiver": In(ReceiverStatus(config)), "received": In(ReceivedHeader(config)),
            "levels": Out(ReplayLevels(config)), "acknowledged": Out(Acknowledged()),
            "status": Out(SenderStatus(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, flit = self.config, flit_layout(self.config)
        up, reset = Signal(), Signal()
        m.d.comb += [up.eq(self.session.state == LinkState.UP),
                     reset.eq((self.session.state == LinkState.DOWN) | (self.session.state == LinkState.START))]
        sources = self._sources(m)
        kinds = range(len(sources))

        # The next packet: during a replay, one that was sent before, by the table; otherwise a new one that has
        # credits.
        may = Signal(len(sources))
        new, again, begin, beginning = (Signal(len(sources), name=name)
                                        for name in ("new", "again", "begin", "beginning"))
        window, replaying, inside, draining, urgent, due = Signal(), Signal(), Signal(), Signal(), Signal(), Signal()
        offered = Cat(source.o.valid for source in sources)
        turn = Signal()
        first_choice = offered & may
        if config.link_channels > 1:
            # Channels in turn.
            m.d.comb += new.eq(Mux(first_choice[0], 1, Mux(
                first_choice[1] & ~(turn & first_choice[2]), 2, Mux(first_choice[2], 4, 0))))
        else:
            m.d.comb += new.eq(Mux(first_choice[0], 1, first_choice))
        table = LinkWindow(config, len(sources))
        m.submodules.packets = table
        m.d.comb += [
            again.eq(offered & table.source),
            beginning.eq(Mux(replaying, again, Mux(window, new, 0))),
            # A packet that is about to be replayed may just have been acknowledged; then the window drains.
            begin.eq(Mux(up & ~draining & ~urgent & ~(replaying & table.progress), beginning, 0)),
        ]

        # A beat, or a CREDIT packet, enters the first register.
        current, chosen = Signal(len(sources)), Signal(len(sources))
        go, move, report, last = Signal(), Signal(), Signal(), Signal()
        beat, full = Signal(link_layout(config), reset_less=True), Signal()
        selected = Signal(flit)
        m.d.comb += [
            chosen.eq(Mux(inside, current & offered, begin)),
            selected.eq(_one_of([source.o.payload for source in sources], chosen)),
            move.eq(go & chosen.any()),
            report.eq(go & ~inside & (urgent | (due & ~begin.any()))),
            last.eq(selected.last),
            *(source.o.ready.eq(go & chosen[number]) for number, source in enumerate(sources)),
        ]
        with m.If(move):
            m.d.sync += [inside.eq(~last), current.eq(chosen)]
            with m.If(~inside & ~chosen[0]):
                m.d.sync += turn.eq(chosen[1])
        with m.If(reset):
            m.d.sync += inside.eq(0)

        # The table, acknowledgements, and the start of replays.
        m.d.comb += [
            table.reset.eq(reset), table.received_valid.eq(self.commands.current & self.received.payload.recent & up),
            table.ack.eq(self.received.payload.ack), table.beat.eq(move), table.last.eq(last), table.chosen.eq(chosen),
            table.draining.eq(draining & ~inside), replaying.eq(table.replaying), window.eq(table.window),
            self.status.unacknowledged.eq(table.unacknowledged), self.status.progress.eq(table.progress),
            self.acknowledged.ack.eq(table.peer), self.acknowledged.high.eq(table.high),
        ]
        again_wanted, skip_wanted, turned = Signal(), Signal(), Signal()
        received = self.received.payload
        recent = self.commands.current & received.recent & table.recent
        complained = recent & received.nak & (received.round == turned)
        m.d.comb += draining.eq(again_wanted | skip_wanted)
        with m.If(table.overtaken):
            m.d.sync += skip_wanted.eq(1)
        rewind = draining & ~inside & table.settled
        with m.If(self.commands.replay | complained):
            m.d.sync += again_wanted.eq(1)
        with m.If(rewind):
            m.d.sync += [again_wanted.eq(0), skip_wanted.eq(0), turned.eq(turned ^ again_wanted)]
        m.d.sync += self.status.replayed.eq(rewind & again_wanted & table.some)
        with m.If(reset):
            m.d.sync += [again_wanted.eq(0), skip_wanted.eq(0), turned.eq(0)]
        m.d.comb += table.rewind.eq(rewind)
        for number, source in enumerate(sources):
            m.d.comb += [source.queue.rewind.eq(rewind),
                         source.queue.release.eq(Mux(table.release[number], table.release_beats, 0))]

        # Credits of the peer, and reports to it.
        m.submodules.reported = reported = ReportedCredits(config)
        channels, violated = [0, *range(config.link_channels)], [table.violated]
        for channel in range(config.link_channels):
            m.submodules[f"peer_credits_{channel}"] = peer_credits = PeerCredits(config)
            used = Cat(chosen[number] for number in kinds if channels[number] == channel).any()
            m.d.comb += [
                peer_credits.reset.eq(reset), peer_credits.valid.eq(recent),
                peer_credits.credits.eq(received.credits[channel]),
                peer_credits.take.eq(move & ~replaying & used),
                *(may[number].eq(peer_credits.fits) for number in kinds if channels[number] == channel),
                reported.taken[channel].eq(self.receiver.taken[channel]),
            ]
            violated.append(peer_credits.violated)
            if channel == 0:
                m.d.comb += self.status.free.eq(peer_credits.free)
        m.d.comb += self.status.violated.eq(Cat(violated).any() & up)
        nak, ask, respond, refuse, refused = Signal(), Signal(), Signal(), Signal(), Signal(LINK_SESSION_WIDTH)
        wanted = Signal()
        m.d.comb += [
            # Respond at once to a peer that is asked to replay, or that replays without need.
            wanted.eq(self.commands.report | self.receiver.repeated),
            reported.expected.eq(self.receiver.expected), reported.reset.eq(reset),
            reported.report.eq(report | (move & ~inside)),
            urgent.eq(nak | ask | respond | refuse), due.eq(up & reported.due),
        ]
        with m.If(report):
            m.d.sync += [nak.eq(0), ask.eq(0), respond.eq(0), refuse.eq(0)]
        for flag, when in ((nak, self.receiver.nak), (ask, self.commands.ask),
                           (respond, wanted | (self.commands.current & received.ask)), (refuse, self.commands.refuse)):
            with m.If(when):
                m.d.sync += flag.eq(1)
        with m.If(self.commands.refuse):
            m.d.sync += refused.eq(received.session)

        # Nothing is selected while a CREDIT packet is sent.
        header, credit = beat.header, Signal(packet_layout(config))
        highs, numbered = Signal(implied_layout(), reset_less=True), Signal()
        ack_high = self.receiver.expected[LINK_SEQUENCE_WIDTH:]
        with m.If(report):
            m.d.comb += [
                credit.kind.eq(PacketKind.CREDIT), credit.state.eq(self.session.state), credit.nak.eq(nak),
                credit.ask.eq(ask), credit.refuse.eq(refuse), credit.session.eq(self.session.number),
                credit.peer.eq(Mux(refuse, refused, self.commands.peer)), credit.ack_high.eq(ack_high),
            ]
        # The link may stall a packet until the next session has begun: it keeps the session in which it began.
        with m.If(go & ~inside):
            m.d.sync += [numbered.eq(~report), highs.sequence_high.eq(table.sequence_high), highs.ack_high.eq(ack_high),
                         highs.session.eq(self.commands.peer)]
        with m.If(go):
            m.d.sync += [
                full.eq(move | report), beat.first.eq(~inside), beat.last.eq(report | last),
                beat.data.eq(selected.data), header.sequence.eq(table.sequence),
                header.packet.eq(Value.cast(selected.header) | Value.cast(credit)),
                header.ack.eq(self.receiver.expected), header.round.eq(turned),
                header.channel.eq(chosen[2] if config.link_channels > 1 else 0),
                *(header.credits[channel].eq(taken) for channel, taken in enumerate(self.receiver.taken)),
            ]
            with m.If(report):
                m.d.sync += header.round.eq(self.receiver.round)
        self._check(m, beat, Mux(numbered & beat.last, Value.cast(highs), 0), full, go)
        return m

    def _sources(self, m):
        """The memories: of packets without payload, then of each channel."""
        config, flit = self.config, flit_layout(self.config)
        down = Signal()
        m.d.comb += down.eq(self.session.state == LinkState.DOWN)
        m.submodules.signals = signals = ReplayQueue(packet_layout(config), depth=SIGNALS, ram="lut")
        # Registered, so one more GRANT may be in flight.
        m.d.sync += self.signals.free.eq(signals.level < SIGNALS - 2)
        m.d.comb += [signals.i.payload.eq(self.signals.payload), signals.i.valid.eq(self.signals.valid & ~down),
                     self.signals.ready.eq(signals.i.ready | down)]
        offered = _Source(stream.Signature(flit).create(), signals)
        m.d.comb += [offered.o.valid.eq(signals.o.valid), signals.o.ready.eq(offered.o.ready),
                     offered.o.payload.header.eq(signals.o.payload), offered.o.payload.first.eq(1),
                     offered.o.payload.last.eq(1)]
        sources = [offered]
        for number, i in enumerate(self.i):
            m.submodules[f"channel_{number}"] = queue = ReplayQueue(
                flit, depth=config.replay_beats, output_register=config.timing.replay_output_register)
            # A packet that started while the port was down is dropped to its end.
            within, skips = Signal(name=f"within_{number}"), Signal(name=f"skips_{number}")
            later = Mux(i.valid & i.ready, ~i.payload.last, within)
            m.d.sync += within.eq(later)
            m.d.sync += skips.eq(later & (down | skips))
            m.d.comb += [queue.i.payload.eq(i.payload), queue.i.valid.eq(i.valid & ~skips & ~down),
                         i.ready.eq(queue.i.ready | skips | down)]
            sources.append(_Source(queue.o, queue))
        for source in sources:
            m.d.comb += source.queue.clear.eq(down)
        m.d.comb += [self.levels.level.eq(sources[1].queue.level), self.levels.fresh.eq(sources[1].queue.fresh)]
        m.d.sync += self.status.waiting.eq(Cat(source.queue.fresh != 0 for source in sources).any())
        return sources

    def _check(self, m, beat, implied, full, go):
        """The last register: the CRC; with ``registered_header_crc``, one for that of the header in front of it."""
        out, crc = self.tx.payload, Signal(CRC_WIDTH, reset_less=True)
        empty, alone = Signal(), header_crc(m, beat.header)
        m.d.comb += [empty.eq(~self.tx.valid | self.tx.ready), out.crc.eq(crc)]
        if self.config.timing.registered_header_crc:
            held, step = Signal(), Signal()
            registered = [Signal.like(value, reset_less=True) for value in (beat, implied, alone)]
            m.d.comb += [step.eq(~held | empty), go.eq(~full | step)]
            with m.If(step):
                m.d.sync += held.eq(full)
                m.d.sync += [register.eq(value) for register, value in zip(registered, (beat, implied, alone),
                                                                           strict=True)]
            full, (beat, implied, alone) = held, registered
        else:
            m.d.comb += go.eq(~full | empty)
        following = packet_crc(m, beat, crc, alone)
        with m.If(empty):
            m.d.sync += self.tx.valid.eq(full)
            with m.If(full):
                m.d.sync += [*(out[name].eq(beat[name]) for name in ("data", "header", "first", "last")),
                             crc.eq(following ^ implied)]


class _Source:
    """A memory of packets, and the stream of its beats."""

    def __init__(self, o: wiring.PureInterface, queue: ReplayQueue) -> None:
        self.o, self.queue = o, queue


def _one_of(values, chosen):
    """The one of ``values`` whose bit is set, or 0."""
    values = [Value.cast(value) for value in values]
    return reduce(or_, (value & chosen[number].replicate(len(value)) for number, value in enumerate(values)))
