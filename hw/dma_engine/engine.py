"""The DMA engine: its stages, connected.

Doorbell -> QueueStore -> Scheduler -> Legalizer -> ReadIssue -> (AR, R) -> BeatBuffer -> WriteSequencer ->
Aligner -> (AW, W, B) -> Responses -> Retire -> CompletionWriter -> WriteSequencer
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.doorbell import WORD_BITS, Doorbell
from hw.common.regions import RegionTable
from hw.common.sizes import ADDR_WIDTH
from hw.common.sweep import Sweep
from hw.stream import CreditCounter, Merge

from .ark_words import ArkWords
from .completion.completion import Completion
from .config import DmaConfig
from .configuration import QueueWriteSignature
from .control import QueueControl
from .counters import QueueCounters
from .epochs import Epochs
from .events import Events, EventsSignature
from .frontpanel import FrontPanel
from .histogram import LatencyHistogram
from .layouts import OpKind, arrival_layout, op_layout
from .legalizer import SEGMENT_PLACES, Legalizer
from .mover import Mover
from .pages import PageTable
from .queues import QueueStore
from .quiesce import Quiesce
from .rings.rings import Rings
from .scheduler import Scheduler
from .settings import QueueSettingsTable
from .shares import Shares
from .targets import TargetLimits
from .words import QueueMode

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
        m.submodules.doorbell = doorbell = Doorbell(config)
        m.submodules.ark_words = ark_words = ArkWords(config)
        m.submodules.store = store = QueueStore(config)
        m.submodules.scheduler = scheduler = Scheduler(config)
        m.submodules.shares = shares = Shares(config)
        m.submodules.regions = regions = RegionTable(config)
        m.submodules.pages = pages = PageTable(config)
        m.submodules.legalizer = legalizer = Legalizer(config)
        m.submodules.epochs = epochs = Epochs(config)
        m.submodules.quiesce = quiesce = Quiesce(config)
        m.submodules.completion = completion = Completion(config)
        m.submodules.targets = targets = TargetLimits(config)
        m.submodules.rings = rings = Rings(config)
        m.submodules.mover = mover = Mover(config)
        m.submodules.settings = settings = QueueSettingsTable(config)
        m.submodules.room = room = CreditCounter(SEGMENT_PLACES, max_take=1, max_give=2)

        # -- The sweep over all memories after reset.
        m.submodules.sweep = sweep = Sweep(config)
        init = sweep.init
        for part in (panel, doorbell, ark_words, store, scheduler, shares, regions, pages, mover, completion,
                     epochs, settings):
            m.d.comb += [part.init.active.eq(init.active), part.init.address.eq(init.address)]

        # -- Words to segments.
        dropped = Signal()
        connect(m, flipped(self.s_axi_db), doorbell.bus)
        m.submodules.arrivals = arrivals = Merge(arrival_layout(config), 2, settled=not config.bypass)
        connect(m, doorbell.o, ark_words.i)
        connect(m, ark_words.o, arrivals.i[0])
        connect(m, arrivals.o, store.i)
        for part in (ark_words,):
            m.d.comb += [
                part.configure.eq(panel.queue_write), part.configure_queue.eq(panel.queue_id),
                part.connect.eq(panel.connection_write), part.connect_number.eq(panel.connection_id),
            ]
        m.d.comb += [
            completion.connection.valid.eq(panel.connection_write),
            completion.connection.connection.eq(panel.connection_id),
            completion.connection.entry.eq(panel.connection), completion.connection.rc_addr.eq(panel.connection_rc),
        ]
        m.d.comb += [
            ark_words.settings.eq(panel.ark), ark_words.connection.eq(panel.connection),
            doorbell.refused.eq(ark_words.i_refused), ark_words.refused.eq(store.refused),
            store.enabled.eq(control.enabled),
            store.clear.eq(control.forgive), store.clear_queue.eq(control.forgive_queue),
            store.flush.eq(scheduler.flushing), store.flush_queue.eq(control.flush_queue),
            store.pick.eq(scheduler.pick), store.pick_queue.eq(scheduler.pick_queue),
            store.peek_queue.eq(scheduler.peek_queue), store.consume.eq(scheduler.consume),
            scheduler.front.eq(store.front), scheduler.ready.eq(store.ready), scheduler.more.eq(store.more),
            shares.asking.eq(scheduler.asking), shares.leaving.eq(scheduler.leaving),
            scheduler.candidates.eq(shares.candidates), scheduler.left.eq(shares.left),
            shares.charge.eq(scheduler.scheduled.valid), shares.charge_queue.eq(scheduler.scheduled.segment.queue),
            shares.charge_beats.eq(scheduler.scheduled.beats), shares.charge_beyond.eq(scheduler.scheduled.beyond),
            shares.charge_descriptor.eq(scheduler.scheduled.segment.first & scheduler.scheduled.segment.front.note.ring.closes
                                        & (settings.issue.mode == QueueMode.RING)),
            shares.weight.eq(settings.issue.weight),
            shares.configure.eq(panel.queue_write), shares.configure_queue.eq(panel.queue_id),
            shares.priority.eq(panel.queue_priority),
            scheduler.arriving.eq(store.arriving), scheduler.arriving_queue.eq(store.arriving_queue),
            scheduler.running.eq(control.running), scheduler.held.eq(completion.held),
            scheduler.room.eq(room.available != 0),
            scheduler.flush.eq(control.flush), scheduler.flush_queue.eq(control.flush_queue),
            scheduler.abort.eq(legalizer.abort), scheduler.abort_queue.eq(legalizer.abort_queue),
            scheduler.abort_lap.eq(legalizer.abort_lap),
            completion.head.queue.eq(scheduler.window_queue), scheduler.window_head.eq(completion.head.head),
            scheduler.retired.eq(completion.retired.valid), scheduler.retired_queue.eq(completion.retired.queue),
            room.take.eq(1), room.take_stb.eq(scheduler.pick),
            room.give.eq(dropped + (mover.segments.valid & mover.segments.ready)),
        ]
        m.d["comb" if config.bypass else "sync"] += dropped.eq(scheduler.drop)
        m.d.comb += [
            regions.src_id.eq(store.front.src_region), regions.dst_id.eq(store.front.dst_region),
            regions.write.eq(panel.region_write), regions.write_id.eq(panel.region_id),
            regions.write_data.eq(panel.region),
            pages.write.eq(panel.page_write), pages.write_id.eq(panel.page_id), pages.write_data.eq(panel.page),
            pages.src_page.eq(legalizer.src_page), pages.dst_page.eq(legalizer.dst_page),
            legalizer.src_frame.eq(pages.src), legalizer.next_frame.eq(pages.next), legalizer.dst_frame.eq(pages.dst),
            legalizer.valid.eq(scheduler.scheduled.valid), legalizer.i.eq(scheduler.scheduled.segment),
            legalizer.src.eq(regions.src), legalizer.dst.eq(regions.dst),
            legalizer.settings.eq(settings.issue),
        ]
        connect(m, legalizer.o, mover.segments)
        m.d.comb += [
            scheduler.configure.eq(panel.queue_write), scheduler.configure_queue.eq(panel.queue_id),
            scheduler.limit.eq(panel.queue_limit), scheduler.blocked.eq(targets.blocked),
            targets.configure.eq(panel.queue_write), targets.configure_queue.eq(panel.queue_id),
            targets.target.eq(panel.settings.target),
            targets.entered.eq(legalizer.entered), targets.entered_size.eq(legalizer.entered_size),
            targets.entered_target.eq(legalizer.entered_target),
            targets.returned.eq(completion.returned.valid), targets.returned_size.eq(completion.returned.size),
            targets.returned_target.eq(completion.returned.target),
            mover.targets.slow.eq(panel.target_slow),
        ]
        m.d.comb += [mover.targets.limit[number].eq(limit) for number, limit in enumerate(panel.target_limit)]
        m.d.comb += [targets.limit[number].eq(limit) for number, limit in enumerate(panel.target_limit)]

        # -- Descriptor rings.
        word = arrivals.i[1]
        connect(m, doorbell.tails, rings.tails.doorbells)
        queue_write = QueueWriteSignature(config).create()
        connect(m, rings.bursts, mover.fetch)
        m.d.comb += [
            queue_write.valid.eq(panel.queue_write), queue_write.queue.eq(panel.queue_id),
            queue_write.settings.eq(panel.settings), queue_write.ring.eq(panel.ring),
            queue_write.priority.eq(panel.queue_priority), queue_write.limit.eq(panel.queue_limit),
            queue_write.sc_addr.eq(panel.sc_addr), queue_write.rc_addr.eq(panel.rc_addr),
            queue_write.ark.eq(panel.ark),
        ]
        for part in (rings, completion, settings):
            connect(m, queue_write, part.configure)
        connect(m, epochs.gave_up, rings.give_up)
        connect(m, mover.descriptors, rings.descriptors)
        m.d.comb += [
            doorbell.rings.eq(rings.tails.driven), doorbell.tail_refused.eq(rings.tails.refused),
            rings.queues.enabled.eq(control.enabled), rings.queues.resetting.eq(control.resetting),
            rings.queues.running.eq(control.running),
            rings.clear.valid.eq(control.forgive), rings.clear.queue.eq(control.forgive_queue),
            rings.consumed.valid.eq(store.consume), rings.consumed.queue.eq(store.peek_queue),
            word.valid.eq(rings.words.valid), rings.words.ready.eq(word.ready),
            word.payload.queue.eq(rings.words.payload.ring), word.payload.check.eq(rings.words.payload.check),
            word.payload.word.eq(rings.words.payload.word), word.payload.note.eq(rings.words.payload.note),
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
        connect(m, completion.settings, settings.lookup)
        m.d.comb += [
            completion.queues.resetting.eq(control.resetting), completion.queues.enabled.eq(control.enabled),
            completion.queues.running.eq(control.running),
        ]
        for part in (completion, settings):
            connect(m, scheduler.scheduled, part.scheduled)

        # -- Queue control.
        m.submodules.ops = ops = Merge(op_layout(config), 5, settled=not config.bypass)
        connect(m, ops.o, completion.operations)
        connect(m, control.ops, ops.i[0])
        connect(m, control.scan_ops, ops.i[1])
        m.d.comb += [
            ops.i[2].valid.eq(store.events.valid), store.events.ready.eq(ops.i[2].ready),
            ops.i[2].payload.kind.eq(OpKind.EVENT), ops.i[2].payload.queue.eq(store.events.payload.queue),
            ops.i[2].payload.status.eq(store.events.payload.status),
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
            control.waiting.eq(store.ready | store.more), control.held.eq(completion.held),
            control.pending.eq(completion.completions_pending | completion.notices_pending),
            control.retired.eq(completion.retired.valid), control.retired_queue.eq(completion.retired.queue),
            scheduler.look_queue.eq(look), completion.lookup.queue.eq(look),
            control.in_flight.eq((scheduler.tail != completion.lookup.head)
                                 | Cat(rings.status.fetching, C(0, config.queues)).bit_select(look, 1)
                                 | (epochs.gave_up.busy & (epochs.gave_up.queue == look))),
        ]

        # -- Segments that still count.
        m.d.comb += [epochs.queue[0].eq(scheduler.window_queue), scheduler.epoch.eq(epochs.epoch[0])]
        for index, lookup in enumerate((mover.epoch, *completion.epochs)):
            m.d.comb += [epochs.queue[index + 1].eq(lookup.queue), lookup.epoch.eq(epochs.epoch[index + 1])]
        connect(m, epochs.ends, completion.given_up)
        m.d.comb += [
            epochs.scheduled.eq(scheduler.scheduled.valid), epochs.scheduled_queue.eq(scheduler.scheduled.segment.queue),
            quiesce.scheduled.eq(scheduler.scheduled.valid), quiesce.scheduled_phase.eq(scheduler.scheduled.segment.phase),
            quiesce.returned.eq(completion.returned.valid), quiesce.returned_phase.eq(completion.returned.phase),
            quiesce.start.eq(panel.quiesce), panel.quiescing.eq(quiesce.busy), scheduler.phase.eq(quiesce.phase),
            epochs.returned.eq(completion.returned.valid),
            epochs.returned_queue.eq(completion.returned.queue),
            epochs.look.eq(control.scanning), epochs.look_queue.eq(control.scan_queue),
            epochs.look_head.eq(completion.lookup.head), epochs.look_tail.eq(scheduler.tail),
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
            panel.refusing.eq(store.refusing | rings.refusing), panel.waiting.eq(store.ready | store.more),
            panel.look_valid.eq(~control.scanning),
            panel.in_flight.eq(scheduler.tail - completion.lookup.head), panel.word.eq(completion.lookup.word),
            panel.log_valid.eq(completion.outcome.failed), panel.log.eq(completion.outcome.log), panel.interrupt.eq(completion.outcome.interrupt),
        ]
        m.d.comb += [
            panel.counts.words.eq(store.i.valid & store.i.ready & ~store.refused),
            panel.counts.refused.eq((store.i.valid & store.i.ready & store.refused)
                                    | rings.tail_refused),
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
            counters.dropped.eq(scheduler.drop), counters.dropped_queue.eq(scheduler.peek_queue),
            counters.reset.eq(completion.outcome.reset), counters.reset_queue.eq(completion.outcome.queue),
            counters.take.eq(panel.snapshot), counters.queue.eq(panel.select),
            panel.snapshot_busy.eq(counters.busy),
            panel.bytes.eq(counters.bytes), panel.segments.eq(counters.segments), panel.stalls.eq(counters.stalls),
            histogram.posted.eq(panel.counts.words), histogram.posted_queue.eq(store.i.payload.queue),
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
            (events.i.posted, panel.counts.words, {"queue": store.i.payload.queue}),
            (events.i.dropped, scheduler.drop, {"queue": scheduler.peek_queue}),
            (events.i.scheduled, scheduler.scheduled.valid, {
                "queue": scheduler.scheduled.segment.queue, "index": scheduler.scheduled.segment.index, "first": scheduler.scheduled.segment.first,
                "last": scheduler.scheduled.segment.last}),
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
