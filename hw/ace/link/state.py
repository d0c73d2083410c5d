"""Whether a link is up: the handshake of its two ends, and the patience with one that does not answer.

Three ways, as in BFD (RFC 5880, 6.2): a port that hears START goes from START to INIT; one that hears INIT, or what
only a port that is UP sends, goes UP. So the two ends may come out of reset at different times. A port that was given
up is DOWN, and tells it, until software starts both ends again.

Each time that a port gets to START it begins a session, whose number is one higher than the last; the number is kept
over reset. CREDIT packets name the sessions of both ends, so those of earlier sessions are known by that. A port binds
its session to one of the peer's when it leaves START, and never to another. A port that is UP does not believe a START,
which may be a late copy, but answers with its own state. If the peer has in fact begun a new session, it sees that its
old one is named, and refuses; then the port that was UP goes DOWN. This is how TCP finds half-open connections (RFC
9293, 3.5.1).
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import LINK_SEQUENCE_WIDTH, LINK_SESSION_WIDTH
from hw.ace.layouts import LinkCause, LinkState, heard_layout

__all__ = ["TIMEOUT_WIDTH", "TRIES_WIDTH", "LinkControl"]

HELLO = 256
"""Cycles between two CREDIT packets of a port that is not UP."""

TIMEOUT_WIDTH, TRIES_WIDTH = 24, 8


class LinkControl(wiring.Component):
    """State of a port, and its timer.

    The timer runs while a packet is not acknowledged or waits to be sent. It begins again with each acknowledgement
    that is new, and, where nothing is to be acknowledged, with any packet that comes. When it runs out, the sender
    begins again and asks the peer; after ``tries`` times in a row the port is DOWN.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    timeout : ``In(24)``
        Cycles; 0 for no timer.
    tries : ``In(8)``
    start, stop : ``In(1)``
        Software's: forget everything and start again; go DOWN.
    heard : ``In``; ``valid``, ``payload``
    empty : ``In(1)``
        Nothing of an earlier time is in the receive buffers.
    unacknowledged : ``In(9)``, waiting, progress, violated : ``In(1)``
        Of the sender.
    state : ``Out(LinkState)``, cause : ``Out(LinkCause)``
    session, peer : ``Out(LINK_SESSION_WIDTH)``
        The port's, and, from INIT on, the peer's that it is bound to.
    current, stale : ``Out(1)``
        What is heard is of these sessions and tells of what was sent in them; or it does not, though the port is UP.
    refuse : ``Out(1)``
        For the sender: the session of the peer that is heard of.
    replay, ask, tell : ``Out(1)``
        For the sender.
    expired : ``Out(1)``
        The timer has run out.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "timeout": In(TIMEOUT_WIDTH), "tries": In(TRIES_WIDTH), "start": In(1), "stop": In(1),
            "heard": In(wiring.Signature({"valid": Out(1), "payload": Out(heard_layout(config))})), "empty": In(1),
            "unacknowledged": In(LINK_SEQUENCE_WIDTH), "waiting": In(1), "progress": In(1), "violated": In(1),
            "state": Out(LinkState, init=LinkState.START), "cause": Out(LinkCause),
            "session": Out(LINK_SESSION_WIDTH), "peer": Out(LINK_SESSION_WIDTH), "current": Out(1), "stale": Out(1),
            "replay": Out(1), "ask": Out(1), "tell": Out(1), "refuse": Out(1), "expired": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        failed = self._timer(m)
        heard = self.heard.payload
        session, begun, renewed = Signal(LINK_SESSION_WIDTH, reset_less=True), Signal(2), Signal()
        renew, named, known = Signal(), Signal(), Signal()
        told = {state: Signal(name=f"told_{state.name.lower()}") for state in LinkState}
        control = self.heard.valid & heard.control
        m.d.comb += [
            self.session.eq(session), named.eq(heard.named & ~renewed),
            known.eq(~(heard.session ^ self.peer).any()),
            *(told[state].eq(control & (heard.state == state) & ~heard.refuse) for state in LinkState),
            self.current.eq(self.heard.valid & (~heard.control | (named & known & ~heard.refuse))),
            self.stale.eq((self.state == LinkState.UP) & control & ~(self.current & heard.recent)),
            # Once after reset, and not while it lasts.
            renew.eq(begun == 0b01),
        ]
        m.d.sync += [begun.eq(Cat(1, begun)), renewed.eq(renew)]
        with m.If(renew):
            m.d.sync += session.eq(session + 1)
        hello = Signal(range(HELLO))
        m.d.sync += [
            hello.eq(Mux(self.state == LinkState.UP, 0, hello + 1)), self.tell.eq(hello == HELLO - 1),
        ]
        # Named is a session that this port has left.
        m.d.comb += self.refuse.eq((told[LinkState.INIT] | told[LinkState.UP]) & ~named & (self.state != LinkState.UP))
        with m.Switch(self.state):
            with m.Case(LinkState.START):
                with m.If(self.empty & (told[LinkState.START] | (told[LinkState.INIT] & named))):
                    m.d.sync += [self.state.eq(Mux(told[LinkState.INIT], LinkState.UP, LinkState.INIT)),
                                 self.peer.eq(heard.session), self.tell.eq(1)]
                # A number that had been used before this port lost its count.
                with m.If(told[LinkState.UP] & named):
                    m.d.comb += renew.eq(1)
            with m.Case(LinkState.INIT):
                with m.If(self.current & (~heard.control | told[LinkState.INIT] | told[LinkState.UP])):
                    m.d.sync += [self.state.eq(LinkState.UP), self.tell.eq(1)]
                with m.If((told[LinkState.DOWN] & known) | (control & heard.refuse & named)):
                    m.d.sync += [self.state.eq(LinkState.START), self.tell.eq(1)]
                    m.d.comb += renew.eq(1)
            with m.Case(LinkState.UP):
                with m.If(control & (heard.state != LinkState.UP)):
                    m.d.sync += self.tell.eq(1)
                with m.If(told[LinkState.DOWN] & known):
                    m.d.sync += [self.state.eq(LinkState.DOWN), self.cause.eq(LinkCause.PEER)]
                with m.If(control & heard.refuse & named):
                    m.d.sync += [self.state.eq(LinkState.DOWN), self.cause.eq(LinkCause.RESTART)]
        starting = Signal()
        m.d.sync += starting.eq(self.start)
        for when, cause in ((self.violated, LinkCause.VIOLATION), (failed, LinkCause.PATIENCE),
                            (self.stop | self.start, LinkCause.SOFTWARE)):
            with m.If(when):
                m.d.sync += [self.state.eq(LinkState.DOWN), self.cause.eq(cause)]
        with m.If(starting & ~self.stop & ~self.start):
            m.d.sync += self.state.eq(LinkState.START)
            m.d.comb += renew.eq(1)
        return m

    def _timer(self, m):
        """That the port is to be given up."""
        count, tried = Signal(TIMEOUT_WIDTH), Signal(TRIES_WIDTH)
        down, up, runs, alive, failed = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            down.eq(self.state == LinkState.DOWN), up.eq(self.state == LinkState.UP),
            runs.eq(~down & (self.waiting | (self.unacknowledged != 0)) & (self.timeout != 0)),
            alive.eq(self.progress | (self.heard.valid & up & (self.unacknowledged == 0))),
            failed.eq(self.expired & (tried >= self.tries)),
        ]
        m.d.sync += [self.expired.eq(0), self.replay.eq(self.expired & up), self.ask.eq(self.expired & up)]
        with m.If(alive | ~runs):
            m.d.sync += [count.eq(0), tried.eq(0)]
        with m.Elif(count >= self.timeout):
            m.d.sync += [count.eq(0), tried.eq(tried + 1), self.expired.eq(1)]
        with m.Else():
            m.d.sync += count.eq(count + 1)
        return failed
