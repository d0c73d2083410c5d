# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings: from a tail posted through a doorbell to the words of the queue that the ring drives.

              tails              bursts
    doorbell ──────▶┌──────────┐─────────▶ read issue
                    │ pointers │ rows_freed
          ┌────────▶└──────────┘◀──────────────┐
          │ write, states │ requested          │
    ┌───────────┐ beats   ▼                    │
    │ lifecycle │──▶┌──────────┐  rows   ┌──────────┐ words
    └───────────┘   │  buffer  │◀────────│  expand  │───────▶ arrivals
          ▲         └──────────┘         └──────────┘
          │ descriptors
    beat buffer

``states`` goes from the lifecycle to the three others.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import TailPortSignature
from hw.common.wiring import Wiring
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueStatesSignature, QueueWriteSignature
from hw.dma_engine.control.epochs import AbandonSignature
from hw.dma_engine.layouts import event_layout, fetch_layout, ring_word_layout
from hw.dma_engine.mover.buffer import DescriptorBeatSignature
from hw.dma_engine.strobes import QueueStrobeSignature

from .buffer import RingBuffer
from .expand import RingExpand
from .lifecycle import RingLifecycle, RingPartsSignature, RingStatusSignature
from .pointers import RingPointers

__all__ = ["Rings", "RingsActivitySignature"]


class RingsActivitySignature(wiring.Signature):
    """Events of rings in this cycle, for counters: a doorbell was refused; an unexpected beat of a descriptor was
    dropped.
    """

    def __init__(self) -> None:
        super().__init__({"tail_refused": Out(1), "unexpected": Out(1)})


class Rings(wiring.Component):
    """The rings of all extended queues; ring r drives queue r. Only connects.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure : ``In(QueueWriteSignature)``
    queues : ``In(QueueStatesSignature)``, abandon : ``In(AbandonSignature)``
    tails : ``In(TailPortSignature)``
        Doorbells.
    clear : ``In(QueueStrobeSignature)``, refusing : ``Out(extended)``, events : ``Out(stream)``
        As in the queue store.
    bursts : ``Out(stream.Signature(fetch_layout))``, descriptors : ``In(DescriptorBeatSignature)``
        Requested descriptors, and their beats.
    consumed : ``In(QueueStrobeSignature)``
        A queue has completely scheduled one word.
    words : ``Out(stream.Signature(ring_word_layout))``
    restarted : ``Out(extended)``
        Rings that restart.
    status : ``Out(RingStatusSignature)``, parts : ``Out(RingPartsSignature)``
    activity : ``Out(RingsActivitySignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "configure": In(QueueWriteSignature(config)),
            "queues": In(QueueStatesSignature(config)), "abandon": In(AbandonSignature(config)),
            "tails": In(TailPortSignature(config)), "activity": Out(RingsActivitySignature()),
            "clear": In(QueueStrobeSignature(config)), "refusing": Out(config.extended),
            "events": Out(stream.Signature(event_layout(config))),
            "bursts": Out(stream.Signature(fetch_layout(config))),
            "descriptors": In(DescriptorBeatSignature(config)),
            "consumed": In(QueueStrobeSignature(config)),
            "words": Out(stream.Signature(ring_word_layout(config))),
            "restarted": Out(config.extended), "status": Out(RingStatusSignature(config)),
            "parts": Out(RingPartsSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(lifecycle=RingLifecycle(self.config), pointers=RingPointers(self.config),
                  buffer=RingBuffer(self.config), expand=RingExpand(self.config))
        wires.connect("self.configure", "lifecycle.configure")
        wires.connect("self.queues", "lifecycle.queues")
        wires.connect("self.abandon", "lifecycle.abandon")
        wires.connect("lifecycle.write", "pointers.write")
        wires.broadcast("lifecycle.states", "pointers.states", "buffer.states", "expand.states")
        wires.connect("lifecycle.driven", "self.tails.driven")
        wires.connect("lifecycle.restarted", "self.restarted")
        wires.connect("lifecycle.status", "self.status")
        wires.connect("lifecycle.parts", "self.parts")

        wires.connect("self.tails.doorbells", "pointers.tails")
        wires.connect("pointers.tail_refused", "self.activity.tail_refused")
        wires.connect("self.clear", "pointers.clear")
        wires.connect("pointers.refusing", "self.refusing")
        wires.connect("pointers.events", "self.events")
        wires.connect("pointers.bursts", "self.bursts")
        wires.connect("pointers.requested", "buffer.requested")

        wires.connect("self.descriptors", "lifecycle.descriptors")
        wires.connect("lifecycle.unexpected", "self.activity.unexpected")
        wires.connect("lifecycle.beats", "buffer.beats")
        wires.broadcast("buffer.awaited", "lifecycle.awaited", "pointers.awaited")
        wires.connect("expand.rows", "buffer.rows")
        wires.connect("expand.rows_freed", "pointers.rows_freed")
        wires.connect("self.consumed", "expand.consumed")
        wires.connect("expand.words", "self.words")
        wires.finish()
        return m
