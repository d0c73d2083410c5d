# SPDX-License-Identifier: Apache-2.0
"""The chunk path: cuts collectives into chunks; each chunk is filled, passed around the ring by its FSM, and drained.

::

    (command path) <-> Chunker -> Transfers -> Fill --> Sram -> (network)
                        |   ^         |         ^        ^
                        |   |         |     MemoryPort   |
                        |   |         |         v        |
                        |   +---- Transfers -> Drain <---+
                        v
                      FsmPool <-> (network)

Latency and throughput: those of the stages. Payload moves one beat per cycle in each of fill and drain.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring

from .chunk_status import ChunkCountLookup, ChunkerCounts, ChunkFailed, SlotLookup
from .chunker import Chunker
from .command_path import CollectivesSignature
from .communicator_status import ActivitySignature, CommunicatorStatusSignature
from .communicators import CommunicatorWrite, ShareRead
from .config import AceConfig
from .drain import Drain, DrainCounts
from .extents import ExtentRead
from .fill import Fill, FillCounts
from .memory_port import MemoryPort
from .mover_queue import MoverStatus
from .network import GrantsSignature, PipeSignature
from .pool.fsm_ports import FsmLookup
from .pool.pool import FsmPool
from .pool.sends import PoolCounts
from .programs.store import ProgramRead
from .sram import Sram
from .tables import PROGRAM_READERS, share_readers
from .transfers import Transfers
from .watchdog import PortTurns, ProgressSignature

__all__ = ["ChunkCounts", "ChunkPath", "ChunkRegisters", "ChunkReports"]


class ChunkRegisters(wiring.Signature):
    """The registers' debug look-ups in the chunk path."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"slot": Out(SlotLookup(config)), "count": Out(ChunkCountLookup(config))})


class ChunkReports(wiring.Signature):
    """Between the chunk path and supervision, from the chunk path's side.

    Members
    -------
    progress : ``Out(ProgressSignature)``, turns : ``Out(PortTurns)``, fill, drain : ``Out(MoverStatus)``
        For the watchdog.
    unread, unwritten : ``Out(ChunkFailed)``
    fsm : ``In(FsmLookup)``
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "progress": Out(ProgressSignature(config)), "turns": Out(PortTurns(config)),
            "fill": Out(MoverStatus(config)), "drain": Out(MoverStatus(config)),
            "unread": Out(ChunkFailed(config)), "unwritten": Out(ChunkFailed(config)), "fsm": In(FsmLookup(config)),
        })


class ChunkCounts(wiring.Signature):
    """Counts of the stages of the chunk path."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"fill": Out(FillCounts(config)), "drain": Out(DrainCounts(config)),
                          "chunker": Out(ChunkerCounts()), "pool": Out(PoolCounts())})


class ChunkPath(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig
    first : int
        Number of a communicator's first chunk, see :class:`Chunker`.

    Members
    -------
    init : ``In(SweepSignature)``
    m_axi : ``Out(AxiSignature)``
    collectives : ``In(CollectivesSignature)``
    pipes : ``In(PipeSignature).array(pipes)``, grants : ``In(GrantsSignature)``
    communicator : ``In(CommunicatorWrite)``, registers : ``In(ChunkRegisters)``
    programs : ``Out(ProgramRead).array(PROGRAM_READERS)``
        FSMs first, because a waiting FSM stalls a link. Then drain, fill and chunker.
    shares : ``Out(ShareRead).array(share_readers)``
    send_extents, receive_extents : ``Out(ExtentRead)``
        Only if the accelerator is ``varying``.
    communicator_status : ``In(CommunicatorStatusSignature)``, cutting : ``Out(ActivitySignature)``, reports :
    ``Out(ChunkReports)``
    counts : ``Out(ChunkCounts)``
    """

    def __init__(self, config: AceConfig, *, first: int = 0) -> None:
        self.config, self.first = config, first
        super().__init__({
            "init": In(SweepSignature(config)),
            "m_axi": Out(AxiSignature(addr_width=config.address_width, data_width=config.data_width, id_width=1)),
            "collectives": In(CollectivesSignature(config)), "pipes": In(PipeSignature(config)).array(config.pipes),
            "grants": In(GrantsSignature(config)),
            "communicator": In(CommunicatorWrite(config)), "registers": In(ChunkRegisters(config)),
            "programs": Out(ProgramRead(config)).array(PROGRAM_READERS),
            "shares": Out(ShareRead(config)).array(share_readers(config)),
            **({"send_extents": Out(ExtentRead(config)), "receive_extents": Out(ExtentRead(config))}
               if config.varying else {}),
            "communicator_status": In(CommunicatorStatusSignature(config)), "cutting": Out(ActivitySignature(config)),
            "reports": Out(ChunkReports(config)), "counts": Out(ChunkCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(chunker=Chunker(config, first=self.first), fills=Transfers(config), drains=Transfers(config),
                  fill=Fill(config), drain=Drain(config), sram=Sram(config), memory=MemoryPort(config),
                  pool=FsmPool(config))
        wires.broadcast("self.init", "chunker.init", "pool.init")

        # -- The command path.
        wires.connect("self.collectives.to_cut", "chunker.to_cut")
        wires.connect("chunker.operation", "self.collectives.cut")
        wires.connect("chunker.drain_operation", "self.collectives.drained")
        wires.connect("chunker.issued", "self.collectives.issued")
        wires.connect("chunker.ended", "self.collectives.ended")
        wires.connect("self.collectives.words", "drain.words")

        # -- A chunk: fill, FSM, drain.
        wires.connect("chunker.fills", "fills.i")
        wires.connect("fills.o", "fill.i")
        wires.broadcast("fill.done", "chunker.filled", "pool.filled")
        wires.connect("fill.marked", "pool.marked")
        wires.connect("chunker.chunks", "pool.chunks")
        wires.connect("pool.busy", "chunker.busy")
        wires.connect("pool.done", "chunker.through")
        wires.connect("chunker.drains", "drains.i")
        wires.connect("drains.o", "drain.i")
        wires.connect("drain.done", "chunker.drained")

        # -- Payload.
        wires.connect("fill.memory", "memory.reads")
        wires.connect("drain.memory", "memory.writes")
        wires.connect("memory.bus", "self.m_axi")
        wires.connect("drain.read", "sram.drain")
        wires.connect("fill.write", "sram.fill")

        # -- Packets.
        for number in range(config.pipes):
            wires.connect(f"self.pipes[{number}].received", f"pool.lookups[{number}]")
            wires.connect(f"self.pipes[{number}].landed", f"pool.landed[{number}]")
            wires.connect(f"self.pipes[{number}].update", f"sram.updates[{number}]")
            wires.connect(f"pool.sends[{number}]", f"self.pipes[{number}].sends")
            wires.connect(f"self.pipes[{number}].payload", f"sram.payloads[{number}]")
        wires.connect("self.grants.received", "pool.grant")
        wires.connect("pool.signals", "self.grants.sends")

        # -- Tables.
        for number, part in enumerate(("pool", "drains", "fills", "chunker")):
            wires.connect(f"{part}.program", f"self.programs[{number}]")
        for number, share in enumerate((
                *(f"pool.lookup_shares[{pipe}]" for pipe in range(config.pipes)), "pool.grant_share",
                "chunker.cut_share", "chunker.start_share")):
            wires.connect(share, f"self.shares[{number}]")
        if config.varying:
            wires.connect("fills.extents", "self.send_extents")
            wires.connect("drains.extents", "self.receive_extents")

        # -- Registers, supervision and counters.
        wires.broadcast("self.communicator", "chunker.restart", "pool.restart")
        wires.connect("self.registers.slot", "chunker.slot")
        wires.connect("self.registers.count", "chunker.count")
        wires.broadcast("self.communicator_status", "chunker.communicator_status", "pool.communicator_status")
        wires.connect("chunker.cutting", "self.cutting")
        wires.connect("chunker.progress", "self.reports.progress")
        wires.connect("chunker.movers[0]", "self.reports.fill")
        wires.connect("chunker.movers[1]", "self.reports.drain")
        wires.connect("chunker.unread", "self.reports.unread")
        wires.connect("chunker.unwritten", "self.reports.unwritten")
        wires.connect("pool.turns", "self.reports.turns")
        wires.connect("self.reports.fsm", "pool.state")
        for part in ("fill", "drain", "chunker", "pool"):
            wires.connect(f"{part}.counts", f"self.counts.{part}")
        wires.finish()
        return m
