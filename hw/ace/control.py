"""The registers, taken apart: tables to write, what software looks at, interrupts and counters.

s_axil -> Control -> all tables.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.common.regions import RegionEntry
from hw.common.sizes import DOMAIN_WIDTH
from hw.common.sweep import SweepSignature
from hw.regs import RegisterBank

from .chunker import slot_layout
from .communicators import shape_layout, share_layout
from .config import DIRECTORY_WIDTH, SEQUENCE_WIDTH
from .decoder import directory_layout
from .extents import ExtentLayout
from .fsm import state_layout
from .layouts import LinkState, RecordLayout
from .link.port import link_status_layout
from .link.state import TIMEOUT_WIDTH, TRIES_WIDTH
from .registers import COUNTERS, LINK_COUNTERS, register_map
from .standing import mode_layout, standing_layout
from .words import PROGRAM_WIDTH

__all__ = ["Control", "counts_layout"]


def counts_layout(config):
    """By how much each counter rises in this cycle."""
    most = {"READ_BYTES": config.chunk_bytes, "WRITE_BYTES": config.chunk_bytes, "UNEXPECTED": 2}
    return data.StructLayout({name.lower(): range(most.get(name, 1) + 1) for name, _ in COUNTERS})


class Control(wiring.Component):
    """The register map's hardware side.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
        Software waits until the sweep is over.
    bus : ``In(AxiLiteSignature)``
    region_write, region_id, region : ``Out``
    communicator_write, communicator, share, shape, mode : ``Out``
    revoke, revoke_number : ``Out``
    watchdog : ``Out(32)``
    program_write, program_address, program_word : ``Out``
    extent_write, extent_row, send_extent, receive_extent : ``Out``
    directory_write, directory_number, directory_entry : ``Out``
    queue_write, queue, domain, sc_address, sc_enable, enabled : ``Out``
    clear, clear_queue : ``Out``
    select : ``Out``; status, count, active, waiting : ``In``
        The queue that software looks at.
    fsm_select : ``Out``, fsm : ``In(state_layout)``
    slot_select : ``Out``, slot : ``In(slot_layout)``
    communicator_select : ``Out``, record : ``In(RecordLayout)``, chunks : ``In``
        Of that communicator.
    standing : ``In(standing_layout)``, work : ``In(communicators)``
    counts : ``In(counts_layout)``
    link_timeout, link_tries, link_start, link_stop : ``Out``; links : ``In(link_status_layout).array(ports)``
    error, completion : ``In(1)``
    irq : ``Out(1)``
    """

    def __init__(self, config):
        self.config = config
        queue = config.queue_bits
        super().__init__({
            "init": In(SweepSignature(config)), "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "region_write": Out(1), "region_id": Out(config.region_bits), "region": Out(RegionEntry),
            "communicator_write": Out(1), "communicator": Out(config.communicator_bits),
            "share": Out(share_layout(config)), "shape": Out(shape_layout(config)), "mode": Out(mode_layout(config)),
            "revoke": Out(1), "revoke_number": Out(config.communicator_bits), "watchdog": Out(32),
            "program_write": Out(1), "program_address": Out(config.program_bits), "program_word": Out(PROGRAM_WIDTH),
            "extent_write": Out(1), "extent_row": Out(config.extent_bits),
            "send_extent": Out(ExtentLayout), "receive_extent": Out(ExtentLayout),
            "directory_write": Out(1), "directory_number": Out(DIRECTORY_WIDTH + config.communicator_bits),
            "directory_entry": Out(directory_layout(config)),
            "queue_write": Out(1), "queue": Out(queue), "domain": Out(DOMAIN_WIDTH),
            "sc_address": Out(config.address_width), "sc_enable": Out(1), "enabled": Out(1),
            "clear": Out(1), "clear_queue": Out(queue),
            "select": Out(queue), "status": In(8), "count": In(32), "active": In(8), "waiting": In(8),
            "fsm_select": Out(config.fsm_bits), "fsm": In(state_layout(config)),
            "link_timeout": Out(TIMEOUT_WIDTH), "link_tries": Out(TRIES_WIDTH),
            "link_start": Out(config.ports), "link_stop": Out(config.ports),
            "links": In(link_status_layout(config)).array(config.ports),
            "slot_select": Out(config.slot_bits), "slot": In(slot_layout(config)),
            "communicator_select": Out(config.communicator_bits), "record": In(RecordLayout),
            "chunks": In(SEQUENCE_WIDTH), "standing": In(standing_layout(config)), "work": In(config.communicators),
            "counts": In(counts_layout(config)), "error": In(1), "completion": In(1), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        for channel in ("aw", "w", "ar"):
            with m.If(self.init.active):
                m.d.comb += [getattr(bank.bus, f"{channel}valid").eq(0), getattr(self.bus, f"{channel}ready").eq(0)]
        self._tables(m, bank)
        self._watch(m, bank)
        self._links(m, bank)
        for name, _ in COUNTERS if self.config.counters else ():
            low, high = (getattr(bank, f"count_{name.lower()}_{half}") for half in ("lo", "hi"))
            counter, upper = Signal(48, name=f"count_{name.lower()}"), Signal(16, name=f"upper_{name.lower()}")
            m.d.sync += counter.eq(counter + self.counts[name.lower()])
            m.d.comb += [low.value.eq(counter), high.value.eq(upper)]
            with m.If(low.read_stb):
                m.d.sync += upper.eq(counter[32:])
        return m

    def _tables(self, m, bank):
        access, share, roots = bank.region_access, bank.communicator_share, bank.communicator_root
        entry, mode = bank.directory_entry, bank.communicator_mode
        for number in range(self.config.dimensions):
            m.d.comb += [
                self.shape.sizes[number].eq(getattr(bank.communicator_shape, f"size_{number}")),
                self.shape.place[number].eq(getattr(bank.communicator_place, f"rank_{number}")),
                self.shape.root_widths[number].eq(getattr(roots, f"width_{number}")),
            ]
        m.d.comb += [
            self.mode.valid.eq(share.valid),
            *(self.mode[name].eq(getattr(mode, name)) for name in ("epoch", "priority", "ports", "rank")),
            self.revoke.eq(bank.communicator_revoke.written_stb),
            self.revoke_number.eq(bank.communicator_revoke.communicator),
            self.watchdog.eq(bank.watchdog.cycles),
            self.region_write.eq(bank.region_commit.written_stb), self.region_id.eq(bank.region_commit.region),
            self.region.base_page.eq(Cat(bank.region_base_lo.value, bank.region_base_hi.value)[12:]),
            self.region.length.eq(Cat(bank.region_length_lo.value, bank.region_length_hi.value)),
            self.region.domain.eq(access.domain), self.region.readable.eq(access.readable),
            self.region.writable.eq(access.writable), self.region.valid.eq(access.valid),
            self.communicator_write.eq(bank.communicator_commit.written_stb),
            self.communicator.eq(bank.communicator_commit.communicator),
            self.share.fsm_first.eq(share.fsm_first), self.share.fsm_mask.eq((1 << share.fsm_bits) - 1),
            self.share.slot_first.eq(share.slot_first), self.share.slot_mask.eq((1 << share.slot_bits) - 1),
            self.shape.valid.eq(share.valid), self.shape.domain.eq(share.domain), self.shape.ranks.eq(roots.ranks),
            self.program_write.eq(bank.program_commit.written_stb),
            self.program_address.eq(bank.program_commit.address),
            self.program_word.eq(Cat(bank.program_word_lo.value, bank.program_word_hi.value)),
            self.extent_write.eq(bank.extent_commit.written_stb), self.extent_row.eq(bank.extent_commit.row),
            self.send_extent.count.eq(bank.extent_send_count.count),
            self.send_extent.displacement.eq(bank.extent_send_place.displacement),
            self.receive_extent.count.eq(bank.extent_receive_count.count),
            self.receive_extent.displacement.eq(bank.extent_receive_place.displacement),
            self.directory_write.eq(bank.directory_commit.written_stb),
            self.directory_number.eq(Cat(bank.directory_commit.collective, bank.directory_commit.communicator)),
            self.directory_entry.plus.eq(entry.plus), self.directory_entry.minus.eq(entry.minus),
            self.directory_entry.both.eq(entry.both), self.directory_entry.valid.eq(entry.valid),
            self.queue_write.eq(bank.queue_commit.written_stb), self.queue.eq(bank.queue_commit.queue),
            self.domain.eq(bank.queue_config.domain), self.sc_enable.eq(bank.queue_config.sc_enable),
            self.enabled.eq(bank.queue_config.enabled),
            self.sc_address.eq(Cat(bank.queue_sc_lo.value, bank.queue_sc_hi.value)),
            self.clear.eq(bank.queue_clear.written_stb), self.clear_queue.eq(bank.queue_clear.queue),
        ]

    def _links(self, m, bank):
        link = Signal(link_status_layout(self.config))
        m.d.comb += [
            self.link_timeout.eq(bank.link_patience.timeout), self.link_tries.eq(bank.link_patience.tries),
            bank.link_down.ports.eq(Cat(one.state == LinkState.DOWN for one in self.links)),
            bank.link_state.state.eq(link.state), bank.link_state.unacknowledged.eq(link.unacknowledged),
            bank.link_state.credits.eq(link.credits), bank.link_state.cause.eq(link.cause),
            *(getattr(bank, f"link_{name}").count.eq(link[name]) for name, _ in LINK_COUNTERS),
        ]
        for command, ports in ((bank.link_start, self.link_start), (bank.link_stop, self.link_stop)):
            m.d.comb += ports.eq(Mux(command.written_stb, command.ports, 0))
        with m.Switch(bank.link_select.port):
            for number, one in enumerate(self.links):
                with m.Case(number):
                    m.d.sync += link.eq(one)

    def _watch(self, m, bank):
        state, steps, fsm, queue = bank.fsm_state, bank.fsm_steps, self.fsm, bank.queue_state
        m.d.comb += [
            self.select.eq(bank.queue_select.queue), queue.status.eq(self.status), queue.waiting.eq(self.waiting),
            queue.active.eq(self.active), bank.queue_count.count.eq(self.count),
            self.fsm_select.eq(bank.fsm_select.fsm),
            state.busy.eq(fsm.busy), state.wants.eq(fsm.wants), state.granted.eq(fsm.granted),
            state.ready.eq(fsm.ready), state.phase.eq(fsm.phase), state.port.eq(fsm.port),
            state.communicator.eq(fsm.communicator), state.sequence.eq(fsm.sequence), state.waits.eq(fsm.waits),
            steps.sent.eq(fsm.sent), steps.received.eq(fsm.received),
            bank.irq_status.error_set.eq(self.error), bank.irq_status.completion_set.eq(self.completion),
        ]
        slot, communicator, number = bank.slot_state, bank.communicator_state, bank.communicator_select.communicator
        fault, chunk, record = bank.fault, bank.fault_chunk, self.record
        m.d.comb += [
            self.slot_select.eq(bank.slot_select.slot), slot.stage.eq(self.slot.stage),
            slot.communicator.eq(self.slot.name.communicator), slot.sequence.eq(self.slot.name.sequence),
            self.communicator_select.eq(number),
            communicator.state.eq(self.standing.states[number]), communicator.work.eq(self.work.bit_select(number, 1)),
            communicator.epoch.eq(self.standing.epochs[number]),
            communicator.priority.eq(self.standing.priorities[number]), communicator.chunks.eq(self.chunks),
            *(getattr(fault, name).eq(record[name]) for name in ("status", "rank", "port", "phase", "named")),
            *(getattr(chunk, name).eq(record[name]) for name in ("step", "sequence")),
        ]
        m.d.comb += bank.irq_status.register_set.eq(bank.refused)
        m.d.sync += self.irq.eq(Cat(getattr(bank.irq_status, name) & getattr(bank.irq_enable, name)
                                    for name in ("error", "completion", "register")).any())
