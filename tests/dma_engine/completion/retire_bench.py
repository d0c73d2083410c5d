# SPDX-License-Identifier: Apache-2.0
"""A bench for retirement alone: a list of each queue's segments, and the rules of its completion word.

The bench schedules segments, ends them in any order, changes states and settings, and sends operations.  Each segment
that retires must be its queue's oldest one, have ended and be free to retire; if it is, it must retire soon.  All other
outputs follow from the order of retirements and operations, and are predicted for each cycle.
"""

from collections import deque
from dataclasses import dataclass, field

from amaranth import Array, Elaboratable, Module, ResetInserter, Signal

from hw.common.words import CompletionWord
from hw.dma_engine.completion.retire import Retire
from hw.dma_engine.layouts import (
    EPOCH_WIDTH,
    InfoLayout,
    OpKind,
    done_layout,
    notice_layout,
    op_layout,
    queue_settings_layout,
    scheduled_layout,
)
from hw.dma_engine.words import QueueMode, Status
from tests.dma_engine.frontend.sizes import SMALL
from tests.dma_engine.windows import Windows
from tests.harness.cell import CellBench
from tests.harness.fields import Fields

EPOCHS = 1 << EPOCH_WIDTH
QUEUES, EXTENDED = SMALL.queues, SMALL.extended
PATIENCE = QUEUES + 6
"""Cycles after which a queue that may retire has done so."""

SEGMENT_STATUSES = [Status.OK, Status.WRITE_SLVERR, Status.WRITE_DECERR, Status.READ_SLVERR, Status.READ_DECERR,
                    Status.DST_PAGE, Status.SRC_PAGE]
CHECKS = [status for status in Status if status not in SEGMENT_STATUSES]
QUIET = Status.DISABLED, Status.COMPLETION_ERROR
"""Events that are logged and leave the word as it is."""
BOTH = {"sc": 1, "rc": 1}
BOTH_ENABLED = {"sc_enable": 1, "rc_enable": 1, "skip_errors": 0, "mode": QueueMode.NATIVE}

OP, DONE, SCHEDULED, SETTINGS, INFO, NOTICE = (Fields(layout) for layout in (
    op_layout(SMALL), done_layout(SMALL), scheduled_layout(SMALL), queue_settings_layout(SMALL), InfoLayout,
    notice_layout(SMALL)))


def rank(status):
    """The order of results of one request, by the description of the status codes."""
    for number, group in enumerate(("SRC_PAGE", "DST_PAGE", "READ_", "WRITE_"), 1):
        if status.name.startswith(group):
            return number
    return 0


@dataclass(eq=False)
class Segment:
    """One segment in the window. A segment that was cut short by an abort has no result of its own."""

    queue: int
    number: int = 0
    index: int = 0
    status: Status = Status.OK
    last: bool = True
    flags: dict = field(default_factory=dict)
    aborted: bool = False
    rejected: bool = False
    epoch: int = 0
    scheduled: int = 0
    ended: int | None = None
    fields: dict = field(default_factory=dict)
    info: int = 0


@dataclass(eq=False)
class Queue:
    """One queue: its segments, its completion word and its state, by the contract."""

    oldest: int = 0
    tail: int = 0
    segments: dict = field(default_factory=dict)
    status: Status = Status.OK      # of the request whose segments retire
    word: tuple = (0, 0, Status.OK)
    """Completed requests, failed ones, and the latest failure."""
    held: bool = False
    counts: bool = False            # the request that failed counts at the next CLEAR
    timeout: int = -9               # cycle of the last one
    published: int = -9             # cycle of the last retirement that published its word
    epoch: int = 0
    settings: dict = field(default_factory=dict)
    waited: int = 0
    plan: deque = field(default_factory=deque)  # segments that are not scheduled
    resetting: bool = False
    reset: bool = False             # the operation is in flight


def packed(word):
    return CompletionWord(*word).pack()


class Around(Elaboratable):
    """Retirement with the tables that it looks up, and a reset of its own."""

    def __init__(self, config):
        self.retire, self.rst = Retire(config), Signal()
        self.epochs = [Signal(EPOCH_WIDTH, name=f"epoch_{queue}") for queue in range(QUEUES)]
        self.settings = [Signal(SETTINGS.width, name=f"settings_{queue}") for queue in range(QUEUES)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.retire = ResetInserter(self.rst)(self.retire)
        m.d.comb += [
            self.retire.epoch.epoch.eq(Array(self.epochs)[self.retire.epoch.queue]),
            self.retire.settings.settings.as_value().eq(Array(self.settings)[self.retire.settings.queue]),
        ]
        return m


class Bench(CellBench):
    """Drives retirement for one cycle at a time and checks each output."""

    def __init__(self, ctx, around, rng):
        super().__init__(ctx, rng)
        self.around, self.dut, self.config = around, around.retire, around.retire.config
        self.cycle = 0
        self.retirements = []                   # cycle and queue of each
        self.clear()

    def clear(self):
        self.queues = [Queue() for _ in range(QUEUES)]
        self.windows = Windows(self.config, self.rng)
        self.rejects = deque()
        self.abandoned, self.waits = None, False        # a queue; its oldest segment was ended and has not retired
        self.flying = []                        # segments that have not ended, and those of earlier epochs
        self.ops = deque([None, None])          # accepted, not yet in stage 2
        self.three, self.three_word = {}, None
        self.crowded = self.every_word = 0
        self.strict = 0                         # cycles since ``every_word`` was set
        self.pending = 0                        # queues with words to write
        self.was = (0, 0), 0                    # ``crowded`` in the last two cycles, pending queues in the last
        for queue in range(QUEUES):
            self.configure(queue)

    def configure(self, queue, **settings):
        self.queues[queue].settings = BOTH_ENABLED | settings
        self.set(self.around.settings[queue], SETTINGS.pack(self.queues[queue].settings))

    def schedule(self, segment):
        """Give a segment its number, and return the strobe's payload."""
        queue = self.queues[segment.queue]
        segment.number, segment.epoch, segment.scheduled = queue.tail, queue.epoch, self.cycle
        segment.index, following = self.windows.schedule(segment.queue)
        segment.fields = {"size": self.rng.getrandbits(self.config.segment_bits), "target": self.rng.randrange(4),
                          "phase": self.rng.randrange(2)}
        segment.info = self.rng.getrandbits(INFO.width)
        queue.segments[segment.number] = segment
        queue.tail += 1
        self.flying.append(segment)
        return {"queue": segment.queue, "index": segment.index, "epoch": segment.epoch % EPOCHS, "last": segment.last,
                "request.length": INFO.unpack(segment.info, "length"),
                "request.note": INFO.unpack(segment.info, "note")} | following

    def payload(self, segment):
        """How a segment ends."""
        return DONE.pack({"queue": segment.queue, "index": segment.index, "last": segment.last,
                          "status": segment.status, "epoch": segment.epoch % EPOCHS} | segment.fields
                         | {f"end.{name}": value for name, value in segment.flags.items()})

    async def step(self, schedule=None, done=None, reject=None, op=None, offer=True):
        """One cycle: a segment that is scheduled, one that ends, one that is offered as rejected, and an operation.

        ``op`` is its kind, queue and status. A rejected segment is offered until it is taken. The segments of an
        abandoned queue end one after the other, each when the one before has retired.
        """
        dut, rng, queues = self.dut, self.rng, self.queues
        self.set(dut.scheduled.valid, schedule is not None)
        self.set(dut.scheduled.segment.as_value(), SCHEDULED.pack(self.schedule(schedule)) if schedule
                 else rng.getrandbits(SCHEDULED.width))
        if reject is not None:
            self.rejects.append(reject)
        rejecting = bool(self.rejects)
        abandon = None
        if self.abandoned is not None and offer and not self.waits and not (
                self.ctx.get(dut.retired.valid) and self.ctx.get(dut.retired.queue) == self.abandoned):
            queue = queues[self.abandoned]
            abandon = Segment(self.abandoned, queue.oldest, rng.getrandbits(self.config.index_width), last=False,
                              epoch=queue.epoch)
        abandoning = abandon is not None
        for stream, valid, value in ((dut.done, done is not None, done and self.payload(done)),
                                     (dut.rejected, rejecting, rejecting and self.payload(self.rejects[0])),
                                     (dut.abandoned, abandoning, abandoning and self.payload(abandon))):
            self.set(stream.valid, valid)
            self.set(stream.payload.as_value(), value if valid else rng.getrandbits(DONE.width))
        self.set(dut.ops.valid, op is not None)
        self.set(dut.ops.payload.as_value(), OP.pack({"kind": op[0].value, "queue": op[1], "status": op[2]})
                 if op else rng.getrandbits(OP.width))
        resetting = sum(bool(queue.resetting) << index for index, queue in enumerate(queues))
        self.set(dut.queues.resetting, resetting)
        self.set(dut.notice.crowded, self.crowded)
        self.set(dut.ablation.every_word, self.every_word)
        self.set(dut.pending, self.pending)
        for queue, epoch in zip(queues, self.around.epochs, strict=True):
            self.set(epoch, queue.epoch % EPOCHS)

        taken = self.streams(done, rejecting, abandon)
        assert self.ctx.get(dut.ops.ready)
        self.lookups()
        self.last_stage()
        if self.three_word is not None:
            queues[self.three_word[0]].word = self.three_word[1]
        self.second_stage(self.ops.popleft())
        self.ops.append(op)
        self.patience(op)
        if taken is not None:
            self.end(taken)
        self.was = (self.was[0][1], self.crowded), self.pending if self.every_word else 0
        self.strict = self.strict + 1 if self.every_word else 0
        await self.ctx.tick()
        self.three, self.three_word = self.next_three, self.next_word
        for queue, held, counts in self.states:
            queues[queue].held, queues[queue].counts = held, counts
        if self.retired is not None:
            queues[self.retired].oldest += 1
            self.waits &= self.retired != self.abandoned
        if self.abandoned is not None and queues[self.abandoned].oldest == queues[self.abandoned].tail:
            self.abandoned = None
        self.cycle += 1

    def streams(self, done, rejecting, abandon):
        """Check the strobes of the segment that ends in this cycle, and return it."""
        dut, get = self.dut, self.ctx.get
        assert get(dut.rejected.ready) == (done is None)
        assert get(dut.abandoned.ready) == (done is None and not rejecting)
        segment = done or (self.rejects.popleft() if rejecting else abandon)
        self.waits |= segment is not None and segment is abandon
        returned = done is not None or rejecting
        assert get(dut.returned.valid) == returned
        if returned:
            assert (get(dut.returned.queue), get(dut.returned.size), get(dut.returned.target), get(
                dut.returned.phase)) == (segment.queue, *segment.fields.values())
        present = segment is not None and segment.epoch == self.queues[segment.queue].epoch
        assert get(dut.moved.valid) == (done is not None and present)
        if done is not None and present:
            assert (get(dut.moved.queue), get(dut.moved.size), get(dut.moved.ok)) == (
                done.queue, done.fields["size"], done.status == Status.OK)
        self.seen["outdated"] += returned and not present
        return segment if present else None

    def end(self, segment):
        """A segment ends: that of the window is marked unless it has retired."""
        if (entry := self.queues[segment.queue].segments.get(segment.number)) is not None:
            if segment is not entry:
                entry.status, entry.last, entry.flags = segment.status, segment.last, segment.flags
            entry.ended = self.cycle

    def lookups(self):
        """Look up the word and the oldest segment of random queues."""
        dut, get, queues = self.dut, self.ctx.get, self.queues
        for lookup in (dut.lookup, dut.head):
            queue = self.rng.randrange(QUEUES)
            self.set(lookup.queue, queue)
            assert get(lookup.head) == self.windows.number(queues[queue].oldest)
            if lookup is dut.lookup:
                assert get(lookup.word.as_value()) == packed(queues[queue].word), f"word of queue {queue}"
        assert get(dut.held) == sum(queue.held << index for index, queue in enumerate(queues))

    def last_stage(self):
        """Compare the outputs of the last stage with the retirement or the operation of the cycle before."""
        dut, get, want = self.dut, self.ctx.get, self.three
        got = {name: get(getattr(port, name)) for port, names in (
            (dut.publish, ("sc", "rc", "discard", "record")), (dut.outcome, ("ended", "failed", "interrupt", "reset")))
            for name in names}
        assert got == {name: want.get(name, 0) for name in got}
        # A failure interrupts the queue whatever its flags, unless it is only logged.
        interrupts = got["interrupt"] or (got["failed"] and not want.get("quiet"))
        assert get(dut.publish.interrupt) == interrupts
        assert get(dut.notice.valid) == ("notice" in want)
        if "notice" in want:
            assert get(dut.notice.payload.as_value()) == want["notice"]
        if got["sc"] or got["rc"] or got["discard"] or interrupts:
            assert get(dut.publish.queue) == want["queue"]
        if got["sc"] or got["rc"]:
            assert get(dut.publish.word.as_value()) == want["word"]
        if any(got[name] for name in ("ended", "failed", "interrupt", "reset")):
            assert get(dut.outcome.queue) == want["queue"]
        if got["reset"]:
            self.queues[want["queue"]].resetting = self.queues[want["queue"]].reset = False
        if got["failed"]:
            log = get(dut.outcome.log)
            assert (log.queue, log.status, log.count) == (want["queue"], want["status"], want["before"])

    def second_stage(self, op):
        """Predict the effects of the segment that retires now, or of an operation that was sent two cycles ago."""
        dut, get = self.dut, self.ctx.get
        self.next_three, self.next_word, self.states, self.retired = {}, None, [], None
        if get(dut.retired.valid):
            assert op is None, "A segment retires together with an operation"
            self.retired = index = get(dut.retired.queue)
            self.retirements.append((self.cycle, index))
            queue = self.queues[index]
            segment = queue.segments.pop(queue.oldest, None)
            assert segment is not None and segment.ended is not None, f"queue {index} retires what has not ended"
            assert get(dut.retired.index) == segment.index, f"queue {index} retires out of order"
            self.windows.retire(segment.index)
            self.may_retire(index, queue)
            self.seen["retired"] += 1
            if segment.status != Status.OK and not segment.aborted and (
                    queue.status == Status.OK or rank(segment.status) < rank(queue.status)):
                queue.status = segment.status
            if segment.last:
                self.request_ends(index, segment.flags, segment.info)
                if self.next_three.get("sc") or self.next_three.get("rc"):
                    queue.published = self.cycle
                queue.status = Status.OK
        elif op is not None:
            self.operate(*op)

    def may_retire(self, index, queue):
        if queue.held and not queue.resetting:
            assert self.cycle - queue.timeout <= 2, f"queue {index} retires while it holds"
        crowded = all(self.was[0]) and index < EXTENDED and not queue.resetting
        assert not crowded, f"queue {index} retires while notices are crowded"
        # A word is pending from two cycles after the retirement that publishes it.
        unwritten = self.strict > 3 and self.cycle - queue.published <= 2
        assert not (self.was[1] >> index & 1 or unwritten), f"queue {index} retires while its word is pending"

    def predict(self, index, *, word, flags, **outcomes):
        """The word becomes ``word``, and is published as the flags say."""
        queue, settings = self.queues[index], self.queues[index].settings
        sc, rc = settings["sc_enable"] and settings["mode"] != QueueMode.ARK, settings["rc_enable"]
        self.next_three = {"queue": index, "word": packed(word), "before": queue.word[0],
                           "sc": sc and flags.get("sc", 0), "rc": rc and flags.get("rc", 0)} | outcomes
        self.next_word = index, word

    def request_ends(self, index, flags, info):
        """A request ends with its queue's present status."""
        queue, settings = self.queues[index], self.queues[index].settings
        if queue.resetting:
            self.seen["dropped"] += 1
            return
        fails = queue.status != Status.OK
        holds, (count, failed, latest), outcomes = fails and not settings["skip_errors"], queue.word, {}
        self.seen["holds" if holds else "skips" if fails else "completes"] += 1
        if settings["mode"] != QueueMode.NATIVE:
            outcomes["notice"] = NOTICE.pack({"queue": index, "mode": settings["mode"], "status": queue.status,
                                              "irq": fails or flags.get("irq", 0), "info": info})
            outcomes["record"] = settings["mode"] == QueueMode.RING and INFO.unpack(info, "note.ring.end")
            self.seen["notice"] += 1
        if holds:
            self.states.append((index, True, True))
        if fails:
            self.predict(index, word=(count + (not holds), failed + 1, queue.status), flags=BOTH, ended=not holds,
                         failed=1, status=queue.status, **outcomes)
        else:
            self.predict(index, word=(count + 1, failed, latest), flags=flags, ended=1,
                         interrupt=flags.get("irq", 0), **outcomes)

    def operate(self, kind, index, status):
        queue, (count, failed, latest) = self.queues[index], self.queues[index].word
        self.seen[kind.name.lower()] += 1
        if kind is OpKind.RESET:
            self.predict(index, word=(0, 0, Status.OK), flags={}, reset=1, discard=1)
            self.states.append((index, False, False))
            queue.status = Status.OK
        elif kind is OpKind.CLEAR:
            self.seen["clear counts"] += queue.counts
            self.predict(index, word=(count + queue.counts, failed, Status.OK), flags=BOTH, ended=int(queue.counts))
            self.states.append((index, False, False))
        elif status in QUIET:
            self.predict(index, word=(count, failed, latest), flags={}, failed=1, status=status,
                         quiet=True)
        else:
            self.predict(index, word=(count, failed + 1, status), flags=BOTH, failed=1, status=status)
            if status == Status.TIMEOUT:
                self.states.append((index, True, queue.counts))
                queue.timeout = self.cycle

    def patience(self, op):
        """A queue whose oldest segment has ended retires it soon, unless something prevents it."""
        for index, queue in enumerate(self.queues):
            segment = queue.segments.get(queue.oldest) if index != self.retired else None
            free = (segment is not None and segment.ended is not None and segment.ended < self.cycle
                    and (queue.resetting or not (queue.held or (self.crowded and index < EXTENDED)))
                    and not (self.every_word and self.pending >> index & 1))
            # An operation takes the turn of a queue, and no more than that.
            queue.waited = queue.waited + (op is None) if free else 0
            self.seen["longest wait"] = max(self.seen["longest wait"], queue.waited)
            assert queue.waited <= PATIENCE, f"queue {index} does not retire"
