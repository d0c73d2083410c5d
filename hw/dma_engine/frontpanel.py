"""Front panel: the registers, and what stands directly behind them.

s_axil -> FrontPanel -> tables and QueueControl.  Latency as ``hw.regs.RegisterBank``.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.common.doorbell import is_extended
from hw.common.layouts import CompletionLayout
from hw.common.regions import RegionEntry
from hw.common.sizes import ADDR_WIDTH, SMALL_PAGE_BITS
from hw.common.sweep import SweepSignature
from hw.regs import RegisterBank

from .config import BYTES_WIDTH, CLASSES, HISTOGRAM_BINS, TARGETS
from .error_log import ErrorLog
from .layouts import ArkSettings, Connection, PageEntry, QueueSettings, RingSettings, log_layout
from .moderation import InterruptModeration
from .registers import COUNTERS, register_map
from .totals import Totals
from .words import QueueMode

__all__ = ["FrontPanel"]

CountStrobes = data.StructLayout({name.lower(): 1 for name, _ in COUNTERS} | {"unexpected": 2})


class FrontPanel(wiring.Component):
    """Registers, error log, interrupt and counters.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        The bus waits during the sweep, which would undo what software writes.
    bus : ``In(AxiLiteSignature)``
    region_write, region_id, region, queue_write, queue_id, settings, ring, ark : ``Out``
    queue_priority, queue_limit, sc_addr, rc_addr : ``Out``
    connection_write, connection_id, connection, connection_rc : ``Out``
        Table entries as committed.
    target_limit : array of ``Out``, target_slow : ``Out``
        Per target.
    page_write, page_id, page : ``Out``
        An entry of the page table as committed.
    quiesce : ``Out(1)``, quiescing : ``In(1)``
    command_write, command, command_queue, watchdog, select, single_read, every_word : ``Out``
    enabled, running, held, refusing, resetting, waiting : ``In(queues)``
    look_valid : ``In(1)``, in_flight, word : ``In``
        Of the queue ``select``, while valid.
    snapshot : ``Out(1)``, snapshot_busy, bytes, segments, stalls : ``In``
        Copy the counters of the queue ``select``; the copy.
    histogram : ``Out(1)``, histogram_bin : ``Out``, histogram_count : ``In``
        Read a bin of the queue ``select``; what was read.
    log_valid : ``In(1)``, log : ``In(log_layout)``
    interrupt : ``In(1)``
        A request with the IRQ flag ended.
    counts : ``In(CountStrobes)``
        What each counter goes up by.
    irq : ``Out(1)``
        Registered.
    """

    def __init__(self, config):
        self.config = config
        queue, queues = config.queue_bits, config.queues
        super().__init__({
            "init": In(SweepSignature(config)),
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "region_write": Out(1), "region_id": Out(config.region_bits), "region": Out(RegionEntry),
            "quiesce": Out(1), "quiescing": In(1),
            "page_write": Out(1), "page_id": Out(config.page_bits), "page": Out(PageEntry),
            "connection_write": Out(1), "connection_id": Out(config.connection_bits), "connection": Out(Connection),
            "connection_rc": Out(ADDR_WIDTH), "ark": Out(ArkSettings),
            "queue_write": Out(1), "queue_id": Out(queue), "settings": Out(QueueSettings),
            "queue_priority": Out(range(CLASSES)),
            "ring": Out(RingSettings),
            "queue_limit": Out(config.place_bits),
            "target_limit": Out(config.load_width).array(TARGETS), "target_slow": Out(TARGETS),
            "sc_addr": Out(ADDR_WIDTH), "rc_addr": Out(ADDR_WIDTH),
            "command_write": Out(1), "command": Out(3), "command_queue": Out(queue),
            "watchdog": Out(32), "select": Out(queue), "single_read": Out(1), "every_word": Out(1),
            "enabled": In(queues), "running": In(queues), "held": In(queues),
            "refusing": In(queues), "resetting": In(queues), "waiting": In(queues),
            "look_valid": In(1), "in_flight": In(config.index_width), "word": In(CompletionLayout),
            "snapshot": Out(1), "snapshot_busy": In(1), "bytes": In(BYTES_WIDTH), "segments": In(32), "stalls": In(32),
            "histogram": Out(1), "histogram_bin": Out(range(HISTOGRAM_BINS)), "histogram_count": In(32),
            "log_valid": In(1), "log": In(log_layout(config)), "interrupt": In(1),
            "counts": In(CountStrobes),
            "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        for channel in ("aw", "w", "ar"):
            valid, ready = f"{channel}valid", f"{channel}ready"
            with m.If(self.init.active):
                m.d.comb += [getattr(bank.bus, valid).eq(0), getattr(self.bus, ready).eq(0)]
        self._tables(m, bank)
        self._look(m, bank)
        self._errors(m, bank)
        self._totals(m, bank)
        return m

    def _totals(self, m, bank):
        # Their registers follow one another: the lowest bits of a word's address tell them apart.
        described, width = bank.register_map, (len(COUNTERS) - 1).bit_length()
        rows = {name.lower(): (described[f"COUNT_{name}"].offset >> 2) % (1 << width) for name, _ in COUNTERS}
        m.submodules.totals = totals = Totals(
            self.config, {name: (row, (1 << len(self.counts[name])) - 1) for name, row in rows.items()})
        connect(m, flipped(self.init), totals.init)
        m.d.sync += totals.happened.eq(self.counts)     # they come from all over the engine
        m.d.comb += totals.row.eq(bank.reading[2:])
        m.d.comb += [getattr(bank, f"count_{name}").value.eq(totals.total) for name in rows]

    def _tables(self, m, bank):
        access, config, attributes = bank.region_access, bank.queue_config, bank.region_attributes
        pages = bank.region_pages
        m.d.comb += [
            self.region_write.eq(bank.region_commit.written_stb),
            self.region_id.eq(bank.region_commit.region),
            self.region.base_page.eq(Mux(pages.paged, 0, Cat(bank.region_base_lo.value,
                                                             bank.region_base_hi.value)[12:])),
            self.region.paged.eq(pages.paged), self.region.large.eq(pages.large),
            self.region.first_page.eq(pages.first),
            self.page_write.eq(bank.page_commit.written_stb), self.page_id.eq(bank.page_commit.page),
            self.quiesce.eq(bank.quiesce.written_stb & bank.quiesce.start), bank.quiesce.busy.eq(self.quiescing),
            self.page.present.eq(bank.page_commit.present),
            self.page.frame.eq(Cat(bank.page_frame_lo.value, bank.page_frame_hi.value)[SMALL_PAGE_BITS:]),
            self.region.length.eq(Cat(bank.region_length_lo.value, bank.region_length_hi.value)),
            self.region.domain.eq(access.domain),
            self.region.readable.eq(access.readable), self.region.writable.eq(access.writable),
            self.region.valid.eq(access.valid),
            # Allocate without Modifiable is reserved.
            self.region.attributes.cache.eq(Cat(attributes.cache[:2],
                                                attributes.cache[2:] & attributes.cache[1].replicate(2))),
            self.region.attributes.prot.eq(attributes.prot), self.region.attributes.qos.eq(attributes.qos),
            self.queue_write.eq(bank.queue_commit.written_stb),
            self.queue_id.eq(bank.queue_commit.queue),
            self.settings.domain.eq(config.domain),
            self.settings.sc_enable.eq(config.sc_enable), self.settings.rc_enable.eq(config.rc_enable),
            self.settings.skip_errors.eq(config.skip_errors), self.settings.target.eq(config.target),
            self.settings.weight.eq(config.weight), self.queue_priority.eq(config.priority),
            self.queue_limit.eq(bank.queue_limit.segments),
            self.ring.page.eq(Cat(bank.ring_base_lo.value, bank.ring_base_hi.value)[12:]),
            self.ring.record_page.eq(Cat(bank.ring_records_lo.value, bank.ring_records_hi.value)[12:]),
            self.ring.size.eq(bank.ring_config.size), self.ring.records.eq(bank.ring_config.records),
            self.settings.mode.eq(Mux(is_extended(self.config, self.queue_id) & (config.mode <= max(QueueMode)),
                                      config.mode, QueueMode.NATIVE)),
            self.ark.active.eq(self.settings.mode == QueueMode.ARK),
            self.ark.base.eq(bank.queue_ark.base), self.ark.domain.eq(config.domain),
            self.connection_write.eq(bank.connection_commit.written_stb),
            self.connection_id.eq(bank.connection_commit.connection),
            self.connection.base.eq(bank.connection_config.base),
            self.connection.domain.eq(bank.connection_config.domain),
            self.connection.valid.eq(bank.connection_config.valid),
            self.connection_rc.eq(Cat(bank.connection_rc_lo.value, bank.connection_rc_hi.value)),
            self.sc_addr.eq(Cat(bank.queue_sc_lo.value, bank.queue_sc_hi.value)),
            self.rc_addr.eq(Cat(bank.queue_rc_lo.value, bank.queue_rc_hi.value)),
            self.command_write.eq(bank.queue_command.written_stb),
            self.command.eq(bank.queue_command.command),
            self.command_queue.eq(bank.queue_command.queue),
            self.watchdog.eq(bank.watchdog.cycles),
            self.single_read.eq(bank.ablation.single_read), self.every_word.eq(bank.ablation.every_word),
            self.select.eq(bank.queue_select.queue),
        ]
        for number in range(TARGETS):
            target = getattr(bank, f"target_limit_{number}")
            m.d.comb += [self.target_limit[number].eq(target.beats), self.target_slow[number].eq(target.slow)]

    def _look(self, m, bank):
        """Show the selected queue; its counters are sampled whenever they can be looked at."""
        state = bank.queue_state
        m.d.comb += [getattr(state, name).eq(getattr(self, name).bit_select(self.select, 1))
                     for name in ("enabled", "running", "held", "refusing", "resetting", "waiting")]
        in_flight, word = Signal.like(self.in_flight), Signal(CompletionLayout)
        with m.If(self.look_valid):
            m.d.sync += [in_flight.eq(self.in_flight), word.eq(self.word)]
        m.d.comb += [
            state.in_flight.eq(in_flight),
            bank.queue_count.count.eq(word.count),
            bank.queue_result.failed.eq(word.failed), bank.queue_result.status.eq(word.status),
        ]

        requests, failed = Signal.like(word.count), Signal.like(word.failed)
        m.d.comb += [
            self.snapshot.eq(bank.queue_snapshot.written_stb & bank.queue_snapshot.take),
            bank.queue_snapshot.busy.eq(self.snapshot_busy),
            bank.snapshot_requests.value.eq(requests), bank.snapshot_failed.value.eq(failed),
            Cat(bank.snapshot_bytes_lo.value, bank.snapshot_bytes_hi.value).eq(self.bytes),
            bank.snapshot_segments.value.eq(self.segments), bank.snapshot_stalls.value.eq(self.stalls),
            self.histogram.eq(bank.histogram_bin.written_stb), self.histogram_bin.eq(bank.histogram_bin.bin),
            bank.histogram_count.count.eq(self.histogram_count),
        ]
        with m.If(self.snapshot):
            m.d.sync += [requests.eq(word.count), failed.eq(word.failed)]

    def _errors(self, m, bank):
        m.submodules.log = log = ErrorLog(self.config)
        connect(m, flipped(self.init), log.init)
        m.submodules.moderation = moderation = InterruptModeration()
        m.d.comb += [
            log.entry.eq(self.log), log.failed.eq(self.log_valid),
            log.read.eq(bank.error_log.read_stb), log.pop.eq(bank.error_log_pop.written_stb & bank.error_log_pop.pop),
            bank.error_log.valid.eq(log.valid), bank.error_log.status.eq(log.oldest.status),
            bank.error_log.queue.eq(log.oldest.queue), bank.error_log_count.count.eq(log.oldest.count),
            bank.error_log_lost.count.eq(log.lost),
            bank.irq_status.error_set.eq(self.log_valid),
            moderation.i.eq(self.interrupt),
            moderation.count.eq(bank.irq_moderation.count), moderation.cycles.eq(bank.irq_moderation.cycles),
            bank.irq_status.completion_set.eq(moderation.o),
        ]
        m.d.comb += bank.irq_status.register_set.eq(bank.refused)
        m.d.sync += self.irq.eq(Cat(getattr(bank.irq_status, name) & getattr(bank.irq_enable, name)
                                    for name in ("error", "completion", "register")).any())
