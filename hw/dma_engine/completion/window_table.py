# SPDX-License-Identifier: Apache-2.0
"""The window: for each segment between issue and retirement, whether and how it has ended.

Scheduler, Responses, ReadIssue -> WindowTable -> Retire.  Latency: 1 cycle from ``index`` to ``entry``; look-ups
that follow a mark see it.  Throughput: one segment in, one mark and one look-up per cycle.

Queues take entries from a pool; a mark carries the generation bit of the entry's use, so that entries need no clearing.
An entry also holds the data that completing a request of an extended queue needs, and names the queue's next entry.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import STATUS_WIDTH, EndFlags, InfoLayout, block_layout, done_layout
from hw.dma_engine.strobes import ScheduledSignature
from hw.dma_engine.words import Status

__all__ = ["MarkSignature", "WindowEntry", "WindowLookupSignature", "WindowTable"]

LUT_RAM_ENTRIES = 64
"""Most entries in LUT RAM: it has the depth of one LUT6 memory cell, and block RAM is slow on an ECP5."""

WindowEntry = data.StructLayout({"last": 1, "end": EndFlags, "failed": 1, "status": STATUS_WIDTH})


class MarkSignature(wiring.Signature):
    """A segment has ended: mark its entry. Always taken."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "done": Out(done_layout(config))})


class WindowLookupSignature(wiring.Signature):
    """A window entry, one cycle after its number.

    Members
    -------
    index : ``Out``
    marked : ``In(1)``, entry : ``In(WindowEntry)``
        Whether and how its segment has ended.
    info : ``In(InfoLayout)``
        Information about the entry's request; only for extended queues.
    next : ``In(block_layout)``
        The block of the queue's next segment.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"index": Out(config.index_width), "marked": In(1), "entry": In(WindowEntry),
                          "info": In(InfoLayout), "next": In(block_layout(config))})


class WindowTable(wiring.Component):
    """The entries of all queues' windows.

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
        entry, generation = lookup.index[:config.entry_bits], lookup.index[config.entry_bits]
        m.submodules.rows = rows = memory.Memory(
            shape=row, depth=config.entries, init=[],
            attrs={"ram_style": "distributed" if config.entries <= LUT_RAM_ENTRIES else "block"})
        write, read = rows.write_port(), rows.read_port()
        with m.If(self.init.active):
            m.d.comb += [write.addr.eq(self.init.address), write.en.eq(1)]
        with m.Else():
            m.d.comb += [
                write.addr.eq(done.index), write.en.eq(self.mark.valid),
                write.data.generation.eq(~done.index[config.entry_bits]),
                write.data.last.eq(done.last), write.data.failed.eq(done.status != Status.OK),
                write.data.what.eq(Mux(done.status != Status.OK, done.status, done.end.as_value())),
            ]
        expected, found = Signal(), read.data
        m.d.sync += expected.eq(generation)
        m.d.comb += [
            read.addr.eq(entry),
            lookup.entry.last.eq(found.last), lookup.entry.failed.eq(found.failed),
            lookup.entry.status.eq(Mux(found.failed, found.what.status, Status.OK)),
            lookup.entry.end.eq(Mux(found.failed, 0, found.what.end)),
            lookup.marked.eq(found.generation != expected),
        ]

        info = Signal(InfoLayout)
        m.d.comb += [info.length.eq(segment.request.length), info.note.eq(segment.request.note)]
        if config.entries <= LUT_RAM_ENTRIES:
            # The index of the queue's next segment is looked up at once, and block RAM is slow.
            self._keep(m, "nexts", "distributed", next=segment.next)
            self._keep(m, "infos", "block", info=info)
        else:
            self._keep(m, "infos", "block", info=info, next=segment.next)
        return m

    def _keep(self, m, name, style, **values):
        """A memory of values that are known when a segment takes its entry, for ``lookup``."""
        m.submodules[name] = kept = memory.Memory(
            shape=data.StructLayout({key: value.shape() for key, value in values.items()}), depth=self.config.entries,
            init=[], attrs={"ram_style": style})
        write, read = kept.write_port(), kept.read_port()
        m.d.comb += [write.addr.eq(self.scheduled.segment.index), write.en.eq(self.scheduled.valid),
                     read.addr.eq(self.lookup.index[:self.config.entry_bits])]
        for key, value in values.items():
            m.d.comb += [write.data[key].eq(value), getattr(self.lookup, key).eq(read.data[key])]
