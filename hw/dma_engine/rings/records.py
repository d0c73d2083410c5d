# SPDX-License-Identifier: Apache-2.0
"""Completion records of descriptor rings: results of the requests since the previous record.

Retire (notices) -> RingRecords -> WriteSequencer.  Latency: 1 cycle from the notice of a record's last request to
``o``.  Throughput: one notice per cycle, a record every cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.common.sizes import ADDR_WIDTH
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueWriteSignature
from hw.dma_engine.descriptors import RECORD_BYTES, RECORD_FIELDS, RING_SIZE_BITS
from hw.dma_engine.layouts import STATUS_WIDTH, RingSettings, completion_write_layout, notice_layout, word_id_layout
from hw.dma_engine.strobes import QueueStrobeSignature
from hw.dma_engine.words import Status

from .pointers import entry_address, ring_mask

__all__ = ["RingRecords"]

_RECORD = data.StructLayout(dict(RECORD_FIELDS))


class RingRecords(wiring.Component):
    """Accumulate the results of each ring's requests, and write a record with the last request of each.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure : ``In(QueueWriteSignature)``
        Ignored for queues that are not extended.
    restarted : ``In(extended)``
        Rings that restart, with the first record.
    i : ``In(stream.Signature(notice_layout))``
        Completed requests of rings, in order within each.
    o : ``Out(stream.Signature(completion_write_layout))``
    interrupting : ``Out(QueueStrobeSignature)``
        The record of a request with an interrupt leaves.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "configure": In(QueueWriteSignature(config)), "restarted": In(config.extended),
            "i": In(stream.Signature(notice_layout(config))),
            "o": Out(stream.Signature(completion_write_layout(config))),
            "interrupting": Out(QueueStrobeSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, rings = self.config, self.config.extended
        sum_layout = data.StructLayout({"status": STATUS_WIDTH, "bytes": _RECORD["bytes"].width})
        location_layout = data.StructLayout({"page": ADDR_WIDTH - 12, "size": RingSettings.as_shape()["size"].width})
        m.submodules.locations = locations = Table(location_layout, depth=rings, reads=1, init=None)
        m.submodules.sums = sums = Table(sum_layout, depth=rings, reads=1, init=None)
        m.submodules.counts = counts = Table(RING_SIZE_BITS[1] + 1, depth=rings, reads=1, init=None)
        m.d.comb += [
            locations.write.en.eq(self.configure.valid & is_extended(config, self.configure.queue)),
            locations.write.addr.eq(self.configure.queue),
            locations.write.data.page.eq(self.configure.ring.record_page),
            locations.write.data.size.eq(self.configure.ring.size),
        ]

        # The tables are valid only if written since the ring restarted.
        notice, ring = self.i.payload, self.i.payload.queue
        summed, counted = Signal(rings), Signal(rings)
        before, total, count = Signal(sum_layout), Signal(sum_layout), Signal.like(counts.read[0].data)
        location = locations.read[0].data
        mask, take, end = Signal(RING_SIZE_BITS[1]), Signal(), Signal()
        m.d.comb += [
            locations.read[0].addr.eq(ring), sums.read[0].addr.eq(ring), counts.read[0].addr.eq(ring),
            before.eq(Mux(summed.bit_select(ring, 1), sums.read[0].data, 0)),
            count.eq(Mux(counted.bit_select(ring, 1), counts.read[0].data, 0)),
            total.bytes.eq(before.bytes + Mux(notice.status == Status.OK, notice.info.length, 0)),
            total.status.eq(Mux(before.status == Status.OK, notice.status, before.status)),
            self.i.ready.eq(~end | ~self.o.valid | self.o.ready),
            end.eq(notice.info.note.ring.end),
            take.eq(self.i.valid & self.i.ready),
            sums.write.en.eq(take), sums.write.addr.eq(ring), sums.write.data.eq(total),
            counts.write.en.eq(take & end), counts.write.addr.eq(ring), counts.write.data.eq(count + 1),
            mask.eq(ring_mask(location.size)),
        ]

        # -- The record; its phase changes with each pass over the ring.
        interrupt = Signal()
        m.d.comb += [self.interrupting.valid.eq(self.o.valid & self.o.ready & interrupt),
                     self.interrupting.queue.eq(word_id_layout(config)(self.o.payload.id).queue)]
        record, word_id = Signal(_RECORD), data.View(word_id_layout(config), self.o.payload.id)
        m.d.comb += [
            record.tag.eq(notice.info.note.ring.tag), record.status.eq(total.status), record.bytes.eq(total.bytes),
            record.phase.eq((count & Cat(C(1, 1), mask) & Cat(~mask, C(1, 1))) == 0),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(take & end):
            m.d.sync += [
                self.o.valid.eq(1), self.o.payload.word.eq(record), word_id.notice.eq(1), word_id.top.eq(1),
                word_id.queue.eq(ring), interrupt.eq(notice.irq),
                self.o.payload.addr.eq(entry_address(location.page, mask, count, entry_bytes=RECORD_BYTES)),
            ]
        for index in range(rings):
            here = take & (ring == index)
            with m.If(self.restarted[index]):
                m.d.sync += [summed[index].eq(0), counted[index].eq(0)]
            with m.Elif(here):
                m.d.sync += summed[index].eq(~end)
                with m.If(end):
                    m.d.sync += counted[index].eq(1)
        return m
