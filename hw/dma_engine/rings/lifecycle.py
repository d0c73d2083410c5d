# SPDX-License-Identifier: Apache-2.0
"""Lifecycle of descriptor rings: which ring drives its queue, which descriptors it expects, when it restarts.

Registers, QueueControl, Epochs, BeatBuffer -> RingLifecycle -> RingPointers, RingBuffer, RingExpand.  Latency: 1 cycle
from a configuration write, otherwise none.  Throughput: one beat of a descriptor per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueStatesSignature, QueueWriteSignature
from hw.dma_engine.control.epochs import AbandonSignature
from hw.dma_engine.mover.buffer import DescriptorBeatSignature
from hw.dma_engine.words import QueueMode

from .buffer import AwaitedSignature, RingBeatSignature, RingStatesSignature
from .pointers import RingWriteSignature

__all__ = ["RingLifecycle", "RingPartsSignature", "RingStatusSignature"]


class RingStatusSignature(wiring.Signature):
    """Descriptor reads of rings in flight, for resets and for QUIESCE.

    Members
    -------
    fetching : ``Out(extended)``
        Rings with requested descriptors that have not arrived.
    outstanding : ``Out(1)``
        Some abandoned ring has descriptors that have not arrived.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"fetching": Out(config.extended), "outstanding": Out(1)})


class RingPartsSignature(wiring.Signature):
    """Which rings have which rows of the descriptor buffer; registers.

    Members
    -------
    used : ``Out(extended)``
        Rings that have rows: they drive their queues, or did so before and were not reset since.
    pair : ``Out(extended)``
        Of these, rings that have the rows of both rings of their pair.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"used": Out(config.extended), "pair": Out(config.extended)})


class RingLifecycle(wiring.Component):
    """Keep the mode of each ring, accept only expected descriptors, and reset rings.

    A ring whose queue is being reset waits until its requested descriptors have arrived, then restarts. An abandoned
    ring restarts immediately; its delayed descriptors are dropped as they arrive.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure : ``In(QueueWriteSignature)``
    queues : ``In(QueueStatesSignature)``, abandon : ``In(AbandonSignature)``
    descriptors : ``In(DescriptorBeatSignature)``, unexpected : ``Out(1)``
        Beats; an unexpected one is dropped.
    awaited : ``In(AwaitedSignature)``
    write : ``Out(RingWriteSignature)``, states : ``Out(RingStatesSignature)``, beats : ``Out(RingBeatSignature)``
    driven : ``Out(extended)``
        Queues that are driven by their ring.
    restarted : ``Out(extended)``
        Rings that restart.
    status : ``Out(RingStatusSignature)``, parts : ``Out(RingPartsSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        rings = config.extended
        super().__init__({
            "configure": In(QueueWriteSignature(config)),
            "queues": In(QueueStatesSignature(config)), "abandon": In(AbandonSignature(config)),
            "descriptors": In(DescriptorBeatSignature(config)), "unexpected": Out(1),
            "awaited": In(AwaitedSignature(config)),
            "write": Out(RingWriteSignature(config)), "states": Out(RingStatesSignature(config)),
            "beats": Out(RingBeatSignature(config)),
            "driven": Out(rings), "restarted": Out(rings), "status": Out(RingStatusSignature(config)),
            "parts": Out(RingPartsSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, write, states = self.config, self.write, self.states
        beat, abandon, fetching = self.descriptors, self.abandon, self.status.fetching
        expected, ring = Signal(), self.descriptors.id[:config.extended_bits]
        m.d.comb += [
            write.valid.eq(self.configure.valid & is_extended(config, self.configure.queue)),
            write.ring.eq(self.configure.queue), write.settings.eq(self.configure.ring),
            expected.eq(self.awaited.some.bit_select(ring, 1) & ~beat.id[config.extended_bits:-1].any()),
            self.unexpected.eq(beat.valid & ~expected),
            self.beats.valid.eq(beat.valid & expected), self.beats.ring.eq(ring), self.beats.data.eq(beat.data),
            self.beats.resp.eq(beat.resp),
            fetching.eq(self.awaited.some & ~self.awaited.outstanding),
            self.status.outstanding.eq(self.awaited.outstanding.any()),
            states.enabled.eq(self.queues.enabled),
            self.parts.used.eq(states.used), self.parts.pair.eq(states.pair),
            states.abandon.eq(Cat(abandon.valid & (abandon.queue == index) for index in range(config.extended))),
            # Descriptors in flight arrive first.
            states.discard.eq((self.queues.resetting[:config.extended] & ~fetching) | states.abandon),
            self.restarted.eq(states.discard),
        ]
        drives = Signal()
        m.d.comb += drives.eq(self.configure.settings.mode == QueueMode.RING)
        for index in range(config.extended):
            with m.If(write.valid & (write.ring == index)):
                m.d.sync += [states.records[index].eq(write.settings.records), self.driven[index].eq(drives),
                             states.used[index].eq(drives | (states.used[index] & states.enabled[index]))]
                with m.If(drives):
                    m.d.sync += states.pair[index].eq(write.settings.pair)
            with m.Elif(states.discard[index]):
                m.d.sync += states.used[index].eq(self.driven[index])
        return m
