"""The queues: words wait here until the scheduler has cut them into segments.

Doorbell -> QueueStore -> Scheduler.  A word that meets an empty queue goes straight to the front
entry: 1 cycle.  Otherwise it waits in block RAM and moves up when the entry before it is consumed:
the queue's next request is there 2 cycles later.  Throughput: one word in and one out per cycle.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue, RoundRobin

from .layouts import Check, InitSignature, NativeLayout, NoteLayout, arrival_layout, event_layout, front_layout
from .table import BLOCK_RAM, Table
from .words import Opcode, RequestFlag, Status

__all__ = ["QueueStore"]

_stored_layout = data.StructLayout({"word": NativeLayout, "note": NoteLayout})

SIGNAL_BYTES = 8

_MALFORMED = 0
"""Opcode of a stored word with anything wrong on its face."""


class QueueStore(wiring.Component):
    """Hold ``queue_depth`` words per queue in one block RAM, and each queue's first request decoded.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(InitSignature)``
    i : ``In(stream.Signature(arrival_layout))``
        Waits only for room among the events, never for a full queue: its words are refused.
    refused : ``Out(1)``
        The word on ``i`` is refused.
    enabled : ``In(queues)``
        Queues that take words.
    clear, clear_queue : ``In``
        Forget that a word of the queue was refused.
    refusing : ``Out(queues)``
        Queues that refuse words because they refused one before.
    events : ``Out(stream.Signature(event_layout))``
        OVERFLOW or DISABLED, once per queue until it is cleared.
    ready : ``Out(queues)``
        Queues with a request in their front entry.
    waiting : ``Out(queues)``
        Queues with any word.
    arriving, arriving_queue : ``Out``
        The word on ``i`` becomes the queue's front entry, and ``ready`` in the next cycle.
    peek_queue : ``In``, front : ``Out(front_layout)``
        Front entry of a queue, combinational.
    consume : ``In(1)``
        The front entry of ``peek_queue`` is wholly scheduled.
    flush, flush_queue : ``In``
        Drop the words of a queue that neither takes nor schedules any; repeat until it is not ``waiting``.
    """

    def __init__(self, config):
        self.config = config
        queue = config.queue_bits
        super().__init__({
            "init": In(InitSignature(config)),
            "i": In(stream.Signature(arrival_layout(config))),
            "refused": Out(1),
            "enabled": In(config.queues),
            "clear": In(1), "clear_queue": In(queue),
            "refusing": Out(config.queues),
            "events": Out(stream.Signature(event_layout(config))),
            "ready": Out(config.queues),
            "waiting": Out(config.queues),
            "arriving": Out(1), "arriving_queue": Out(queue),
            "peek_queue": In(queue),
            "front": Out(front_layout(config)),
            "consume": In(1),
            "flush": In(1), "flush_queue": In(queue),
        })

    def elaborate(self, platform):
        m = Module()
        config, depth = self.config, self.config.queue_depth
        position_bits = (depth - 1).bit_length()
        init = InitSignature(config)

        m.submodules.ring = ring = memory.Memory(
            shape=_stored_layout, depth=config.queues * depth, init=[], attrs=BLOCK_RAM)
        ring_write, ring_read = ring.write_port(), ring.read_port()
        m.submodules.heads = heads = Table(position_bits + 1, depth=config.queues, reads=2, init=init)
        m.submodules.tails = tails = Table(position_bits + 1, depth=config.queues, reads=3, init=init)
        m.submodules.fronts = fronts = Table(front_layout(config), depth=config.queues, reads=1, init=init)
        for table in (heads, tails, fronts):
            wiring.connect(m, wiring.flipped(self.init), table.init)

        occupied = Signal(config.queues)    # has words in the ring
        loading = Signal(config.queues)     # a word is between the ring and the front entry
        m.d.comb += self.waiting.eq(occupied | loading | self.ready)

        pop, pop_queue = Signal(), Signal(config.queue_bits)
        load, load_queue = Signal(), Signal(config.queue_bits)
        push, direct = Signal(), Signal()

        # -- A word arrives: to the front entry, to the ring, or refused.
        queue = self.i.payload.queue
        full, accept, overflow = Signal(), Signal(), Signal()
        m.submodules.events = events = Queue(event_layout(config), depth=4)
        wiring.connect(m, events.o, wiring.flipped(self.events))
        arrives = Signal()
        m.d.comb += [
            heads.read[0].addr.eq(queue),
            tails.read[0].addr.eq(queue),
            full.eq((heads.read[0].data ^ tails.read[0].data) == depth),
            self.i.ready.eq(events.i.ready),
            arrives.eq(self.i.valid & self.i.ready),
            accept.eq(_bit(self.enabled, queue) & ~_bit(self.refusing, queue)),
            direct.eq(arrives & accept & ~_bit(self.waiting, queue) & ~load),
            self.arriving.eq(direct), self.arriving_queue.eq(queue),
            overflow.eq(accept & full),
            self.refused.eq(~accept | (overflow & ~direct)),
            push.eq(arrives & accept & ~direct & ~full),
            events.i.payload.queue.eq(queue),
            events.i.payload.status.eq(Mux(_bit(self.enabled, queue), Status.OVERFLOW, Status.DISABLED)),
            events.i.valid.eq(self.i.valid & self.refused & ~_bit(self.refusing, queue)),
        ]
        m.d.comb += [
            ring_write.addr.eq(Cat(tails.read[0].data[:position_bits], queue)),
            ring_write.en.eq(push),
            tails.write.addr.eq(queue),
            tails.write.data.eq(tails.read[0].data + 1),
            tails.write.en.eq(push),
        ]
        stored = self._encode(m)
        m.d.comb += ring_write.data.eq(stored)

        # -- The front entry is consumed: move the next word up, at once if the ring's port is free.
        m.submodules.refill = refill = RoundRobin(config.queues)
        refill_valid, refill_queue = Signal(), Signal(config.queue_bits)
        refill_onehot = Signal(config.queues)
        head = Signal(position_bits + 1)
        m.d.comb += [
            refill.requests.eq(occupied & ~self.ready & ~loading & ~refill_onehot),
            refill.advance.eq(1),
            pop_queue.eq(Mux(refill_valid, refill_queue, self.peek_queue)),
            pop.eq((refill_valid & _bit(occupied, refill_queue))
                   | (~refill_valid & self.consume & _bit(occupied, self.peek_queue))),
            heads.read[1].addr.eq(pop_queue),
            tails.read[1].addr.eq(pop_queue),
            head.eq(heads.read[1].data),
            ring_read.addr.eq(Cat(head[:position_bits], pop_queue)),
            ring_read.en.eq(pop),
        ]
        m.d.sync += [
            refill_valid.eq(refill.valid),
            refill_queue.eq(refill.grant),
            refill_onehot.eq(refill.grant_onehot),
            load.eq(pop),
            load_queue.eq(pop_queue),
        ]

        # -- A flush takes the pop's port when it is free.
        flush = Signal()
        m.d.comb += [
            flush.eq(self.flush & ~pop & ~load),
            tails.read[2].addr.eq(self.flush_queue),
            heads.write.en.eq(pop | flush),
            heads.write.addr.eq(Mux(flush, self.flush_queue, pop_queue)),
            heads.write.data.eq(Mux(flush, tails.read[2].data, head + 1)),
        ]

        # -- The front entry is written, by the ring or by the word itself.
        loaded = Signal(_stored_layout)
        m.d.comb += [
            loaded.eq(Mux(load, ring_read.data, stored)),
            fronts.write.en.eq(load | direct),
            fronts.write.addr.eq(Mux(load, load_queue, queue)),
            fronts.write.data.eq(self._decode(m, loaded)),
            fronts.read[0].addr.eq(self.peek_queue),
            self.front.eq(fronts.read[0].data),
        ]

        empties = Signal()
        m.d.comb += empties.eq((head + 1)[:position_bits + 1] == tails.read[1].data)
        for index in range(config.queues):
            popped = pop & (pop_queue == index)
            pushed = push & (queue == index)
            written = (load & (load_queue == index)) | (direct & (queue == index))
            consumed = self.consume & (self.peek_queue == index)
            flushed = flush & (self.flush_queue == index)
            with m.If(pushed):
                m.d.sync += occupied[index].eq(1)
            with m.Elif((popped & empties) | flushed):
                m.d.sync += occupied[index].eq(0)
            with m.If(popped):
                m.d.sync += loading[index].eq(1)
            with m.Elif(load & (load_queue == index)):
                m.d.sync += loading[index].eq(0)
            with m.If(written):
                m.d.sync += self.ready[index].eq(1)
            with m.Elif(consumed | flushed):
                m.d.sync += self.ready[index].eq(0)
            with m.If(self.clear & (self.clear_queue == index)):
                m.d.sync += self.refusing[index].eq(0)
            with m.Elif(arrives & self.refused & (queue == index)):
                m.d.sync += self.refusing[index].eq(1)
        return m

    def _encode(self, m):
        """What is kept of a word: an opcode that tells what is wrong with it, and its note."""
        arrival, stored = self.i.payload, Signal(_stored_layout)
        known = RequestFlag.SC | RequestFlag.RC | RequestFlag.FENCE | RequestFlag.IRQ
        reserved = Const(~int(known) & 0xFF, 8)
        m.d.comb += [stored.word.eq(arrival.word), stored.note.eq(arrival.note)]
        copy, signal = Signal(), Signal()
        m.d.comb += [
            copy.eq(arrival.word.opcode == Opcode.COPY),
            signal.eq((arrival.word.opcode == Opcode.SIGNAL) & (arrival.word.length == SIGNAL_BYTES)
                      & (arrival.word.dst_offset[:3] == 0)),
        ]
        with m.If((arrival.check != Check.OK) | ~(copy | signal) | (arrival.word.flags & reserved).any()):
            m.d.comb += stored.word.opcode.eq(_MALFORMED)
        return stored

    def _decode(self, m, stored):
        """Front entry of a word: what is wrong on its face, and how many segments it has."""
        config, word = self.config, stored.word
        front = Signal(front_layout(config))
        end = Signal(config.segment_bits + config.segment_count_width)
        flag = {name: word.flags[int(RequestFlag[name]).bit_length() - 1] for name in ("SC", "RC", "FENCE", "IRQ")}
        m.d.comb += [
            end.eq(word.dst_offset[:config.segment_bits] + word.length - 1),
            front.signal.eq(word.opcode == Opcode.SIGNAL),
            front.fence.eq(flag["FENCE"] | front.signal),
            front.end.sc.eq(flag["SC"]), front.end.rc.eq(flag["RC"]), front.end.irq.eq(flag["IRQ"]),
            front.src_region.eq(word.src_region), front.dst_region.eq(word.dst_region),
            front.src_offset.eq(word.src_offset), front.dst_offset.eq(word.dst_offset),
            front.length.eq(word.length), front.note.eq(stored.note),
        ]
        with m.If(word.opcode == _MALFORMED):
            m.d.comb += front.check.eq(Check.MALFORMED)
        with m.Elif(word.length == 0):
            m.d.comb += front.check.eq(Check.ZERO_LENGTH)
        with m.Else():
            m.d.comb += [front.last_segment.eq(end >> config.segment_bits),
                         front.end_position.eq(end[:config.segment_bits])]
        return front


def _bit(bits, index):
    return bits.bit_select(index, 1)
