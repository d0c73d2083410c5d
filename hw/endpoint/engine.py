# SPDX-License-Identifier: Apache-2.0
"""An endpoint: DMA engine, accelerator, trigger counters, RoCEv2; one memory port, doorbells, registers.

::

    s_axi_db -> DoorbellSplit -+-> DmaEngine -> AxiStreams -> RemoteSplit -+-> MemoryPort -> m_axi
    s_axil -> RegisterWindow --+-> AceEngine -> AxiStreams -> Skid --------+       ^
                               +-> EndpointControl         |               |       |
                               |                           |               +-----> Puts, RemoteMachines
                               |                           +---------------------- | --- links <-> tx, rx
                               +-> TriggerUnit <- LocalTicks <- RemoteSplit        |
                                     |     ^---------------------------------------+
                                     +-> posts of DmaEngine and AceEngine
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.engine import AceEngine
from hw.ace.layouts import link_layout
from hw.axi import AxiLiteSignature, AxiSignature
from hw.axi.streams import AxiStreams
from hw.common.interrupts import QueueInterruptsSignature
from hw.common.register_window import RegisterWindow
from hw.common.wiring import Wiring
from hw.dma_engine import DmaEngine
from hw.dma_engine.instruments.events import EventsSignature
from hw.stream import Skid
from hw.triggers.unit import TriggerUnit

from .config import ADDR_WIDTH, EndpointConfig
from .control import EndpointControl
from .doorbells import DoorbellSplit
from .layouts import write_layout
from .local_ticks import LocalTicks
from .memory_port import MemoryPort
from .puts import Puts
from .remote import RemoteSplit
from .remote_machines import EthernetSignature, RemoteMachines

__all__ = ["Endpoint"]


class Endpoint(wiring.Component):
    """One accelerator's communication hardware.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    s_axil : ``In(AxiLiteSignature)``
        Registers: ``registers.whole_map``.
    s_axi_db : ``In(AxiSignature)``
        Doorbells: the pages of the DMA engine's queues, those of the accelerator's, those of the trigger counters.
    m_axi : ``Out(AxiSignature)``, memory
    tx, rx : ``Out`` and ``In``, arrays of ``stream.Signature(link_layout)``
        Links, as in :class:`AceEngine`; they carry puts and collectives.
    ethernet : ``Out(EthernetSignature)``, with a RoCEv2 unit only
    irq : ``Out(1)``
        Level, active high: interrupt of any engine or of the endpoint's own registers.
    interrupts : ``Out(QueueInterruptsSignature)``, events : ``Out(EventsSignature)``
        As in :class:`DmaEngine`; may be left open.
    """

    def __init__(self, config: EndpointConfig) -> None:
        if not isinstance(config, EndpointConfig):
            raise TypeError(f"Endpoint needs an EndpointConfig, not {config!r}")
        self.config = config
        link = stream.Signature(link_layout(config.ace))
        ethernet = {"ethernet": Out(EthernetSignature(config))} if config.rdma else {}
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=14, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=128,
                                        id_width=config.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                      id_width=config.axi_id_width)),
            "tx": Out(link).array(config.ports), "rx": In(link).array(config.ports),
            "irq": Out(1), "interrupts": Out(QueueInterruptsSignature(config.dma.queue_bits)),
            "events": Out(EventsSignature(config.dma)), **ethernet,
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        _, ace, *_ = wires.add(
            dma=DmaEngine(config.dma, posts=True), ace=AceEngine(config.ace, posts=True),
            control=EndpointControl(config), doorbells=DoorbellSplit(config),
            registers=RegisterWindow(3 + bool(config.rdma)), memory=MemoryPort(config), split=RemoteSplit(config),
            puts=Puts(config), triggers=TriggerUnit(config.triggers), local_ticks=LocalTicks(config),
            ace_writes=Skid(write_layout(config), output_register=False))
        for name, id_width in (("dma", config.dma.axi_id_width), ("ace", ace.m_axi.signature.id_width)):
            wires.add(**{f"{name}_streams": AxiStreams(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                                       bus_id_width=id_width, id_width=config.source_id_width)})

        # -- Doorbells, registers, interrupts.
        wires.connect("self.s_axi_db", "doorbells.bus")
        wires.connect("self.s_axil", "registers.bus")
        for number, part in enumerate(("dma", "ace")):
            wires.connect(f"doorbells.{part}", f"{part}.s_axi_db")
            wires.connect(f"registers.parts[{number}]", f"{part}.s_axil")
            wires.connect(f"{part}.irq", f"control.irqs[{number}]")
            wires.connect(f"{part}.m_axi", f"{part}_streams.bus")
        wires.connect("doorbells.triggers", "triggers.bus")
        wires.connect("registers.parts[2]", "control.bus")
        wires.connect("control.irq", "self.irq")
        wires.connect("dma.interrupts", "self.interrupts")
        wires.connect("dma.events", "self.events")

        # -- Memory. Writes of the DMA engine go to local memory or to a neighbour.
        if config.rdma:
            wires.add(remote=RemoteMachines(config))
            for first, second in (
                    ("registers.parts[3]", "remote.bus"), ("remote.irq", "control.irqs[2]"),
                    ("dma_streams.reads", "remote.reads"), ("remote.beats", "dma_streams.beats"),
                    ("split.network", "remote.writes"), ("remote.responses", "split.network_responses"),
                    ("remote.memory_reads", "memory.reads[2]"), ("memory.beats[2]", "remote.memory_beats")):
                wires.connect(first, second)
            wires.connect("remote.ethernet", "self.ethernet")
        for number, path in enumerate(("remote.local_" if config.rdma else "dma_streams.", "ace_streams.")):
            wires.connect(f"{path}reads", f"memory.reads[{number}]")
            wires.connect(f"memory.beats[{number}]", f"{path}beats")
        wires.connect("dma_streams.writes", "split.i")
        wires.connect("ace_streams.writes", "ace_writes.i")
        wires.connect("split.responses", "dma_streams.responses")
        wires.connect("split.remote", "puts.writes")
        wires.connect("puts.responses", "split.remote_responses")
        for number, (writes, responses) in enumerate((
                ("split.local", "split.local_responses"), ("ace_writes.o", "ace_streams.responses"),
                ("puts.memory_writes", "puts.memory_responses"),
                ("remote.memory_writes", "remote.memory_responses"))[:len(config.managers)]):
            wires.connect(writes, f"memory.writes[{number}]")
            wires.connect(f"memory.responses[{number}]", responses)
        wires.connect("memory.bus", "self.m_axi")
        wires.connect("control.settings", "memory.settings")
        wires.connect("control.exports", "puts.exports")
        wires.connect("memory.counts", "control.memory_counts")
        wires.connect("puts.counts", "control.put_counts")

        # -- Trigger counters: ticks, and words that they post.
        wires.connect("split.counters", "local_ticks.writes")
        wires.connect("local_ticks.responses", "split.counter_responses")
        wires.connect("local_ticks.ticks", "triggers.local")
        wires.connect("puts.ticks", "triggers.remote")
        for part in ("dma", "ace"):
            wires.connect(f"triggers.{part}", f"{part}.posts")
        wires.connect("control.triggers", "triggers.settings")
        wires.connect("triggers.status", "control.trigger_status")

        # -- Links: collectives on channel 0, puts on channel 1.
        wires.connect("ace.link_down", "puts.down")
        wires.connect("ace.tx", "self.tx")
        wires.connect("self.rx", "ace.rx")
        for number in range(config.ports):
            wires.connect(f"puts.channels[{number}].tx", f"ace.put_tx[{number}]")
            wires.connect(f"ace.put_rx[{number}]", f"puts.channels[{number}].rx")
        wires.finish()
        return m
