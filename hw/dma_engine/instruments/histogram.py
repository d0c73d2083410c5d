# SPDX-License-Identifier: Apache-2.0
"""Latency histogram of each queue: samples of the time from a request's acceptance to its completion.

QueueStore (posts), Retire (ends, resets) -> LatencyHistogram -> registers.  Latency: 7 cycles from an end to its
bin.  Throughput: one post and one end per cycle.

A request that is accepted while its queue has no running sample starts one. Its own completion, found by counting the
queue's requests, ends the sample. So samples are exact, and a poster with one request at a time sees all of them.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import BLOCK_RAM, Table
from hw.dma_engine.config import HISTOGRAM_BINS, DmaConfig
from hw.dma_engine.strobes import OutcomeSignature, QueueStrobeSignature
from hw.stream import Queue

__all__ = ["HistogramReadSignature", "LatencyHistogram"]

TIME_WIDTH = 32
COUNT_WIDTH = 32

SAMPLES_WAITING = 8
"""Samples that wait while software reads."""


class HistogramReadSignature(wiring.Signature):
    """Software reads a bin.

    Members
    -------
    read : ``Out(1)``, queue, bin : ``Out``
        Not in two consecutive cycles.
    count : ``In``
        The bin last read, valid 2 cycles later. Wraps.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"read": Out(1), "queue": Out(config.queue_bits), "bin": Out(range(HISTOGRAM_BINS)),
                          "count": In(COUNT_WIDTH)})


class LatencyHistogram(wiring.Component):
    """Bin ``n`` counts latencies from ``2 ** n`` to less than ``2 ** (n + 1)`` cycles, the last one all longer ones.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    posted : ``In(QueueStrobeSignature)``
        A word was accepted.
    outcome : ``In(OutcomeSignature)``
        A request completed; a queue was reset, and has no requests.
    software : ``In(HistogramReadSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "posted": In(QueueStrobeSignature(config)), "outcome": In(OutcomeSignature(config)),
            "software": In(HistogramReadSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        item = data.StructLayout({"reset": 1, "queue": config.queue_bits, "bin": range(HISTOGRAM_BINS)})
        m.submodules.items = items = Queue(item, depth=SAMPLES_WAITING)
        self._measure(m, items)
        self._count(m, items)
        return m

    def _measure(self, m, items):
        config, init, queues = self.config, SweepSignature(self.config), self.config.queues
        # Exceeds the number of requests of one queue between acceptance and completion.
        number = (config.queue_depth + config.longest_window + 2).bit_length()
        # A sample is running where the ``turn`` bits of the two sides differ.
        side = data.StructLayout({"number": number, "turn": 1})
        m.submodules.posts = posts = Table(side, depth=queues, reads=2, init=init)
        m.submodules.ends = ends = Table(side, depth=queues, reads=2, init=init)
        m.submodules.samples = samples = Table(
            data.StructLayout({"number": number, "start": TIME_WIDTH}), depth=queues, reads=1, init=None)
        for table in (posts, ends):
            wiring.connect(m, wiring.flipped(self.init), table.init)

        now = Signal(TIME_WIDTH)
        posted, post_queue = Signal(), Signal(config.queue_bits)
        ended, reset, end_queue = Signal(), Signal(), Signal(config.queue_bits)
        m.d.sync += [
            now.eq(now + 1),
            posted.eq(self.posted.valid), post_queue.eq(self.posted.queue),
            ended.eq(self.outcome.ended), reset.eq(self.outcome.reset), end_queue.eq(self.outcome.queue),
        ]

        starts, post = Signal(), posts.read[0].data
        m.d.comb += [
            posts.read[0].addr.eq(post_queue), ends.read[1].addr.eq(post_queue),
            starts.eq(posted & (post.turn == ends.read[1].data.turn)),
            posts.write.en.eq(posted), posts.write.addr.eq(post_queue),
            posts.write.data.number.eq(post.number + 1), posts.write.data.turn.eq(post.turn ^ starts),
            samples.write.en.eq(starts), samples.write.addr.eq(post_queue),
            samples.write.data.number.eq(post.number), samples.write.data.start.eq(now),
        ]

        finishes, end, sample, other = Signal(), ends.read[0].data, samples.read[0].data, posts.read[1].data
        m.d.comb += [
            ends.read[0].addr.eq(end_queue), posts.read[1].addr.eq(end_queue), samples.read[0].addr.eq(end_queue),
            finishes.eq(ended & (end.turn != other.turn) & (end.number == sample.number)),
            ends.write.en.eq(ended | reset), ends.write.addr.eq(end_queue),
            ends.write.data.number.eq(Mux(reset, other.number, end.number + 1)),
            ends.write.data.turn.eq(Mux(reset, other.turn, end.turn ^ finishes)),
        ]

        found = data.StructLayout({"finished": 1, "reset": 1, "queue": config.queue_bits})
        one, two = Signal(found), Signal(found)
        start, stop, latency = Signal(TIME_WIDTH), Signal(TIME_WIDTH), Signal(TIME_WIDTH)
        m.d.sync += [
            one.finished.eq(finishes), one.reset.eq(reset), one.queue.eq(end_queue),
            start.eq(sample.start), stop.eq(now),
            two.eq(one), latency.eq(stop - start),
        ]
        m.d.comb += [items.i.valid.eq(two.finished | two.reset), items.i.payload.reset.eq(two.reset),
                     items.i.payload.queue.eq(two.queue)]
        for number in range(1, HISTOGRAM_BINS):
            with m.If(latency[number:].any()):
                m.d.comb += items.i.payload.bin.eq(number)

    def _count(self, m, items):
        config, queues, software = self.config, self.config.queues, self.software
        m.submodules.rows = rows = memory.Memory(
            shape=unsigned(COUNT_WIDTH), depth=queues * HISTOGRAM_BINS, init=[], attrs=BLOCK_RAM)
        write, read = rows.write_port(), rows.read_port()
        # Bins with valid contents; the others count as zero.
        m.submodules.filled = filled = Table(HISTOGRAM_BINS, depth=queues, reads=2, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), filled.init)

        # -- Read a row; software has priority.
        item, valid = Signal.like(items.o.payload), Signal()
        had, writes = Signal.like(items.o.payload), Signal()
        lookup, lookup_row = Signal(), Signal(Shape.cast(item.queue.shape()).width + len(software.bin))
        written, following, wanted_row = Signal(), items.o.payload.queue, Cat(software.bin, software.queue)
        m.d.comb += [
            # A row cannot be read while it is written: forward the written value.
            written.eq(software.read & write.en & (write.addr == wanted_row)),
            items.o.ready.eq(~software.read & ~(valid & (item.queue == following))
                             & ~(writes & (had.queue == following))),
            read.addr.eq(Mux(software.read, wanted_row, Cat(items.o.payload.bin, following))),
        ]
        m.d.sync += [valid.eq(items.o.valid & items.o.ready), item.eq(items.o.payload),
                     lookup.eq(software.read & ~written), lookup_row.eq(wanted_row)]

        # -- Register the row: the output of block RAM is late-arriving.
        count = Signal(COUNT_WIDTH)
        m.d.sync += [writes.eq(valid), had.eq(item), count.eq(read.data)]

        # -- Write it.
        have = filled.read[0].data
        known = have.bit_select(had.bin, 1)
        m.d.comb += [
            filled.read[0].addr.eq(had.queue),
            filled.write.en.eq(writes), filled.write.addr.eq(had.queue),
            filled.write.data.eq(Mux(had.reset, 0, have | 1 << had.bin)),
            write.en.eq(writes & ~had.reset), write.addr.eq(Cat(had.bin, had.queue)),
            write.data.eq(Mux(known, count + 1, 1)),
        ]

        # -- Show it to software.
        m.d.comb += filled.read[1].addr.eq(lookup_row[len(software.bin):])
        with m.If(lookup):
            m.d.sync += software.count.eq(
                Mux(filled.read[1].data.bit_select(lookup_row[:len(software.bin)], 1), read.data, 0))
        with m.Elif(written):
            m.d.sync += software.count.eq(write.data)
