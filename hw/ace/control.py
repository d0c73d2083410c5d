# SPDX-License-Identifier: Apache-2.0
"""The registers, split into interfaces: table writes, debug look-ups, interrupts and counters.

s_axil -> Control -> command path, tables, chunk path, supervision, links; their counts and interrupts -> Control.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.common.regions import ends_beyond
from hw.common.sweep import SweepSignature
from hw.common.wiring import unused
from hw.regs import RegisterBank

from .chunk_path import ChunkCounts, ChunkRegisters
from .command_path import CommandRegisters
from .communicator_status import CommunicatorEnd, CommunicatorStatusSignature
from .communicators import CommunicatorWrite
from .config import AceConfig
from .layouts import LinkState
from .link.status import LinkManagement, link_status_layout
from .network import NetworkCounts
from .operations import OperationInterrupts, WorkSignature
from .registers import COUNTERS, LINK_COUNTERS, register_map
from .supervision import SupervisionRegisters
from .tables import TableRegisters

__all__ = ["Control"]


class Control(wiring.Component):
    """The register map's hardware side.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
        Software waits until the sweep is done.
    bus : ``In(AxiLiteSignature)``
    communicator : ``Out(CommunicatorWrite)``
    commands : ``Out(CommandRegisters)``, tables : ``Out(TableRegisters)``, chunks : ``Out(ChunkRegisters)``
    supervision : ``Out(SupervisionRegisters)``, links : ``Out(LinkManagement).array(ports)``
        Table writes and debug look-ups of each subsystem.
    communicator_status : ``In(CommunicatorStatusSignature)``, work : ``In(WorkSignature)``
    chunk_counts : ``In(ChunkCounts)``, network_counts : ``In(NetworkCounts)``
        Increments of the counters in this cycle.
    interrupts : ``In(OperationInterrupts)``, end : ``In(CommunicatorEnd)``
    irq : ``Out(1)``
        Registered.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "communicator": Out(CommunicatorWrite(config)), "commands": Out(CommandRegisters(config)),
            "tables": Out(TableRegisters(config)), "chunks": Out(ChunkRegisters(config)),
            "supervision": Out(SupervisionRegisters(config)),
            "links": Out(LinkManagement(config)).array(config.ports),
            "communicator_status": In(CommunicatorStatusSignature(config)), "work": In(WorkSignature(config)),
            "chunk_counts": In(ChunkCounts(config)), "network_counts": In(NetworkCounts(config)),
            "interrupts": In(OperationInterrupts()), "end": In(CommunicatorEnd(config)), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        for channel in ("aw", "w", "ar"):
            with m.If(self.init.active):
                m.d.comb += [getattr(bank.bus, f"{channel}valid").eq(0), getattr(self.bus, f"{channel}ready").eq(0)]
        self._communicators(m, bank)
        self._tables(m, bank)
        self._queues(m, bank)
        self._links(m, bank)
        self._watch(m, bank)
        self._count(m, bank)
        return m

    def _count(self, m, bank):
        """Counters of 48 bits; those that the accelerator was built without read as 0."""
        fill, drain, pool = self.chunk_counts.fill, self.chunk_counts.drain, self.chunk_counts.pool
        receive = self.network_counts.receive
        sent = {port: getattr(self.network_counts, f"transmit_{number}").sent_beats[index]
                for number, ports in enumerate(self.config.pipe_ports) for index, port in enumerate(ports)}
        increments = {
            "read_bytes": fill.read_bytes, "write_bytes": drain.write_bytes, "chunks": drain.chunks,
            "unexpected": fill.unexpected + drain.unexpected,
            "active_cycles": self.chunk_counts.chunker.active_cycles, "starved_cycles": pool.starved_cycles,
            **{name: getattr(receive, name) for name in receive.signature.members},
            **{f"sent_beats_{port}": sent[port] for port in range(self.config.ports)},
        } if self.config.counters else {}
        for name in (name.lower() for name, _ in COUNTERS):
            low, high = (getattr(bank, f"count_{name}_{half}") for half in ("lo", "hi"))
            if name not in increments:
                m.d.comb += [low.value.eq(0), high.value.eq(0)]
                continue
            counter, upper = Signal(48, name=f"count_{name}"), Signal(16, name=f"upper_{name}")
            m.d.sync += counter.eq(counter + increments[name])
            m.d.comb += [low.value.eq(counter), high.value.eq(upper)]
            with m.If(low.read_stb):
                m.d.sync += upper.eq(counter[32:])

    def _communicators(self, m, bank):
        share, roots, mode = bank.communicator_share, bank.communicator_root, bank.communicator_mode
        write, supervision = self.communicator, self.supervision
        for number in range(self.config.dimensions):
            m.d.comb += [
                write.shape.sizes[number].eq(getattr(bank.communicator_shape, f"size_{number}")),
                write.shape.coordinates[number].eq(getattr(bank.communicator_place, f"rank_{number}")),
                write.shape.root_widths[number].eq(getattr(roots, f"width_{number}")),
            ]
        m.d.comb += [
            write.valid.eq(bank.communicator_commit.written_stb),
            write.number.eq(bank.communicator_commit.communicator),
            write.mode.valid.eq(share.valid),
            *(write.mode[name].eq(getattr(mode, name)) for name in ("epoch", "priority", "ports", "rank")),
            write.share.fsm_first.eq(share.fsm_first), write.share.fsm_mask.eq((1 << share.fsm_bits) - 1),
            write.share.slot_first.eq(share.slot_first), write.share.slot_mask.eq((1 << share.slot_bits) - 1),
            write.shape.valid.eq(share.valid), write.shape.domain.eq(share.domain), write.shape.ranks.eq(roots.ranks),
            write.shape.one_shot.eq(bank.communicator_one_shot.bytes),
            supervision.revoke.valid.eq(bank.communicator_revoke.written_stb),
            supervision.revoke.payload.eq(bank.communicator_revoke.communicator),
            supervision.timeout.cycles.eq(bank.watchdog.cycles),
        ]

    def _tables(self, m, bank):
        access, entry = bank.region_access, bank.directory_entry
        region, directory, program = self.commands.region, self.commands.directory, self.tables.program
        m.d.comb += [
            region.valid.eq(bank.region_commit.written_stb), region.region.eq(bank.region_commit.region),
            region.entry.base_page.eq(Cat(bank.region_base_lo.value, bank.region_base_hi.value)[12:]),
            region.entry.length.eq(Cat(bank.region_length_lo.value, bank.region_length_hi.value)),
            *(region.entry[name].eq(getattr(access, name)) for name in ("domain", "readable", "writable", "valid")),
            directory.valid.eq(bank.directory_commit.written_stb),
            directory.number.eq(Cat(bank.directory_commit.collective, bank.directory_commit.communicator)),
            *(directory.entry[name].eq(getattr(entry, name)) for name in ("plus", "minus", "both", "valid")),
            program.valid.eq(bank.program_commit.written_stb), program.address.eq(bank.program_commit.address),
            program.word.eq(Cat(bank.program_word_lo.value, bank.program_word_hi.value)),
        ]
        # A commit follows the last write of a field by two cycles or more.
        beyond = Signal()
        m.d.sync += beyond.eq(ends_beyond(Cat(bank.region_base_lo.value, bank.region_base_hi.value),
                                          region.entry.length, self.config.address_width))
        m.d.comb += [bank.region_commit.refuse.eq(beyond & access.valid),
                     Signal.like(bank.writing, name="unused").eq(bank.writing)]
        if self.config.varying:
            extent = self.tables.extent
            m.d.comb += [
                extent.valid.eq(bank.extent_commit.written_stb), extent.row.eq(bank.extent_commit.row),
                extent.send.count.eq(bank.extent_send_count.count),
                extent.send.displacement.eq(bank.extent_send_place.displacement),
                extent.receive.count.eq(bank.extent_receive_count.count),
                extent.receive.displacement.eq(bank.extent_receive_place.displacement),
            ]
        else:
            for register in (bank.extent_commit, bank.extent_send_count, bank.extent_send_place,
                             bank.extent_receive_count, bank.extent_receive_place):
                unused(m, register)

    def _queues(self, m, bank):
        queue, clear, state = self.commands.queue, self.commands.clear, bank.queue_state
        waiting, completion = self.commands.waiting, self.commands.completion
        m.d.comb += [
            queue.valid.eq(bank.queue_commit.written_stb), queue.queue.eq(bank.queue_commit.queue),
            *(getattr(queue, name).eq(getattr(bank.queue_config, name)) for name in ("domain", "sc_enable", "enabled")),
            queue.sc_address.eq(Cat(bank.queue_sc_lo.value, bank.queue_sc_hi.value)),
            clear.valid.eq(bank.queue_clear.written_stb), clear.payload.eq(bank.queue_clear.queue),
            *(lookup.queue.eq(bank.queue_select.queue) for lookup in (waiting, completion)),
            state.status.eq(completion.status), state.waiting.eq(waiting.waiting), state.active.eq(completion.active),
            bank.queue_count.count.eq(completion.count),
        ]

    def _links(self, m, bank):
        link = Signal(link_status_layout(self.config))
        settings = [one.settings for one in self.links]
        m.d.comb += [
            *(one.timeout.eq(bank.link_patience.timeout) for one in settings),
            *(one.tries.eq(bank.link_patience.tries) for one in settings),
            bank.link_down.ports.eq(Cat(one.status.state == LinkState.DOWN for one in self.links)),
            bank.link_state.state.eq(link.state), bank.link_state.unacknowledged.eq(link.unacknowledged),
            bank.link_state.credits.eq(link.credits), bank.link_state.cause.eq(link.cause),
            *(getattr(bank, f"link_{name}").count.eq(link[name]) for name, _ in LINK_COUNTERS),
        ]
        for command, strobes in ((bank.link_start, [one.start for one in settings]),
                                 (bank.link_stop, [one.stop for one in settings])):
            m.d.comb += Cat(strobes).eq(Mux(command.written_stb, command.ports, 0))
        with m.Switch(bank.link_select.port):
            for number, one in enumerate(self.links):
                with m.Case(number):
                    m.d.sync += link.eq(one.status)

    def _watch(self, m, bank):
        state, steps, seen, fsm = bank.fsm_state, bank.fsm_steps, self.supervision.fsm, self.supervision.fsm.state
        m.d.comb += [
            seen.fsm.eq(bank.fsm_select.fsm),
            *(getattr(state, name).eq(fsm[name]) for name in (
                "busy", "wants", "granted", "ready", "phase", "port", "communicator", "sequence", "waits")),
            steps.sent.eq(fsm.sent), steps.received.eq(fsm.received),
            bank.irq_status.error_set.eq(self.interrupts.error | self.end.valid),
            bank.irq_status.completion_set.eq(self.interrupts.completion),
        ]
        slot, communicator, number = bank.slot_state, bank.communicator_state, bank.communicator_select.communicator
        shown, record, chunks = self.chunks.slot.state, self.supervision.record, self.chunks.count
        m.d.comb += [
            self.chunks.slot.slot.eq(bank.slot_select.slot), slot.stage.eq(shown.stage),
            slot.communicator.eq(shown.name.communicator), slot.sequence.eq(shown.name.sequence),
            record.communicator.eq(number), chunks.communicator.eq(number),
            communicator.state.eq(self.communicator_status.states[number]),
            communicator.work.eq(self.work.communicators.bit_select(number, 1)),
            communicator.epoch.eq(self.communicator_status.epochs[number]),
            communicator.priority.eq(self.communicator_status.priorities[number]),
            communicator.chunks.eq(chunks.chunks),
            *(getattr(bank.fault, name).eq(record.record[name])
              for name in ("status", "rank", "port", "phase", "named")),
            *(getattr(bank.fault_chunk, name).eq(record.record[name]) for name in ("step", "sequence")),
        ]
        m.d.comb += bank.irq_status.register_set.eq(bank.refused)
        m.d.sync += self.irq.eq(Cat(getattr(bank.irq_status, name) & getattr(bank.irq_enable, name)
                                    for name in ("error", "completion", "register")).any())
