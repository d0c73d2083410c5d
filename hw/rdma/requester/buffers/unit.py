# SPDX-License-Identifier: Apache-2.0
"""The buffers of the requester. Only connects; the package's docstring has a drawing."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import Sweep
from hw.common.wiring import Wiring
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import (
    posted_layout,
    read_beat_layout,
    read_layout,
    response_layout,
    retire_layout,
    returned_layout,
    send_layout,
    transmit_layout,
    write_layout,
)
from hw.rdma.ports import ConnectionWrite, RemoteWrite
from hw.stream import Merge, Skid

from .delivery import Delivery
from .packet_sender import PacketSender
from .packet_table import PacketTable
from .packets import failure_layout
from .payload_store import PayloadStore
from .read_cutter import ReadCutter
from .remote_table import RemoteTable
from .retirement import Retirement
from .write_cutter import WriteCutter
from .write_messages import WriteMessages

__all__ = ["BufferCounts", "BufferLevels", "RequesterBuffers"]


class BufferCounts(wiring.Signature):
    """Events of the buffers: ``refused``, a write burst fails without a packet; ``stalled``, a write beat waits for a
    free block in this cycle."""

    def __init__(self) -> None:
        super().__init__({"refused": Out(1), "stalled": Out(1)})


class BufferLevels(wiring.Signature):
    """Free entries of the packet table, and free blocks of payload. Registered."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"packets": Out(range(config.packets + 1)), "blocks": Out(range(config.blocks + 1))})


class RequesterBuffers(wiring.Component):
    """Cut the DMA engine's bursts into packets, keep them until they retire, and deliver what READs return.

    Bursts that name no valid remote memory get DECERR; those whose queue pair is closed, that reach beyond the remote
    memory, or whose strobes have a gap, get SLVERR. None of them is posted. A write burst without strobes gets OKAY. A
    burst that is refused may have its response before earlier ones with the same ID.

    The transport must retire each posted packet once: those of a queue pair in order, and after the first failed one
    only failed ones; also those that are posted after the queue pair has failed or closed. A READ either has its whole
    response on ``returned``, in order of posting within its queue pair, and then retires without error; or it retires
    as failed. No packet is sent after it was offered on ``retire``.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    writes : ``In(stream.Signature(write_layout))``, responses : ``Out(stream.Signature(response_layout))``
        INCR bursts of full beats that do not cross 4 KiB. Strobes are contiguous.
    reads : ``In(stream.Signature(read_layout))``, beats : ``Out(stream.Signature(read_beat_layout))``
        Likewise. Beats of bursts with different IDs may be interleaved.
    connections : ``In(ConnectionWrite)``, remotes : ``In(RemoteWrite)``
        Not in the first ``sweep_rows`` cycles after reset.
    posted : ``Out(stream.Signature(posted_layout))``
    send : ``In(stream.Signature(send_layout))``
        From the cycle after the posting on, any number of times.
    returned : ``In(stream.Signature(returned_layout))``
        Of the length in ``posted``; the beats of a response are consecutive.
    retire : ``In(stream.Signature(retire_layout))``
    packets : ``Out(stream.Signature(transmit_layout))``
    free : ``Out(BufferLevels)``
    counts : ``Out(BufferCounts)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "writes": In(stream.Signature(write_layout(config))),
            "responses": Out(stream.Signature(response_layout(config))),
            "reads": In(stream.Signature(read_layout(config))),
            "beats": Out(stream.Signature(read_beat_layout(config))),
            "connections": In(ConnectionWrite(config)), "remotes": In(RemoteWrite(config)),
            "posted": Out(stream.Signature(posted_layout(config))), "send": In(stream.Signature(send_layout(config))),
            "returned": In(stream.Signature(returned_layout(config))),
            "retire": In(stream.Signature(retire_layout(config))),
            "packets": Out(stream.Signature(transmit_layout(config))),
            "free": Out(BufferLevels(config)), "counts": Out(BufferCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sweep=Sweep(config), targets=RemoteTable(config), write_cutter=WriteCutter(config),
                  messages=WriteMessages(config), read_cutter=ReadCutter(config), table=PacketTable(config),
                  store=PayloadStore(config), sender=PacketSender(config), retirement=Retirement(config),
                  delivery=Delivery(config), refused=Skid(retire_layout(config)),
                  retires=Merge(retire_layout(config), 2), failures=Merge(failure_layout(config), 2),
                  responses=Merge(response_layout(config), 2), response=Skid(response_layout(config)))
        wires.broadcast("sweep.init", "targets.init", "write_cutter.init", "read_cutter.init", "table.init")
        wires.connect("self.connections", "targets.connections")
        wires.connect("self.remotes", "targets.remotes")

        # -- Bursts to packets.
        wires.connect("self.writes", "write_cutter.writes")
        wires.connect("write_cutter.lookup", "targets.lookups[0]")
        wires.connect("write_cutter.blocks", "store.blocks")
        wires.connect("write_cutter.write", "store.write")
        wires.connect("write_cutter.pieces", "messages.pieces")
        wires.connect("write_cutter.bursts", "messages.bursts")
        wires.connect("messages.packets", "table.writes")
        wires.connect("self.reads", "read_cutter.reads")
        wires.connect("read_cutter.lookup", "targets.lookups[1]")
        wires.connect("read_cutter.packets", "table.reads")
        wires.connect("table.posted", "self.posted")

        # -- Packets to the line.
        wires.connect("self.send", "sender.send")
        wires.connect("sender.lookup", "table.sent")
        wires.connect("sender.read", "store.read")
        wires.connect("sender.packets", "self.packets")

        # -- Retirement.
        wires.connect("self.retire", "retires.i[0]")
        wires.connect("table.refused", "refused.i")
        wires.connect("refused.o", "retires.i[1]")
        wires.leave_open("retires.source", "both inputs are served alike")
        wires.connect("retires.o", "retirement.retire")
        wires.connect("retirement.lookup", "table.retired")
        wires.connect("retirement.sending", "sender.sending")
        wires.connect("retirement.free", "table.free")
        wires.connect("retirement.chain", "store.returned")
        wires.connect("retirement.responses", "responses.i[0]")
        wires.connect("messages.responses", "responses.i[1]")
        wires.leave_open("responses.source", "both inputs are served alike")
        wires.connect("responses.o", "response.i")
        wires.connect("response.o", "self.responses")

        # -- Data of READs.
        wires.connect("self.returned", "delivery.returned")
        wires.connect("delivery.lookup", "table.returned")
        wires.connect("retirement.failures", "failures.i[0]")
        wires.connect("read_cutter.refused", "failures.i[1]")
        wires.leave_open("failures.source", "both inputs are served alike")
        wires.connect("failures.o", "delivery.failures")
        wires.connect("delivery.beats", "self.beats")

        # -- Registers.
        wires.connect("table.level", "self.free.packets")
        wires.connect("store.level", "self.free.blocks")
        wires.connect("messages.refused", "self.counts.refused")
        wires.connect("write_cutter.stalled", "self.counts.stalled")
        wires.finish()
        return m
