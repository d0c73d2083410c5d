# SPDX-License-Identifier: Apache-2.0
"""State of a link: the handshake of its two ends, and the time-out if the peer does not respond.

A three-way handshake, as in BFD (RFC 5880, 6.2): a port that receives START goes from START to INIT; one that receives
INIT, or a packet that only a port in UP sends, goes UP. So the two ends may come out of reset at different times. A
port that timed out is DOWN, and reports this to the peer, until software starts both ends again.

Each time a port enters START it begins a session, whose number is one higher than the last; the number is kept over
reset. CREDIT packets name the sessions of both ends, so those of earlier sessions are recognised. A port binds its
session to one of the peer's when it leaves START, and never to another. A port that is UP ignores a START, which may be
a delayed duplicate, but responds with its own state. If the peer has in fact begun a new session, it sees its old one
named, and refuses; then the port that was UP goes DOWN. TCP finds half-open connections in the same manner (RFC 9293,
3.5.1).
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import LINK_SESSION_WIDTH, AceConfig
from hw.ace.layouts import LinkCause, LinkState

from .receiver import ReceivedHeader, ReceiverStatus
from .sender import SenderStatus
from .session import TIMEOUT_WIDTH, TRIES_WIDTH, LinkSession, LinkSettings, SenderCommands, SessionEvents

__all__ = ["LinkControl"]

HELLO = 256
"""Cycles between two CREDIT packets of a port that is not UP."""

DOWN_CYCLES = 6
"""Cycles for which a port that software starts is DOWN. Senders of packets know it up to 2 cycles late; what they have
sent by then must not reach the link in its new session."""


class LinkControl(wiring.Component):
    """State of a port, and its timer.

    The timer runs while a packet is unacknowledged or waits to be sent. It restarts with each new acknowledgement, and,
    if nothing is unacknowledged, with any received packet. When it runs out, the sender replays and requests a response
    from the peer; after ``tries`` consecutive time-outs the port is DOWN. A port that software starts is DOWN for
    :data:`DOWN_CYCLES`, and then in START.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    settings : ``In(LinkSettings)``
    received : ``In(ReceivedHeader)``, receiver : ``In(ReceiverStatus)``, sender : ``In(SenderStatus)``
    session : ``Out(LinkSession)``, commands : ``Out(SenderCommands)``, events : ``Out(SessionEvents)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "settings": In(LinkSettings()), "received": In(ReceivedHeader(config)),
            "receiver": In(ReceiverStatus(config)),
            "sender": In(SenderStatus(config)),
            "session": Out(LinkSession()), "commands": Out(SenderCommands()), "events": Out(SessionEvents()),
        })

    def elaborate(self, platform):
        m = Module()
        failed = self._timer(m)
        received, commands, events, state = self.received.payload, self.commands, self.events, self.session.state
        session, begun, renewed = Signal(LINK_SESSION_WIDTH, reset_less=True), Signal(2), Signal()
        renew, named, known = Signal(), Signal(), Signal()
        reported = {state: Signal(name=f"reported_{state.name.lower()}") for state in LinkState}
        control = self.received.valid & received.control
        m.d.comb += [
            self.session.number.eq(session), named.eq(received.named & ~renewed),
            known.eq(~(received.session ^ commands.peer).any()),
            *(reported[state].eq(control & (received.state == state) & ~received.refuse) for state in LinkState),
            commands.current.eq(self.received.valid & (~received.control | (named & known & ~received.refuse))),
            events.stale.eq((state == LinkState.UP) & control & ~(commands.current & received.recent)),
            # Once, after reset is released.
            renew.eq(begun == 0b01),
        ]
        m.d.sync += [begun.eq(Cat(1, begun)), renewed.eq(renew)]
        with m.If(renew):
            m.d.sync += session.eq(session + 1)
        hello = Signal(range(HELLO))
        m.d.sync += [
            hello.eq(Mux(state == LinkState.UP, 0, hello + 1)), commands.report.eq(hello == HELLO - 1),
        ]
        # The peer names a session that this port has left.
        m.d.comb += commands.refuse.eq((reported[LinkState.INIT] | reported[LinkState.UP]) & ~named
                                       & (state != LinkState.UP))
        with m.Switch(state):
            with m.Case(LinkState.START):
                with m.If(self.receiver.empty & (reported[LinkState.START] | (reported[LinkState.INIT] & named))):
                    m.d.sync += [state.eq(Mux(reported[LinkState.INIT], LinkState.UP, LinkState.INIT)),
                                 commands.peer.eq(received.session), commands.report.eq(1)]
                # The peer knows this number from before this port lost its count.
                with m.If(reported[LinkState.UP] & named):
                    m.d.comb += renew.eq(1)
            with m.Case(LinkState.INIT):
                with m.If(commands.current & (~received.control | reported[LinkState.INIT] | reported[LinkState.UP])):
                    m.d.sync += [state.eq(LinkState.UP), commands.report.eq(1)]
                with m.If((reported[LinkState.DOWN] & known) | (control & received.refuse & named)):
                    m.d.sync += [state.eq(LinkState.START), commands.report.eq(1)]
                    m.d.comb += renew.eq(1)
            with m.Case(LinkState.UP):
                with m.If(control & (received.state != LinkState.UP)):
                    m.d.sync += commands.report.eq(1)
                with m.If(reported[LinkState.DOWN] & known):
                    m.d.sync += [state.eq(LinkState.DOWN), events.cause.eq(LinkCause.PEER)]
                with m.If(control & received.refuse & named):
                    m.d.sync += [state.eq(LinkState.DOWN), events.cause.eq(LinkCause.RESTART)]
        starting, held = Signal(), Signal(range(DOWN_CYCLES + 1))
        m.d.comb += starting.eq((held == 1) & ~self.settings.stop & ~self.settings.start)
        with m.If(self.settings.start):
            m.d.sync += held.eq(DOWN_CYCLES)
        with m.Elif(self.settings.stop):
            m.d.sync += held.eq(0)
        with m.Elif(held != 0):
            m.d.sync += held.eq(held - 1)
        for when, cause in ((self.sender.violated, LinkCause.VIOLATION), (failed, LinkCause.PATIENCE),
                            (self.settings.stop | self.settings.start, LinkCause.SOFTWARE)):
            with m.If(when):
                m.d.sync += [state.eq(LinkState.DOWN), events.cause.eq(cause)]
        with m.If(starting):
            m.d.sync += state.eq(LinkState.START)
            m.d.comb += renew.eq(1)
        return m

    def _timer(self, m):
        """Whether the port times out."""
        settings, sender, commands, state = self.settings, self.sender, self.commands, self.session.state
        expired = self.events.expired
        count, tried = Signal(TIMEOUT_WIDTH), Signal(TRIES_WIDTH)
        down, up, runs, alive, failed = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            down.eq(state == LinkState.DOWN), up.eq(state == LinkState.UP),
            runs.eq(~down & (sender.waiting | (sender.unacknowledged != 0)) & (settings.timeout != 0)),
            alive.eq(sender.progress | (self.received.valid & up & (sender.unacknowledged == 0))),
            failed.eq(expired & (tried >= settings.tries)),
        ]
        m.d.sync += [expired.eq(0), commands.replay.eq(expired & up), commands.ask.eq(expired & up)]
        with m.If(alive | ~runs):
            m.d.sync += [count.eq(0), tried.eq(0)]
        with m.Elif(count >= settings.timeout):
            m.d.sync += [count.eq(0), tried.eq(tried + 1), expired.eq(1)]
        with m.Else():
            m.d.sync += count.eq(count + 1)
        return failed
