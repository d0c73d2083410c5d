"""The DMA engine: its stages, connected.

Doorbell -> QueueStore -> Scheduler -> Legalizer -> ReadIssue -> (AR, R) -> BeatBuffer -> WriteSequencer ->
Aligner -> (AW, W, B) -> Responses -> Retire -> CompletionWriter -> WriteSequencer
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.doorbell import WORD_BITS
from hw.common.sizes import ADDR_WIDTH
from hw.common.sweep import Sweep
from hw.stream import Merge

from .completion.completion import Completion
from .config import DmaConfig
from .configuration import QueueWriteSignature
from .control import QueueControl
from .counters import QueueCounters
from .epochs import Epochs
from .events import Events, EventsSignature
from .frontend import FrontEnd
from .frontpanel import FrontPanel
from .histogram import LatencyHistogram
from .layouts import OpKind, op_layout
from .mover import Mover
from .quiesce import Quiesce
from .rings.rings import Rings

__all__ = ["DmaEngine"]


class DmaEngine(wiring.Component):
    """Move bytes between registered regions as GPU threads ask by storing words to doorbells.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    s_axil : ``In(AxiLiteSignature)``
        Registers; 32-bit data, 12-bit address.
    s_axi_db : ``In(AxiSignature)``
        Doorbells; 128-bit data, one 4 KiB page per queue.
    m_axi : ``Out(AxiSignature)``
        Memory; 64-bit address, ``config.data_width``.
    irq : ``Out(1)``
        Level, active high.
    events : ``Out(EventsSignature)``
        What happens to each segment; may be left open.

    Latency
    -------
    See ``docs/dma_engine.md``, whose figures come from ``tests/dma_engine/test_latency.py``.
    """

    def __init__(self, config):
        if not isinstance(config, DmaConfig):
            raise TypeError(f"DmaEngine needs a DmaConfig, not {config!r}")
        self.config = config
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                        id_width=config.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                      id_width=config.axi_id_width)),
            "irq": Out(1),
            "events": Out(EventsSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.panel = panel = FrontPanel(config)
        m.submodules.control = control = QueueControl(config)
        m.submodules.front_end = front_end = FrontEnd(config)
        m.submodules.epochs = epochs = Epochs(config)
        m.submodules.quiesce = quiesce = Quiesce(config)
        m.submodules.completion = completion = Completion(config)
        m.submodules.rings = rings = Rings(config)
        m.submodules.mover = mover = Mover(config)

        # -- The sweep over all memories after reset.
        m.submodules.sweep = sweep = Sweep(config)
        init = sweep.init
        for part in (panel, front_end, mover, completion, epochs):
            m.d.comb += [part.init.active.eq(init.active), part.init.address.eq(init.address)]

        # -- Words to segments.
        connect(m, flipped(self.s_axi_db), front_end.s_axi_db)
        connect(m, front_end.segments, mover.segments)
        m.d.comb += [
            completion.connection.valid.eq(panel.connection_write),
            completion.connection.connection.eq(panel.connection_id),
            completion.connection.entry.eq(panel.connection), completion.connection.rc_addr.eq(panel.connection_rc),
        ]
        m.d.comb += [
            front_end.connection.valid.eq(panel.connection_write),
            front_end.connection.connection.eq(panel.connection_id),
            front_end.connection.entry.eq(panel.connection), front_end.connection.rc_addr.eq(panel.connection_rc),
            front_end.region.valid.eq(panel.region_write), front_end.region.region.eq(panel.region_id),
            front_end.region.entry.eq(panel.region),
            front_end.page.valid.eq(panel.page_write), front_end.page.page.eq(panel.page_id),
            front_end.page.entry.eq(panel.page),
            front_end.queues.resetting.eq(control.resetting), front_end.queues.enabled.eq(control.enabled),
            front_end.queues.running.eq(control.running), front_end.held.eq(completion.held),
            front_end.clear.valid.eq(control.forgive), front_end.clear.queue.eq(control.forgive_queue),
            front_end.flush.valid.eq(control.flush), front_end.flush.queue.eq(control.flush_queue),
            front_end.targets.slow.eq(panel.target_slow), mover.targets.slow.eq(panel.target_slow),
        ]
        connect(m, front_end.head, completion.head)
        connect(m, completion.retired, front_end.retired)
        connect(m, completion.returned, front_end.returned)
        m.d.comb += [mover.targets.limit[number].eq(limit) for number, limit in enumerate(panel.target_limit)]
        m.d.comb += [front_end.targets.limit[number].eq(limit) for number, limit in enumerate(panel.target_limit)]

        # -- Descriptor rings.
        connect(m, front_end.tails, rings.tails)
        connect(m, rings.words, front_end.ring_words)
        connect(m, front_end.consumed, rings.consumed)
        queue_write = QueueWriteSignature(config).create()
        connect(m, rings.bursts, mover.fetch)
        m.d.comb += [
            queue_write.valid.eq(panel.queue_write), queue_write.queue.eq(panel.queue_id),
            queue_write.settings.eq(panel.settings), queue_write.ring.eq(panel.ring),
            queue_write.priority.eq(panel.queue_priority), queue_write.limit.eq(panel.queue_limit),
            queue_write.sc_addr.eq(panel.sc_addr), queue_write.rc_addr.eq(panel.rc_addr),
            queue_write.ark.eq(panel.ark),
        ]
        for part in (rings, completion, front_end):
            connect(m, queue_write, part.configure)
        connect(m, epochs.gave_up, rings.give_up)
        connect(m, mover.descriptors, rings.descriptors)
        m.d.comb += [
            rings.queues.enabled.eq(control.enabled), rings.queues.resetting.eq(control.resetting),
            rings.queues.running.eq(control.running),
            rings.clear.valid.eq(control.forgive), rings.clear.queue.eq(control.forgive_queue),
            completion.restarted.eq(rings.restarted),
        ]

        # -- Segments to memory and back.
        connect(m, mover.m_axi, flipped(self.m_axi))
        connect(m, mover.signals, completion.signals)
        connect(m, completion.words, mover.words)
        m.d.comb += [mover.ablation.single_read.eq(panel.single_read), mover.ablation.every_word.eq(panel.every_word)]
        m.d.comb += [completion.ablation.single_read.eq(panel.single_read),
                     completion.ablation.every_word.eq(panel.every_word)]

        # -- Ends of segments to completion words.
        connect(m, mover.rejected, completion.rejected)
        connect(m, mover.done, completion.done)
        connect(m, mover.written, completion.written)
        connect(m, epochs.gave_up, completion.give_up)
        connect(m, completion.settings, front_end.settings)
        m.d.comb += [
            completion.queues.resetting.eq(control.resetting), completion.queues.enabled.eq(control.enabled),
            completion.queues.running.eq(control.running),
        ]
        connect(m, front_end.scheduled, completion.scheduled)

        # -- Queue control.
        m.submodules.ops = ops = Merge(op_layout(config), 5, settled=not config.bypass)
        connect(m, ops.o, completion.operations)
        connect(m, control.ops, ops.i[0])
        connect(m, control.scan_ops, ops.i[1])
        m.d.comb += [
            ops.i[2].valid.eq(front_end.events.valid), front_end.events.ready.eq(ops.i[2].ready),
            ops.i[2].payload.kind.eq(OpKind.EVENT), ops.i[2].payload.queue.eq(front_end.events.payload.queue),
            ops.i[2].payload.status.eq(front_end.events.payload.status),
        ]
        m.d.comb += [
            ops.i[3].valid.eq(completion.events.valid), completion.events.ready.eq(ops.i[3].ready),
            ops.i[3].payload.kind.eq(OpKind.EVENT), ops.i[3].payload.queue.eq(completion.events.payload.queue),
            ops.i[3].payload.status.eq(completion.events.payload.status),
            ops.i[4].valid.eq(rings.events.valid), rings.events.ready.eq(ops.i[4].ready),
            ops.i[4].payload.kind.eq(OpKind.EVENT), ops.i[4].payload.queue.eq(rings.events.payload.queue),
            ops.i[4].payload.status.eq(rings.events.payload.status),
        ]
        look = Mux(control.scanning, control.scan_queue, panel.select)
        m.d.comb += [
            control.command_valid.eq(panel.command_write), control.command.eq(panel.command),
            control.command_queue.eq(panel.command_queue), control.watchdog.eq(panel.watchdog),
            control.waiting.eq(front_end.occupancy.ready | front_end.occupancy.more), control.held.eq(completion.held),
            control.pending.eq(completion.completions_pending | completion.notices_pending),
            control.retired.eq(completion.retired.valid), control.retired_queue.eq(completion.retired.queue),
            front_end.lookup.queue.eq(look), completion.lookup.queue.eq(look),
            control.in_flight.eq((front_end.lookup.tail != completion.lookup.head)
                                 | Cat(rings.status.fetching, C(0, config.queues)).bit_select(look, 1)
                                 | (epochs.gave_up.busy & (epochs.gave_up.queue == look))),
        ]

        # -- Segments that still count.
        m.d.comb += [epochs.queue[0].eq(front_end.epoch.queue), front_end.epoch.epoch.eq(epochs.epoch[0])]
        for index, lookup in enumerate((mover.epoch, *completion.epochs)):
            m.d.comb += [epochs.queue[index + 1].eq(lookup.queue), lookup.epoch.eq(epochs.epoch[index + 1])]
        connect(m, epochs.ends, completion.given_up)
        m.d.comb += [
            epochs.scheduled.eq(front_end.scheduled.valid), epochs.scheduled_queue.eq(front_end.scheduled.segment.queue),
            quiesce.scheduled.eq(front_end.scheduled.valid), quiesce.scheduled_phase.eq(front_end.scheduled.segment.phase),
            quiesce.returned.eq(completion.returned.valid), quiesce.returned_phase.eq(completion.returned.phase),
            quiesce.start.eq(panel.quiesce), panel.quiescing.eq(quiesce.busy), front_end.phase.eq(quiesce.phase),
            epochs.returned.eq(completion.returned.valid),
            epochs.returned_queue.eq(completion.returned.queue),
            epochs.look.eq(control.scanning), epochs.look_queue.eq(control.scan_queue),
            epochs.look_head.eq(completion.lookup.head), epochs.look_tail.eq(front_end.lookup.tail),
            epochs.give_up.eq(control.give_up),
            epochs.hold.eq(Cat(completion.inside, C(0, config.queues)).bit_select(epochs.gave_up.queue, 1)),
            epochs.words_outside.eq(completion.word_status.outside), epochs.draining.eq(completion.word_status.busy | mover.drain.busy),
            quiesce.given_up.eq(completion.word_status.outstanding | rings.status.owed),
            mover.drain.start.eq(epochs.gave_up.valid),
        ]
        # -- What software sees.
        connect(m, flipped(self.s_axil), panel.bus)
        m.d.comb += [
            self.irq.eq(panel.irq),
            panel.enabled.eq(control.enabled), panel.running.eq(control.running),
            panel.resetting.eq(control.resetting), panel.held.eq(completion.held),
            panel.refusing.eq(front_end.occupancy.refusing | rings.refusing), panel.waiting.eq(front_end.occupancy.ready | front_end.occupancy.more),
            panel.look_valid.eq(~control.scanning),
            panel.in_flight.eq(front_end.lookup.tail - completion.lookup.head), panel.word.eq(completion.lookup.word),
            panel.log_valid.eq(completion.outcome.failed), panel.log.eq(completion.outcome.log), panel.interrupt.eq(completion.outcome.interrupt),
        ]
        m.d.comb += [
            panel.counts.words.eq(front_end.posted.valid),
            panel.counts.refused.eq(front_end.refused | rings.tail_refused),
            panel.counts.requests.eq(completion.outcome.ended),
            panel.counts.failed.eq(completion.outcome.failed),
            panel.counts.segments.eq(mover.launch.read),
            panel.counts.read_beats.eq(mover.activity.read_beat),
            panel.counts.write_beats.eq(mover.activity.write_beat),
            panel.counts.completion_writes.eq(mover.written.valid & ~completion.unexpected),
            panel.counts.unexpected.eq((mover.unexpected_beat | rings.unexpected)
                                       + (mover.unexpected_response | completion.unexpected)),
            panel.counts.read_stalls.eq(mover.activity.read_stall),
            panel.counts.write_stalls.eq(mover.activity.write_stall),
        ]

        m.submodules.counters = counters = QueueCounters(config)
        m.submodules.histogram = histogram = LatencyHistogram(config)
        for part in (counters, histogram):
            connect(m, init, part.init)
        m.d.comb += [
            counters.done.eq(completion.moved.valid), counters.done_queue.eq(completion.moved.queue),
            counters.done_size.eq(completion.moved.size), counters.done_ok.eq(completion.moved.ok),
            counters.dropped.eq(front_end.dropped.valid), counters.dropped_queue.eq(front_end.dropped.queue),
            counters.reset.eq(completion.outcome.reset), counters.reset_queue.eq(completion.outcome.queue),
            counters.take.eq(panel.snapshot), counters.queue.eq(panel.select),
            panel.snapshot_busy.eq(counters.busy),
            panel.bytes.eq(counters.bytes), panel.segments.eq(counters.segments), panel.stalls.eq(counters.stalls),
            histogram.posted.eq(panel.counts.words), histogram.posted_queue.eq(front_end.posted.queue),
            histogram.ended.eq(completion.outcome.ended), histogram.reset.eq(completion.outcome.reset),
            histogram.queue.eq(completion.outcome.queue),
            histogram.look.eq(panel.histogram), histogram.look_queue.eq(panel.select),
            histogram.look_bin.eq(panel.histogram_bin), panel.histogram_count.eq(histogram.count),
        ]

        # -- What an observer sees.
        m.submodules.events = events = Events(config)
        connect(m, flipped(self.events), events.o)
        launch = mover.launch.payload
        for event, valid, fields in (
            (events.i.posted, panel.counts.words, {"queue": front_end.posted.queue}),
            (events.i.dropped, front_end.dropped.valid, {"queue": front_end.dropped.queue}),
            (events.i.scheduled, front_end.scheduled.valid, {
                "queue": front_end.scheduled.segment.queue, "index": front_end.scheduled.segment.index, "first": front_end.scheduled.segment.first,
                "last": front_end.scheduled.segment.last}),
            (events.i.read, mover.launch.read, {
                "queue": launch.segment.queue, "index": launch.segment.index, "tag": launch.tag,
                "size": launch.segment.size, "beats": launch.segment.src_beats}),
            (events.i.arrived, mover.sequencer.arrived, {"tag": mover.sequencer.arrived_tag}),
            (events.i.write, mover.sequencer.began, {"tag": mover.sequencer.began_tag}),
            (events.i.done, mover.done.valid, {"tag": mover.done.tag, "status": mover.done.payload.status}),
            (events.i.rejected, mover.rejection.valid, {
                "queue": mover.rejection.queue, "index": mover.rejection.index,
                "status": mover.rejection.status}),
            (events.i.retired, completion.retired.valid, {"queue": completion.retired.queue, "index": completion.retired.index}),
            (events.i.ended, completion.outcome.ended, {"queue": completion.outcome.queue}),
            (events.i.failed, completion.outcome.failed, {"queue": completion.outcome.log.queue, "status": completion.outcome.log.status}),
            (events.i.word, completion.sent.valid, {"writer": completion.sent.id}),
            (events.i.written, mover.written.valid & ~completion.unexpected, {
                "writer": mover.written.id.as_value(), "error": mover.written.failed}),
            (events.i.freed, mover.sequencer.freed, {}),
            (events.i.read_stall, panel.counts.read_stalls, {}),
            (events.i.write_stall, panel.counts.write_stalls, {}),
        ):
            m.d.comb += event.valid.eq(valid)
            m.d.comb += [getattr(event, name).eq(value) for name, value in fields.items()]
        return m
