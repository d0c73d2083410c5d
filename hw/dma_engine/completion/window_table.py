# SPDX-License-Identifier: Apache-2.0
"""The window: for each segment between issue and retirement, whether and how it has ended.

Scheduler, Responses, ReadIssue -> WindowTable -> Retire.  Latency: 1 cycle from ``index`` to ``entry``; look-ups
that follow a mark see it.  Throughput: one segment in, one mark and one look-up per cycle.

Each queue uses the entries of its window in turn; a mark carries its generation bit, so that entries need no clearing.
Extended queues have longer windows, and an entry also holds the data that completing its request needs.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.common.sweep import SweepSignature
from hw.common.table import ram_of
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import STATUS_WIDTH, EndFlags, InfoLayout, done_layout
from hw.dma_engine.strobes import ScheduledSignature
from hw.dma_engine.words import Status

__all__ = ["MarkSignature", "WindowEntry", "WindowLookupSignature", "WindowTable"]

WindowEntry = data.StructLayout({"last": 1, "end": EndFlags, "failed": 1, "status": STATUS_WIDTH})


class MarkSignature(wiring.Signature):
    """A segment has ended: mark its entry. Always taken."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "done": Out(done_layout(config))})


class WindowLookupSignature(wiring.Signature):
    """A window entry, one cycle after its number.

    Members
    -------
    queue, index : ``Out``
    marked : ``In(1)``, entry : ``In(WindowEntry)``
        Whether and how its segment has ended.
    info : ``In(InfoLayout)``
        Information about the entry's request; only for extended queues.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "index": Out(config.index_width),
                          "marked": In(1), "entry": In(WindowEntry), "info": In(InfoLayout)})


class WindowTable(wiring.Component):
    """The windows of all queues.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    scheduled : ``In(ScheduledSignature)``
        A segment takes its entry.
    mark : ``In(MarkSignature)``
    lookup : ``In(WindowLookupSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "scheduled": In(ScheduledSignature(config)),
            "mark": In(MarkSignature(config)), "lookup": In(WindowLookupSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, lookup, done = self.config, self.lookup, self.mark.done
        segment = self.scheduled.segment
        # A failed segment stores its status, any other its flags.
        row = data.StructLayout({
            "generation": 1, "last": 1, "failed": 1,
            "what": data.UnionLayout({"end": EndFlags, "status": STATUS_WIDTH})})
        kinds = {False: (config.window_bits, config.queue_bits), True: (config.entry_bits, config.extended_bits)}

        found, generations = {}, {}
        for extended, (bits, queue_bits) in kinds.items():
            name = "extended_rows" if extended else "rows"
            m.submodules[name] = rows = memory.Memory(
                shape=row, depth=1 << (bits + queue_bits), init=[], attrs=ram_of(1 << (bits + queue_bits)))
            write, read = rows.write_port(), rows.read_port()
            with m.If(self.init.active):
                m.d.comb += [write.addr.eq(self.init.address), write.en.eq(1)]
            with m.Else():
                m.d.comb += [
                    write.addr.eq(Cat(done.index[:bits], done.queue[:queue_bits])),
                    write.en.eq(self.mark.valid & (is_extended(config, done.queue) == extended)),
                    write.data.generation.eq(~done.index[bits]),
                    write.data.last.eq(done.last), write.data.failed.eq(done.status != Status.OK),
                    write.data.what.eq(Mux(done.status != Status.OK, done.status, done.end.as_value())),
                ]
            m.d.comb += read.addr.eq(Cat(lookup.index[:bits], lookup.queue[:queue_bits]))
            found[extended], generations[extended] = read.data, lookup.index[bits]

        lookup_extended, generation = Signal(), Signal()
        m.d.sync += [
            lookup_extended.eq(is_extended(config, lookup.queue)),
            generation.eq(Mux(is_extended(config, lookup.queue), generations[True], generations[False])),
        ]
        entry = Signal(row)
        m.d.comb += [
            entry.eq(Mux(lookup_extended, found[True], found[False])),
            lookup.entry.last.eq(entry.last), lookup.entry.failed.eq(entry.failed),
            lookup.entry.status.eq(Mux(entry.failed, entry.what.status, Status.OK)),
            lookup.entry.end.eq(Mux(entry.failed, 0, entry.what.end)),
            lookup.marked.eq(entry.generation != generation),
        ]

        bits, queue_bits = kinds[True]
        m.submodules.infos = infos = memory.Memory(
            shape=InfoLayout, depth=1 << (bits + queue_bits), init=[], attrs={"ram_style": "block"})
        write, read = infos.write_port(), infos.read_port()
        m.d.comb += [
            write.addr.eq(Cat(segment.index[:bits], segment.queue[:queue_bits])),
            write.data.length.eq(segment.request.length), write.data.note.eq(segment.request.note),
            write.en.eq(self.scheduled.valid & is_extended(config, segment.queue)),
            read.addr.eq(Cat(lookup.index[:bits], lookup.queue[:queue_bits])),
            lookup.info.eq(read.data),
        ]
        return m
