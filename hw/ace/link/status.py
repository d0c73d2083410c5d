# SPDX-License-Identifier: Apache-2.0
"""Status of a link port for software: its state, and counts of errors.

LinkSender, LinkReceiver, LinkControl -> LinkStatus -> registers.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import LINK_SEQUENCE_WIDTH, AceConfig
from hw.ace.layouts import LinkCause, LinkState

from .receiver import ReceiverStatus
from .sender import SenderStatus
from .session import LinkSession, LinkSettings, SessionEvents

__all__ = ["COUNT_WIDTH", "LINK_COUNTS", "LinkManagement", "LinkStatus", "link_status_layout"]

LINK_COUNTS = ("replays", "crc_errors", "sequence_errors", "duplicates", "timeouts", "stale")
COUNT_WIDTH = 16
"""Counters saturate at their maximum."""


def link_status_layout(config):
    """State of a port; cause of its last DOWN; packets in flight; free entries of the peer's buffer of channel 0, in
    beats; and counters."""
    return data.StructLayout({
        "state": LinkState, "cause": LinkCause, "unacknowledged": LINK_SEQUENCE_WIDTH,
        "credits": range(config.link_beats + 1),
        **{name: COUNT_WIDTH for name in LINK_COUNTS}})


class LinkManagement(wiring.Signature):
    """A link's registers: ``settings`` from the registers, and back ``status``, from registers of the port."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"settings": Out(LinkSettings()), "status": In(link_status_layout(config))})


class LinkStatus(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig

    Members
    -------
    session : ``In(LinkSession)``, events : ``In(SessionEvents)``
    sender : ``In(SenderStatus)``, receiver : ``In(ReceiverStatus)``
    status : ``Out(link_status_layout)``
    down : ``Out(1)``
        The port is DOWN.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "session": In(LinkSession()), "events": In(SessionEvents()),
            "sender": In(SenderStatus(config)), "receiver": In(ReceiverStatus(config)),
            "status": Out(link_status_layout(config)), "down": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        status, receiver, state = self.status, self.receiver, self.session.state
        m.d.comb += status.cause.eq(self.events.cause)
        m.d.sync += [self.down.eq(state == LinkState.DOWN), status.state.eq(state),
                     status.unacknowledged.eq(self.sender.unacknowledged), status.credits.eq(self.sender.free)]
        events = {"replays": self.sender.replayed, "crc_errors": receiver.wrong, "sequence_errors": receiver.missed,
                  "duplicates": receiver.repeated, "timeouts": self.events.expired,
                  "stale": receiver.stale | self.events.stale}
        for name, event in events.items() if self.config.counters else ():
            with m.If(event & ~status[name].all()):
                m.d.sync += status[name].eq(status[name] + 1)
        return m
