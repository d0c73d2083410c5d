# SPDX-License-Identifier: Apache-2.0
"""The scheduler alone, against a model of the queue store, the windows and the credits around it."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from hw.dma_engine.config import BLOCK_ENTRIES
from hw.dma_engine.frontend.scheduler import Scheduler
from hw.dma_engine.layouts import Check
from tests.dma_engine.frontend.sizes import SMALL, SMALL_REGISTERED
from tests.dma_engine.windows import Windows
from tests.harness.cell import run_cell

SEGMENT, BEAT = SMALL.segment_bytes, SMALL.beat_bytes


@dataclass
class Request:
    """One request and its segments, by definition: no segment's destination crosses a multiple of the segment size."""

    src: int
    dst: int
    length: int
    fence: int = 0
    check: Check = Check.OK

    def request(self):
        last = self.dst % SEGMENT + self.length - 1
        return {"check": self.check, "fence": self.fence, "src_offset": self.src, "dst_offset": self.dst,
                "length": self.length, "last_segment": last // SEGMENT, "single": last < SEGMENT,
                "end_position": last % SEGMENT}

    def costs(self):
        """Destination beats less one and extra source beats of each segment."""
        if self.check is not Check.OK:
            return [(0, 0)]
        costs, src, dst, end = [], self.src, self.dst, self.dst + self.length
        while dst < end:
            size = min(end, (dst // SEGMENT + 1) * SEGMENT) - dst
            source, beats = ((at % BEAT + size - 1) // BEAT for at in (src, dst))
            costs.append((beats, int(source > beats)))
            src, dst = src + size, dst + size
        return costs


@dataclass
class Queue:
    """One queue in the scheduler's view, and the scheduler's state by its contract."""

    limit: int
    ready: Request | None = None
    waiting: list = field(default_factory=list)
    head: int = 0
    tail: int = 0           # segments that the scheduler has looked up successfully
    visible: int = 0        # segments that have appeared at ``scheduled``
    generation: int = 0
    number: int = 0         # number of the next segment in the head request
    aborting: bool = False
    stalled: bool = False
    cap: int = 0            # segments in flight that are legal after the limit was reduced
    floor: int = 0          # lowest limit since its last segment: a higher limit applies from the next segment



class Bench:
    """Drives the scheduler for one cycle at a time and checks each output."""

    def __init__(self, ctx, dut, rng):
        self.ctx, self.dut, self.rng, self.config = ctx, dut, rng, dut.config
        window = dut.config.default_limit
        self.queues = [Queue(window, cap=window, floor=window) for _ in range(dut.config.queues)]
        self.windows, self.indices = Windows(dut.config, rng), {}
        self.pool = 1.0, 1.0            # probabilities that a block is offered, and that it is spare
        self.accounts = 0, 0            # blocks borrowed and returned in the previous cycle
        self.credits, self.inside = 8, 0
        self.running, self.held, self.blocked = (1 << self.config.queues) - 1, 0, 0
        self.candidates, self.picked, self.fetched, self.due = 0, None, False, None
        self.flushing = None
        self.done = []          # (queue, request, number, aborted)
        self.seen = Counter()

    async def step(self, arrive=None, retire=None, abort=None, flush=None, configure=None, give=0):
        ctx, dut, config, queues = self.ctx, self.dut, self.config, self.queues
        ready = sum((queue.ready is not None) << index for index, queue in enumerate(queues))
        more = sum(bool(queue.waiting) << index for index, queue in enumerate(queues))
        epoch, phase = self.rng.randrange(4), self.rng.randrange(2)
        offered, spare = bool(self.windows.free) and self.rng.random() < self.pool[0], self.rng.random() < self.pool[1]
        offer = self.rng.choice(self.windows.free) if offered else (self.rng.randrange(config.blocks), 0)
        selected = queues[ctx.get(dut.queue_heads.queue)]
        assert ctx.get(dut.head.queue) == ctx.get(dut.epoch.queue) == ctx.get(dut.queue_heads.queue)
        direct = arrive is not None and not queues[arrive[0]].ready and not queues[arrive[0]].waiting
        for signal, value in (
            (dut.queue_heads.ready, ready), (dut.queue_heads.more, more), (dut.credit.available, self.credits > 0),
            (dut.queue_heads.arriving, direct), (dut.queue_heads.arriving_queue, arrive[0] if arrive else 0),
            (dut.queues.running, self.running), (dut.held, self.held), (dut.blocked, self.blocked),
            (dut.shares.candidates, self.candidates), (dut.epoch.epoch, epoch), (dut.phase, phase),
            (dut.head.head, self.windows.number(selected.head)),
            (dut.pool.valid, offered), (dut.pool.spare, spare),
            (dut.pool.block, {"number": offer[0], "generation": offer[1]}),
            (dut.retired.number, self.windows.number(queues[retire].head) if retire is not None else 0),
            (dut.queue_heads.request, selected.ready.request() if selected.ready else {}),
            (dut.retired.valid, retire is not None), (dut.retired.queue, retire or 0),
            (dut.abort.valid, abort is not None), (dut.abort.queue, abort[0] if abort else 0),
            (dut.abort.generation, abort[1] if abort else 0), (dut.flush.valid, flush is not None),
            (dut.configure.valid, configure is not None), (dut.configure.queue, configure[0] if configure else 0),
            (dut.configure.limit, configure[1] if configure else 0),
        ):
            ctx.set(signal, value)
        if flush is not None:
            ctx.set(dut.flush.queue, flush)

        # The segment looked up in the previous cycle.
        assert ctx.get(dut.scheduled.valid) == (self.due is not None)
        if self.due is not None:
            self._compare(*self.due)
        # The pick of the previous cycle either schedules a segment or returns its credit.
        consume, dropped = ctx.get(dut.queue_heads.consume), ctx.get(dut.credit.drop)
        assert ctx.get(dut.dropped.valid) == dropped and ctx.get(dut.consumed.valid) == consume
        allowed = self.running & ~self.held & ~self.blocked
        went = self.picked is not None and not dropped
        assert went or not consume
        self.due, stalled = None, [queue.stalled for queue in queues]
        if self.picked is None:
            assert not dropped
        else:
            assert ctx.get(dut.queue_heads.queue) == self.picked == ctx.get(dut.dropped.queue)
            self._decide(went, consume, allowed, epoch, phase, offer if offered else None, spare)
        self._account(retire)
        requesting = ctx.get(dut.shares.requesting)
        arriving = ctx.get(dut.shares.arriving) << ctx.get(dut.shares.arriving_queue)
        assert bool(arriving) == bool(direct and config.timing.registered_doorbells and allowed >> arrive[0] & 1)
        assert not arriving or arriving == 1 << arrive[0]
        for index, queue in enumerate(queues):
            if queue.ready and (stalled[index] or not allowed >> index & 1):
                assert not requesting >> index & 1, f"queue {index} requests but may not be scheduled"
            elif queue.ready or queue.waiting:
                assert requesting >> index & 1, f"queue {index} does not request"
        pick = ctx.get(dut.queue_heads.pick)
        assert pick == ctx.get(dut.credit.pick)
        if pick:
            assert self.credits and flush is None and self.flushing is None
            chosen = ctx.get(dut.queue_heads.pick_queue)
            by_arrival = direct and chosen == arrive[0] and not config.timing.registered_doorbells
            assert self.candidates >> chosen & 1 or by_arrival
            self.seen["direct"] += by_arrival
        assert ctx.get(dut.queue_heads.flush) == (self.flushing is not None)
        if self.flushing is not None:
            assert ctx.get(dut.queue_heads.flush_queue) == self.flushing
        if pick:
            assert ctx.get(dut.queue_heads.pick_more) == more >> chosen & 1
        self.candidates = requesting & ~ctx.get(dut.shares.leaving) | arriving

        # Next state of the neighbouring stages' registers.
        self.credits += dropped + give - pick
        self.inside += went - give
        queue = queues[self.picked] if self.picked is not None else None
        load = self.fetched and (consume or not queue.ready)
        if consume:
            queue.ready = None
        if load:
            queue.ready = queue.waiting.pop(0)
        self.picked = chosen if pick else None
        self.fetched = bool(pick and more >> chosen & 1 and queues[chosen].waiting)
        if arrive is not None:
            if direct:
                queues[arrive[0]].ready = arrive[1]
            else:
                queues[arrive[0]].waiting.append(arrive[1])
        if retire is not None:
            self.windows.retire(self.indices[retire, queues[retire].head])
            queues[retire].head += 1
            queues[retire].stalled = False
        if (abort is not None and queues[abort[0]].generation == abort[1] and queues[abort[0]].number
                and self.started_before(abort[0], went)):
            queues[abort[0]].aborting = True
        if configure is not None:
            queue, limit = queues[configure[0]], configure[1]
            queue.floor = min(queue.floor, queue.limit)
            queue.limit = limit or config.default_limit
            queue.cap = max(queue.limit, queue.tail - queue.head + 1)
        for queue in queues:
            queue.cap = max(queue.limit, min(queue.cap, queue.tail - queue.head + 1))
        if self.flushing is not None:
            queues[self.flushing].ready, queues[self.flushing].waiting = None, []
        if flush is not None:
            queue = queues[flush]
            queue.generation, queue.number, queue.aborting = queue.generation ^ 1, 0, False
            self.seen["flushed"] += 1
        self.flushing = flush
        await ctx.tick()

    def started_before(self, index, went):
        """Whether a segment of the head request was looked up before this cycle."""
        return not (went and self.last_decision == index and self.queues[index].number == 1)

    def _account(self, retire):
        """Blocks beyond the guaranteed part: those borrowed less those returned, by what each queue holds."""
        guaranteed, ctx, dut = self.config.window // BLOCK_ENTRIES, self.ctx, self.dut
        assert (ctx.get(dut.pool.borrows), ctx.get(dut.pool.returns)) == self.accounts

        def beyond(queue, retires=0):
            return max(0, queue.tail // BLOCK_ENTRIES - (queue.head + retires) // BLOCK_ENTRIES + 1 - guaranteed)

        took = self.picked if ctx.get(dut.pool.take) else None
        self.accounts = 0, 0
        for index, queue in enumerate(self.queues):
            retires, tail = index == retire, queue.tail - (index == took)
            before = max(0, tail // BLOCK_ENTRIES - queue.head // BLOCK_ENTRIES + 1 - guaranteed)
            change = beyond(queue, retires) - before
            self.accounts = self.accounts[0] + max(change, 0), self.accounts[1] + max(-change, 0)
            self.seen["both"] += retires and index == took
        self.seen["borrowed"] += self.accounts[0]
        self.seen["returned"] += self.accounts[1]

    def _decide(self, went, consume, allowed, epoch, phase, offer, spare):
        queue, index = self.queues[self.picked], self.picked
        self.last_decision = index
        request, flying = queue.ready, queue.tail - queue.head
        leaves = self.windows.leaves(index)
        held = queue.tail // BLOCK_ENTRIES - queue.head // BLOCK_ENTRIES + 1
        entitled = held < self.config.window // BLOCK_ENTRIES
        blocked = leaves and (offer is None or not (spare or entitled))
        assert self.ctx.get(self.dut.pool.take) == (went and leaves)
        present = request is not None and allowed >> index & 1 and not queue.stalled
        fenced = present and request.fence and not queue.number and flying
        if not went:
            if present:
                # A queue that is entitled to a block may have nothing in flight that would retire.
                queue.stalled = not (leaves and entitled and offer is None)
                least = min(queue.floor, queue.limit)
                assert fenced or blocked or flying >= least, f"queue {index} stalls with {flying} of {least}"
                self.seen["fenced" if fenced else "no offer" if not queue.stalled else "no block" if blocked
                          else "limited"] += 1
            return
        assert present and not fenced and not blocked, f"queue {index} is scheduled"
        entry, following = self.windows.schedule(index, offer)
        self.indices[index, queue.tail] = entry
        assert flying + 1 <= queue.cap, f"queue {index} has {flying + 1} of {queue.limit}"
        costs, number = request.costs(), queue.number
        aborted = queue.aborting and number > 0
        last = aborted or number == len(costs) - 1
        assert consume == last
        self.due = (index, request, number, last, aborted, entry, following, queue.generation, epoch, phase,
                    costs[number])
        queue.tail, queue.number, queue.floor = queue.tail + 1, number + 1, queue.limit
        if last:
            queue.generation, queue.number, queue.aborting = queue.generation ^ 1, 0, False

    def _compare(self, index, request, number, last, aborted, entry, following, generation, epoch, phase, cost):
        got = self.ctx.get(self.dut.scheduled.segment)
        assert (got.queue, got.index, got.generation) == (index, entry, generation)
        assert (got.next.number, got.next.generation) == tuple(following.values())
        assert (got.first, got.last, got.aborted) == (number == 0, last, aborted)
        assert (got.epoch, got.phase) == (epoch, phase)
        if request.check is Check.OK:
            assert got.number == number
        decoded = got.request
        assert (decoded.src_offset, decoded.dst_offset, decoded.length, decoded.check, decoded.fence) == (
            request.src, request.dst, request.length, request.check, request.fence)
        if not aborted:
            assert (self.ctx.get(self.dut.scheduled.beats), self.ctx.get(self.dut.scheduled.beyond)) == cost
        self.queues[index].visible += 1
        self.seen["aborted"] += aborted
        self.done.append((index, request, number, last))


async def sweep(ctx, dut):
    ctx.set(dut.init.active, 1)
    for row in range(dut.config.sweep_rows):
        ctx.set(dut.init.address, row)
        await ctx.tick()
    ctx.set(dut.init.active, 0)


@pytest.mark.parametrize("config", [SMALL, SMALL_REGISTERED], ids=["direct", "registered"])
def test_random(config, seed):
    """Requests of all kinds with stalls, limits, fences, aborts in this and in the last window pass, and flushes."""
    rng, dut = random.Random(f"{seed} scheduler"), Scheduler(config)

    def request():
        return Request(rng.getrandbits(12), rng.getrandbits(12), rng.choice((1, 8, 31, 32, 33, rng.randint(1, 300))),
                       rng.random() < 0.15, rng.choice([Check.OK] * 9 + [Check.MALFORMED]))

    async def testbench(ctx):
        await sweep(ctx, dut)
        bench = Bench(ctx, dut, rng)
        wanted = ("no block", "no offer", "borrowed", "returned", "both", "fenced", "aborted", "flushed", "limited")
        sent, mood, drained = [[] for _ in bench.queues], 0.5, None
        for cycle in range(20_000):
            if drained is not None:
                bench.pool = 1.0, 1.0
            if drained is None and cycle >= 2600 and all(bench.seen[name] for name in wanted):
                drained = cycle + 400
            if cycle == drained:
                break
            draining, drive = drained is not None, {}
            if cycle % 100 == 0:
                mood = rng.choice((0.05, 0.3, 0.9))
                bench.pool = rng.choice((0.3, 1)), rng.choice((0, 0.5, 1))
            target = rng.randrange(config.queues)
            if rng.random() < 0.02:
                name = rng.choice(("running", "held", "blocked"))
                setattr(bench, name, getattr(bench, name) ^ (1 << target))
            if draining:
                bench.running, bench.held, bench.blocked, mood = 15, 0, 0, 0.9
            queue = bench.queues[target]
            if not draining and len(queue.waiting) < 4 and bench.flushing is None and rng.random() < 0.3:
                drive["arrive"] = target, request()
                sent[target].append(drive["arrive"][1])
            busy = [index for index, queue in enumerate(bench.queues) if queue.visible > queue.head]
            if busy and rng.random() < mood:
                drive["retire"] = rng.choice(busy)
            if bench.inside and rng.random() < max(mood, 0.3):
                drive["give"] = 1
            if rng.random() < 0.1:
                drive["abort"] = target, rng.choice((bench.queues[target].generation,
                                                     bench.queues[target].generation ^ 1))
            # A queue is flushed only while it does not run.
            if "arrive" not in drive and bench.flushing is None and not draining and rng.random() < 0.05 and (
                    not bench.running >> target & 1 and bench.picked is None):
                drive["flush"] = target
                kept = {id(entry[1]) for entry in bench.done}
                sent[target] = [entry for entry in sent[target] if id(entry) in kept]
            if rng.random() < 0.02:
                drive["configure"] = target, rng.randrange(1 << config.limit_bits)
            await bench.step(**drive)
        assert all(bench.seen[name] for name in wanted), bench.seen
        assert bool(bench.seen["direct"]) != config.timing.registered_doorbells
        for index, requests in enumerate(sent):
            order = [entry[1] for entry in bench.done if entry[0] == index and entry[2] == 0]
            assert [id(entry) for entry in order] == [id(entry) for entry in requests], f"queue {index}"
            ctx.set(dut.lookup.queue, index)
            assert ctx.get(dut.lookup.tail) == bench.windows.number(bench.queues[index].tail)

    run_cell(dut, testbench)


def test_cuts():
    """Every alignment of the destination with every length up to somewhat more than two segments."""
    dut, rng = Scheduler(SMALL), random.Random("cuts")
    cases = [Request(src, dst, length) for dst in range(SEGMENT) for src in (0, dst + rng.randrange(BEAT))
             for length in (1, 7, 8, 9, 32, 33, 65, SEGMENT - dst, 2 * SEGMENT - dst + 1)]

    async def testbench(ctx):
        await sweep(ctx, dut)
        bench, left = Bench(ctx, dut, rng), list(cases)
        while left or bench.inside:
            drive = {"give": int(bench.inside > 0)}
            busy = [index for index, queue in enumerate(bench.queues) if queue.visible > queue.head]
            free = [index for index, queue in enumerate(bench.queues) if len(queue.waiting) < 3]
            if busy:
                drive["retire"] = busy[0]
            if free and left:
                drive["arrive"] = rng.choice(free), left.pop(0)
            await bench.step(**drive)
        for _ in range(200):
            await bench.step()
        assert sum(last for *_, last in bench.done) == len(cases)
        assert len(bench.done) == sum(len(case.costs()) for case in cases)

    run_cell(dut, testbench)


@pytest.mark.parametrize("config", [SMALL, SMALL_REGISTERED], ids=["direct", "registered"])
def test_nothing_is_picked_during_the_sweep(config):
    dut = Scheduler(config)

    async def testbench(ctx):
        for signal, value in ((dut.init.active, 1), (dut.credit.available, 1), (dut.queues.running, -1),
                              (dut.queue_heads.ready, -1), (dut.shares.candidates, -1)):
            ctx.set(signal, value)
        for row in range(config.sweep_rows):
            ctx.set(dut.init.address, row)
            assert not ctx.get(dut.queue_heads.pick) and not ctx.get(dut.scheduled.valid)
            await ctx.tick()
        ctx.set(dut.init.active, 0)
        assert ctx.get(dut.queue_heads.pick)

    run_cell(dut, testbench)


@pytest.mark.parametrize("limits", [(), (3, 0)])
def test_default_limit(limits):
    """A queue without a limit has ``default_limit`` segments in flight: after reset, and with a limit of 0."""
    dut = Scheduler(SMALL)

    async def testbench(ctx):
        await sweep(ctx, dut)
        bench = Bench(ctx, dut, random.Random("default limit"))
        for limit in limits:
            await bench.step(configure=(1, limit))
        await bench.step(arrive=(1, Request(0, 0, 2 * SMALL.longest_window * SEGMENT)))
        for _ in range(60):
            await bench.step(give=int(bench.inside > 0))
        assert bench.queues[1].tail == SMALL.default_limit

    run_cell(dut, testbench)
