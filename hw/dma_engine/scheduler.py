"""Which queue's next segment goes now: one segment per cycle.

QueueStore, Shares -> Scheduler -> Legalizer.  Latency: 3 cycles from ``ready`` to ``o``, 2 from a word that arrives
while nobody asks.  Throughput: one segment per cycle, also from one queue while words wait in it; the
segments of its last request come every 2 cycles.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.carry_save import carry_save
from hw.common.doorbell import is_extended
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import RoundRobin

from .layouts import EPOCH_WIDTH, Check, front_layout, scheduled_layout

__all__ = ["Scheduler"]


class Scheduler(wiring.Component):
    """Pick a queue per cycle, give its next segment a number and a place in the queue's window.

    A pick of a queue whose window is full, that has as many segments in flight as it may, or whose fence has
    to wait, is dropped, and the queue is left out until one of its segments retires. A pick of a queue without a
    request in front lets its next word move up.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    ready, more, running, held : ``In(queues)``
        Queues with a request in front; with words behind it; that may be scheduled; that hold after an error.
    arriving, arriving_queue : ``In``
        A word comes to the front entry of a queue in this cycle.
    blocked : ``In(queues)``
        Queues whose target has enough to do.
    configure : ``In(1)``, configure_queue, limit : ``In``
        Most segments of a queue in flight; 0 for the whole window. Of a queue that has more when its limit becomes
        less, each two that retire let one go, until it has as few.
    room : ``In(1)``
        One more segment may enter the pipeline.
    asking, leaving : ``Out(queues)``, candidates, left : ``In(queues)``
        To the shares.
    pick : ``Out(1)``, pick_queue : ``Out``, drop : ``Out(1)``
        A place was taken; a place was given back unused.
    peek_queue : ``Out``, front : ``In(front_layout)``, consume : ``Out(1)``
        To the queue store.
    window_queue : ``Out``, window_head, epoch : ``In``
        Oldest segment of a queue that has not retired, and the queue's epoch, combinational.
    retired, retired_queue : ``In``
        A segment of the queue retires.
    abort, abort_queue, abort_lap : ``In``
        A segment of that queue and lap failed its checks: end the request with the next segment.
    flush, flush_queue : ``In``
        Forget how far the queue's request had come. ``flush_queue`` stays for another cycle.
    flushing : ``Out(1)``
        In the cycle after ``flush``: nothing was picked then, nor is it now.
    look_queue : ``In``, tail : ``Out``
        Place of a queue's next segment, for whoever wants to know what is in flight.
    phase : ``In(1)``
        Of segments looked up in this cycle.
    valid : ``Out(1)``, o : ``Out(scheduled_layout)``
        A segment, every cycle that ``valid`` is high.
    beats : ``Out``, beyond : ``Out(1)``
        Its destination beats less one, and whether its source has one beat more than its destination.
    """

    def __init__(self, config):
        self.config = config
        queue, place = config.queue_bits, config.index_width
        super().__init__({
            "init": In(SweepSignature(config)),
            "ready": In(config.queues), "more": In(config.queues), "running": In(config.queues),
            "held": In(config.queues),
            "blocked": In(config.queues),
            "configure": In(1), "configure_queue": In(queue), "limit": In(config.place_bits),
            "arriving": In(1), "arriving_queue": In(queue),
            "asking": Out(config.queues), "leaving": Out(config.queues),
            "candidates": In(config.queues), "left": In(config.queues),
            "room": In(1), "pick": Out(1), "pick_queue": Out(queue), "drop": Out(1),
            "peek_queue": Out(queue), "front": In(front_layout(config)), "consume": Out(1),
            "window_queue": Out(queue), "window_head": In(place), "epoch": In(EPOCH_WIDTH),
            "retired": In(1), "retired_queue": In(queue),
            "abort": In(1), "abort_queue": In(queue), "abort_lap": In(1),
            "flush": In(1), "flush_queue": In(queue), "flushing": Out(1),
            "look_queue": In(queue), "tail": Out(place),
            "phase": In(1), "valid": Out(1), "o": Out(scheduled_layout(config)),
            "beats": Out(range(config.segment_beats)), "beyond": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, queues = self.config, self.config.queues
        init = SweepSignature(config)

        m.submodules.tails = tails = Table(config.index_width, depth=queues, reads=2, init=init)
        # Of the segment that comes next, unless it is its request's first: how many come behind it.
        count = config.segment_count_width
        m.submodules.rests = rests = Table(
            data.StructLayout({"behind": count, "last": 1}), depth=queues, reads=1, init=init)
        # How many fewer segments than its window a queue may have in flight.
        m.submodules.reserves = reserves = Table(config.place_bits, depth=queues, reads=1, init=init)
        for table in (tails, rests, reserves):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        m.d.comb += [tails.read[1].addr.eq(self.look_queue), self.tail.eq(tails.read[1].data)]

        # -- Pick. A queue that was picked in the cycle before may be empty when it is looked at again, unless
        # words wait in it.
        picked, queue, onehot = Signal(), Signal(config.queue_bits), Signal(queues)
        stalled = Signal(queues)        # wait until a segment retires
        allowed, direct, grants, still = Signal(queues), Signal(), Signal(), Signal()
        m.submodules.choice = choice = RoundRobin(queues)
        bypass = not config.timing.registered_doorbells
        m.d.comb += [
            allowed.eq(self.running & ~self.held & ~stalled & ~self.blocked),
            # A word that arrives asks at once, or bypasses the choice where nobody asks.
            self.asking.eq((self.ready & allowed) | (~self.ready & self.more)
                           | (Mux(self.arriving & (not bypass), 1 << self.arriving_queue, 0) & allowed)),
            choice.requests.eq(self.candidates & (~onehot | self.more)),
            choice.advance.eq(self.pick),
            direct.eq(bypass & self.arriving & self.left.bit_select(self.arriving_queue, 1)),
            still.eq(self.init.active | self.flush | self.flushing),
            self.pick.eq((choice.valid | direct) & self.room & ~still),
            grants.eq(choice.valid | (not bypass)),
            self.pick_queue.eq(Mux(grants, choice.grant, self.arriving_queue)),
        ]
        m.d.sync += [
            picked.eq(self.pick), queue.eq(self.pick_queue),
            onehot.eq(Mux(grants, choice.grant_onehot, 1 << self.arriving_queue) & self.pick.replicate(queues)),
            self.flushing.eq(self.flush),
        ]

        # -- Look: which segment of which request, and may it go?
        started = Signal(queues)        # the front request has had its first segment
        laps = Signal(queues)           # changes with every request; an abort comes before the next but one has begun
        aborting = Signal(queues)
        front, number, behind = self.front, Signal(count), Signal(count)
        first, last, aborted = Signal(), Signal(), Signal()
        present, go, fenced = Signal(), Signal(), Signal()
        tail, fill = Signal(config.index_width), Signal(config.index_width)
        # As many segments in flight as there may be, or more, as the limit became less; kept, for the sum comes late.
        closed, beyond = Signal(queues), Signal(queues)
        last_place, over = Signal(), Signal()
        # The tail less the head, and the reserve.
        partial, carries = carry_save(tail, ~self.window_head, reserves.read[0].data)
        m.d.comb += [
            reserves.write.en.eq(self.configure), reserves.write.addr.eq(self.configure_queue),
            reserves.write.data.eq(Mux(is_extended(config, self.configure_queue), -self.limit, Mux(
                (self.limit >> config.window_bits).any(), 0, (-self.limit)[:config.window_bits]))),
            reserves.read[0].addr.eq(queue),
            fill.eq(partial + (carries | 1)),
            over.eq(Mux(is_extended(config, queue), fill[config.place_bits], fill[config.window_bits])),
            last_place.eq(over | Mux(is_extended(config, queue), fill[:config.place_bits].all(),
                                     fill[:config.window_bits].all())),
            self.peek_queue.eq(queue),
            self.window_queue.eq(queue),
            tails.read[0].addr.eq(queue),
            tail.eq(tails.read[0].data),
            rests.read[0].addr.eq(queue),
            first.eq(~started.bit_select(queue, 1)),
            behind.eq(Mux(first, front.last_segment, rests.read[0].data.behind)),
            number.eq(front.last_segment - behind),
            fenced.eq(front.fence & first & (tail != self.window_head)),
            present.eq(picked & (self.ready & allowed).bit_select(queue, 1)),
            go.eq(present & ~closed.bit_select(queue, 1) & ~fenced),
            self.drop.eq(picked & ~go),
            aborted.eq(aborting.bit_select(queue, 1) & ~first),
            last.eq(Mux(first, front.single | (front.check != Check.OK), rests.read[0].data.last) | aborted),
            self.consume.eq(go & last),
            self.leaving.eq(Mux(self.consume, onehot & ~self.more, 0)),
            tails.write.addr.eq(queue), tails.write.data.eq(tail + 1), tails.write.en.eq(go),
            rests.write.addr.eq(queue), rests.write.en.eq(go),
            rests.write.data.behind.eq(behind - 1), rests.write.data.last.eq(behind == 1),
        ]

        # The output register.
        m.d.sync += [
            self.valid.eq(go),
            self.o.queue.eq(queue),
            self.o.index.eq(tail),
            self.o.lap.eq(laps.bit_select(queue, 1)),
            self.o.front.eq(front),
            self.o.number.eq(number),
            self.o.first.eq(first),
            self.o.last.eq(last),
            self.o.aborted.eq(aborted),
            self.o.epoch.eq(self.epoch),
            self.o.phase.eq(self.phase),
        ]

        # Of a segment that is not its request's first, the destination starts with a beat; the source then starts as
        # many lanes behind one as it is ahead of the destination.
        lanes, beats = slice(config.lane_bits), slice(config.lane_bits, config.segment_bits)
        ahead, ends = Signal(config.lane_bits + 1), Signal(config.segment_bits)
        m.d.comb += [
            ahead.eq(self.o.front.src_offset[lanes] - self.o.front.dst_offset[lanes]),
            ends.eq(Mux(self.o.last, self.o.front.end_position, -1)),
        ]
        with m.If(self.o.front.check == Check.OK):
            m.d.comb += [
                self.beats.eq(ends[beats] - Mux(self.o.first, self.o.front.dst_offset[beats], 0)),
                self.beyond.eq((ahead[:-1] + ends[lanes])[config.lane_bits]
                               & ~(ahead[-1] & self.o.first) & ~self.o.front.signal),
            ]

        for index in range(queues):
            here = onehot[index]
            flushed = self.flush & (self.flush_queue == index)
            retires = self.retired & (self.retired_queue == index)
            with m.If(go & here):
                m.d.sync += [closed[index].eq(Mux(retires, over, last_place)), beyond[index].eq(over & ~retires)]
            with m.Elif(retires):
                m.d.sync += [closed[index].eq(beyond[index]), beyond[index].eq(0)]
            with m.If(retires):
                m.d.sync += stalled[index].eq(0)
            with m.Elif(present & ~go & here):
                m.d.sync += stalled[index].eq(1)
            with m.If((self.consume & here) | flushed):
                m.d.sync += [started[index].eq(0), laps[index].eq(~laps[index]), aborting[index].eq(0)]
            with m.Else():
                with m.If(go & here):
                    m.d.sync += started[index].eq(1)
                with m.If(self.abort & (self.abort_queue == index) & (self.abort_lap == laps[index])
                          & started[index]):
                    m.d.sync += aborting[index].eq(1)
        return m
