# SPDX-License-Identifier: Apache-2.0
"""Front panel: the register bank and the state directly behind it.

s_axil -> FrontPanel -> tables and QueueControl.  Latency as ``hw.regs.RegisterBank``.
"""

from operator import attrgetter

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.common.doorbell import is_extended
from hw.common.layouts import CompletionLayout
from hw.common.regions import RegionWriteSignature, ends_beyond
from hw.common.sizes import ADDR_WIDTH, SMALL_PAGE_BITS
from hw.common.sweep import SweepSignature
from hw.dma_engine.config import TARGETS, DmaConfig
from hw.dma_engine.configuration import (
    AblationSignature,
    ConnectionWriteSignature,
    PageWriteSignature,
    QueueStatesSignature,
    QueueWriteSignature,
    TargetSettingsSignature,
)
from hw.dma_engine.frontend.queues import OccupancySignature
from hw.dma_engine.instruments.activity import Counts
from hw.dma_engine.instruments.counters import SnapshotSignature
from hw.dma_engine.instruments.histogram import HistogramReadSignature
from hw.dma_engine.queue_settings import QUEUE_SETTINGS
from hw.dma_engine.registers import COUNTERS, register_map
from hw.dma_engine.rings.lifecycle import RingPartsSignature
from hw.dma_engine.strobes import OutcomeSignature
from hw.dma_engine.words import QueueMode
from hw.regs import REGISTER_WIDTH, RegisterBank

from .control import CommandSignature
from .error_log import ErrorLog
from .inspection import InspectSignature
from .moderation import InterruptModeration
from .quiesce import QuiesceSignature
from .totals import Totals

__all__ = ["FrontPanel"]

class FrontPanel(wiring.Component):
    """Registers, error log, interrupt and counters.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        The bus stalls during the sweep, which would overwrite what software writes.
    bus : ``In(AxiLiteSignature)``
    configure : ``Out(QueueWriteSignature)``, region : ``Out(RegionWriteSignature)``
    page : ``Out(PageWriteSignature)``, connection : ``Out(ConnectionWriteSignature)``
        Table entries as committed.
    targets : ``Out(TargetSettingsSignature)``, ablation : ``Out(AblationSignature)``
    command : ``Out(CommandSignature)``, quiesce : ``Out(QuiesceSignature)``
    states : ``In(QueueStatesSignature)``, held : ``In(queues)``
    occupancy : ``In(OccupancySignature)``, rings_refusing : ``In(extended)``, ring_parts : ``In(RingPartsSignature)``
    inspect : ``Out(InspectSignature)``
        The queue that software has selected.
    snapshot : ``Out(SnapshotSignature)``, histogram : ``Out(HistogramReadSignature)``
    outcome : ``In(OutcomeSignature)``
        For the error log, and for interrupts.
    counts : ``In(Counts)``
    irq : ``Out(1)``
        Registered.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "configure": Out(QueueWriteSignature(config)), "region": Out(RegionWriteSignature(config)),
            "page": Out(PageWriteSignature(config)), "connection": Out(ConnectionWriteSignature(config)),
            "targets": Out(TargetSettingsSignature(config)), "ablation": Out(AblationSignature()),
            "command": Out(CommandSignature(config)), "quiesce": Out(QuiesceSignature()),
            "states": In(QueueStatesSignature(config)), "held": In(config.queues),
            "occupancy": In(OccupancySignature(config)), "rings_refusing": In(config.extended),
            "ring_parts": In(RingPartsSignature(config)),
            "inspect": Out(InspectSignature(config)),
            "snapshot": Out(SnapshotSignature(config)), "histogram": Out(HistogramReadSignature(config)),
            "outcome": In(OutcomeSignature(config)), "counts": In(Counts),
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
        self._inspect(m, bank)
        self._errors(m, bank)
        self._totals(m, bank)
        return m

    def _totals(self, m, bank):
        # Their registers are contiguous: the lowest bits of a word's address select one.
        described, width = bank.register_map, (len(COUNTERS) - 1).bit_length()
        rows = {name.lower(): (described[f"COUNT_{name}"].offset >> 2) % (1 << width) for name, _ in COUNTERS}
        m.submodules.totals = totals = Totals(
            self.config, {name: (row, (1 << len(self.counts[name])) - 1) for name, row in rows.items()})
        connect(m, flipped(self.init), totals.init)
        m.d.sync += totals.happened.eq(self.counts)     # their sources are all over the engine
        m.d.comb += totals.row.eq(bank.reading[2:])
        m.d.comb += [getattr(bank, f"count_{name}").value.eq(totals.total) for name in rows]

    def _tables(self, m, bank):
        access, attributes = bank.region_access, bank.region_attributes
        region, pages, write = self.region.entry, bank.region_pages, self.configure
        m.d.comb += [
            self.region.valid.eq(bank.region_commit.written_stb),
            self.region.region.eq(bank.region_commit.region),
            region.base_page.eq(Mux(pages.paged, 0, Cat(bank.region_base_lo.value,
                                                        bank.region_base_hi.value)[12:])),
            region.paged.eq(pages.paged), region.large.eq(pages.large), region.first_page.eq(pages.first),
            region.length.eq(Cat(bank.region_length_lo.value, bank.region_length_hi.value)),
            region.domain.eq(access.domain),
            region.readable.eq(access.readable), region.writable.eq(access.writable), region.valid.eq(access.valid),
            # Allocate without Modifiable is reserved.
            region.attributes.cache.eq(Cat(attributes.cache[:2],
                                           attributes.cache[2:] & attributes.cache[1].replicate(2))),
            region.attributes.prot.eq(attributes.prot), region.attributes.qos.eq(attributes.qos),
        ]
        # A commit follows the last write of a field by two cycles or more.
        beyond = Signal()
        m.d.sync += beyond.eq(ends_beyond(Cat(bank.region_base_lo.value, bank.region_base_hi.value), region.length,
                                          ADDR_WIDTH))
        m.d.comb += bank.region_commit.refuse.eq(beyond & access.valid & ~pages.paged)
        m.d.comb += [
            self.page.valid.eq(bank.page_commit.written_stb), self.page.page.eq(bank.page_commit.page),
            self.page.entry.present.eq(bank.page_commit.present),
            self.page.entry.frame.eq(Cat(bank.page_frame_lo.value, bank.page_frame_hi.value)[SMALL_PAGE_BITS:]),
        ]
        m.d.comb += [
            write.valid.eq(bank.queue_commit.written_stb), write.queue.eq(bank.queue_commit.queue),
            write.ark.active.eq(write.settings.mode == QueueMode.ARK), write.ark.domain.eq(write.settings.domain),
        ]
        for setting in QUEUE_SETTINGS:
            staged, member = self._staged(bank, setting), attrgetter(setting.member)(write)
            if setting.codes is QueueMode:
                staged = Mux(is_extended(self.config, write.queue) & (staged <= max(QueueMode)), staged,
                             QueueMode.NATIVE)
            m.d.comb += member.eq(staged)
        # No two rings have a row in common, and until RESET a ring has the same ones.
        queue, parts = bank.writing[:self.config.queue_bits], self.ring_parts
        ring, pair = queue[:self.config.extended_bits], bank.ring_config.pair.replicate(self.config.extended)
        m.d.comb += bank.queue_commit.refuse.eq(
            (bank.queue_config.mode == QueueMode.RING) & is_extended(self.config, queue)
            & ((parts.used & (parts.pair | pair)).bit_select(ring ^ 1, 1)
               | (self.states.enabled & parts.used & (parts.pair ^ pair)).bit_select(ring, 1)))
        connection = self.connection
        m.d.comb += [
            connection.valid.eq(bank.connection_commit.written_stb),
            connection.connection.eq(bank.connection_commit.connection),
            connection.entry.base.eq(bank.connection_config.base),
            connection.entry.domain.eq(bank.connection_config.domain),
            connection.entry.valid.eq(bank.connection_config.valid),
            connection.rc_addr.eq(Cat(bank.connection_rc_lo.value, bank.connection_rc_hi.value)),
        ]
        m.d.comb += [
            self.quiesce.start.eq(bank.quiesce.written_stb & bank.quiesce.start),
            bank.quiesce.busy.eq(self.quiesce.busy),
            self.command.valid.eq(bank.queue_command.written_stb),
            self.command.command.eq(bank.queue_command.command),
            self.command.queue.eq(bank.queue_command.queue),
            self.command.watchdog.eq(bank.watchdog.cycles),
            self.ablation.single_read.eq(bank.ablation.single_read),
            self.ablation.every_word.eq(bank.ablation.every_word),
        ]
        for number in range(TARGETS):
            target = getattr(bank, f"target_limit_{number}")
            m.d.comb += [self.targets.limit[number].eq(target.beats), self.targets.slow[number].eq(target.slow)]

    def _staged(self, bank, setting):
        """The value of a queue setting in its staging register or pair of registers."""
        if setting.bits(self.config) > REGISTER_WIDTH:
            halves = [getattr(bank, f"{setting.register.lower()}_{half}") for half in ("lo", "hi")]
            value = Cat(getattr(half, setting.field) for half in halves)
        else:
            value = getattr(getattr(bank, setting.register.lower()), setting.field)
        return value[setting.low_bits:]

    def _inspect(self, m, bank):
        """Show the selected queue; its counters are sampled whenever the lookup is free."""
        state, inspect, snapshot, histogram = bank.queue_state, self.inspect, self.snapshot, self.histogram
        bits = {
            "enabled": self.states.enabled, "running": self.states.running, "held": self.held,
            "refusing": self.occupancy.refusing | self.rings_refusing, "resetting": self.states.resetting,
            "waiting": self.occupancy.ready | self.occupancy.more,
        }
        m.d.comb += [inspect.queue.eq(bank.queue_select.queue), snapshot.queue.eq(inspect.queue),
                     histogram.queue.eq(inspect.queue)]
        m.d.comb += [getattr(state, name).eq(queues.bit_select(inspect.queue, 1)) for name, queues in bits.items()]
        in_flight, word = Signal.like(inspect.in_flight), Signal(CompletionLayout)
        with m.If(inspect.valid):
            m.d.sync += [in_flight.eq(inspect.in_flight), word.eq(inspect.word)]
        m.d.comb += [
            state.in_flight.eq(in_flight),
            bank.queue_count.count.eq(word.count),
            bank.queue_result.failed.eq(word.failed), bank.queue_result.status.eq(word.status),
        ]

        requests, failed = Signal.like(word.count), Signal.like(word.failed)
        m.d.comb += [
            snapshot.take.eq(bank.queue_snapshot.written_stb & bank.queue_snapshot.take),
            bank.queue_snapshot.busy.eq(snapshot.busy),
            bank.snapshot_requests.value.eq(requests), bank.snapshot_failed.value.eq(failed),
            Cat(bank.snapshot_bytes_lo.value, bank.snapshot_bytes_hi.value).eq(snapshot.bytes),
            bank.snapshot_segments.value.eq(snapshot.segments), bank.snapshot_stalls.value.eq(snapshot.stalls),
            histogram.read.eq(bank.histogram_bin.written_stb), histogram.bin.eq(bank.histogram_bin.bin),
            bank.histogram_count.count.eq(histogram.count),
        ]
        with m.If(snapshot.take):
            m.d.sync += [requests.eq(word.count), failed.eq(word.failed)]

    def _errors(self, m, bank):
        m.submodules.log = log = ErrorLog(self.config)
        connect(m, flipped(self.init), log.init)
        m.submodules.moderation = moderation = InterruptModeration()
        m.d.comb += [
            log.entry.eq(self.outcome.log), log.failed.eq(self.outcome.failed),
            log.read.eq(bank.error_log.read_stb), log.pop.eq(bank.error_log_pop.written_stb & bank.error_log_pop.pop),
            bank.error_log.valid.eq(log.valid), bank.error_log.status.eq(log.oldest.status),
            bank.error_log.queue.eq(log.oldest.queue), bank.error_log_count.count.eq(log.oldest.count),
            bank.error_log_lost.count.eq(log.lost),
            bank.irq_status.error_set.eq(self.outcome.failed),
            moderation.i.eq(self.outcome.interrupt),
            moderation.count.eq(bank.irq_moderation.count), moderation.cycles.eq(bank.irq_moderation.cycles),
            bank.irq_status.completion_set.eq(moderation.o),
        ]
        m.d.comb += bank.irq_status.register_set.eq(bank.refused)
        m.d.sync += self.irq.eq(Cat(getattr(bank.irq_status, name) & getattr(bank.irq_enable, name)
                                    for name in ("error", "completion", "register")).any())
