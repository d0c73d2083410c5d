# SPDX-License-Identifier: Apache-2.0
"""The DMA engine: its subsystems, connected.

    s_axi_db   ┌───────────┐ segments ┌───────┐ rejected, done, written ┌────────────┐
    ──────────▶│ front end │─────────▶│ mover │────────────────────────▶│ completion │
               └───────────┘          └───────┘◀────────────────────────└────────────┘
         tails, │         ▲ words   ▲  │  ▲ ▼     words
       consumed ▼         │  bursts │  │ m_axi             ┌─────────────┐
               ┌───────────┐────────┘  │                   │ instruments │◀── activity of all
               │   rings   │◀──────────┘ descriptors       └─────────────┘
               └───────────┘
    s_axil     ┌───────────────┐
    ──────────▶│ control plane │──▶ configuration and state bits to all
               └───────────────┘
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.doorbell import WORD_BITS
from hw.common.interrupts import QueueInterruptsSignature
from hw.common.posts import PostPortSignature
from hw.common.sizes import ADDR_WIDTH
from hw.common.sweep import Sweep
from hw.common.wiring import Wiring

from .completion.completion import Completion
from .config import DmaConfig
from .control.control_plane import ControlPlane
from .frontend.frontend import FrontEnd
from .instruments.events import EventsSignature
from .instruments.instruments import Instruments
from .mover.mover import Mover
from .rings.rings import Rings

__all__ = ["DmaEngine"]


class DmaEngine(wiring.Component):
    """Move bytes between registered regions, as GPU threads request by storing words to doorbells.

    Parameters
    ----------
    config : DmaConfig
    posts : bool
        With ``posts``.

    Members
    -------
    s_axil : ``In(AxiLiteSignature)``, s_axi_db : ``In(AxiSignature)``
        Registers; 32-bit data, 12-bit address. Doorbells; 128-bit data, one 4 KiB page per queue.
    m_axi : ``Out(AxiSignature)``
        Memory; 64-bit address, ``config.data_width``.
    irq : ``Out(1)``, interrupts : ``Out(QueueInterruptsSignature)``, events : ``Out(EventsSignature)``
        Level, active high. Interrupts of single queues, behind their words in memory, and events of each segment;
        both may be left open.
    posts : ``In(PostPortSignature)``
        Words that other parts of an endpoint post.

    Latency
    -------
    See ``docs/dma_engine.md``, whose figures come from ``tests/dma_engine/test_latency.py``.
    """

    def __init__(self, config: DmaConfig, *, posts: bool = False) -> None:
        if not isinstance(config, DmaConfig):
            raise TypeError(f"DmaEngine needs a DmaConfig, not {config!r}")
        self.config, self.has_posts = config, posts
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                        id_width=config.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                      id_width=config.axi_id_width)),
            "irq": Out(1), "interrupts": Out(QueueInterruptsSignature(config.queue_bits)),
            "events": Out(EventsSignature(config)),
            **({"posts": In(PostPortSignature(config.queues))} if posts else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        wires = Wiring(m, self)
        wires.add(sweep=Sweep(config), front_end=FrontEnd(config, posts=self.has_posts), rings=Rings(config),
                  mover=Mover(config), completion=Completion(config), control=ControlPlane(config),
                  instruments=Instruments(config))
        for port, bus in (("s_axil", "control.s_axil"), ("s_axi_db", "front_end.s_axi_db"), ("m_axi", "mover.m_axi"),
                          ("irq", "control.irq"), ("interrupts", "completion.interrupts"),
                          ("events", "instruments.events")):
            wires.connect(f"self.{port}", bus)
        if self.has_posts:
            wires.connect("self.posts", "front_end.posts")
        wires.broadcast("sweep.init", "front_end.init", "mover.init", "completion.init", "control.init",
                        "instruments.init")

        # -- Configuration and state bits.
        wires.broadcast("control.configure", "front_end.configure", "rings.configure", "completion.configure")
        wires.connect("control.region", "front_end.region")
        wires.connect("control.page", "front_end.page")
        wires.broadcast("control.connection", "front_end.connection", "completion.connection")
        wires.broadcast("control.targets", "front_end.targets", "mover.targets")
        wires.broadcast("control.ablation", "mover.ablation", "completion.ablation")
        wires.broadcast("control.states", "front_end.queues", "rings.queues", "completion.queues")
        wires.broadcast("control.clear", "front_end.clear", "rings.clear")
        wires.connect("control.flush", "front_end.flush")
        wires.connect("completion.settings", "front_end.settings")

        # -- Words to segments, segments to memory, ends of segments to words in memory.
        wires.connect("front_end.tails", "rings.tails")
        wires.connect("rings.words", "front_end.ring_words")
        wires.connect("front_end.consumed", "rings.consumed")
        wires.connect("rings.bursts", "mover.fetch")
        wires.connect("mover.descriptors", "rings.descriptors")
        wires.connect("front_end.segments", "mover.segments")
        wires.connect("mover.rejected", "completion.rejected")
        wires.connect("mover.signals", "completion.signals")
        wires.connect("completion.words", "mover.words")
        wires.connect("front_end.head", "completion.head")
        wires.connect("rings.restarted", "completion.restarted")

        # -- State of queues, operations on them, and abandoning them.
        wires.connect("front_end.occupancy", "control.occupancy")
        wires.connect("rings.refusing", "control.rings_refusing")
        wires.connect("rings.status", "control.rings")
        wires.connect("rings.parts", "control.ring_parts")
        wires.broadcast("completion.held", "front_end.held", "control.held")
        wires.connect("completion.pending", "control.pending")
        wires.connect("front_end.events", "control.queue_events")
        wires.connect("completion.events", "control.word_events")
        wires.connect("rings.events", "control.ring_events")
        wires.connect("control.operations", "completion.operations")
        wires.connect("control.tail", "front_end.lookup")
        wires.connect("control.retirement", "completion.lookup")
        wires.connect("front_end.epoch", "control.epochs[0]")
        wires.connect("mover.epoch", "control.epochs[1]")
        for number in range(3):
            wires.connect(f"completion.epochs[{number}]", f"control.epochs[{number + 2}]")
        wires.broadcast("control.abandon", "rings.abandon", "completion.abandon")
        wires.connect("control.abandoned", "completion.abandoned")
        wires.connect("control.drain", "mover.drain")
        wires.connect("completion.word_status", "control.words")
        wires.connect("completion.inside", "control.inside")
        wires.connect("control.phase", "front_end.phase")

        # -- Events.
        wires.broadcast("front_end.scheduled", "completion.scheduled", "control.scheduled", "instruments.scheduled")
        wires.broadcast("mover.done", "completion.done", "instruments.done")
        wires.broadcast("mover.written", "completion.written", "instruments.written")
        wires.broadcast("completion.retired", "front_end.retired", "control.retired", "instruments.retired")
        wires.broadcast("completion.returned", "front_end.returned", "control.returned")
        wires.broadcast("completion.outcome", "control.outcome", "instruments.outcome")
        for part in ("front_end", "rings", "mover", "completion"):
            wires.connect(f"{part}.activity", f"instruments.{part}")
        wires.connect("control.snapshot", "instruments.snapshot")
        wires.connect("control.histogram", "instruments.histogram")
        wires.connect("instruments.counts", "control.counts")
        wires.finish()
        return m
