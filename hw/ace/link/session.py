# SPDX-License-Identifier: Apache-2.0
"""Interfaces of a link port's control: what software sets, and what the port's other stages are told of its session."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.ace.config import LINK_SESSION_WIDTH
from hw.ace.layouts import LinkCause, LinkState

__all__ = ["TIMEOUT_WIDTH", "TRIES_WIDTH", "LinkSession", "LinkSettings", "SenderCommands", "SessionEvents"]

TIMEOUT_WIDTH, TRIES_WIDTH = 24, 8


class LinkSettings(wiring.Signature):
    """What software sets of a link: driven by the registers, without back-pressure.

    Members
    -------
    timeout : ``Out(TIMEOUT_WIDTH)``, tries : ``Out(TRIES_WIDTH)``
        Levels: clock cycles without progress, 0 for no timer; how often in a row, before the link goes DOWN.
    start, stop : ``Out(1)``
        Strobes: forget everything and start again; go DOWN.
    """

    def __init__(self):
        super().__init__({"timeout": Out(TIMEOUT_WIDTH), "tries": Out(TRIES_WIDTH), "start": Out(1), "stop": Out(1)})


class LinkSession(wiring.Signature):
    """State of the port and number of its session, broadcast by LinkControl in every cycle.

    UP: send and take packets. DOWN: drop what comes and what is there. DOWN and START: count packets and credits from
    0.
    """

    def __init__(self):
        super().__init__({"state": Out(LinkState, init=LinkState.START), "number": Out(LINK_SESSION_WIDTH)})


class SenderCommands(wiring.Signature):
    """LinkControl tells LinkSender what to send; there is no back-pressure.

    Members
    -------
    replay : ``Out(1)``
        Strobe: begin again with the oldest packet that is not acknowledged.
    tell, ask : ``Out(1)``
        Strobes: send a CREDIT packet; one that is to be answered.
    peer : ``Out(LINK_SESSION_WIDTH)``
        From INIT on, the peer's session that this one is bound to.
    current : ``Out(1)``
        What is heard in this cycle is of these sessions, and tells of what was sent in them.
    refuse : ``Out(1)``
        Strobe: send a CREDIT packet that refuses the peer's session that is heard of in this cycle.
    """

    def __init__(self):
        super().__init__({"replay": Out(1), "tell": Out(1), "ask": Out(1), "peer": Out(LINK_SESSION_WIDTH),
                          "current": Out(1), "refuse": Out(1)})


class SessionEvents(wiring.Signature):
    """What LinkControl reports, for the port's status.

    Members
    -------
    cause : ``Out(LinkCause)``
        Why the port went DOWN the last time: a level.
    expired, stale : ``Out(1)``
        Strobes: the timer ran out; what was heard is of another session, or old, though the port is UP.
    """

    def __init__(self):
        super().__init__({"cause": Out(LinkCause), "expired": Out(1), "stale": Out(1)})
