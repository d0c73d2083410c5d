# SPDX-License-Identifier: Apache-2.0
"""A bench for the queue store alone: a list of words per queue, and the request that each word describes.

The bench plays the doorbell, the scheduler and the receiver of events, and predicts the state of all queues for each
cycle.  The head entry of a queue is compared with the fields of its word, from the definition of the words.
"""

from collections import deque
from dataclasses import dataclass, field

from amaranth import Elaboratable, Module, ResetInserter, Signal

from hw.dma_engine.config import LENGTH_WIDTH
from hw.dma_engine.frontend.queues import QueueStore
from hw.dma_engine.layouts import ArkExtra, Check, arrival_layout, event_layout, request_layout
from hw.dma_engine.words import Opcode, RequestFlag, Status
from tests.dma_engine.frontend.sizes import SMALL
from tests.harness.cell import CellBench
from tests.harness.fields import Fields

ARRIVAL, REQUEST, EVENT = (Fields(layout(SMALL)) for layout in (arrival_layout, request_layout, event_layout))
EXTRA = Fields(ArkExtra)
QUEUES, SEGMENT = SMALL.queues, SMALL.segment_bytes
EVENTS = 4
"""Events that wait before words stall."""


@dataclass(eq=False)
class Word:
    """A word in flight to its queue. An ARK word has more fields in ``extra``."""

    queue: int
    opcode: int = Opcode.COPY
    flags: int = 0
    src_region: int = 0
    dst_region: int = 0
    src_offset: int = 0
    length: int = 8
    dst_offset: int = 0
    check: Check = Check.OK
    note: int = 0
    extra: dict | None = None

    def payload(self):
        names = ("opcode", "flags", "src_region", "dst_region", "src_offset", "length", "dst_offset")
        fields = {f"word.{name}": getattr(self, name) for name in names}
        if self.extra is not None:
            fields["word.src_offset"] = EXTRA.pack(self.extra)
        return ARRIVAL.pack(fields | {"queue": self.queue, "check": self.check.value, "note": self.note,
                                      "ark": self.extra is not None})

    def request(self):
        """Mask and value of the request's fields that have a meaning: a failed ARK word does not use its note."""
        extra = self.extra or {}
        length = self.length + (extra.get("length_high", 0) << LENGTH_WIDTH)
        signal = self.opcode == Opcode.SIGNAL
        malformed = (self.check is Check.MALFORMED or self.opcode not in list(Opcode) or self.flags >> 4
                     or (signal and (length != 8 or self.dst_offset % 8)))
        check = (Check.FETCH_ERROR if self.check is Check.FETCH_ERROR else Check.MALFORMED if malformed
                 else Check.ZERO_LENGTH if not length else self.check)
        fields = {"check": check.value}
        if self.extra is None:
            fields["note"] = self.note
        if check not in (Check.FETCH_ERROR, Check.MALFORMED):
            flag = {name: bool(self.flags & RequestFlag[name.upper()]) for name in ("sc", "rc", "irq", "fence")}
            fields |= {f"end.{name}": flag[name] for name in ("sc", "rc", "irq")}
            fields |= {"fence": flag["fence"] or signal, "signal": signal}
        if check is Check.OK:
            last = self.dst_offset % SEGMENT + length - 1
            fields |= {"src_region": self.src_region + (extra.get("src_beyond", 0) << 8),
                       "dst_region": self.dst_region + (extra.get("dst_beyond", 0) << 8),
                       "src_offset": 0 if extra else self.src_offset, "dst_offset": self.dst_offset,
                       "length": length, "note": extra.get("note", self.note), "last_segment": last // SEGMENT,
                       "single": last < SEGMENT, "end_position": last % SEGMENT}
        return REQUEST.mask(fields), REQUEST.pack(fields)


@dataclass(eq=False)
class Queue:
    """The words of one queue: in the head entry, and behind it."""

    head: Word | None = None
    words: deque = field(default_factory=deque)
    refusing: bool = False


class Around(Elaboratable):
    """The queue store with a reset of its own."""

    def __init__(self, config):
        self.store, self.rst = QueueStore(config), Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = ResetInserter(self.rst)(self.store)
        return m


class Bench(CellBench):
    """Drives the queue store for one cycle at a time and checks each output."""

    def __init__(self, ctx, around, rng):
        super().__init__(ctx, rng)
        self.around, self.dut, self.config = around, around.store, around.store.config
        self.enabled = (1 << QUEUES) - 1
        self.clear()

    def clear(self):
        self.queues = [Queue() for _ in range(QUEUES)]
        self.offered = None             # a word that is not yet transferred
        self.picked = None              # the queue of the last cycle's pick
        self.fetched = False            # its next word may move up
        self.events = deque()           # of words that were refused, and the cycles since then
        self.consumed = []

    async def step(self, word=None, pick=None, consume=False, flush=None, clear=None, take=True):
        """One cycle; returns whether the word was transferred.

        ``consume`` is ignored if the queue picked in the cycle before has no request.
        """
        dut, rng, queues = self.dut, self.rng, self.queues
        port = dut.queue_heads
        self.offered = self.offered or word
        offered, queue = self.offered, None if self.picked is None else queues[self.picked]
        consume = bool(consume and queue and queue.head)
        shown = rng.randrange(QUEUES) if self.picked is None else self.picked
        for strobe, name in ((dut.clear, clear), (None, flush), (None, pick)):
            if strobe is not None:
                self.set(strobe.valid, name is not None)
                self.set(strobe.queue, rng.randrange(QUEUES) if name is None else name)
        self.set(dut.i.valid, offered is not None)
        self.set(dut.i.payload.as_value(), rng.getrandbits(ARRIVAL.width) if offered is None else offered.payload())
        self.set(dut.queues.enabled, self.enabled)
        self.set(dut.events.ready, take)
        self.set(port.pick, pick is not None)
        self.set(port.pick_queue, rng.randrange(QUEUES) if pick is None else pick)
        self.set(port.pick_more, rng.randrange(2) if pick is None else bool(queues[pick].words))
        self.set(port.queue, shown)
        self.set(port.consume, consume)
        self.set(port.flush, flush is not None)
        self.set(port.flush_queue, rng.randrange(QUEUES) if flush is None else flush)

        self.compare(shown)
        more = pick is not None and bool(queues[pick].words)
        direct = self.arrive(offered, clear)
        self.take_event(take)
        await self.ctx.tick()

        # Moves that end with this cycle.
        if self.fetched and (consume or not queue.head):
            self.seen["replaced" if consume else "moved up"] += 1
            if consume:
                self.consumed.append(queue.head)
            queue.head = queue.words.popleft()
        elif consume:
            self.consumed.append(queue.head)
            queue.head = None
        self.seen["fetched in vain"] += self.fetched and not consume and queue.head is not None
        self.fetched = more and bool(queues[pick].words)
        self.picked = pick
        if self.accepted is not None:
            if direct:
                queues[self.accepted.queue].head = self.accepted
            else:
                queues[self.accepted.queue].words.append(self.accepted)
            self.seen["direct" if direct else "stored"] += 1
        if flush is not None:
            self.seen["flushed"] += queues[flush].head is not None and bool(queues[flush].words)
            queues[flush].head, queues[flush].words = None, deque()
        return self.transferred

    def compare(self, shown):
        """Compare the state of all queues, and the head entry of one."""
        dut, get, queues = self.dut, self.ctx.get, self.queues
        ready, more, refusing = (sum(bool(bit) << index for index, bit in enumerate(bits)) for bits in (
            [queue.head for queue in queues], [queue.words for queue in queues], [queue.refusing for queue in queues]))
        assert (get(dut.queue_heads.ready), get(dut.queue_heads.more)) == (ready, more)
        assert get(dut.occupancy.ready) == ready and get(dut.occupancy.more) == more
        assert get(dut.occupancy.refusing) == refusing
        if (head := queues[shown].head) is not None:
            mask, value = head.request()
            got = get(dut.queue_heads.request.as_value())
            assert got & mask == value, (head, {name: REQUEST.unpack(got, name) for name in REQUEST.places})

    def arrive(self, word, clear):
        """Check the transfer of a word; returns whether it becomes its queue's head entry."""
        dut, get, queues = self.dut, self.ctx.get, self.queues
        assert get(dut.i.ready) == (len(self.events) < EVENTS)
        self.transferred, self.accepted, direct = word is not None and len(self.events) < EVENTS, None, False
        if clear is not None:
            self.seen["cleared"] += queues[clear].refusing
        if self.transferred:
            queue, enabled = queues[word.queue], self.enabled >> word.queue & 1
            full = len(queue.words) == self.config.queue_depth
            refused = not enabled or queue.refusing or full
            assert get(dut.i.refused) == refused, word
            if refused and not queue.refusing:
                self.events.append([word.queue, Status.OVERFLOW if enabled else Status.DISABLED, 0])
                self.seen["overflow" if enabled else "disabled"] += 1
            if refused:
                queue.refusing = True
            else:
                self.accepted, empty = word, queue.head is None and not queue.words
                direct = bool(get(dut.queue_heads.arriving))
                assert not direct or empty, f"A word bypasses others in queue {word.queue}"
                assert direct or not empty or self.fetched, f"A word for the empty queue {word.queue} is stored"
                assert not direct or get(dut.queue_heads.arriving_queue) == word.queue
            self.offered = None
        self.seen["stalled"] += word is not None and not self.transferred
        if clear is not None:
            queues[clear].refusing = False
        assert direct or not get(dut.queue_heads.arriving)
        assert get(dut.posted.valid) == (self.accepted is not None)
        assert self.accepted is None or get(dut.posted.queue) == word.queue
        assert get(dut.refused) == (self.transferred and self.accepted is None)
        return direct

    def take_event(self, take):
        """Compare the oldest event, which appears two cycles after the word."""
        valid = self.ctx.get(self.dut.events.valid)
        assert valid == bool(self.events and self.events[0][2] >= 2), self.events
        if valid:
            assert self.ctx.get(self.dut.events.payload.as_value()) == EVENT.pack(
                dict(zip(("queue", "status"), self.events[0], strict=False)))
            if take:
                self.events.popleft()
        for event in self.events:
            event[2] += 1

    async def reset(self):
        """Reset and sweep."""
        dut = self.dut
        for signal in (dut.i.valid, dut.queue_heads.pick, dut.queue_heads.consume, dut.queue_heads.flush):
            self.set(signal, 0)
        self.set(self.around.rst, 1)
        self.set(dut.init.active, 1)
        await self.ctx.tick()
        self.set(self.around.rst, 0)
        for row in range(self.config.sweep_rows):
            self.set(dut.init.address, row)
            await self.ctx.tick()
        self.set(dut.init.active, 0)
        self.clear()
