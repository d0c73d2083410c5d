"""The collectives accelerator: collectives beside the compute, each payload byte read and written once.

::

    s_axi_db -> doorbell -> intake -> decoder -> operations -> chunker
                                                                 |
    m_axi.R -> fill -> SRAM -> transmit -> links -> receive -> SRAM -> drain -> m_axi.W
                                 ^                     |
                                 +----- FSM pool <-----+

After ACE (Rashidi et al., ISCA'21). Latency and throughput of each part are told in its file; payload moves one beat
per cycle in each of fill, receive, transmit and drain.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature, AxiSignature, Burst
from hw.common.doorbell import Doorbell
from hw.common.regions import RegionTable
from hw.common.sweep import Sweep

from .chunker import Chunker
from .communicators import Communicators
from .control import Control
from .decoder import Decoder
from .drain import Drain
from .extents import Extents
from .faults import Faults
from .fill import Fill
from .intake import Intake
from .layouts import flit_layout, link_layout
from .link.port import LinkPort
from .operations import Operations
from .pool import FsmPool
from .programs.store import Programs
from .receive import Receive, settle_cycles
from .sram import Sram
from .standing import Standing
from .transfers import Transfers
from .transmit import Transmit
from .watchdog import Watchdog

__all__ = ["AceEngine"]


class AceEngine(wiring.Component):
    """One endpoint's collectives accelerator.

    Parameters
    ----------
    config : AceConfig
    first_chunk : int
        Number of a communicator's first chunk, the same on all ranks: simulations begin shortly before numbers
        wrap with it.

    Members
    -------
    s_axil : ``In(AxiLiteSignature)``
        Registers: ``registers.register_map``.
    s_axi_db : ``In(AxiSignature)``
        Doorbells: a 4 KiB page per queue, a command in each store of 16 bytes.
    m_axi : ``Out(AxiSignature)``
        Memory.
    tx, rx : ``Out`` and ``In``, arrays of ``stream.Signature(link_layout)``
        Links; port ``2 * d`` is on the side of rising coordinates of dimension ``d``, ``2 * d + 1`` on the other.
    link_down : ``Out(ports)``
        The link was given up.
    put_tx, put_rx : ``In`` and ``Out``, arrays of ``stream.Signature(flit_layout)``
        Packets of the links' channel 1, where there is one.
    irq : ``Out(1)``
    """

    def __init__(self, config, *, first_chunk=0):
        self.config, self.first_chunk = config, first_chunk
        link, flits = stream.Signature(link_layout(config)), stream.Signature(flit_layout(config))
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=128,
                                        id_width=config.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=config.address_width, data_width=config.data_width, id_width=1)),
            "tx": Out(link).array(config.ports), "rx": In(link).array(config.ports),
            "link_down": Out(config.ports), "irq": Out(1),
            **({"put_tx": In(flits).array(config.ports), "put_rx": Out(flits).array(config.ports)}
               if config.link_channels > 1 else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.control = control = Control(config)
        m.submodules.doorbell = doorbell = Doorbell(config)
        m.submodules.intake = intake = Intake(config)
        m.submodules.decoder = decoder = Decoder(config)
        m.submodules.operations = operations = Operations(config)
        m.submodules.chunker = chunker = Chunker(config, first=self.first_chunk)
        m.submodules.communicators = communicators = Communicators(config, shares=4)
        m.submodules.regions = regions = RegionTable(config, lut_ram=config.timing.lut_ram_tables)
        m.submodules.programs = programs = Programs(config, clients=5)
        m.submodules.fills = fills = Transfers(config)
        m.submodules.drains = drains = Transfers(config)
        m.submodules.pool = pool = FsmPool(config)
        m.submodules.sram = sram = Sram(config)
        m.submodules.receive = receive = Receive(config)
        m.submodules.transmit = transmit = Transmit(config)
        m.submodules.fill = fill = Fill(config)
        m.submodules.drain = drain = Drain(config)
        m.submodules.standing = standing = Standing(config, settle=settle_cycles(config))
        m.submodules.faults = faults = Faults(config)
        m.submodules.watchdog = watchdog = Watchdog(config)

        # -- The sweep over all tables after reset.
        m.submodules.sweep = sweep = Sweep(config)
        init = sweep.init
        for part in (control, doorbell, decoder, operations, chunker, communicators, regions, pool, faults):
            m.d.comb += [part.init.active.eq(init.active), part.init.address.eq(init.address)]

        # -- Commands.
        connect(m, flipped(self.s_axil), control.bus)
        connect(m, flipped(self.s_axi_db), doorbell.bus)
        connect(m, doorbell.o, intake.i)
        connect(m, intake.o, decoder.i)
        connect(m, decoder.o, operations.i)
        m.d.comb += [
            doorbell.refused.eq(intake.refused), doorbell.rings.eq(0),
            doorbell.tails.ready.eq(0), doorbell.tail_refused.eq(0),
            intake.free.eq(operations.free), intake.places.eq(operations.places),
            operations.refused.eq(intake.refused), operations.refused_queue.eq(intake.refused_queue),
            operations.refused_status.eq(intake.refused_status),
            operations.pending.eq(intake.some | decoder.pending),
            decoder.shape.eq(communicators.shape_read), communicators.shape_number.eq(decoder.shape_number),
            regions.src_id.eq(decoder.src_id), regions.dst_id.eq(decoder.dst_id),
            decoder.src.eq(regions.src), decoder.dst.eq(regions.dst),
            self.irq.eq(control.irq), control.error.eq(operations.irq_error | faults.end),
            control.completion.eq(operations.irq_completion),
        ]

        # -- Tables.
        m.d.comb += [
            regions.write.eq(control.region_write), regions.write_id.eq(control.region_id),
            regions.write_data.eq(control.region),
            communicators.write.eq(control.communicator_write), communicators.number.eq(control.communicator),
            communicators.share.eq(control.share), communicators.shape.eq(control.shape),
            programs.write.eq(control.program_write), programs.write_address.eq(control.program_address),
            programs.write_data.eq(control.program_word),
            decoder.directory_write.eq(control.directory_write),
            decoder.directory_number.eq(control.directory_number),
            decoder.directory_entry.eq(control.directory_entry),
            decoder.domain_write.eq(control.queue_write), decoder.domain_queue.eq(control.queue),
            decoder.domain.eq(control.domain),
            operations.configure.eq(control.queue_write), operations.configure_queue.eq(control.queue),
            operations.sc_address.eq(control.sc_address), operations.sc_enable.eq(control.sc_enable),
            intake.configure.eq(control.queue_write), intake.configure_queue.eq(control.queue),
            intake.enabled.eq(control.enabled),
            *(part.clear.eq(control.clear) for part in (intake, operations)),
            *(part.clear_queue.eq(control.clear_queue) for part in (intake, operations)),
            *(part.select.eq(control.select) for part in (intake, operations)),
            control.status.eq(operations.status), control.count.eq(operations.count),
            control.active.eq(operations.active),
            control.waiting.eq(intake.waiting + decoder.pending.bit_select(control.select, 1)),
            pool.select.eq(faults.select), faults.state.eq(pool.state),
            faults.asked.eq(control.fsm_select), control.fsm.eq(faults.answer),
            chunker.select.eq(control.slot_select), control.slot.eq(chunker.slot),
            chunker.count_select.eq(control.communicator_select), control.chunks.eq(chunker.count),
            faults.record_select.eq(control.communicator_select), control.record.eq(faults.record),
            control.standing.eq(standing.standing), control.work.eq(operations.work),
        ]
        # The FSMs first: what they wait for holds up a link.
        for client, part in zip(programs.reads, (pool, drains, fills, chunker, decoder), strict=True):
            connect(m, part.program, client)
            m.d.comb += part.program_data.eq(programs.data)
        if config.varying:
            m.submodules.extents = extents = Extents(config)
            m.d.comb += [
                extents.write.eq(control.extent_write), extents.write_row.eq(control.extent_row),
                extents.write_send.eq(control.send_extent), extents.write_receive.eq(control.receive_extent),
            ]
            # The movers first: what they move holds up a chunk.
            for client, port in zip((*extents.sends, *extents.receives), (
                    fills.extents, decoder.send_extents, drains.extents, decoder.receive_extents), strict=True):
                connect(m, port, client)
        for look, port in zip(communicators.share_reads, (
                pool.lookup_share, pool.grant_share, chunker.cut_share, chunker.start_share), strict=True):
            m.d.comb += [look.number.eq(port.number), port.share.eq(look.share)]

        # -- Chunks.
        m.d.comb += [
            chunker.begun.eq(operations.begun), chunker.row_number.eq(operations.row_number),
            *(port.row.eq(row) for port, row in zip(operations.reads, (chunker.row, chunker.drain_row), strict=True)),
            chunker.operation.eq(operations.reads[0].operation),
            chunker.drain_operation.eq(operations.reads[1].operation),
            operations.issued.eq(chunker.issued), operations.issued_row.eq(chunker.issued_row),
            operations.issued_last.eq(chunker.issued_last),
            operations.ended.eq(chunker.ended), operations.ended_row.eq(chunker.ended_row),
            operations.ended_status.eq(chunker.ended_status),
            chunker.busy.eq(pool.busy),
            chunker.restart.eq(control.communicator_write), chunker.restart_number.eq(control.communicator),
            pool.restart.eq(control.communicator_write), pool.restart_share.eq(control.share),
            chunker.filled.valid.eq(fill.done_valid), chunker.filled.payload.eq(fill.done),
            chunker.drained.valid.eq(drain.done_valid), chunker.drained.payload.eq(drain.done),
        ]
        connect(m, chunker.fills, fills.i)
        connect(m, chunker.drains, drains.i)
        connect(m, chunker.chunks, pool.chunks)
        connect(m, pool.done, chunker.through)
        connect(m, fills.o, fill.i)
        connect(m, drains.o, drain.i)
        connect(m, operations.words, drain.words)

        # -- Data.
        connect(m, receive.read, sram.reads[0])
        connect(m, transmit.read, sram.reads[1])
        connect(m, drain.read, sram.reads[2])
        connect(m, receive.write, sram.writes[0])
        connect(m, fill.write, sram.writes[1])
        self._memory(m, fill, drain)

        # -- Links.
        m.d.comb += [
            pool.lookup.eq(receive.lookup), receive.place.eq(pool.place),
            pool.grant.valid.eq(receive.grants.valid), pool.grant.port.eq(receive.grants.port),
            pool.grant.payload.eq(receive.grants.payload),
            pool.landed.valid.eq(receive.landed.valid), pool.landed.payload.eq(receive.landed.payload),
            pool.room.eq(transmit.room), pool.signal_room.eq(transmit.signal_room),
            pool.read.valid.eq(transmit.sent.valid), pool.read.fsm.eq(transmit.sent.fsm),
        ]
        connect(m, pool.sends, transmit.sends)
        connect(m, pool.signals, transmit.signals)
        link_down = Signal(config.ports)
        for number in range(config.ports):
            m.submodules[f"link_{number}"] = link = LinkPort(config)
            m.d.comb += [
                link.i[0].valid.eq(transmit.ports[number].valid), link.i[0].payload.eq(transmit.ports[number].payload),
                transmit.level[number].eq(link.level), transmit.fresh[number].eq(link.fresh),
                transmit.port_signal_room[number].eq(link.signal_room),
                link.timeout.eq(control.link_timeout), link.tries.eq(control.link_tries),
                link.start.eq(control.link_start[number]), link.stop.eq(control.link_stop[number]),
                control.links[number].eq(link.status), link_down[number].eq(link.down),
            ]
            connect(m, transmit.port_signals[number], link.signals)
            connect(m, link.o[0], receive.ports[number])
            connect(m, link.tx, flipped(self.tx[number]))
            connect(m, flipped(self.rx[number]), link.rx)
            if config.link_channels > 1:
                connect(m, flipped(self.put_tx[number]), link.i[1])
                connect(m, link.o[1], flipped(self.put_rx[number]))
        m.d.comb += self.link_down.eq(link_down)

        # -- What goes wrong.
        for part in (standing, faults):
            m.d.comb += [part.write.eq(control.communicator_write), part.number.eq(control.communicator),
                         part.mode.eq(control.mode)]
        for part in (faults, decoder, operations, chunker, pool, receive):
            m.d.comb += part.standing.eq(standing.standing)
        for event, failure in ((faults.unread, chunker.unread), (faults.unwritten, chunker.unwritten)):
            m.d.comb += [event.valid.eq(failure.valid), event.payload.eq(failure.payload)]
        m.d.comb += [
            standing.end.eq(faults.end), standing.end_number.eq(faults.end_number),
            standing.end_status.eq(faults.end_status),
            standing.busy.eq(operations.held | chunker.cutting | decoder.looking | faults.untold),
            operations.cutting.eq(chunker.cutting), faults.work.eq(operations.work),
            operations.unwritten.eq(drain.word_error), operations.unwritten_queue.eq(drain.word_queue),
            faults.down.eq(link_down), faults.revoke.eq(control.revoke), faults.revoke_number.eq(control.revoke_number),
            faults.aborts.valid.eq(receive.aborts.valid), faults.aborts.payload.eq(receive.aborts.payload),
            *(getattr(transmit.tell, name).eq(getattr(faults.tell, name))
              for name in ("valid", "communicator", "epoch", "record")),
            faults.told.eq(transmit.told),
            watchdog.cycles.eq(control.watchdog), watchdog.work.eq(operations.work), faults.late.eq(watchdog.late),
            watchdog.progress.eq(receive.progress | pool.progress | chunker.progress),
            watchdog.offering.eq(pool.offering), watchdog.sent.eq(pool.progress),
            fills.stop.eq(chunker.stop_fill), drains.stop.eq(chunker.stop_drain),
            *(mine.eq(priority) for mine, priority in zip(
                watchdog.priorities, standing.standing.priorities, strict=True)),
        ]

        for mover, watched in zip(chunker.movers, watchdog.movers, strict=True):
            connect(m, mover, watched)

        counts = control.counts
        m.d.comb += [
            counts.late_packets.eq(receive.late), counts.bad_packets.eq(receive.fault),
            counts.read_bytes.eq(fill.count), counts.write_bytes.eq(drain.count),
            counts.reduced_beats.eq(receive.reduced), counts.copied_beats.eq(receive.copied),
            counts.chunks.eq(drain.done_valid), counts.active_cycles.eq(chunker.active),
            counts.starved_cycles.eq(pool.starved), counts.unexpected.eq(fill.stray + drain.stray),
            *(counts[f"sent_beats_{number}"].eq(transmit.beats[number]) for number in range(config.ports)),
        ]
        return m

    def _memory(self, m, fill, drain):
        """Reads are the fill's, writes the drain's; each has one ID, so that answers come in order."""
        bus, size = self.m_axi, (self.config.beat_bytes - 1).bit_length()
        for part, taken, given in (
                (fill, ("arready", "rdata", "rresp", "rvalid"), ("araddr", "arlen", "arvalid", "rready")),
                (drain, ("awready", "wready", "bresp", "bvalid"),
                 ("awaddr", "awlen", "awvalid", "wdata", "wstrb", "wlast", "wvalid", "bready"))):
            m.d.comb += [getattr(part, name).eq(getattr(bus, name)) for name in taken]
            m.d.comb += [getattr(bus, name).eq(getattr(part, name)) for name in given]
        m.d.comb += [bus.arsize.eq(size), bus.awsize.eq(size), bus.arburst.eq(Burst.INCR), bus.awburst.eq(Burst.INCR)]
