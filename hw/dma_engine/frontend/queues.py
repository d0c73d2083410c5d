# SPDX-License-Identifier: Apache-2.0
"""The queues: store words until the scheduler has cut them into segments.

Doorbell -> QueueStore -> Scheduler.  A word for an empty queue bypasses block RAM to the head entry: 1 cycle.
Otherwise it waits in block RAM, is read when its queue is picked, and becomes the head entry in the cycle in which the
previous one is consumed.  Throughput: one word in and one out per cycle, even from a single queue.
"""

from amaranth import *
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.refusable import RefusableSignature
from hw.common.sweep import SweepSignature
from hw.common.table import Table, ram_of
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueStatesSignature
from hw.dma_engine.layouts import ArkExtra, Check, NativeLayout, arrival_layout, event_layout, request_layout
from hw.dma_engine.strobes import QueueStrobeSignature
from hw.dma_engine.words import Opcode, RequestFlag, Status
from hw.stream import Queue
from hw.stream.storage import NO_COLLISION, registered_address_read

__all__ = ["ArrivalSignature", "HeadPortSignature", "OccupancySignature", "QueueStore"]


class ArrivalSignature(RefusableSignature):
    """Words for queues."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__(arrival_layout(config))


class HeadPortSignature(wiring.Signature):
    """The scheduler picks queues and consumes the requests in their head entries.

    Members
    -------
    ready : ``In(queues)``
        Queues with a request in their head entry.
    more : ``In(queues)``
        Queues with further words behind the head entry.
    arriving : ``In(1)``, arriving_queue : ``In``
        A word is written directly to the queue's head entry; ``ready`` is set in the next cycle.
    pick : ``Out(1)``, pick_queue : ``Out``, pick_more : ``Out(1)``
        The queue whose head entry is looked up in the next cycle, and its bit of ``more``.
    queue : ``Out``
        The queue picked in the previous cycle. If its head entry is empty, its next word becomes the head entry now.
    request : ``In(request_layout)``
        Head entry of ``queue``, combinational.
    consume : ``Out(1)``
        All segments of the request are scheduled.
    flush : ``Out(1)``, flush_queue : ``Out``
        Drop the words of a queue. ``pick`` must be 0 in this cycle and in the previous one.
    """

    def __init__(self, config: DmaConfig) -> None:
        queue = config.queue_bits
        super().__init__({
            "ready": In(config.queues), "more": In(config.queues), "arriving": In(1), "arriving_queue": In(queue),
            "pick": Out(1), "pick_queue": Out(queue), "pick_more": Out(1), "queue": Out(queue),
            "request": In(request_layout(config)), "consume": Out(1), "flush": Out(1), "flush_queue": Out(queue),
        })


class OccupancySignature(wiring.Signature):
    """State of the queues, for the registers and for resets.

    Members
    -------
    ready, more : ``Out(queues)``
        As in :class:`HeadPortSignature`.
    refusing : ``Out(queues)``
        Queues that have refused a word, and refuse all words until they are cleared.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({name: Out(config.queues) for name in ("ready", "more", "refusing")})


_stored_layout = data.StructLayout({"word": NativeLayout, "tag": 16})
"""The opcode is a ``_Kind``. Two of the reserved flags hold the ring note's ``end`` (the word's completion writes a
record) and ``closes`` (the word is the last of its descriptor)."""

SIGNAL_BYTES = 8

_END, _CLOSES = 4, 5
_ARK = 2
"""Bit of a ``_Kind`` that is set only for ARK words."""


class _Kind(enum.Enum, shape=4):
    """Classification of a stored word. UNREADABLE: its descriptor could not be read. EMPTY: its length is 0."""

    MALFORMED = 0
    COPY = Opcode.COPY
    SIGNAL = Opcode.SIGNAL
    ARK = 4
    ARK_CONNECTION = 5
    ARK_EMPTY = 6
    UNREADABLE = 8
    EMPTY = 9


class QueueStore(wiring.Component):
    """Store ``queue_depth`` words per queue in one block RAM, and the decoded head request of each queue.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    i : ``In(ArrivalSignature)``
        Stalls only while the event queue is full; words for a full queue are refused.
    queues : ``In(QueueStatesSignature)``
    clear : ``In(QueueStrobeSignature)``
        Let the queue accept words again after a refusal.
    events : ``Out(stream.Signature(event_layout))``
        OVERFLOW or DISABLED, once per queue until it is cleared.
    queue_heads : ``In(HeadPortSignature)``
    occupancy : ``Out(OccupancySignature)``
    vacant : ``Out(queues)``
        Queues without words behind their head entry.
    posted : ``Out(QueueStrobeSignature)``, refused : ``Out(1)``
        A word was accepted; a word was refused.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "i": In(ArrivalSignature(config)),
            "queues": In(QueueStatesSignature(config)),
            "clear": In(QueueStrobeSignature(config)),
            "events": Out(stream.Signature(event_layout(config))),
            "queue_heads": In(HeadPortSignature(config)),
            "occupancy": Out(OccupancySignature(config)), "vacant": Out(config.queues),
            "posted": Out(QueueStrobeSignature(config)), "refused": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, depth = self.config, self.config.queue_depth
        position_bits = (depth - 1).bit_length()
        init = SweepSignature(config)

        m.submodules.ring = ring = memory.Memory(
            shape=_stored_layout, depth=config.queues * depth, init=[],
            attrs=NO_COLLISION | ram_of(config.queues * depth))
        ring_write, row = ring.write_port(), Signal(range(ring.depth))
        waiting = registered_address_read(m, ring, addr=row, en=self.queue_heads.pick)
        m.submodules.heads = heads = Table(position_bits + 1, depth=config.queues, reads=2, init=init)
        m.submodules.tails = tails = Table(position_bits + 1, depth=config.queues, reads=3, init=init)
        m.submodules.queue_heads = queue_heads = Table(request_layout(config), depth=config.queues, reads=1, init=None)
        for table in (heads, tails):
            wiring.connect(m, wiring.flipped(self.init), table.init)

        port, ready, more = self.queue_heads, self.queue_heads.ready, self.queue_heads.more
        enabled, refusing = self.queues.enabled, self.occupancy.refusing
        m.d.comb += [
            self.occupancy.ready.eq(ready), self.occupancy.more.eq(more),
            self.vacant.eq(~more),
            self.posted.valid.eq(self.i.valid & self.i.ready & ~self.i.refused),
            self.posted.queue.eq(self.i.payload.queue),
            self.refused.eq(self.i.valid & self.i.ready & self.i.refused),
        ]
        fetched, load = Signal(), Signal()      # the next word was read from the ring; it becomes the head entry

        # -- A word arrives: it goes to the head entry or to the ring, or is refused.
        queue, stored = self.i.payload.queue, self._encode(m)
        full, accept, overflow = Signal(), Signal(), Signal()
        push, direct = Signal(), Signal()
        m.submodules.events = events = Queue(event_layout(config), depth=4)
        wiring.connect(m, events.o, wiring.flipped(self.events))
        arrives = Signal()
        m.d.comb += [
            heads.read[0].addr.eq(queue),
            tails.read[0].addr.eq(queue),
            full.eq((heads.read[0].data ^ tails.read[0].data) == depth),
            self.i.ready.eq(events.level + events.i.valid < events.depth),      # one may be in the register before it
            arrives.eq(self.i.valid & self.i.ready),
            accept.eq(_bit(enabled & ~refusing, queue)),
            # Independent of ``load``, which is late-arriving.
            direct.eq(arrives & _bit(enabled & ~(refusing | ready | more), queue) & ~fetched),
            port.arriving.eq(direct), port.arriving_queue.eq(queue),
            overflow.eq(accept & full),
            self.i.refused.eq(~accept | (overflow & ~direct)),
            push.eq(arrives & accept & ~direct & ~full),
        ]
        # Refusals are late-arriving, so their events are registered.
        refusal, refusal_queue, refusal_enabled = Signal(), Signal.like(queue), Signal()
        m.d.sync += [
            refusal.eq(arrives & self.i.refused & ~_bit(refusing, queue)),
            refusal_queue.eq(queue), refusal_enabled.eq(_bit(enabled, queue)),
        ]
        m.d.comb += [
            events.i.valid.eq(refusal), events.i.payload.queue.eq(refusal_queue),
            events.i.payload.status.eq(Mux(refusal_enabled, Status.OVERFLOW, Status.DISABLED)),
        ]
        # With LUT RAM the read address is registered, so the write may be registered, too.
        m.d["comb" if ring.attrs["ram_style"] == "block" else "sync"] += [
            ring_write.addr.eq(Cat(tails.read[0].data[:position_bits], queue)),
            ring_write.en.eq(push),
            ring_write.data.eq(stored),
        ]
        m.d.comb += [
            tails.write.addr.eq(queue),
            tails.write.data.eq(tails.read[0].data + 1),
            tails.write.en.eq(push),
        ]

        # -- A queue is picked: read its next word, which becomes the head entry if that is empty in the next cycle.
        # If a word of the same queue becomes the head entry in this cycle, read the word after it.
        head, after = Signal(position_bits + 1), Signal(position_bits + 1)
        again, empties = Signal(), Signal()
        m.d.comb += [
            load.eq(fetched & (port.consume | ~_bit(ready, port.queue))),
            after.eq(head + 1),
            empties.eq(after == tails.read[1].data),
            again.eq(load & (port.pick_queue == port.queue)),
            heads.read[1].addr.eq(port.pick_queue),
            tails.read[1].addr.eq(port.queue),
            row.eq(Cat(Mux(again, after, heads.read[1].data)[:position_bits], port.pick_queue)),
        ]
        m.d.sync += [
            head.eq(Mux(again, after, heads.read[1].data)),
            fetched.eq(port.pick & port.pick_more & ~(again & empties)),
        ]
        m.d.comb += [
            tails.read[2].addr.eq(port.flush_queue),
            heads.write.en.eq(load | port.flush),
            heads.write.addr.eq(Mux(port.flush, port.flush_queue, port.queue)),
            heads.write.data.eq(Mux(port.flush, tails.read[2].data, after)),
        ]

        # -- The head entry is written, from the ring or directly from the arriving word.
        loaded, ark, check, kind = Signal(_stored_layout), Signal(), Signal(Check), waiting.word.opcode
        m.d.comb += [
            loaded.eq(Mux(fetched, waiting, stored)),
            # Selected before ``_encode``, because the kind of an arriving word is late-arriving.
            ark.eq(Mux(fetched, kind[_ARK], self.i.payload.ark)),
            check.eq(Mux(fetched, _check_of(kind), _check_of(stored.word.opcode))),
            queue_heads.write.en.eq(load | direct),
            queue_heads.write.addr.eq(Mux(fetched, port.queue, queue)),
            queue_heads.write.data.eq(self._decode(m, loaded, ark, check)),
            queue_heads.read[0].addr.eq(port.queue),
            port.request.eq(queue_heads.read[0].data),
        ]

        for index in range(config.queues):
            addressed, flushed = port.queue == index, port.flush & (port.flush_queue == index)
            with m.If(push & (queue == index)):
                m.d.sync += more[index].eq(1)
            with m.Elif((load & empties & addressed) | flushed):
                m.d.sync += more[index].eq(0)
            with m.If((load & addressed) | (direct & (queue == index))):
                m.d.sync += ready[index].eq(1)
            with m.Elif((port.consume & addressed) | flushed):
                m.d.sync += ready[index].eq(0)
            with m.If(self.clear.valid & (self.clear.queue == index)):
                m.d.sync += refusing[index].eq(0)
            with m.Elif(arrives & self.i.refused & (queue == index)):
                m.d.sync += refusing[index].eq(1)
        return m

    def _encode(self, m):
        """Stored form of the arriving word."""
        arrival, stored = self.i.payload, Signal(_stored_layout)
        known = RequestFlag.SC | RequestFlag.RC | RequestFlag.FENCE | RequestFlag.IRQ
        reserved = Const(~int(known) & 0xFF, 8)
        m.d.comb += [
            stored.word.eq(arrival.word), stored.tag.eq(arrival.note.ring.tag),
            stored.word.flags[_END].eq(arrival.note.ring.end),
            stored.word.flags[_CLOSES].eq(arrival.note.ring.closes),
        ]
        copy, signal = Signal(), Signal()
        m.d.comb += [
            copy.eq(arrival.word.opcode == Opcode.COPY),
            signal.eq((arrival.word.opcode == Opcode.SIGNAL) & (arrival.word.length == SIGNAL_BYTES)
                      & (arrival.word.dst_offset[:3] == 0)),
        ]
        # The length of an ARK word has additional bits in ``src_offset``.
        extra, empty = ArkExtra(arrival.word.src_offset[:ArkExtra.size]), Signal()
        m.d.comb += empty.eq((arrival.word.length == 0) & ~(arrival.ark & extra.length_high.any()))
        with m.If(arrival.check == Check.FETCH_ERROR):
            m.d.comb += stored.word.opcode.eq(_Kind.UNREADABLE)
        with m.Elif((arrival.check == Check.MALFORMED) | ~(copy | signal) | (arrival.word.flags & reserved).any()):
            m.d.comb += stored.word.opcode.eq(_Kind.MALFORMED)
        with m.Elif(arrival.ark):
            m.d.comb += stored.word.opcode.eq(Mux(empty, _Kind.ARK_EMPTY, Mux(
                arrival.check == Check.CONNECTION, _Kind.ARK_CONNECTION, _Kind.ARK)))
        with m.Elif(empty):
            m.d.comb += stored.word.opcode.eq(_Kind.EMPTY)
        return stored

    def _decode(self, m, stored, ark, check):
        """Head entry of a word: its format errors, and the number of its segments."""
        config, word = self.config, stored.word
        request = Signal(request_layout(config))
        # Position of the last byte relative to the segment boundary at or before the first byte: length + offset - 1,
        # three terms that are reduced to two before the adder.
        offset, end = word.dst_offset[:config.segment_bits], Signal(len(request.length) + 1)
        flag = {name: word.flags[int(RequestFlag[name]).bit_length() - 1] for name in ("SC", "RC", "FENCE", "IRQ")}
        extra = ArkExtra(word.src_offset[:ArkExtra.size])
        # ``single`` is computed without that adder: a request that reaches into the next segment has a carry, and a sum
        # of -1 denotes a whole segment.
        high, within = request.length[config.segment_bits:], Signal(config.segment_bits + 2)
        m.d.comb += [
            within.eq(_one_less(request.length[:config.segment_bits], offset)),
            request.single.eq(~high[1:].any() & (within[-1] | ~(high[0] | within[-2]))),
            # Don't care for a malformed word, which is scheduled as a single segment.
            request.last_segment.eq(end[config.segment_bits:]), request.end_position.eq(end[:config.segment_bits]),
            end.eq(_one_less(request.length, offset)),
            request.signal.eq(word.opcode == _Kind.SIGNAL),
            request.fence.eq(flag["FENCE"] | request.signal),
            request.end.sc.eq(flag["SC"]), request.end.rc.eq(flag["RC"]), request.end.irq.eq(flag["IRQ"]),
            request.src_region.eq(Cat(word.src_region, ark & extra.src_beyond)),
            request.dst_region.eq(Cat(word.dst_region, ark & extra.dst_beyond)),
            request.src_offset.eq(Mux(ark, 0, word.src_offset)), request.dst_offset.eq(word.dst_offset),
            request.length.eq(Cat(word.length, Mux(ark, extra.length_high, 0))), request.check.eq(check),
        ]
        with m.If(ark):
            m.d.comb += request.note.eq(extra.note)
        with m.Else():
            m.d.comb += [request.note.ring.tag.eq(stored.tag), request.note.ring.end.eq(word.flags[_END]),
                         request.note.ring.closes.eq(word.flags[_CLOSES])]
        return request


def _check_of(kind):
    """Format error of a stored word."""
    empty = (kind == _Kind.EMPTY) | (kind == _Kind.ARK_EMPTY)
    return Mux(kind == _Kind.UNREADABLE, Check.FETCH_ERROR, Mux(kind == _Kind.MALFORMED, Check.MALFORMED, Mux(
        empty, Check.ZERO_LENGTH, Mux(kind == _Kind.ARK_CONNECTION, Check.CONNECTION, Check.OK))))


def _one_less(one, other):
    """``one + other - 1`` of unsigned values in two's complement, two bits wider; one LUT level before the adder."""
    return ~Cat(one ^ other, C(0, 2)) + ((one | other) << 1)


def _bit(bits, index):
    return bits.bit_select(index, 1)
