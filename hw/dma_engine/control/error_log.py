# SPDX-License-Identifier: Apache-2.0
"""Error log: failures in order, with one entry per queue.

Retire -> ErrorLog -> registers.  Latency: 1 cycle from a failure to its entry.  Throughput: one failure per cycle.

While a queue has an entry in the log, its further failures are only counted. So no tenant can displace another's
entry or make software's loop endless: the log holds at most one entry per queue.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import log_layout
from hw.stream import Queue

__all__ = ["ErrorLog"]


class ErrorLog(wiring.Component):
    """Keep the oldest failure of each queue until software pops it.

    Software reads and pops entries until the log reads as empty. The log also reads as empty once as many entries as
    there are queues have been popped, though a queue that fails repeatedly may have entered again: all entries that
    waited when the loop began have been read by then, and newer ones are left for the next loop.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    failed : ``In(1)``, entry : ``In(log_layout)``
    valid : ``Out(1)``, oldest : ``Out(log_layout)``
        What software reads; ``oldest`` is 0 unless ``valid``.
    read : ``In(1)``
        Software reads ``valid`` in this cycle.
    pop : ``In(1)``
        Drop the oldest entry; ignored unless ``valid``.
    lost : ``Out(32)``
        Failures that were only counted. The count wraps.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        entry = log_layout(config)
        super().__init__({
            "init": In(SweepSignature(config)),
            "failed": In(1), "entry": In(entry),
            "valid": Out(1), "oldest": Out(entry), "read": In(1), "pop": In(1),
            "lost": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        queues, init = self.config.queues, SweepSignature(self.config)
        # A queue has an entry while the two sides have toggled an unequal number of times.
        m.submodules.entered = entered = Table(1, depth=queues, reads=1, init=init)
        m.submodules.popped = popped = Table(1, depth=queues, reads=1, init=init)
        m.submodules.entries = entries = Queue(
            data.StructLayout({"entry": log_layout(self.config), "turn": 1}), depth=queues, ram="lut")
        for table in (entered, popped):
            connect(m, flipped(self.init), table.init)

        queue, enters, turn, head = self.entry.queue, Signal(), Signal(), entries.o.payload
        m.d.comb += [
            entered.read[0].addr.eq(queue), popped.read[0].addr.eq(queue),
            turn.eq(~popped.read[0].data),
            enters.eq(self.failed & (entered.read[0].data != turn)),
            entries.i.valid.eq(enters), entries.i.payload.entry.eq(self.entry), entries.i.payload.turn.eq(turn),
            entered.write.en.eq(enters), entered.write.addr.eq(queue), entered.write.data.eq(turn),
            popped.write.en.eq(entries.o.valid & entries.o.ready), popped.write.addr.eq(head.entry.queue),
            popped.write.data.eq(head.turn),
        ]
        with m.If(self.failed & ~enters):
            m.d.sync += self.lost.eq(self.lost + 1)

        gone = Signal(range(queues + 1))        # entries popped since software read the log as empty
        m.d.comb += [
            self.valid.eq(entries.o.valid & ~gone[-1]),
            entries.o.ready.eq(self.pop & ~gone[-1]),
        ]
        with m.If(self.valid):
            m.d.comb += self.oldest.eq(head.entry)
            m.d.sync += gone.eq(gone + self.pop)
        with m.Elif(self.read):
            m.d.sync += gone.eq(0)
        return m
