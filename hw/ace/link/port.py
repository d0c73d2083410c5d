# SPDX-License-Identifier: Apache-2.0
"""A link port: packets reach the other end once, whole and in order, whatever the faults of the link.

::

    i, signals -> LinkSender ---- tx --->
                   ^      ^
                   |   LinkControl          link   (LinkStatus: what the registers see of all three)
                   |      v
    o <-------- LinkReceiver <--- rx ----

Latency and throughput: those of :mod:`.sender` and :mod:`.receiver`. A packet is delivered when its last beat has
arrived and its CRC is right.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import flit_layout, link_layout
from hw.common.wiring import Wiring

from .receiver import LinkReceiver
from .sender import LinkSender, ReplayLevels, SignalPort
from .state import LinkControl
from .status import LinkManagement, LinkStatus

__all__ = ["LinkPort"]


class LinkPort(wiring.Component):
    """Both directions of a link.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(flit_layout)).array(link_channels)``, o : ``Out``, the same
        Packets to and from the peer. A port that is DOWN accepts and drops packets.
    signals : ``In(SignalPort)``
        Headers of packets without payload, of channel 0; they precede waiting packets.
    tx : ``Out(stream.Signature(link_layout))``, rx : ``In(stream.Signature(link_layout))``
        The link. ``rx.ready`` is constant.
    management : ``In(LinkManagement)``
    levels : ``Out(ReplayLevels)``
        Of channel 0.
    down : ``Out(1)``
        The port is DOWN.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        flits, link = stream.Signature(flit_layout(config)), stream.Signature(link_layout(config))
        super().__init__({
            "i": In(flits).array(config.link_channels), "o": Out(flits).array(config.link_channels),
            "signals": In(SignalPort(config)), "levels": Out(ReplayLevels(config)),
            "tx": Out(link), "rx": In(link), "management": In(LinkManagement(config)), "down": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sender=LinkSender(config), receiver=LinkReceiver(config), control=LinkControl(config),
                  status=LinkStatus(config))

        # -- Packets.
        wires.connect("self.i", "sender.i")
        wires.connect("self.signals", "sender.signals")
        wires.connect("sender.levels", "self.levels")
        wires.connect("sender.tx", "self.tx")
        wires.connect("self.rx", "receiver.rx")
        wires.connect("receiver.o", "self.o")

        # -- The session.
        wires.connect("sender.acknowledged", "receiver.acknowledged")
        wires.broadcast("receiver.received", "sender.received", "control.received")
        wires.broadcast("receiver.status", "sender.receiver", "control.receiver", "status.receiver")
        wires.broadcast("sender.status", "control.sender", "status.sender")
        wires.broadcast("control.session", "sender.session", "receiver.session", "status.session")
        wires.connect("control.commands", "sender.commands")

        # -- Registers.
        wires.connect("self.management.settings", "control.settings")
        wires.connect("control.events", "status.events")
        wires.connect("status.status", "self.management.status")
        wires.connect("status.down", "self.down")
        wires.finish()
        return m
