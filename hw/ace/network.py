# SPDX-License-Identifier: Apache-2.0
"""The network side: packets from the links into chunks, and from chunks to the links.

::

    rx -> LinkPort -> Receive <-> (SRAM, FSM pool)
           (each)      (each pipe) -> PipeMerge -> (FSM pool, supervision)
    tx <- LinkPort <- Transmit <- (SRAM, FSM pool)
            ^          ^
            +----------+-- PipeSplit <- (FSM pool, supervision)
    Loopback: from the last pipe's Transmit to its Receive

Latency and throughput: those of the stages; each pipe moves a beat per cycle in each direction.
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
from .loopback import Loopback
from .pipe_merge import AbortReceived, GrantReceived, PipeMerge
from .pipe_split import GrantPort, PipeSplit
from .receive import ChunkLookup, DataLanded, Receive, ReceiveCounts
from .sram import SramReadSignature, SramUpdateSignature
from .transmit import SendPort, Transmit, TransmitCounts
from .watchdog import ProgressSignature

__all__ = ["GrantsSignature", "Network", "NetworkCounts", "NetworkReports", "PipeSignature"]


class PipeSignature(wiring.Signature):
    """Between the chunk path and a pipe of the network, from the network's side.

    Members
    -------
    received : ``Out(ChunkLookup)``, landed : ``Out(DataLanded)``
        Received DATA packets.
    update : ``Out(SramUpdateSignature)``
        Their payload.
    sends : ``In(SendPort)``
        DATA packets to send.
    payload : ``Out(SramReadSignature)``
        Their payload.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "received": Out(ChunkLookup(config)), "landed": Out(DataLanded(config)),
            "update": Out(SramUpdateSignature(config)), "sends": In(SendPort(config)),
            "payload": Out(SramReadSignature(config)),
        })


class GrantsSignature(wiring.Signature):
    """GRANTs between the chunk path and the network, from the network's side.

    Members
    -------
    received : ``Out(GrantReceived)``, sends : ``In(GrantPort)``
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"received": Out(GrantReceived(config)), "sends": In(GrantPort(config))})


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
    """Counts of the stages of the network: of all receiving pipes together, and of each sending pipe."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "receive": Out(ReceiveCounts(config.pipes)),
            **{f"transmit_{number}": Out(TransmitCounts(len(ports)))
               for number, ports in enumerate(config.pipe_ports)}})


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
    pipes : ``Out(PipeSignature).array(pipes)``, grants : ``Out(GrantsSignature)``
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
            "pipes": Out(PipeSignature(config)).array(config.pipes), "grants": Out(GrantsSignature(config)),
            "links": In(LinkManagement(config)).array(config.ports), "link_down": Out(config.ports),
            "communicator_status": In(CommunicatorStatusSignature(config)), "reports": Out(NetworkReports(config)),
            "counts": Out(NetworkCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(merge=PipeMerge(config), split=PipeSplit(config), down=LinksDown(config))
        for port in range(config.ports):
            wires.add(**{f"link_{port}": LinkPort(config)})
        wires.add(local=Loopback(config))

        # -- Pipes.
        for number, ports in enumerate(config.pipe_ports):
            wires.add(**{f"receive_{number}": Receive(config, number), f"transmit_{number}": Transmit(config, number)})
            wires.connect(f"receive_{number}.lookup", f"self.pipes[{number}].received")
            wires.connect(f"receive_{number}.update", f"self.pipes[{number}].update")
            wires.connect(f"receive_{number}.landed", f"self.pipes[{number}].landed")
            wires.connect(f"receive_{number}.grants", f"merge.grants[{number}]")
            wires.connect(f"receive_{number}.aborts", f"merge.aborts[{number}]")
            wires.connect(f"receive_{number}.progress", f"merge.progresses[{number}]")
            wires.connect(f"receive_{number}.counts", f"merge.counts[{number}]")
            wires.connect(f"self.pipes[{number}].sends", f"transmit_{number}.sends")
            wires.connect(f"transmit_{number}.read", f"self.pipes[{number}].payload")
            wires.connect(f"split.aborts[{number}]", f"transmit_{number}.abort")
            wires.connect(f"transmit_{number}.counts", f"self.counts.transmit_{number}")
            for index, port in enumerate(ports):
                name, channel = ("local", "") if port == config.local_port else (f"link_{port}", "[0]")
                wires.connect(f"transmit_{number}.ports[{index}]", f"{name}.i{channel}")
                wires.connect(f"{name}.levels", f"transmit_{number}.levels[{index}]")
                wires.connect(f"{name}.o{channel}", f"receive_{number}.ports[{index}]")
        wires.connect("merge.grant", "self.grants.received")
        wires.connect("self.grants.sends", "split.signals")

        # -- Links.
        for number in range(config.ports):
            link = f"link_{number}"
            wires.connect(f"split.port_signals[{number}]", f"{link}.signals")
            wires.connect(f"{link}.tx", f"self.tx[{number}]")
            wires.connect(f"self.rx[{number}]", f"{link}.rx")
            wires.connect(f"self.links[{number}]", f"{link}.management")
            wires.connect(f"{link}.down", f"down.links[{number}]")
            if config.link_channels > 1:
                wires.connect(f"self.put_tx[{number}]", f"{link}.i[1]")
                wires.connect(f"{link}.o[1]", f"self.put_rx[{number}]")
        wires.broadcast("down.down", "self.link_down", "self.reports.down")

        # -- Supervision and counters.
        wires.broadcast("self.communicator_status", *(
            f"receive_{number}.communicator_status" for number in range(config.pipes)))
        wires.connect("merge.progress", "self.reports.progress")
        wires.connect("merge.abort", "self.reports.aborts")
        wires.connect("self.reports.abort", "split.abort")
        wires.connect("merge.total", "self.counts.receive")
        wires.finish()
        return m
