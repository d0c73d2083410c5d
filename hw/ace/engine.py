# SPDX-License-Identifier: Apache-2.0
"""The collectives accelerator: collectives beside the compute, each payload byte read and written once.

::

    s_axil -> Control -> all            Tables
                                          |
    s_axi_db -> CommandPath <-> ChunkPath <-> Network <-> links
                     |           |    |         |
                     |         m_axi  |         |
                     +------> Supervision <-----+

After ACE (Rashidi et al., ISCA'21). Each part's file gives its latency and throughput; payload moves one beat per
cycle in each of fill, receive, transmit and drain.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.posts import PostPortSignature
from hw.common.sweep import Sweep
from hw.common.wiring import Wiring

from .chunk_path import ChunkPath
from .command_path import CommandPath
from .config import AceConfig
from .control import Control
from .layouts import flit_layout, link_layout
from .network import Network
from .supervision import Supervision
from .tables import Tables

__all__ = ["AceEngine"]


class AceEngine(wiring.Component):
    """One endpoint's collectives accelerator.

    Parameters
    ----------
    config : AceConfig
    first_chunk : int
        Number of a communicator's first chunk, the same on all ranks: simulations start shortly before the numbers
        wrap.
    posts : bool
        With ``posts``.

    Members
    -------
    s_axil : ``In(AxiLiteSignature)``
        Registers: ``registers.register_map``.
    s_axi_db : ``In(AxiSignature)``
        Doorbells: a 4 KiB page per queue, a command in each store of 16 bytes.
    posts : ``In(PostPortSignature)``
        Commands that other parts of an endpoint post.
    m_axi : ``Out(AxiSignature)``
        Memory.
    tx, rx : ``Out`` and ``In``, arrays of ``stream.Signature(link_layout)``
        Links; port ``2 * d`` is on the side of rising coordinates of dimension ``d``, ``2 * d + 1`` on the other.
    link_down : ``Out(ports)``
        The link is DOWN.
    put_tx, put_rx : ``In`` and ``Out``, arrays of ``stream.Signature(flit_layout)``
        Packets of the links' channel 1, if present.
    irq : ``Out(1)``
    """

    def __init__(self, config: AceConfig, *, first_chunk: int = 0, posts: bool = False) -> None:
        self.config, self.first_chunk, self.has_posts = config, first_chunk, posts
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
            **({"posts": In(PostPortSignature(config.queues))} if posts else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(control=Control(config), command=CommandPath(config, posts=self.has_posts), tables=Tables(config),
                  chunks=ChunkPath(config, first=self.first_chunk), network=Network(config),
                  supervision=Supervision(config), sweep=Sweep(config))
        wires.broadcast("sweep.init", *(f"{part}.init" for part in (
            "control", "command", "tables", "chunks", "supervision")))

        # -- Pins.
        wires.connect("self.s_axil", "control.bus")
        wires.connect("self.s_axi_db", "command.doorbells")
        if self.has_posts:
            wires.connect("self.posts", "command.posts")
        wires.connect("chunks.m_axi", "self.m_axi")
        wires.connect("network.tx", "self.tx")
        wires.connect("self.rx", "network.rx")
        wires.connect("network.link_down", "self.link_down")
        wires.connect("control.irq", "self.irq")
        if config.link_channels > 1:
            wires.connect("self.put_tx", "network.put_tx")
            wires.connect("network.put_rx", "self.put_rx")

        # -- Collectives, chunks, packets.
        wires.connect("command.collectives", "chunks.collectives")
        wires.connect("network.pipes", "chunks.pipes")
        wires.connect("network.grants", "chunks.grants")
        wires.connect("command.shape", "tables.shape")
        wires.connect("command.program", "tables.decoder_program")
        wires.connect("chunks.programs", "tables.programs")
        wires.connect("chunks.shares", "tables.shares")
        if config.varying:
            # The movers first: a chunk waits for them.
            for side in ("send_extents", "receive_extents"):
                wires.connect(f"chunks.{side}", f"tables.{side}[0]")
                wires.connect(f"command.{side}", f"tables.{side}[1]")

        # -- Supervision.
        wires.broadcast("supervision.communicator_status", *(f"{part}.communicator_status" for part in (
            "control", "command", "chunks", "network")))
        wires.broadcast("command.work", "control.work", "supervision.work")
        wires.broadcast("chunks.cutting", "command.cutting", "supervision.cutting")
        wires.connect("command.held", "supervision.operations")
        wires.connect("command.decoding", "supervision.decoding")
        wires.connect("chunks.reports", "supervision.chunks")
        wires.connect("network.reports", "supervision.network")
        wires.connect("supervision.end", "control.end")

        # -- Registers.
        wires.broadcast("control.communicator", "command.communicator", "tables.communicator", "chunks.communicator",
                        "supervision.communicator")
        wires.connect("control.commands", "command.registers")
        wires.connect("control.tables", "tables.registers")
        wires.connect("control.chunks", "chunks.registers")
        wires.connect("control.supervision", "supervision.registers")
        wires.connect("control.links", "network.links")
        wires.connect("command.irq", "control.interrupts")
        wires.connect("chunks.counts", "control.chunk_counts")
        wires.connect("network.counts", "control.network_counts")
        wires.finish()
        return m
