# SPDX-License-Identifier: Apache-2.0
"""Beats of requests that may not be delivered as they arrive, in block RAM.

ReadIssue, ReadDelivery, OrderRows -> ReorderBuffer -> ReadDelivery.  Latency: 6 cycles from the last beat of a request
whose predecessors are delivered.  Throughput: one beat per cycle in each direction.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.free_list import FreeList
from hw.common.sweep import SweepSignature
from hw.common.table import BLOCK_RAM, Table
from hw.stream import Merge, Queue, Skid, pipe

from ..config import PcieConfig
from .event_pair import EventPair
from .read_layouts import IssuedSignature, StoreSignature, TagEvent, chunk_bits, left_bits, ordered_layout

__all__ = ["ReorderBuffer"]


class ReorderBuffer(wiring.Component):
    """Deliver a stored request once it is complete and at the head of its row.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    init : ``In(SweepSignature)``
    slots : ``Out(stream.Signature(slot))``
        Free slots.
    issued : ``In(IssuedSignature)``
    store : ``In(StoreSignature)``
    heads : ``In(TagEvent)``
        Each stored request becomes the head of its row once.
    started : ``Out(TagEvent)``
        The delivery of this request starts.
    ordered : ``Out(stream.Signature(ordered_layout))``
        The read register of block RAM.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "slots": Out(stream.Signature(config.slot_bits)),
            "issued": In(IssuedSignature(config)), "store": In(StoreSignature(config)), "heads": In(TagEvent(config)),
            "started": Out(TagEvent(config)),
            "ordered": Out(stream.Signature(ordered_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.free = free = FreeList(config.reorder_slots, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), free.init)
        m.submodules.offer = offer = Skid(config.slot_bits)
        pipe(m, free, offer, wiring.flipped(self.slots))

        ready = self._find_ready(m)
        current, valid, last, load = self._start(m, ready)
        move = self._read(m, current, valid, last)
        m.d.comb += load.eq(~valid | move & last)
        with m.If(move & ~last):
            m.d.sync += [current.beat.eq(current.beat + 1), current.left.eq(current.left - 1)]
        m.d.comb += [free.free.valid.eq(move & last), free.free.number.eq(current.slot)]
        return m

    def _find_ready(self, m):
        """Tags whose requests are complete and at the head of their rows."""
        config = self.config
        m.submodules.pair = pair = EventPair(config)
        m.submodules.completed = completed = Queue(config.tag_bits, depth=config.reorder_slots, ram="lut")
        m.submodules.headed = headed = Queue(config.tag_bits, depth=config.reorder_slots, ram="lut")
        m.submodules.ready = ready = Merge(unsigned(config.tag_bits), 2)
        wiring.connect(m, wiring.flipped(self.init), pair.init)
        m.d.comb += [
            pair.events[0].valid.eq(self.store.valid & self.store.final), pair.events[0].tag.eq(self.store.tag),
            pair.events[1].valid.eq(self.heads.valid), pair.events[1].tag.eq(self.heads.tag),
        ]
        for number, (queue, event) in enumerate(zip((completed, headed), pair.later, strict=True)):
            # A queue never fills up: each stored request has a slot.
            m.d.comb += [queue.i.valid.eq(event.valid), queue.i.payload.eq(event.tag)]
            wiring.connect(m, queue.o, ready.i[number])
        return ready.o

    def _start(self, m, ready):
        """The request that is being delivered."""
        config, issued = self.config, self.issued
        layout = data.StructLayout({
            "id": config.axi_id_width, "slot": config.slot_bits, "ends_burst": 1, "beat": chunk_bits(config),
            "left": left_bits(config)})
        m.submodules.records = records = Table(layout, depth=config.tags, reads=1, init=None)
        m.d.comb += [
            records.write.en.eq(issued.valid), records.write.addr.eq(issued.tag),
            *(records.write.data[name].eq(issued.record[name]) for name, _ in layout),
            records.read[0].addr.eq(ready.payload),
        ]
        current = Signal(data.StructLayout({"tag": config.tag_bits, **{name: field.shape for name, field in layout}}),
                         reset_less=True)
        valid, last, load = Signal(), Signal(), Signal()
        m.d.comb += [last.eq(current.left == 1), ready.ready.eq(load),
                     self.started.valid.eq(ready.valid & load), self.started.tag.eq(ready.payload)]
        with m.If(load):
            m.d.sync += [valid.eq(ready.valid), current.tag.eq(ready.payload),
                         *(current[name].eq(records.read[0].data[name]) for name, _ in layout)]
        return current, valid, last, load

    def _read(self, m, current, valid, last):
        """A beat from block RAM; returns whether one is read."""
        config, store, output = self.config, self.store, self.ordered
        layout = data.StructLayout({"data": config.data_width, "resp": len(store.resp.as_value())})
        m.submodules.beats = rows = memory.Memory(
            shape=layout, depth=config.reorder_slots << chunk_bits(config), init=[], attrs=BLOCK_RAM)
        write, read = rows.write_port(), rows.read_port()
        move = Signal()
        m.d.comb += [
            write.en.eq(store.valid), write.addr.eq(Cat(store.beat, store.slot)),
            write.data.data.eq(store.data), write.data.resp.eq(store.resp),
            move.eq(valid & (~output.valid | output.ready)),
            read.en.eq(move), read.addr.eq(Cat(current.beat, current.slot)),
            output.payload.beat.data.eq(read.data.data), output.payload.beat.resp.eq(read.data.resp),
        ]
        with m.If(move):
            m.d.sync += [output.valid.eq(1), output.payload.tag.eq(current.tag), output.payload.final.eq(last),
                         output.payload.beat.id.eq(current.id), output.payload.beat.last.eq(last & current.ends_burst)]
        with m.Elif(output.ready):
            m.d.sync += output.valid.eq(0)
        return move
