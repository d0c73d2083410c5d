"""Whether a link is up: the handshake of its two ends, and the patience with one that does not answer.

Three ways, as in BFD (RFC 5880, 6.2): a port that hears START goes from START to INIT; one that hears INIT, or what
only a port that is UP sends, goes UP. So the two ends may come out of reset at different times. A port that was given
up is DOWN, and tells it, until software starts both ends again.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import LINK_SEQUENCE_WIDTH
from .layouts import LinkState, heard_layout

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
    unacknowledged : ``In(9)``, waiting, progress : ``In(1)``
        Of the sender.
    state : ``Out(LinkState)``
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
            "unacknowledged": In(LINK_SEQUENCE_WIDTH), "waiting": In(1), "progress": In(1),
            "state": Out(LinkState, init=LinkState.START), "replay": Out(1), "ask": Out(1), "tell": Out(1),
            "expired": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        failed = self._timer(m)
        theirs = Signal(LinkState)
        m.d.comb += theirs.eq(Mux(self.heard.payload.control, self.heard.payload.state, LinkState.UP))
        hello = Signal(range(HELLO))
        m.d.sync += [hello.eq(Mux(self.state == LinkState.UP, 0, hello + 1)), self.tell.eq(hello == HELLO - 1)]
        with m.If(self.heard.valid):
            with m.Switch(self.state):
                with m.Case(LinkState.START):
                    with m.If(self.empty & (theirs == LinkState.START)):
                        m.d.sync += [self.state.eq(LinkState.INIT), self.tell.eq(1)]
                    with m.If(self.empty & (theirs == LinkState.INIT)):
                        m.d.sync += [self.state.eq(LinkState.UP), self.tell.eq(1)]
                with m.Case(LinkState.INIT):
                    with m.If((theirs == LinkState.INIT) | (theirs == LinkState.UP)):
                        m.d.sync += [self.state.eq(LinkState.UP), self.tell.eq(1)]
                    with m.If(theirs == LinkState.DOWN):
                        m.d.sync += self.state.eq(LinkState.START)
                with m.Case(LinkState.UP):
                    with m.If(theirs == LinkState.INIT):
                        m.d.sync += self.tell.eq(1)
                    with m.If(theirs == LinkState.DOWN):
                        m.d.sync += self.state.eq(LinkState.DOWN)
        starting = Signal()
        m.d.sync += starting.eq(self.start)
        with m.If(self.stop | self.start | failed):
            m.d.sync += self.state.eq(LinkState.DOWN)
        with m.Elif(starting):
            m.d.sync += self.state.eq(LinkState.START)
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
