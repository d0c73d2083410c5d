# SPDX-License-Identifier: Apache-2.0
"""Remote machines: their memory for the DMA engine, local memory for them. Only connects.

::

    RemoteSplit ------------------+-> RdmaUnit <-> Ethernet
    AxiStreams -> ReadSplit ------+      |
                      |                  v
                      +--> MemoryPort <- Skid
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiStreamSignature
from hw.common.wiring import Wiring
from hw.rdma.unit import RdmaUnit
from hw.stream import Skid

from .config import EndpointConfig
from .layouts import read_beat_layout, read_layout, response_layout, write_layout
from .remote_reads import ReadSplit

__all__ = ["EthernetSignature", "RemoteMachines"]


class EthernetSignature(wiring.Signature):
    """An Ethernet MAC, and other traffic that shares it.

    Members
    -------
    tx : ``Out(AxiStreamSignature)``, rx : ``In(AxiStreamSignature)``
        Frames without preamble and FCS to the MAC and from it. ``rx`` is always accepted.
    other_tx : ``In(AxiStreamSignature)``, other_rx : ``Out(AxiStreamSignature)``
        Frames that are not RoCEv2 for this station.
    """

    def __init__(self, config: EndpointConfig) -> None:
        frames = AxiStreamSignature(data_width=config.data_width)
        super().__init__({"tx": Out(frames), "rx": In(frames), "other_tx": In(frames), "other_rx": Out(frames)})


class RemoteMachines(wiring.Component):
    """The RoCEv2 unit between the DMA engine, the memory port and Ethernet.

    Parameters
    ----------
    config : EndpointConfig
        With a RoCEv2 unit.

    Members
    -------
    bus : ``In(AxiLiteSignature)``, irq : ``Out(1)``
        Its registers.
    writes, responses
        The DMA engine's writes to remote machines.
    reads, beats
        All of the DMA engine's reads; those of local memory pass to ``local_reads`` and ``local_beats``.
    memory_writes, memory_responses, memory_reads, memory_beats
        Accesses of remote machines to local memory.
    ethernet : ``Out(EthernetSignature)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        read, beat = stream.Signature(read_layout(config)), stream.Signature(read_beat_layout(config))
        write, response = stream.Signature(write_layout(config)), stream.Signature(response_layout(config))
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)), "irq": Out(1),
            "writes": In(write), "responses": Out(response), "reads": In(read), "beats": Out(beat),
            "local_reads": Out(read), "local_beats": In(beat),
            "memory_writes": Out(write), "memory_responses": In(response), "memory_reads": Out(read),
            "memory_beats": In(beat), "ethernet": Out(EthernetSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(unit=RdmaUnit(self.config.rdma), split=ReadSplit(self.config),
                  writes=Skid(write_layout(self.config), output_register=False))
        wires.connect("self.bus", "unit.bus")
        wires.connect("unit.irq", "self.irq")
        wires.connect("self.writes", "unit.writes")
        wires.connect("unit.responses", "self.responses")
        wires.connect("self.reads", "split.reads")
        wires.connect("split.beats", "self.beats")
        wires.connect("split.local", "self.local_reads")
        wires.connect("self.local_beats", "split.local_beats")
        wires.connect("split.network", "unit.reads")
        wires.connect("unit.beats", "split.network_beats")
        wires.connect("unit.memory_writes", "writes.i")
        wires.connect("writes.o", "self.memory_writes")
        wires.connect("self.memory_responses", "unit.memory_responses")
        wires.connect("unit.memory_reads", "self.memory_reads")
        wires.connect("self.memory_beats", "unit.memory_beats")
        wires.connect("unit.mac_tx", "self.ethernet.tx")
        wires.connect("self.ethernet.rx", "unit.mac_rx")
        wires.connect("self.ethernet.other_tx", "unit.other_tx")
        wires.connect("unit.other_rx", "self.ethernet.other_rx")
        wires.finish()
        return m
