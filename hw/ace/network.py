# SPDX-License-Identifier: Apache-2.0
"""The network side: packets from the links into chunks, and from chunks to the links.

::

    rx -> LinkPort -> Receive <-> (SRAM, FSM pool)
           (each)
    tx <- LinkPort <- Transmit <- (SRAM, FSM pool)

Latency and throughput: those of the stages.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.wiring import Wiring

from .communicator_status import CommunicatorStatusSignature
from .config import AceConfig
from .faults import AbortSend
from .layouts import flit_layout, link_layout
from .link.down import LinksDown
from .link.port import LinkPort
from .link.status import LinkManagement
from .receive import AbortReceived, ChunkLookup, DataLanded, GrantReceived, Receive, ReceiveCounts
from .sram import SramReadSignature, SramWriteSignature
from .transmit import GrantPort, SendPort, Transmit, TransmitCounts
from .watchdog import ProgressSignature

__all__ = ["Network", "NetworkCounts", "NetworkReports", "PacketsSignature"]


class PacketsSignature(wiring.Signature):
    """Between the chunk path and the network, from the network's side.

    Members
    -------
    received : ``Out(ChunkLookup)``, grant : ``Out(GrantReceived)``, landed : ``Out(DataLanded)``
        Received packets.
    operand : ``Out(SramReadSignature)``, result : ``Out(SramWriteSignature)``
        Their payload; never stalled.
    sends : ``In(SendPort)``, signals : ``In(GrantPort)``
        Packets to send.
    payload : ``Out(SramReadSignature)``
        Their payload.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "received": Out(ChunkLookup(config)), "grant": Out(GrantReceived(config)),
            "landed": Out(DataLanded(config)),
            "operand": Out(SramReadSignature(config)), "result": Out(SramWriteSignature(config)),
            "sends": In(SendPort(config)), "signals": In(GrantPort(config)),
            "payload": Out(SramReadSignature(config)),
        })


class NetworkReports(wiring.Signature):
    """Between the network and supervision, from the network's side.

    Members
    -------
    progress : ``Out(ProgressSignature)``, aborts : ``Out(AbortReceived)``
        Communicators with received packets.
    down : ``Out(ports)``
        Links that are down: levels.
    abort : ``In(AbortSend)``
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "progress": Out(ProgressSignature(config)), "aborts": Out(AbortReceived()), "down": Out(config.ports),
            "abort": In(AbortSend(config)),
        })


class NetworkCounts(wiring.Signature):
    """Counts of the stages of the network."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"receive": Out(ReceiveCounts()), "transmit": Out(TransmitCounts(config))})


class Network(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig

    Members
    -------
    tx, rx : ``Out`` and ``In``, arrays of ``stream.Signature(link_layout)``
    put_tx, put_rx : ``In`` and ``Out``, arrays of ``stream.Signature(flit_layout)``
        Packets of the links' channel 1, if present.
    packets : ``Out(PacketsSignature)``
    links : ``In(LinkManagement).array(ports)``, link_down : ``Out(ports)``
    communicator_status : ``In(CommunicatorStatusSignature)``, reports : ``Out(NetworkReports)``
    counts : ``Out(NetworkCounts)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        link, flits = stream.Signature(link_layout(config)), stream.Signature(flit_layout(config))
        super().__init__({
            "tx": Out(link).array(config.ports), "rx": In(link).array(config.ports),
            **({"put_tx": In(flits).array(config.ports), "put_rx": Out(flits).array(config.ports)}
               if config.link_channels > 1 else {}),
            "packets": Out(PacketsSignature(config)),
            "links": In(LinkManagement(config)).array(config.ports), "link_down": Out(config.ports),
            "communicator_status": In(CommunicatorStatusSignature(config)), "reports": Out(NetworkReports(config)),
            "counts": Out(NetworkCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(receive=Receive(config), transmit=Transmit(config), down=LinksDown(config))

        # -- The chunk path.
        wires.connect("receive.lookup", "self.packets.received")
        wires.connect("receive.grants", "self.packets.grant")
        wires.connect("receive.landed", "self.packets.landed")
        wires.connect("receive.read", "self.packets.operand")
        wires.connect("receive.write", "self.packets.result")
        wires.connect("self.packets.sends", "transmit.sends")
        wires.connect("self.packets.signals", "transmit.signals")
        wires.connect("transmit.read", "self.packets.payload")

        # -- Links.
        for number in range(config.ports):
            link = f"link_{number}"
            wires.add(**{link: LinkPort(config)})
            wires.connect(f"transmit.ports[{number}]", f"{link}.i[0]")
            wires.connect(f"transmit.port_signals[{number}]", f"{link}.signals")
            wires.connect(f"{link}.levels", f"transmit.levels[{number}]")
            wires.connect(f"{link}.o[0]", f"receive.ports[{number}]")
            wires.connect(f"{link}.tx", f"self.tx[{number}]")
            wires.connect(f"self.rx[{number}]", f"{link}.rx")
            wires.connect(f"self.links[{number}]", f"{link}.management")
            wires.connect(f"{link}.down", f"down.links[{number}]")
            if config.link_channels > 1:
                wires.connect(f"self.put_tx[{number}]", f"{link}.i[1]")
                wires.connect(f"{link}.o[1]", f"self.put_rx[{number}]")
        wires.broadcast("down.down", "self.link_down", "self.reports.down")

        # -- Supervision and counters.
        wires.connect("self.communicator_status", "receive.communicator_status")
        wires.connect("receive.progress", "self.reports.progress")
        wires.connect("receive.aborts", "self.reports.aborts")
        wires.connect("self.reports.abort", "transmit.abort")
        wires.connect("receive.counts", "self.counts.receive")
        wires.connect("transmit.counts", "self.counts.transmit")
        wires.finish()
        return m
