# SPDX-License-Identifier: Apache-2.0
"""The memory port and puts with an AXI4 bus per manager, and a monitor on every bus."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import flit_layout
from hw.axi import AxiChecker, AxiSignature
from hw.axi.streams import AxiStreams
from hw.endpoint.config import ADDR_WIDTH
from hw.endpoint.local_ticks import LocalTicks
from hw.endpoint.memory_port import MemoryCounts, MemoryPort, MemorySettings
from hw.endpoint.put_receiver import ExportWrite
from hw.endpoint.puts import PutCounts, Puts
from hw.endpoint.remote import RemoteSplit
from hw.stream import Queue
from hw.triggers.words import Refusal

__all__ = ["CheckedMemory"]

ID_WIDTHS = (5, 1)


class CheckedMemory(wiring.Component):
    """Managers ``m0``, which may write to neighbours, and ``m1``, in front of the memory port and ``m_axi``.

    Pairs of ports are linked: a write to the neighbour at port 0 leaves there and arrives at port 1, in local memory.
    """

    def __init__(self, config):
        self.config = config

        def bus(width):
            return AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=width)

        super().__init__({
            **{f"m{number}": In(bus(width)) for number, width in enumerate(ID_WIDTHS)},
            "m_axi": Out(bus(config.axi_id_width)), "settings": In(MemorySettings(config)),
            "exports": In(ExportWrite(config)), "down": In(config.ports), "cut": In(1), "counts": Out(PutCounts()),
            "memory_counts": Out(MemoryCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = MemoryPort(self.config)
        connect(m, port.bus, flipped(self.m_axi))
        connect(m, flipped(self.settings), port.settings)
        m.submodules.puts = puts = Puts(self.config)
        m.submodules.split = split = RemoteSplit(self.config)
        connect(m, split.remote, puts.writes)
        connect(m, puts.responses, split.remote_responses)
        connect(m, split.local, port.writes[0])
        connect(m, port.responses[0], split.local_responses)
        m.submodules.local_ticks = local_ticks = LocalTicks(self.config)
        connect(m, split.counters, local_ticks.writes)
        connect(m, local_ticks.responses, split.counter_responses)
        for ticks in (local_ticks.ticks, puts.ticks):
            # No counter is armed.
            m.d.comb += [ticks.ready.eq(1), ticks.verdict.code.eq(Refusal.IDLE)]
            m.d.sync += ticks.verdict.valid.eq(ticks.valid)
        connect(m, puts.memory_writes, port.writes[2])
        connect(m, port.responses[2], puts.memory_responses)
        connect(m, flipped(self.exports), puts.exports)
        connect(m, puts.counts, flipped(self.counts))
        connect(m, port.counts, flipped(self.memory_counts))
        m.d.comb += puts.down.eq(self.down)
        for number, channel in enumerate(puts.channels):
            # A cut link drops everything.
            m.submodules[f"link_{number}"] = link = Queue(flit_layout(self.config.ace), depth=64)
            connect(m, link.o, puts.channels[number ^ 1].rx)
            m.d.comb += [link.i.valid.eq(channel.tx.valid & ~self.cut), link.i.payload.eq(channel.tx.payload),
                         channel.tx.ready.eq(link.i.ready | self.cut)]
        for number, width in enumerate(ID_WIDTHS):
            bus = getattr(self, f"m{number}")
            m.submodules[f"streams_{number}"] = streams = AxiStreams(
                addr_width=ADDR_WIDTH, data_width=self.config.data_width, bus_id_width=width,
                id_width=self.config.source_id_width)
            connect(m, flipped(bus), streams.bus)
            connect(m, streams.reads, port.reads[number])
            connect(m, port.beats[number], streams.beats)
            writes, responses = (split.i, split.responses) if number == 0 else (port.writes[1], port.responses[1])
            connect(m, streams.writes, writes)
            connect(m, responses, streams.responses)
            m.submodules[f"check_{number}"] = checker = AxiChecker(bus.signature, max_per_id=64, name=f"m{number}")
            m.d.comb += checker.observe(bus)
        m.submodules.check = checker = AxiChecker(self.m_axi.signature, max_per_id=64, name="m_axi")
        m.d.comb += checker.observe(self.m_axi)
        return m
