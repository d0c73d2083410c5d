"""A link port: packets reach the other end once, whole and in order, whatever the link does with what it carries.

::

    i, signals -> LinkSender ---- tx --->
                   ^      ^
                   |   LinkControl          link
                   |      v
    o <-------- LinkReceiver <--- rx ----

Latency and throughput: those of :mod:`.link_sender` and :mod:`.link_receiver`. A packet is handed on when its last beat
has come, and its CRC is right.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.config import LINK_SEQUENCE_WIDTH
from hw.ace.layouts import LinkCause, LinkState, flit_layout, link_layout, packet_layout

from .receiver import LinkReceiver
from .sender import LinkSender
from .state import TIMEOUT_WIDTH, TRIES_WIDTH, LinkControl

__all__ = ["COUNT_WIDTH", "LINK_COUNTS", "LinkPort", "link_status_layout"]

LINK_COUNTS = ("replays", "crc_errors", "sequence_errors", "duplicates", "timeouts", "stale")
COUNT_WIDTH = 16
"""Counters stay at their largest value."""


def link_status_layout(config):
    """What software sees of a port: its state, why it went DOWN last, packets that are not acknowledged, room at the
    peer in channel 0, and counters."""
    return data.StructLayout({
        "state": LinkState, "cause": LinkCause, "unacknowledged": LINK_SEQUENCE_WIDTH,
        "credits": range(config.link_beats + 1),
        **{name: COUNT_WIDTH for name in LINK_COUNTS}})


class LinkPort(wiring.Component):
    """Both directions of a link.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(flit_layout)).array(link_channels)``, o : ``Out``, the same
        Packets to and from the peer. A port that is down takes and drops what it is given.
    signals : ``In(stream.Signature(packet_layout))``
        Headers of packets without payload, of channel 0; they go before packets that wait.
    signal_room : ``Out(1)``
        At least two more of them will be taken.
    tx : ``Out(stream.Signature(link_layout))``, rx : ``In(stream.Signature(link_layout))``
        The link. ``rx.ready`` is constant.
    timeout : ``In(24)``, tries : ``In(8)``, start, stop : ``In(1)``
        Of :class:`LinkControl`.
    level, fresh : ``Out(range(replay_beats + 1))``
        Beats of channel 0 that are kept, and those of them that were never sent.
    down : ``Out(1)``
        The link was given up.
    status : ``Out(link_status_layout)``
    """

    def __init__(self, config):
        self.config = config
        flits, link = stream.Signature(flit_layout(config)), stream.Signature(link_layout(config))
        super().__init__({
            "i": In(flits).array(config.link_channels), "o": Out(flits).array(config.link_channels),
            "signals": In(stream.Signature(packet_layout(config))), "signal_room": Out(1),
            "tx": Out(link), "rx": In(link),
            "timeout": In(TIMEOUT_WIDTH), "tries": In(TRIES_WIDTH), "start": In(1), "stop": In(1),
            "level": Out(range(config.replay_beats + 1)), "fresh": Out(range(config.replay_beats + 1)),
            "down": Out(1), "status": Out(link_status_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender = sender = LinkSender(self.config)
        m.submodules.receiver = receiver = LinkReceiver(self.config)
        m.submodules.control = control = LinkControl(self.config)
        for channel in range(self.config.link_channels):
            connect(m, flipped(self.i[channel]), sender.i[channel])
            connect(m, receiver.o[channel], flipped(self.o[channel]))
            m.d.comb += sender.taken[channel].eq(receiver.taken[channel])
        connect(m, flipped(self.signals), sender.signals)
        connect(m, sender.tx, flipped(self.tx))
        connect(m, flipped(self.rx), receiver.rx)
        # A peer that is asked to begin again, or that begins again though it need not, is answered at once.
        m.d.comb += [
            *(end.heard.valid.eq(receiver.heard.valid) for end in (sender, control)),
            *(end.heard.payload.eq(receiver.heard.payload) for end in (sender, control)),
            sender.state.eq(control.state), sender.replay.eq(control.replay), sender.ask.eq(control.ask),
            sender.tell.eq(control.tell | receiver.repeated), sender.expected.eq(receiver.expected),
            sender.nak.eq(receiver.nak), sender.nak_round.eq(receiver.nak_round),
            sender.session.eq(control.session), sender.peer.eq(control.peer), sender.current.eq(control.current),
            sender.refuse.eq(control.refuse), sender.refused.eq(receiver.heard.payload.session),
            receiver.session.eq(control.session), control.violated.eq(sender.violated),
            *(getattr(receiver, name).eq(getattr(sender, name)) for name in ("ack", "high")),
            receiver.start.eq((control.state == LinkState.DOWN) | (control.state == LinkState.START)),
            receiver.accept.eq((control.state == LinkState.INIT) | (control.state == LinkState.UP)),
            control.empty.eq(receiver.empty), control.unacknowledged.eq(sender.unacknowledged),
            control.waiting.eq(sender.waiting), control.progress.eq(sender.progress),
            *(getattr(control, name).eq(getattr(self, name)) for name in ("timeout", "tries", "start", "stop")),
            self.signal_room.eq(sender.signal_room), self.level.eq(sender.level), self.fresh.eq(sender.fresh),
        ]
        status = self.status
        m.d.comb += status.cause.eq(control.cause)
        m.d.sync += [self.down.eq(control.state == LinkState.DOWN), status.state.eq(control.state),
                     status.unacknowledged.eq(sender.unacknowledged), status.credits.eq(sender.free)]
        events = {"replays": sender.replayed, "crc_errors": receiver.wrong, "sequence_errors": receiver.missed,
                  "duplicates": receiver.repeated, "timeouts": control.expired,
                  "stale": receiver.stale | control.stale}
        for name, event in events.items() if self.config.counters else ():
            with m.If(event & ~status[name].all()):
                m.d.sync += status[name].eq(status[name] + 1)
        return m
