"""An endpoint: DMA engine and collectives accelerator on one memory port, one doorbell space, one register space.

::

    s_axi_db -> DoorbellSplit -+-> DmaEngine -> Bridge -> RemoteSplit -+-> MemoryPort -> m_axi
    s_axil -> RegisterWindow --+-> AceEngine -> Bridge ----------------+       ^
                               +-> EndpointControl         |           |       |
                                                           |           +-----> Puts
                                                           +------------------- links <-> tx, rx
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.engine import AceEngine
from hw.ace.layouts import link_layout
from hw.axi import AxiLiteSignature, AxiSignature
from hw.dma_engine import DmaEngine
from hw.dma_engine.instruments.events import EventsSignature

from .bridge import Bridge
from .config import ADDR_WIDTH, EndpointConfig
from .control import EndpointControl
from .doorbells import DoorbellSplit
from .memory_port import MemoryPort
from .puts import Puts
from .register_window import RegisterWindow
from .remote import RemoteSplit

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
        Doorbells: the pages of the DMA engine's queues, then those of the accelerator's.
    m_axi : ``Out(AxiSignature)``
        Memory.
    tx, rx : ``Out`` and ``In``, arrays of ``stream.Signature(link_layout)``
        Links, as of :class:`AceEngine`, with puts beside the collectives.
    irq : ``Out(1)``
        Level, active high: of either engine, or of the endpoint's own registers.
    events : ``Out(EventsSignature)``
        As of :class:`DmaEngine`; may be left open.
    """

    def __init__(self, config):
        if not isinstance(config, EndpointConfig):
            raise TypeError(f"Endpoint needs an EndpointConfig, not {config!r}")
        self.config = config
        link = stream.Signature(link_layout(config.ace))
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=14, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=128,
                                        id_width=config.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                      id_width=config.axi_id_width)),
            "tx": Out(link).array(config.ports), "rx": In(link).array(config.ports),
            "irq": Out(1), "events": Out(EventsSignature(config.dma)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.dma = dma = DmaEngine(config.dma)
        m.submodules.ace = ace = AceEngine(config.ace)
        m.submodules.control = control = EndpointControl(config)
        m.submodules.doorbells = doorbells = DoorbellSplit(config)
        m.submodules.registers = registers = RegisterWindow(3)
        m.submodules.memory = memory = MemoryPort(config)

        connect(m, flipped(self.s_axi_db), doorbells.bus)
        connect(m, doorbells.dma, dma.s_axi_db)
        connect(m, doorbells.ace, ace.s_axi_db)
        connect(m, flipped(self.s_axil), registers.bus)
        for part, block in zip(registers.parts, (dma.s_axil, ace.s_axil, control.bus), strict=True):
            connect(m, part, block)
        connect(m, dma.events, flipped(self.events))
        m.d.sync += self.irq.eq(dma.irq | ace.irq | control.irq)

        # -- Memory. What the DMA engine writes goes there, or to a neighbour.
        m.submodules.split = split = RemoteSplit(config)
        m.submodules.puts = puts = Puts(config)
        m.submodules.dma_bridge = dma_bridge = Bridge(config, id_width=config.dma.axi_id_width)
        m.submodules.ace_bridge = ace_bridge = Bridge(config, id_width=ace.m_axi.signature.id_width)
        for engine, bridge, reads, beats in zip((dma, ace), (dma_bridge, ace_bridge), memory.reads, memory.beats,
                                                strict=True):
            connect(m, engine.m_axi, bridge.bus)
            connect(m, bridge.reads, reads)
            connect(m, beats, bridge.beats)
        connect(m, dma_bridge.writes, split.i)
        connect(m, split.answers, dma_bridge.answers)
        connect(m, split.remote, puts.writes)
        connect(m, puts.answers, split.remote_answers)
        for number, (writes, answers) in enumerate((
                (split.local, split.local_answers), (ace_bridge.writes, ace_bridge.answers),
                (puts.memory_writes, puts.memory_answers))):
            connect(m, writes, memory.writes[number])
            connect(m, memory.answers[number], answers)
        connect(m, memory.bus, flipped(self.m_axi))
        m.d.comb += [
            memory.window.eq(control.window),
            *(mine.eq(weight) for mine, weight in zip(memory.read_weight, control.read_weight, strict=True)),
            *(mine.eq(weight) for mine, weight in zip(memory.write_weight, control.write_weight, strict=True)),
            puts.commit.eq(control.commit), puts.span.eq(control.span), puts.valid.eq(control.valid),
            puts.entry.eq(control.entry),
            Cat(control.counts.dma_read_beats, control.counts.ace_read_beats).eq(memory.read),
            Cat(control.counts.dma_write_beats, control.counts.ace_write_beats,
                control.counts.put_write_beats).eq(memory.written),
            control.counts.put_packets_sent.eq(puts.sent), control.counts.put_packets_taken.eq(puts.taken),
            control.counts.put_packets_refused.eq(puts.refused), control.counts.put_unexpected.eq(puts.unexpected),
        ]

        # -- Links: collectives on channel 0, puts on channel 1.
        m.d.comb += puts.down.eq(ace.link_down)
        for number, channel in enumerate(puts.channels):
            connect(m, channel.tx, ace.put_tx[number])
            connect(m, ace.put_rx[number], channel.rx)
            connect(m, ace.tx[number], flipped(self.tx[number]))
            connect(m, flipped(self.rx[number]), ace.rx[number])
        return m
