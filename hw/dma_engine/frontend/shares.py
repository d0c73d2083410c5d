# SPDX-License-Identifier: Apache-2.0
"""Shares: selects the queues that the scheduler may pick, by strict classes and deficit round robin within a class.

QueueStore -> Shares -> Scheduler.  Latency: 1 cycle from ``requesting`` to ``candidates``.  Throughput: one segment
charged per cycle.

A queue's deficit is the number of beats that it may still move in this round. Each scheduled segment is charged to its
queue with its source beats or its destination beats, whichever are more; the first segment of a descriptor's last word
is also charged with the beats of the descriptor. The deficit may become negative and is carried over to the next round.
The next round of a class begins when none of its requesting queues has a positive deficit. A queue gets the quantum of
its weight when it is first charged in a round.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sizes import WEIGHT_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import CLASSES, DmaConfig
from hw.dma_engine.configuration import QueueWriteSignature
from hw.dma_engine.layouts import queue_settings_layout
from hw.dma_engine.strobes import ScheduledSignature
from hw.dma_engine.words import QueueMode

__all__ = ["Shares", "SharesPortSignature"]

CHARGE_DELAY = 4
"""Maximum of segments of a queue that are picked before the first of them is charged."""


class SharesPortSignature(wiring.Signature):
    """Requests of the queues, and the candidates for the scheduler's next pick.

    Members
    -------
    requesting : ``Out(queues)``
    leaving : ``Out(queues)``
        Queues that request, and those of them that will not request in the next cycle. ``leaving`` does not mask the
        choice of the highest class, which would otherwise be late-arriving.
    arriving : ``Out(1)``, arriving_queue : ``Out``
        One more queue requests; later in the cycle than ``requesting``.
    candidates : ``In(queues)``
        Queues that requested in the previous cycle and may be picked.
    left : ``In(queues)``
        Queues with a positive deficit in their class's round.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"requesting": Out(config.queues), "leaving": Out(config.queues),
                          "arriving": Out(1), "arriving_queue": Out(config.queue_bits),
                          "candidates": In(config.queues), "left": In(config.queues, init=-1)})


class Shares(wiring.Component):
    """Reduce the requesting queues to those of the highest class that have a positive deficit.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    configure : ``In(QueueWriteSignature)``
        Change of a queue's class.
    scheduler : ``In(SharesPortSignature)``
    scheduled : ``In(ScheduledSignature)``, settings : ``In(queue_settings_layout)``
        The segment to charge to its queue, and the queue's settings: a weight of 0 counts as 1.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "configure": In(QueueWriteSignature(config)),
            "scheduler": In(SharesPortSignature(config)),
            "scheduled": In(ScheduledSignature(config)), "settings": In(queue_settings_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, port, scheduled, segment = self.config, self.scheduler, self.scheduled, self.scheduled.segment
        quantum_bits = (CHARGE_DELAY * config.segment_beats - 1).bit_length()
        deficit_shape = signed(quantum_bits + WEIGHT_WIDTH + 1)

        # -- The highest class with a requesting queue.
        priorities = [Signal(range(CLASSES), name=f"priority_{index}") for index in range(config.queues)]
        requesters, chosen = Signal(config.queues), Signal(range(CLASSES))
        waiting, highest = Signal(range(CLASSES)), Signal(range(CLASSES))       # without and with the arriving queue
        for number in range(1, CLASSES):
            with m.If(Cat(requester & (priority == number)
                          for requester, priority in zip(port.requesting, priorities, strict=True)).any()):
                m.d.comb += waiting.eq(number)
        arriving = Array(priorities)[port.arriving_queue]
        m.d.comb += highest.eq(Mux(port.arriving & (arriving > waiting), arriving, waiting))
        m.d.sync += chosen.eq(highest)
        for index, priority in enumerate(priorities):
            arrives = port.arriving & (port.arriving_queue == index)
            m.d.sync += requesters[index].eq(
                ((port.requesting[index] & ~port.leaving[index]) | arrives) & (priority == highest))
            with m.If(self.configure.valid & (self.configure.queue == index)):
                m.d.sync += priority.eq(self.configure.priority)

        # -- The next round of the class begins when no requester has a positive deficit.
        begin = Signal()
        m.d.comb += [
            port.candidates.eq(requesters & port.left),
            begin.eq(requesters.any() & ~port.candidates.any()),
        ]

        # -- The change of the deficit by a segment: minus its beats, and once per round plus the quantum. The constant
        # subtracts 2: ``scheduled.beats`` is the number of beats less one, and ``beyond`` is another beat. The carry
        # input ``within`` of the next adder adds 1 back if there is no beat beyond.
        fresh = Signal(config.queues, init=-1)      # queues not charged in this round
        gets, change, first, within = Signal(), Signal(deficit_shape), Signal(), Signal()
        charged, queue = Signal(), Signal(config.queue_bits)
        descriptor = Signal()
        m.d.comb += descriptor.eq(segment.first & segment.request.note.ring.closes
                                  & (self.settings.mode == QueueMode.RING))
        less, gift = Signal(WEIGHT_WIDTH), Signal(deficit_shape)
        m.d.comb += [
            gets.eq(fresh.bit_select(segment.queue, 1)),
            less.eq(Array(max(weight - 1, 0) for weight in range(1 << WEIGHT_WIDTH))[self.settings.weight]),
            gift.eq(Cat(Mux(descriptor, C((1 << quantum_bits) - 2 - config.descriptor_beats, quantum_bits),
                            C((1 << quantum_bits) - 2, quantum_bits)),
                        less | (~gets).replicate(WEIGHT_WIDTH), ~gets)),
        ]
        m.d.sync += [
            charged.eq(scheduled.valid), queue.eq(segment.queue), first.eq(gets),
            change.eq(gift - scheduled.beats), within.eq(~scheduled.beyond),
        ]

        # -- The deficit. A positive deficit is carried over to the next round, limited to the smallest quantum.
        m.submodules.deficits = deficits = Table(
            deficit_shape, depth=config.queues, reads=1, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), deficits.init)
        before, kept, now = Signal(deficit_shape), Signal(deficit_shape), Signal(deficit_shape)
        # The row is read one cycle early; if it is being written, the new value is used.
        m.d.sync += before.eq(Mux(charged & (queue == segment.queue), now, deficits.read[0].data))
        m.d.comb += [
            deficits.read[0].addr.eq(segment.queue),
            kept.eq(Mux(first & ~before[-1] & before[quantum_bits:].any(), (1 << quantum_bits) - 1, before)),
            now.eq((Cat(C(1, 1), kept) + Cat(within, change))[1:]),
            deficits.write.en.eq(charged), deficits.write.addr.eq(queue), deficits.write.data.eq(now),
        ]

        for index, priority in enumerate(priorities):
            with m.If(begin & (priority == chosen)):
                m.d.sync += [port.left[index].eq(1), fresh[index].eq(1)]
            with m.Else():
                with m.If(charged & (queue == index) & now[-1] & ~fresh[index]):
                    m.d.sync += port.left[index].eq(0)
                with m.If(scheduled.valid & (segment.queue == index)):
                    m.d.sync += fresh[index].eq(0)
        return m
