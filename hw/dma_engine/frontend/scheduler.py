# SPDX-License-Identifier: Apache-2.0
"""The scheduler: picks the queue whose next segment is issued, one segment per cycle.

QueueStore, Shares -> Scheduler -> Legalizer.  Latency: 3 cycles from ``ready`` to ``o``, 2 from a word that arrives
while no queue requests.  Throughput: one segment per cycle, also from one queue while words wait in it; the
segments of its last request are 2 cycles apart.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.carry_save import carry_save
from hw.common.regions import RegionLookupSignature
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.completion.retire import HeadLookupSignature
from hw.dma_engine.config import BLOCK_ENTRIES, DmaConfig
from hw.dma_engine.configuration import QueueStatesSignature, QueueWriteSignature
from hw.dma_engine.control.epochs import EpochLookupSignature
from hw.dma_engine.layouts import PLACE_BITS, Check, block_layout, window_end_layout, window_index
from hw.dma_engine.strobes import QueueStrobeSignature, RetiredSignature, ScheduledSignature
from hw.stream import RoundRobin

from .legalizer import AbortSignature
from .queues import HeadPortSignature
from .segment_credit import SegmentCreditSignature
from .shares import SharesPortSignature
from .window_pool import WindowPoolSignature

__all__ = ["Scheduler", "TailLookupSignature"]


class TailLookupSignature(wiring.Signature):
    """Software and the scanner look up the number of a queue's next segment; combinational."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "tail": In(config.flight_width)})


class Scheduler(wiring.Component):
    """Pick a queue per cycle, give its next segment a number and an entry of the queue's window.

    A pick is dropped if the queue may not take another block of window entries, if its limit of segments in flight is
    reached, or if its fence is closed; the queue then stalls until one of its segments retires. A pick of a queue with
    an empty head entry lets its next word move up.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    queue_heads : ``Out(HeadPortSignature)``, regions : ``Out(RegionLookupSignature)``
        Requests at the heads of their queues, and the look-up of their regions: the entries reach the legalizer with
        the segment.
    shares : ``Out(SharesPortSignature)``
    queues : ``In(QueueStatesSignature)``, held, blocked : ``In(queues)``
        Queues that may be scheduled; queues that hold after an error; queues whose target has reached its limit.
    configure : ``In(QueueWriteSignature)``
        If a queue has more segments in flight than its new limit, one segment is issued for every two that retire,
        until the limit is met.
    pool : ``Out(WindowPoolSignature)``
        Window entries.
    credit : ``Out(SegmentCreditSignature)``, dropped : ``Out(QueueStrobeSignature)``
        One more segment may enter the pipeline; a pick was dropped.
    consumed : ``Out(QueueStrobeSignature)``
        A queue's head entry is completely scheduled.
    head : ``Out(HeadLookupSignature)``, epoch : ``Out(EpochLookupSignature)``
    retired : ``In(RetiredSignature)``, abort : ``In(AbortSignature)``
    flush : ``In(QueueStrobeSignature)``
        Drop the words of the queue and the progress of its request: in the next cycle, in which ``queue`` is stable.
        Nothing is picked in these two cycles.
    lookup : ``In(TailLookupSignature)``
    phase : ``In(1)``
        Phase of segments looked up in this cycle.
    scheduled : ``Out(ScheduledSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "queue_heads": Out(HeadPortSignature(config)), "regions": Out(RegionLookupSignature(config)),
            "shares": Out(SharesPortSignature(config)),
            "queues": In(QueueStatesSignature(config)), "held": In(config.queues), "blocked": In(config.queues),
            "configure": In(QueueWriteSignature(config)),
            "pool": Out(WindowPoolSignature(config)),
            "credit": Out(SegmentCreditSignature()), "dropped": Out(QueueStrobeSignature(config)),
            "consumed": Out(QueueStrobeSignature(config)),
            "head": Out(HeadLookupSignature(config)), "epoch": Out(EpochLookupSignature(config)),
            "retired": In(RetiredSignature(config)), "abort": In(AbortSignature(config)),
            "flush": In(QueueStrobeSignature(config)), "lookup": In(TailLookupSignature(config)),
            "phase": In(1), "scheduled": Out(ScheduledSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, queues = self.config, self.config.queues
        init, guaranteed = SweepSignature(config), self.config.window // BLOCK_ENTRIES

        m.submodules.tails = tails = Table(config.flight_width, depth=queues, reads=3, init=init)
        m.submodules.blocks = blocks = Table(
            block_layout(config), depth=queues, reads=1, init=init, reset=lambda address: address[:config.queue_bits])
        # The number of segments after the next one; unused if that is its request's first.
        count = config.segment_count_width
        m.submodules.remaining = remaining = Table(
            data.StructLayout({"behind": count, "last": 1}), depth=queues, reads=1, init=init)
        # The difference between the longest window and a queue's limit of segments in flight.
        default = config.longest_window - config.default_limit
        m.submodules.reserves = reserves = Table(
            config.limit_bits, depth=queues, reads=1, init=init, reset=default)
        for table in (tails, blocks, remaining, reserves):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        flushing, drop = Signal(), Signal()     # in the cycle after a flush; a pick returns its credit
        m.d.comb += [tails.read[1].addr.eq(self.lookup.queue), self.lookup.tail.eq(tails.read[1].data)]

        queue_heads, shares = self.queue_heads, self.shares
        m.d.comb += [
            queue_heads.flush.eq(flushing), queue_heads.flush_queue.eq(self.flush.queue),
            self.credit.pick.eq(queue_heads.pick), self.credit.drop.eq(drop),
            self.dropped.valid.eq(drop), self.dropped.queue.eq(queue_heads.queue),
            self.consumed.valid.eq(queue_heads.consume), self.consumed.queue.eq(queue_heads.queue),
            self.regions.src.eq(queue_heads.request.src_region),
            self.regions.dst.eq(queue_heads.request.dst_region),
        ]

        # -- Pick. A queue picked in the previous cycle may be empty by the time of its next look-up, unless words wait
        # in it.
        picked, queue, onehot = Signal(), Signal(config.queue_bits), Signal(queues)
        stalled = Signal(queues)        # wait until a segment retires
        allowed, direct, grants, still = Signal(queues), Signal(), Signal(), Signal()
        m.submodules.choice = choice = RoundRobin(queues, marks=config.timing.grouped_fetch)
        bypass = not config.timing.registered_doorbells
        m.d.comb += [
            allowed.eq(self.queues.running & ~self.held & ~stalled & ~self.blocked),
            # An arriving word requests at once, or bypasses arbitration if there is no other request.
            shares.requesting.eq((queue_heads.ready & allowed) | (~queue_heads.ready & queue_heads.more)),
            shares.arriving.eq(queue_heads.arriving & (not bypass) & allowed.bit_select(queue_heads.arriving_queue, 1)),
            shares.arriving_queue.eq(queue_heads.arriving_queue),
            choice.requests.eq(shares.candidates & (~onehot | queue_heads.more)),
            choice.advance.eq(queue_heads.pick),
            direct.eq(bypass & queue_heads.arriving & shares.left.bit_select(queue_heads.arriving_queue, 1)),
            still.eq(self.init.active | self.flush.valid | flushing),
            queue_heads.pick.eq((choice.valid | direct) & self.credit.available & ~still),
            grants.eq(choice.valid | (not bypass)),
            queue_heads.pick_queue.eq(Mux(grants, choice.grant, queue_heads.arriving_queue)),
        ]
        # An arriving word is the only one of its queue.
        if config.timing.grouped_fetch:
            m.d.comb += [choice.marks.eq(queue_heads.more), queue_heads.pick_more.eq(choice.marked)]
        else:
            m.d.comb += queue_heads.pick_more.eq(queue_heads.more.bit_select(queue_heads.pick_queue, 1))
        m.d.sync += [
            picked.eq(queue_heads.pick), queue.eq(queue_heads.pick_queue),
            onehot.eq(Mux(grants, choice.grant_onehot, 1 << queue_heads.arriving_queue)
                      & queue_heads.pick.replicate(queues)),
            flushing.eq(self.flush.valid),
        ]

        # -- Look-up: which segment of which request, and may it be issued?
        started = Signal(queues)        # the head request's first segment was issued
        generations = Signal(queues)    # generation of the request; an abort precedes the second next one
        aborting = Signal(queues)
        request, number, behind = queue_heads.request, Signal(count), Signal(count)
        first, last, aborted = Signal(), Signal(), Signal()
        present, go, fenced = Signal(), Signal(), Signal()
        end, tail, fill = Signal(window_end_layout(config)), Signal(config.flight_width), Signal(config.flight_width)
        # The segment has the last entry of its block. May the queue take another one, and is that its guaranteed part?
        leaves, extends, entitled = Signal(), Signal(), Signal()
        held, guaranteed_bits = Signal(config.flight_width - PLACE_BITS), config.window_bits - PLACE_BITS
        newest, oldest = tail[PLACE_BITS:], self.head.head[PLACE_BITS:]
        # Segments in flight at the limit, or beyond it after it was reduced; registered, as the sum is late-arriving.
        closed, beyond = Signal(queues), Signal(queues)
        last_entry, over = Signal(), Signal()
        # Tail minus head, plus the reserve.
        partial, carries = carry_save(tail, ~self.head.head, reserves.read[0].data)
        m.d.comb += [
            reserves.write.en.eq(self.configure.valid), reserves.write.addr.eq(self.configure.queue),
            reserves.write.data.eq(-self.configure.limit | Mux(self.configure.limit.any(), 0, default)),
            reserves.read[0].addr.eq(queue),
            fill.eq(partial + (carries | 1)),
            over.eq(fill[config.limit_bits]),
            # All low bits of ``fill`` are 1 if its two terms differ in each of them.
            last_entry.eq(over | (partial ^ (carries | 1))[:config.limit_bits].all()),
            queue_heads.queue.eq(queue),
            self.head.queue.eq(queue), self.epoch.queue.eq(queue),
            tails.read[0].addr.eq(queue),
            blocks.read[0].addr.eq(queue),
            end.number.eq(tails.read[0].data), end.block.eq(blocks.read[0].data), tail.eq(end.number),
            leaves.eq(tail[:PLACE_BITS].all()),
            # Blocks besides that of the segment. The lowest bit is not in the carry chain, because Yosys would derive
            # ``partial`` from it.
            held.eq(Cat(newest[0] ^ oldest[0], (Cat(1, newest[1:]) + Cat(newest[0] | ~oldest[0], ~oldest[1:]))[1:])),
            extends.eq(self.pool.valid & (self.pool.spare | entitled)),
            remaining.read[0].addr.eq(queue),
            first.eq(~started.bit_select(queue, 1)),
            behind.eq(Mux(first, request.last_segment, remaining.read[0].data.behind)),
            number.eq(request.last_segment - behind),
            fenced.eq(request.fence & first & (tail != self.head.head)),
            present.eq(picked & (queue_heads.ready & allowed).bit_select(queue, 1)),
            go.eq(present & ~closed.bit_select(queue, 1) & ~fenced & (~leaves | extends)),
            self.pool.take.eq(go & leaves),
            drop.eq(picked & ~go),
            aborted.eq(aborting.bit_select(queue, 1) & ~first),
            last.eq(Mux(first, request.single | (request.check != Check.OK), remaining.read[0].data.last) | aborted),
            queue_heads.consume.eq(go & last),
            shares.leaving.eq(Mux(queue_heads.consume, onehot & ~queue_heads.more, 0)),
            tails.write.addr.eq(queue), tails.write.en.eq(go),
            tails.write.data.eq(tail + 1),
            blocks.write.addr.eq(queue), blocks.write.en.eq(go),
            blocks.write.data.eq(Mux(leaves, self.pool.block, end.block)),
            remaining.write.addr.eq(queue), remaining.write.en.eq(go),
            remaining.write.data.behind.eq(behind - 1), remaining.write.data.last.eq(behind == 1),
        ]

        # -- Blocks taken beyond the guaranteed part, and returned. A queue that does both at once keeps their number.
        retired, other, behind_retired = self.retired, Signal(), Signal(config.flight_width - PLACE_BITS)
        m.d.comb += [
            tails.read[2].addr.eq(retired.queue),
            behind_retired.eq(tails.read[2].data[PLACE_BITS:] - retired.number[PLACE_BITS:]),
            other.eq(retired.queue != queue),
        ]
        leaves_window = retired.valid & retired.number[:PLACE_BITS].all()
        m.d.sync += [
            self.pool.borrows.eq(self.pool.take & ~entitled & (other | ~leaves_window)),
            self.pool.returns.eq(leaves_window & (behind_retired >= guaranteed) & (other | ~self.pool.take)),
        ]

        # Less than guaranteed - 1, without another carry chain.
        below = ~held[guaranteed_bits:].any() & ~held[:guaranteed_bits].all()
        if config.timing.registered_entitlement:
            kept = self._entitled_queues(m, onehot, held, leaves_window, behind_retired)
            m.d.comb += entitled.eq(kept.bit_select(queue, 1))
            m.d.sync += Assert(~present | (entitled == below), Format("entitlement differs from the window"))
        else:
            m.d.comb += entitled.eq(below)

        # The output register.
        segment = self.scheduled.segment
        m.d.sync += [
            self.scheduled.valid.eq(go),
            segment.queue.eq(queue),
            segment.index.eq(window_index(end)),
            segment.next.eq(blocks.write.data),
            segment.generation.eq(generations.bit_select(queue, 1)),
            segment.request.eq(request),
            segment.number.eq(number),
            segment.first.eq(first),
            segment.last.eq(last),
            segment.aborted.eq(aborted),
            segment.epoch.eq(self.epoch.epoch),
            segment.phase.eq(self.phase),
        ]

        # After its first segment, a request's destination is beat-aligned; the source then starts in the lane by which
        # its alignment differs.
        lanes, beats = slice(config.lane_bits), slice(config.lane_bits, config.segment_bits)
        ahead, ends = Signal(config.lane_bits + 1), Signal(config.segment_bits)
        m.d.comb += [
            ahead.eq(segment.request.src_offset[lanes] - segment.request.dst_offset[lanes]),
            ends.eq(Mux(segment.last, segment.request.end_position, -1)),
        ]
        with m.If(segment.request.check == Check.OK):
            m.d.comb += [
                self.scheduled.beats.eq(ends[beats] - Mux(segment.first, segment.request.dst_offset[beats], 0)),
                self.scheduled.beyond.eq((ahead[:-1] + ends[lanes])[config.lane_bits]
                               & ~(ahead[-1] & segment.first) & ~segment.request.signal),
            ]

        for index in range(queues):
            here = onehot[index]
            flushed = self.flush.valid & (self.flush.queue == index)
            retires = self.retired.valid & (self.retired.queue == index)
            with m.If(go & here):
                m.d.sync += [closed[index].eq(Mux(retires, over, last_entry)), beyond[index].eq(over & ~retires)]
            with m.Elif(retires):
                m.d.sync += [closed[index].eq(beyond[index]), beyond[index].eq(0)]
            with m.If(retires):
                m.d.sync += stalled[index].eq(0)
            # A queue that is entitled to a block may have nothing in flight; it tries again until the pool offers one.
            with m.Elif(present & ~go & here & ~(leaves & entitled & ~self.pool.valid)):
                m.d.sync += stalled[index].eq(1)
            with m.If((queue_heads.consume & here) | flushed):
                m.d.sync += [started[index].eq(0), generations[index].eq(~generations[index]), aborting[index].eq(0)]
            with m.Else():
                with m.If(go & here):
                    m.d.sync += started[index].eq(1)
                with m.If(self.abort.valid & (self.abort.queue == index) & (self.abort.generation == generations[index])
                          & started[index]):
                    m.d.sync += aborting[index].eq(1)
        return m

    def _entitled_queues(self, m, onehot, held, leaves_window, behind_retired):
        """Queues that hold less than their guaranteed part besides the block of their next segment: state, as the
        distance in a window is late-arriving. A queue that takes a block and returns one in the same cycle stays."""
        guaranteed, kept = self.config.window // BLOCK_ENTRIES, Signal(self.config.queues, init=-1)
        for index in range(self.config.queues):
            takes = self.pool.take & onehot[index]
            returns = leaves_window & (self.retired.queue == index)
            with m.If(takes & ~returns):
                m.d.sync += kept[index].eq(held < guaranteed - 2)
            with m.Elif(returns & ~takes):
                m.d.sync += kept[index].eq(behind_retired < guaranteed)
        return kept
