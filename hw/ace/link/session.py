# SPDX-License-Identifier: Apache-2.0
"""Interfaces of a link port's control: software's settings, and the session's state for the port's other stages."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.ace.config import LINK_SESSION_WIDTH
from hw.ace.layouts import LinkCause, LinkState

__all__ = ["TIMEOUT_WIDTH", "TRIES_WIDTH", "LinkSession", "LinkSettings", "SenderCommands", "SessionEvents"]

TIMEOUT_WIDTH, TRIES_WIDTH = 24, 8


class LinkSettings(wiring.Signature):
    """Software's settings of a link: driven by the registers, without back-pressure.

    Members
    -------
    timeout : ``Out(TIMEOUT_WIDTH)``, tries : ``Out(TRIES_WIDTH)``
        Levels: clock cycles without progress, 0 for no timer; consecutive time-outs before the link goes DOWN.
    start, stop : ``Out(1)``
        Strobes: discard all packets and start again; go DOWN.
    """

    def __init__(self) -> None:
        super().__init__({"timeout": Out(TIMEOUT_WIDTH), "tries": Out(TRIES_WIDTH), "start": Out(1), "stop": Out(1)})


class LinkSession(wiring.Signature):
    """State of the port and number of its session, broadcast by LinkControl in every cycle.

    UP: send and accept packets. DOWN: drop all packets. DOWN and START: reset the counts of packets and credits.
    """

    def __init__(self) -> None:
        super().__init__({"state": Out(LinkState, init=LinkState.START), "number": Out(LINK_SESSION_WIDTH)})


class SenderCommands(wiring.Signature):
    """Commands of LinkControl to LinkSender, without back-pressure.

    Members
    -------
    replay : ``Out(1)``
        Strobe: replay from the oldest unacknowledged packet.
    report, ask : ``Out(1)``
        Strobes: send a CREDIT packet; one that requests a response.
    peer : ``Out(LINK_SESSION_WIDTH)``
        From INIT on, the peer's session to which this one is bound.
    current : ``Out(1)``
        The packet received in this cycle is of these sessions, and acknowledges packets of them.
    refuse : ``Out(1)``
        Strobe: send a CREDIT packet that refuses the peer's session received in this cycle.
    """

    def __init__(self) -> None:
        super().__init__({"replay": Out(1), "report": Out(1), "ask": Out(1), "peer": Out(LINK_SESSION_WIDTH),
                          "current": Out(1), "refuse": Out(1)})


class SessionEvents(wiring.Signature):
    """LinkControl's events, for the port's status.

    Members
    -------
    cause : ``Out(LinkCause)``
        Cause of the port's last DOWN: a level.
    expired, stale : ``Out(1)``
        Strobes: the timer ran out; a received packet is of another session, or stale, while the port is UP.
    """

    def __init__(self) -> None:
        super().__init__({"cause": Out(LinkCause), "expired": Out(1), "stale": Out(1)})
