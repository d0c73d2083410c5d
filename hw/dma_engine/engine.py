"""The DMA engine: its stages, connected.

Doorbell -> QueueStore -> Scheduler -> Legalizer -> ReadIssue -> (AR, R) -> BeatBuffer -> WriteSequencer ->
Aligner -> (AW, W, B) -> Responses -> Retire -> CompletionWriter -> WriteSequencer
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature, AxiSignature, Burst
from hw.common.doorbell import WORD_BITS, Doorbell, is_extended
from hw.common.free_list import FreeList
from hw.common.regions import RegionTable
from hw.common.sizes import ADDR_WIDTH
from hw.common.sweep import Sweep, SweepSignature
from hw.common.table import Table
from hw.stream import CreditCounter, Merge, Queue, Skid

from .aligner import PLACES as WRITE_PLACES
from .aligner import Aligner
from .ark_words import ArkWords
from .buffer import BeatBuffer
from .completion.ark_flags import ArkFlags
from .completion.notices import MODES, Notices
from .completion.word_answers import WordAnswers
from .completion.writer import CompletionWriter
from .config import DmaConfig
from .control import QueueControl
from .counters import QueueCounters
from .epochs import Epochs
from .events import Events, EventsSignature
from .frontpanel import FrontPanel
from .histogram import LatencyHistogram
from .layouts import OpKind, QueueSettings, arrival_layout, completion_write_layout, done_layout, op_layout
from .legalizer import SEGMENT_PLACES, Legalizer
from .pages import PageTable
from .port_drain import PortDrain
from .queues import QueueStore
from .quiesce import Quiesce
from .read import ReadIssue
from .responses import Responses
from .retire import Retire
from .rings.records import RingRecords
from .rings.rings import Rings
from .scheduler import Scheduler
from .sequencer import ADDRESS_PLACES, WriteSequencer
from .shares import Shares
from .targets import TargetLimits
from .words import QueueMode, Status

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
        m.submodules.read = read = ReadIssue(config)
        m.submodules.buffer = buffer = BeatBuffer(config)
        m.submodules.sequencer = sequencer = WriteSequencer(config)
        m.submodules.aligner = aligner = Aligner(config)
        m.submodules.responses = responses = Responses(config)
        m.submodules.retire = retire = Retire(config)
        m.submodules.epochs = epochs = Epochs(config)
        m.submodules.quiesce = quiesce = Quiesce(config)
        m.submodules.completion = completion = CompletionWriter(config)
        m.submodules.answers = answers = WordAnswers(config)
        m.submodules.drain = drain = PortDrain(addresses=ADDRESS_PLACES, beats=WRITE_PLACES + 1)
        m.submodules.ark_flags = ark_flags = ArkFlags(config)
        m.submodules.targets = targets = TargetLimits(config)
        m.submodules.rings = rings = Rings(config)
        m.submodules.records = records = RingRecords(config)
        m.submodules.tags = tags = FreeList(config.tags, init=SweepSignature(config))
        m.submodules.settings = settings = Table(
            QueueSettings, depth=config.queues, reads=2, init=SweepSignature(config))
        m.submodules.room = room = CreditCounter(SEGMENT_PLACES, max_take=1, max_give=2)

        # -- The sweep over all memories after reset.
        m.submodules.sweep = sweep = Sweep(config)
        init = sweep.init
        for part in (panel, doorbell, ark_words, store, scheduler, shares, regions, pages, buffer, responses, retire,
                     epochs, answers, tags, settings):
            m.d.comb += [part.init.active.eq(init.active), part.init.address.eq(init.address)]

        # -- Words to segments.
        dropped = Signal()
        connect(m, flipped(self.s_axi_db), doorbell.bus)
        m.submodules.arrivals = arrivals = Merge(
            arrival_layout(config), 2, registered_choice=config.timing.registered_arrivals)
        connect(m, doorbell.o, ark_words.i)
        connect(m, ark_words.o, arrivals.i[0])
        connect(m, arrivals.o, store.i)
        for part in (ark_words, ark_flags):
            m.d.comb += [
                part.configure.eq(panel.queue_write), part.configure_queue.eq(panel.queue_id),
                part.connect.eq(panel.connection_write), part.connect_number.eq(panel.connection_id),
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
            shares.charge.eq(scheduler.valid), shares.charge_queue.eq(scheduler.o.queue),
            shares.charge_beats.eq(scheduler.beats), shares.charge_beyond.eq(scheduler.beyond),
            shares.charge_descriptor.eq(scheduler.o.first & scheduler.o.front.note.ring.closes
                                        & (settings.read[0].data.mode == QueueMode.RING)),
            shares.weight.eq(settings.read[0].data.weight),
            shares.configure.eq(panel.queue_write), shares.configure_queue.eq(panel.queue_id),
            shares.priority.eq(panel.queue_priority),
            scheduler.arriving.eq(store.arriving), scheduler.arriving_queue.eq(store.arriving_queue),
            scheduler.running.eq(control.running), scheduler.held.eq(retire.held),
            scheduler.room.eq(room.available != 0),
            scheduler.flush.eq(control.flush), scheduler.flush_queue.eq(control.flush_queue),
            scheduler.abort.eq(legalizer.abort), scheduler.abort_queue.eq(legalizer.abort_queue),
            scheduler.abort_lap.eq(legalizer.abort_lap),
            retire.head_queue.eq(scheduler.window_queue), scheduler.window_head.eq(retire.head),
            scheduler.retired.eq(retire.retired), scheduler.retired_queue.eq(retire.retired_queue),
            room.take.eq(1), room.take_stb.eq(scheduler.pick),
            room.give.eq(dropped + (read.i.valid & read.i.ready)),
        ]
        m.d["sync" if config.timing.registered_credits else "comb"] += dropped.eq(scheduler.drop)
        m.d.comb += [
            regions.src_id.eq(store.front.src_region), regions.dst_id.eq(store.front.dst_region),
            regions.write.eq(panel.region_write), regions.write_id.eq(panel.region_id),
            regions.write_data.eq(panel.region),
            pages.write.eq(panel.page_write), pages.write_id.eq(panel.page_id), pages.write_data.eq(panel.page),
            pages.src_page.eq(legalizer.src_page), pages.dst_page.eq(legalizer.dst_page),
            legalizer.src_frame.eq(pages.src), legalizer.next_frame.eq(pages.next), legalizer.dst_frame.eq(pages.dst),
            settings.write.en.eq(panel.queue_write), settings.write.addr.eq(panel.queue_id),
            settings.write.data.eq(panel.settings),
            settings.read[0].addr.eq(scheduler.o.queue),
            settings.read[1].addr.eq(retire.settings_queue), retire.settings.eq(settings.read[1].data),
            legalizer.valid.eq(scheduler.valid), legalizer.i.eq(scheduler.o),
            legalizer.src.eq(regions.src), legalizer.dst.eq(regions.dst),
            legalizer.settings.eq(settings.read[0].data),
        ]
        connect(m, legalizer.o, read.i)
        m.d.comb += [
            scheduler.configure.eq(panel.queue_write), scheduler.configure_queue.eq(panel.queue_id),
            scheduler.limit.eq(panel.queue_limit), scheduler.blocked.eq(targets.blocked),
            targets.configure.eq(panel.queue_write), targets.configure_queue.eq(panel.queue_id),
            targets.target.eq(panel.settings.target),
            targets.entered.eq(legalizer.entered), targets.entered_size.eq(legalizer.entered_size),
            targets.entered_target.eq(legalizer.entered_target),
            targets.returned.eq(retire.returned), targets.returned_size.eq(retire.returned_size),
            targets.returned_target.eq(retire.returned_target),
            buffer.slow.eq(panel.target_slow),
        ]
        m.d.comb += [targets.limit[number].eq(limit) for number, limit in enumerate(panel.target_limit)]

        # -- Descriptor rings.
        m.submodules.notices = notices = Notices(config)
        word, ring_number = arrivals.i[1], MODES.index(QueueMode.RING)
        connect(m, doorbell.tails, rings.tails)
        connect(m, rings.bursts, read.fetch)
        connect(m, notices.told[ring_number], records.i)
        connect(m, records.o, notices.writes[ring_number])
        for part in (rings, records):
            m.d.comb += [
                part.configure.eq(panel.queue_write & is_extended(config, panel.queue_id)),
                part.configure_ring.eq(panel.queue_id), part.settings.eq(panel.ring),
            ]
        m.d.comb += [
            rings.drives.eq(panel.settings.mode == QueueMode.RING),
            doorbell.rings.eq(rings.driven), doorbell.tail_refused.eq(rings.refused),
            rings.enabled.eq(control.enabled), rings.resetting.eq(control.resetting),
            rings.give_up.eq(epochs.gave_up), rings.give_up_queue.eq(epochs.gave_up_queue),
            rings.clear.eq(control.forgive), rings.clear_queue.eq(control.forgive_queue),
            rings.valid.eq(buffer.passed), rings.id.eq(buffer.passed_id), rings.beat.eq(buffer.passed_data),
            rings.resp.eq(buffer.passed_resp),
            rings.consume.eq(store.consume), rings.consume_queue.eq(store.peek_queue),
            word.valid.eq(rings.o.valid), rings.o.ready.eq(word.ready),
            word.payload.queue.eq(rings.o.payload.ring), word.payload.check.eq(rings.o.payload.check),
            word.payload.word.eq(rings.o.payload.word), word.payload.note.eq(rings.o.payload.note),
            records.forget.eq(rings.forgotten),
        ]

        # -- Segments to memory and back.
        axi = self.m_axi
        size = config.lane_bits
        connect(m, tags.o, read.tags)
        connect(m, buffer.arrived, sequencer.arrived)
        connect(m, sequencer.steps, aligner.steps)
        m.d.comb += [notices.valid.eq(retire.notice_valid), notices.i.eq(retire.notice),
                     retire.crowded.eq(notices.crowded)]
        connect(m, completion.o, notices.words)
        m.submodules.signals = signals = Queue(completion_write_layout(config), depth=4)
        connect(m, read.signals, signals.i)
        connect(m, signals.o, notices.signals)
        m.d.comb += responses.signalled.eq(read.signalled)
        connect(m, notices.o, sequencer.completions)
        m.d.comb += sequencer.urgent.eq(notices.urgent)
        connect(m, notices.told[MODES.index(QueueMode.ARK)], ark_flags.i)
        connect(m, ark_flags.o, notices.writes[MODES.index(QueueMode.ARK)])
        m.d.comb += [
            ark_flags.sc_enable.eq(panel.settings.sc_enable), ark_flags.sc_addr.eq(panel.sc_addr),
            ark_flags.rc_addr.eq(panel.connection_rc),
        ]
        for part in (buffer, sequencer, responses):
            m.d.comb += [part.launched.eq(read.launched), part.launch.eq(read.launch)]
        m.d.comb += [
            axi.arid.eq(read.arid), axi.araddr.eq(read.araddr), axi.arlen.eq(read.arlen),
            axi.arcache.eq(read.attributes.cache), axi.arprot.eq(read.attributes.prot),
            axi.arqos.eq(read.attributes.qos),
            axi.arsize.eq(size), axi.arburst.eq(Burst.INCR), axi.arvalid.eq(read.arvalid),
            read.arready.eq(axi.arready),
            buffer.rid.eq(axi.rid), buffer.rdata.eq(axi.rdata), buffer.rresp.eq(axi.rresp),
            buffer.rlast.eq(axi.rlast), buffer.rvalid.eq(axi.rvalid), axi.rready.eq(buffer.rready),
            axi.awid.eq(sequencer.addresses.payload.id), axi.awaddr.eq(sequencer.addresses.payload.addr),
            axi.awlen.eq(sequencer.addresses.payload.len), axi.awsize.eq(size), axi.awburst.eq(Burst.INCR),
            axi.awcache.eq(sequencer.addresses.payload.attributes.cache),
            axi.awprot.eq(sequencer.addresses.payload.attributes.prot),
            axi.awqos.eq(sequencer.addresses.payload.attributes.qos),
            axi.awvalid.eq(sequencer.addresses.valid), sequencer.addresses.ready.eq(axi.awready),
            axi.wdata.eq(aligner.o.payload.data), axi.wstrb.eq(aligner.o.payload.strb),
            axi.wlast.eq(aligner.o.payload.last), axi.wvalid.eq(aligner.o.valid),
            aligner.o.ready.eq(axi.wready),
            responses.bid.eq(axi.bid), responses.bresp.eq(axi.bresp), responses.bvalid.eq(axi.bvalid),
            axi.bready.eq(responses.bready),
        ]
        m.d.comb += [
            buffer.head_tag.eq(sequencer.head_tag), sequencer.head.eq(buffer.head),
            buffer.tail_tag.eq(sequencer.tail_tag), sequencer.tail.eq(buffer.tail),
            buffer.after.eq(sequencer.after), sequencer.next.eq(buffer.next),
            buffer.take.eq(sequencer.take), buffer.slot.eq(sequencer.slot), aligner.beat.eq(buffer.beat),
            buffer.release.eq(sequencer.release), buffer.released.eq(sequencer.released),
            read.release.eq(sequencer.release),
            read.single.eq(panel.single_read), read.ended.eq(axi.rvalid & axi.rready & axi.rlast & ~axi.rid[-1]),
            buffer.error_tag.eq(responses.error_tag), responses.error.eq(buffer.error),
            tags.free.eq(responses.done_valid), tags.number.eq(responses.tag),
        ]

        # -- Ends of segments to completion words.
        # Checks end late in their cycle, and retirement begins early in its own.
        m.submodules.rejected = rejected = Skid(done_layout(config))
        connect(m, read.rejected, rejected.i)
        connect(m, rejected.o, retire.rejected)
        m.d.comb += [
            retire.done_valid.eq(responses.done_valid), retire.done.eq(responses.done),
            retire.resetting.eq(control.resetting),
            retire.every_word.eq(panel.every_word), retire.pending.eq(completion.pending),
            completion.configure.eq(panel.queue_write), completion.configure_queue.eq(panel.queue_id),
            completion.sc_addr.eq(panel.sc_addr), completion.rc_addr.eq(panel.rc_addr),
            completion.publish_sc.eq(retire.publish_sc), completion.publish_rc.eq(retire.publish_rc),
            completion.publish_queue.eq(retire.publish_queue), completion.publish_word.eq(retire.publish_word),
            completion.discard.eq(retire.discard),
            completion.written_valid.eq(answers.counts), completion.writer.eq(responses.writer),
            notices.written_valid.eq(answers.counts), notices.writer.eq(responses.writer),
            answers.answered.eq(responses.written_valid), answers.writer.eq(responses.writer),
            retire.scheduled.eq(scheduler.valid), retire.scheduled_queue.eq(scheduler.o.queue),
            retire.scheduled_index.eq(scheduler.o.index),
            retire.scheduled_info.length.eq(scheduler.o.front.length),
            retire.scheduled_info.note.eq(scheduler.o.front.note),
        ]

        # -- Queue control.
        m.submodules.ops = ops = Merge(op_layout(config), 5, registered_choice=config.timing.registered_operations)
        connect(m, ops.o, retire.ops)
        connect(m, control.ops, ops.i[0])
        connect(m, control.scan_ops, ops.i[1])
        m.d.comb += [
            ops.i[2].valid.eq(store.events.valid), store.events.ready.eq(ops.i[2].ready),
            ops.i[2].payload.kind.eq(OpKind.EVENT), ops.i[2].payload.queue.eq(store.events.payload.queue),
            ops.i[2].payload.status.eq(store.events.payload.status),
        ]
        m.submodules.bad_words = bad_words = Queue(unsigned(config.queue_bits), depth=2 * config.queues)
        m.d.comb += [
            bad_words.i.valid.eq(answers.counts & responses.written_failed),
            bad_words.i.payload.eq(responses.writer.queue),
            ops.i[3].valid.eq(bad_words.o.valid), bad_words.o.ready.eq(ops.i[3].ready),
            ops.i[3].payload.kind.eq(OpKind.EVENT), ops.i[3].payload.queue.eq(bad_words.o.payload),
            ops.i[3].payload.status.eq(Status.COMPLETION_ERROR),
            ops.i[4].valid.eq(rings.events.valid), rings.events.ready.eq(ops.i[4].ready),
            ops.i[4].payload.kind.eq(OpKind.EVENT), ops.i[4].payload.queue.eq(rings.events.payload.queue),
            ops.i[4].payload.status.eq(rings.events.payload.status),
        ]
        look = Mux(control.scanning, control.scan_queue, panel.select)
        m.d.comb += [
            control.command_valid.eq(panel.command_write), control.command.eq(panel.command),
            control.command_queue.eq(panel.command_queue), control.watchdog.eq(panel.watchdog),
            control.waiting.eq(store.ready | store.more), control.held.eq(retire.held),
            control.pending.eq(completion.pending | notices.pending),
            control.retired.eq(retire.retired), control.retired_queue.eq(retire.retired_queue),
            scheduler.look_queue.eq(look), retire.look_queue.eq(look),
            control.in_flight.eq((scheduler.tail != retire.look_head)
                                 | Cat(rings.fetching, C(0, config.queues)).bit_select(look, 1)
                                 | (epochs.busy & (epochs.gave_up_queue == look))),
        ]

        # -- Segments that still count.
        for index, (part, queue) in enumerate(((scheduler, scheduler.window_queue), (aligner, aligner.queue),
                                               (retire, retire.epoch_queue), (completion, completion.epoch_queue),
                                               (notices, notices.queue))):
            m.d.comb += [epochs.queue[index].eq(queue), part.epoch.eq(epochs.epoch[index])]
        connect(m, epochs.ends, retire.given_up)
        m.d.comb += [
            epochs.scheduled.eq(scheduler.valid), epochs.scheduled_queue.eq(scheduler.o.queue),
            quiesce.scheduled.eq(scheduler.valid), quiesce.scheduled_phase.eq(scheduler.o.phase),
            quiesce.returned.eq(retire.returned), quiesce.returned_phase.eq(retire.returned_phase),
            quiesce.start.eq(panel.quiesce), panel.quiescing.eq(quiesce.busy), scheduler.phase.eq(quiesce.phase),
            epochs.returned.eq(retire.returned),
            epochs.returned_queue.eq(retire.epoch_queue),
            epochs.look.eq(control.scanning), epochs.look_queue.eq(control.scan_queue),
            epochs.look_head.eq(retire.look_head), epochs.look_tail.eq(scheduler.tail),
            epochs.give_up.eq(control.give_up),
            completion.give_up.eq(epochs.gave_up), completion.give_up_queue.eq(epochs.gave_up_queue),
            completion.forget.eq(answers.forget),
            notices.forget.eq(answers.forget), notices.forget_queue.eq(epochs.gave_up_queue),
            answers.rc_flying.eq(completion.rc_flying), answers.sc_flying.eq(completion.sc_flying),
            answers.settled.eq(notices.settled), answers.give_up.eq(epochs.gave_up),
            answers.look.eq(control.scanning), answers.look_queue.eq(epochs.gave_up_queue),
            epochs.hold.eq(Cat(notices.inside, C(0, config.queues)).bit_select(epochs.gave_up_queue, 1)),
            epochs.words_outside.eq(answers.outside), epochs.draining.eq(answers.busy | drain.busy),
            quiesce.given_up.eq(answers.outstanding | rings.owed),
            drain.start.eq(epochs.gave_up),
            drain.addresses.eq(sequencer.level), drain.address_taken.eq(axi.awvalid & axi.awready),
            drain.beats.eq(aligner.level), drain.beat_taken.eq(axi.wvalid & axi.wready),
        ]
        m.d.comb += [answers.told[queue].eq(count) for queue, count in enumerate(notices.outside)]

        # -- What software sees.
        connect(m, flipped(self.s_axil), panel.bus)
        m.d.comb += [
            self.irq.eq(panel.irq),
            panel.enabled.eq(control.enabled), panel.running.eq(control.running),
            panel.resetting.eq(control.resetting), panel.held.eq(retire.held),
            panel.refusing.eq(store.refusing | rings.refusing), panel.waiting.eq(store.ready | store.more),
            panel.look_valid.eq(~control.scanning),
            panel.in_flight.eq(scheduler.tail - retire.look_head), panel.word.eq(retire.look_word),
            panel.log_valid.eq(retire.failed), panel.log.eq(retire.log), panel.interrupt.eq(retire.interrupt),
        ]
        m.d.comb += [
            panel.counts.words.eq(store.i.valid & store.i.ready & ~store.refused),
            panel.counts.refused.eq((store.i.valid & store.i.ready & store.refused)
                                    | (doorbell.tails.valid & doorbell.tails.ready & rings.refused)),
            panel.counts.requests.eq(retire.ended),
            panel.counts.failed.eq(retire.failed),
            panel.counts.segments.eq(read.launched),
            panel.counts.read_beats.eq(axi.rvalid & axi.rready),
            panel.counts.write_beats.eq(axi.wvalid & axi.wready),
            panel.counts.completion_writes.eq(responses.written_valid & ~answers.unexpected),
            panel.counts.unexpected.eq((buffer.unexpected | rings.unexpected)
                                       + (responses.unexpected | answers.unexpected)),
            panel.counts.read_stalls.eq(axi.arvalid & ~axi.arready),
            panel.counts.write_stalls.eq(axi.wvalid & ~axi.wready),
        ]

        m.submodules.counters = counters = QueueCounters(config)
        m.submodules.histogram = histogram = LatencyHistogram(config)
        for part in (counters, histogram):
            connect(m, init, part.init)
        m.d.comb += [
            counters.done.eq(retire.counted), counters.done_queue.eq(responses.done.queue),
            counters.done_size.eq(responses.done.size), counters.done_ok.eq(responses.done.status == Status.OK),
            counters.dropped.eq(scheduler.drop), counters.dropped_queue.eq(scheduler.peek_queue),
            counters.reset.eq(retire.discard), counters.reset_queue.eq(retire.publish_queue),
            counters.take.eq(panel.snapshot), counters.queue.eq(panel.select),
            panel.snapshot_busy.eq(counters.busy),
            panel.bytes.eq(counters.bytes), panel.segments.eq(counters.segments), panel.stalls.eq(counters.stalls),
            histogram.posted.eq(panel.counts.words), histogram.posted_queue.eq(store.i.payload.queue),
            histogram.ended.eq(retire.ended), histogram.reset.eq(retire.discard),
            histogram.queue.eq(retire.publish_queue),
            histogram.look.eq(panel.histogram), histogram.look_queue.eq(panel.select),
            histogram.look_bin.eq(panel.histogram_bin), panel.histogram_count.eq(histogram.count),
        ]

        # -- What an observer sees.
        m.submodules.events = events = Events(config)
        connect(m, flipped(self.events), events.o)
        launch = read.launch
        for event, valid, fields in (
            (events.i.posted, panel.counts.words, {"queue": store.i.payload.queue}),
            (events.i.dropped, scheduler.drop, {"queue": scheduler.peek_queue}),
            (events.i.scheduled, scheduler.valid, {
                "queue": scheduler.o.queue, "index": scheduler.o.index, "first": scheduler.o.first,
                "last": scheduler.o.last}),
            (events.i.read, read.launched, {
                "queue": launch.segment.queue, "index": launch.segment.index, "tag": launch.tag,
                "size": launch.segment.size, "beats": launch.segment.src_beats}),
            (events.i.arrived, sequencer.arrived.valid & sequencer.arrived.ready, {"tag": sequencer.arrived.payload}),
            (events.i.write, sequencer.began, {"tag": sequencer.began_tag}),
            (events.i.done, responses.done_valid, {"tag": responses.tag, "status": responses.done.status}),
            (events.i.rejected, read.rejected.valid & read.rejected.ready, {
                "queue": read.rejected.payload.queue, "index": read.rejected.payload.index,
                "status": read.rejected.payload.status}),
            (events.i.retired, retire.retired, {"queue": retire.retired_queue, "index": retire.retired_index}),
            (events.i.ended, retire.ended, {"queue": retire.publish_queue}),
            (events.i.failed, retire.failed, {"queue": retire.log.queue, "status": retire.log.status}),
            (events.i.word, notices.o.valid & notices.o.ready, {"writer": notices.o.payload.id}),
            (events.i.written, responses.written_valid & ~answers.unexpected, {
                "writer": responses.writer.as_value(), "error": responses.written_failed}),
            (events.i.freed, sequencer.release, {}),
            (events.i.read_stall, panel.counts.read_stalls, {}),
            (events.i.write_stall, panel.counts.write_stalls, {}),
        ):
            m.d.comb += event.valid.eq(valid)
            m.d.comb += [getattr(event, name).eq(value) for name, value in fields.items()]
        return m
