# SPDX-License-Identifier: Apache-2.0
"""Puts: the DMA engine's writes to neighbours, and neighbours' writes to local memory.

::

    RemoteSplit -> PutSender -> PacketSlice -> PutRoute -> PutPort of each link -> its channel 1
                       ^                          |          |
                       +------- PUT_DONE <- Skid -+----------+-> PutReceiver -> MemoryPort, TriggerUnit
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.layouts import flit_layout
from hw.common.wiring import Wiring
from hw.stream import Skid
from hw.triggers.ports import TickSignature

from .config import EndpointConfig
from .layouts import response_layout, write_layout
from .packet_slice import PacketSlice
from .put_port import PutPort
from .put_receiver import ExportWrite, PutReceiver, PutReceiverCounts
from .put_route import PutRoute
from .put_sender import PutSender, PutSenderCounts, report_layout

__all__ = ["PutChannel", "PutCounts", "Puts"]


class PutChannel(wiring.Signature):
    """Channel 1 of a link: streams of ``flit_layout`` to the link port and from it, with back-pressure."""

    def __init__(self, config: EndpointConfig) -> None:
        flits = stream.Signature(flit_layout(config.ace))
        super().__init__({"tx": Out(flits), "rx": In(flits)})


class PutCounts(wiring.Signature):
    """Event strobes of sender and receiver."""

    def __init__(self) -> None:
        super().__init__({"sender": Out(PutSenderCounts()), "receiver": Out(PutReceiverCounts())})


class Puts(wiring.Component):
    """Sender and receiver of puts for all ports.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    writes, responses
        Writes to neighbours, as :class:`PutSender`.
    memory_writes, memory_responses
        Neighbours' writes, as :class:`PutReceiver`; a cycle later with ``EndpointConfig.pipelined``.
    ticks : ``Out(TickSignature)``
        Ticks of neighbours.
    exports : ``In(ExportWrite)``
    channels : ``Out(PutChannel).array(ports)``
    down : ``In(ports)``
        Links that are down.
    counts : ``Out(PutCounts)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        write, response = stream.Signature(write_layout(config)), stream.Signature(response_layout(config))
        super().__init__({
            "writes": In(write), "responses": Out(response), "memory_writes": Out(write),
            "memory_responses": In(response),
            "ticks": Out(TickSignature(config.triggers)),
            "exports": In(ExportWrite(config)), "channels": Out(PutChannel(config)).array(config.ports),
            "down": In(config.ports), "counts": Out(PutCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sender=PutSender(config), receiver=PutReceiver(config), route=PutRoute(config),
                  packets=PacketSlice(config), reports=Skid(report_layout(config)),
                  responses=Skid(response_layout(config)))
        wires.connect("self.writes", "sender.writes")
        wires.connect("sender.responses", "responses.i")
        wires.connect("responses.o", "self.responses")
        if config.pipelined:
            wires.add(memory_writes=Skid(write_layout(config)))
            wires.connect("receiver.writes", "memory_writes.i")
            wires.connect("memory_writes.o", "self.memory_writes")
        else:
            wires.connect("receiver.writes", "self.memory_writes")
        wires.connect("self.memory_responses", "receiver.responses")
        wires.connect("receiver.ticks", "self.ticks")
        wires.connect("self.exports", "receiver.exports")
        wires.broadcast("self.down", "sender.down", "receiver.down", "packets.down")
        wires.connect("sender.o", "packets.i")
        wires.connect("packets.o", "route.packets")
        wires.connect("route.report", "reports.i")
        wires.connect("reports.o", "sender.report")
        for number in range(config.ports):
            port = f"port_{number}"
            wires.add(**{port: PutPort(config)})
            wires.connect(f"route.puts[{number}]", f"{port}.puts")
            wires.connect(f"{port}.report", f"route.done[{number}]")
            wires.connect(f"{port}.received", f"receiver.received[{number}]")
            wires.connect(f"receiver.results[{number}]", f"{port}.results")
            wires.connect(f"{port}.tx", f"self.channels[{number}].tx")
            wires.connect(f"self.channels[{number}].rx", f"{port}.rx")
        wires.connect("sender.counts", "self.counts.sender")
        wires.connect("receiver.counts", "self.counts.receiver")
        wires.finish()
        return m
