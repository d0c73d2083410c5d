# SPDX-License-Identifier: Apache-2.0
"""The stages around the beat buffer: they launch segments, deliver their beats on R and follow their slots.

The bench launches segments while it has a tag and credits, lets their beats arrive in any order of the tags, and mixes
in beats of descriptors and unexpected ones. It follows the slots of announced segments in any order. Each cycle it
predicts which tag is announced; each look-up, each beat that is taken and each strobe is compared with the model. The
slots themselves are the buffer's choice: the model knows only which beat a slot must contain.
"""

from collections import deque
from dataclasses import dataclass, field

from amaranth.hdl import ResetInserter, Signal

from hw.axi import Resp
from hw.dma_engine.config import TARGETS
from hw.dma_engine.layouts import launch_layout, read_beat_layout
from hw.dma_engine.mover.buffer import BeatBuffer, buffered_layout
from tests.harness.cell import CellBench, run_bench
from tests.harness.fields import Fields

__all__ = ["ERRORS", "PATTERNS", "Segment", "Stalls", "run"]

ERRORS = (Resp.SLVERR, Resp.DECERR)


@dataclass
class Stalls:
    """Probabilities per cycle that a handshake or an action is withheld, and those of other beats than data."""

    launch: float = 0
    beat: float = 0
    arrived: float = 0
    follow: float = 0
    take: float = 0
    release: float = 0
    descriptor: float = 0
    unexpected: float = 0


PATTERNS = {
    "none": Stalls(), "launches": Stalls(launch=0.7), "beats": Stalls(beat=0.6), "announcements": Stalls(arrived=0.8),
    "look-ups": Stalls(follow=0.5, take=0.3), "releases": Stalls(release=0.7),
    "all": Stalls(0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2),
}


@dataclass
class Segment:
    """A segment and its progress; ``slots`` are those that the bench has found by look-ups."""

    bursts: tuple
    slow: bool
    resps: list
    data: list = field(default_factory=list)
    tag: int = 0
    sent: int = 0                       # beats that were on R
    arrived: int = 0                    # beats of which look-ups know
    announced: bool = False
    head: int | None = None             # first slot, as offered
    slots: list = field(default_factory=list)
    taken: int = 0
    readable: int = 0                   # taken in earlier cycles
    released: int = 0

    @property
    def beats(self):
        return sum(self.bursts)

    @property
    def whole(self):
        return self.slow or len(self.bursts) > 1

    def first_error(self, beats):
        return next((resp for resp in self.resps[:beats] if resp in ERRORS), Resp.OKAY)


@dataclass
class Beat:
    """A beat on R: of a segment, of a descriptor, or unexpected."""

    id: int
    data: int
    resp: Resp
    last: int
    segment: Segment | None = None
    descriptor: bool = False


class Bench(CellBench):
    """Drives the buffer one cycle at a time and checks each output."""

    def __init__(self, ctx, dut, reset, rng):
        super().__init__(ctx, rng)
        self.dut, self.rst, self.config = dut, reset, dut.config
        self.launches, self.beats, self.buffered = (
            Fields(layout(self.config)) for layout in (launch_layout, read_beat_layout, buffered_layout))
        self.offered = None
        self.clear()

    def clear(self):
        self.tags, self.credits = list(range(self.config.tags)), self.config.buffer_beats
        self.reading, self.waiting, self.following, self.live = [], deque(), [], set()
        self.latest = {}                # tag -> segment, from its first beat to the tag's next launch
        self.incoming = None            # the beat transferred on R in the previous cycle
        self.shown = None               # beat of the latest take
        self.done, self.idle, self.fresh = 0, 0, None

    async def reset(self):
        """Reset in any state, with the tables as they are, and the sweep; a beat waits on R meanwhile."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        lost = [segment for segment in self.reading if segment.sent]
        for signal in (dut.launch.read, dut.launch.signal, dut.slots.take, dut.slots.release):
            self.set(signal, 0)
        self.set(dut.r.valid, 0)
        self.set(self.rst, 1)
        await ctx.tick()
        self.set(self.rst, 0)
        self.clear()
        descriptor = rng.random() < 0.4
        late = Beat(1 << self.config.axi_id_width - 1 if descriptor else rng.choice(lost).tag if lost else 0,
                    rng.getrandbits(8), Resp.OKAY, rng.randrange(2), descriptor=descriptor)
        self.set(dut.init.active, 1)
        for address in range(self.config.sweep_rows):
            self.set(dut.init.address, address)
            self.set(dut.arrived.ready, rng.randrange(2))
            self.drive_beat(late)
            assert not ctx.get(dut.r.ready), "R is ready in the sweep"
            assert not ctx.get(dut.arrived.valid) and not ctx.get(dut.unexpected)
            assert not ctx.get(dut.descriptors.valid)
            await ctx.tick()
        self.set(dut.init.active, 0)
        self.offered = late
        self.seen["resets"] += 1

    # -- One cycle.

    async def step(self, segment=None, stalls=PATTERNS["none"]):
        """One cycle; returns whether ``segment``, if there is one, was launched."""
        ctx, dut = self.ctx, self.dut
        launched = self.launch(segment, self.chance(stalls.launch))
        beat = self.offered or self.next_beat(stalls, segment if launched else None)
        self.offered = None
        self.drive_beat(beat)
        assert ctx.get(dut.r.ready), "R is not ready"
        arriving = self.arrive()
        self.announce(arriving, not self.chance(stalls.arrived))
        self.status()
        self.follow(stalls)
        await ctx.tick()
        if arriving:
            arriving.arrived += 1
            self.latest[arriving.tag] = arriving
        for each in self.following:
            each.readable = each.taken
        self.finish()
        if launched:
            self.reading.append(segment)
        self.incoming = beat
        return launched

    def launch(self, segment, withheld):
        dut, rng = self.dut, self.rng
        launched = bool(segment and not withheld and self.tags and self.credits >= segment.beats)
        slow, payload = rng.getrandbits(TARGETS), rng.getrandbits(self.launches.width)
        if launched:
            # A beat may arrive in the next cycle at the earliest: not the one that has waited for the sweep.
            segment.tag = rng.choice([tag for tag in self.tags if not self.offered or tag != self.offered.id])
            self.tags.remove(segment.tag)
            self.credits -= segment.beats
            segment.data = [rng.getrandbits(self.config.data_width) for _ in range(segment.beats)]
            self.latest.pop(segment.tag, None)
            target = rng.randrange(TARGETS)
            slow = slow | 1 << target if segment.slow else slow & ~(1 << target)
            fields = {"tag": segment.tag, "segment.target": target, "segment.crosses": len(segment.bursts) > 1}
            payload = payload & ~self.launches.mask(fields) | self.launches.pack(fields)
        self.set(dut.launch.read, launched)
        self.set(dut.launch.signal, not launched and rng.randrange(2))
        self.set(dut.launch.payload.as_value(), payload)
        self.set(dut.targets.slow, slow)
        return launched

    def next_beat(self, stalls, launched):
        """The next beat on R; beats of one tag come in order."""
        config, rng = self.config, self.rng
        data, resp, last = rng.getrandbits(config.data_width), rng.choice(list(Resp)), rng.randrange(2)
        top = 1 << config.axi_id_width - 1
        if self.chance(stalls.descriptor):
            return Beat(top | rng.getrandbits(config.axi_id_width - 1), data, resp, last, descriptor=True)
        if self.chance(stalls.unexpected):
            number = rng.randrange(top)
            if rng.random() < 0.7:
                number = rng.choice([*self.latest] if self.latest and rng.random() < 0.5 else range(config.tags))
            if number not in {each.tag for each in (*self.reading, *([launched] if launched else ()))}:
                return Beat(number, data, resp, last)
        if not self.reading or self.chance(stalls.beat):
            return None
        segment = rng.choice(self.reading)
        number = segment.sent
        segment.sent += 1
        if segment.sent == segment.beats:
            self.reading.remove(segment)
        ends = segment.sent in (segment.bursts[0], segment.beats)
        return Beat(segment.tag, segment.data[number], segment.resps[number], ends, segment)

    def drive_beat(self, beat):
        self.set(self.dut.r.valid, beat is not None)
        self.set(self.dut.r.payload.as_value(), self.rng.getrandbits(self.beats.width) if beat is None else (
            self.beats.pack({"id": beat.id, "data": beat.data, "resp": beat.resp.value, "last": beat.last})))

    def arrive(self):
        """Check the strobes for the beat of the previous cycle; returns its segment."""
        ctx, passed, beat = self.ctx, self.dut.descriptors, self.incoming
        descriptor = bool(beat and beat.descriptor)
        assert ctx.get(passed.valid) == descriptor
        if descriptor:
            assert (ctx.get(passed.id), ctx.get(passed.data), ctx.get(passed.resp)) == (beat.id, beat.data, beat.resp)
        unexpected = beat is not None and not descriptor and beat.segment is None
        assert ctx.get(self.dut.unexpected) == unexpected, beat
        self.seen["descriptors"] += descriptor
        self.seen["unexpected"] += unexpected
        return beat and beat.segment

    def announce(self, arriving, ready):
        """Predict the announcement of this cycle: of the oldest tag that may be written."""
        ctx, dut = self.ctx, self.dut
        if arriving:
            first, last = arriving.arrived == 0, arriving.arrived == arriving.beats - 1
            if not arriving.announced and (last or (first and not arriving.whole and not self.waiting)):
                self.seen["cut through" if not last else "at last beat"] += 1
                arriving.announced = True
                self.waiting.append(arriving)
        self.set(dut.arrived.ready, ready)
        assert ctx.get(dut.arrived.valid) == bool(self.waiting)
        if not self.waiting:
            return
        segment = self.waiting[0]
        assert ctx.get(dut.arrived.payload) == segment.tag
        self.set(dut.slots.head_tag, segment.tag)
        head = ctx.get(dut.slots.head)
        assert segment.head in (None, head), "The first slot of a tag changes"
        assert segment.head is not None or head not in self.live, f"Slot {head} is in use"
        segment.head = head
        self.live.add(head)
        self.seen["stalled"] += not ready
        if ready:
            segment.slots.append(head)
            self.waiting.popleft()
            self.fresh = segment
            self.following.append(segment)

    def status(self):
        """Check the first error of a tag's beats."""
        if self.latest:
            segment = self.rng.choice(list(self.latest.values()))
            self.set(self.dut.read_status.tag, segment.tag)
            assert self.ctx.get(self.dut.read_status.resp) == segment.first_error(segment.arrived)

    def follow(self, stalls):
        """Look up a slot, take one and release one: of any segments that were announced in earlier cycles."""
        ctx, dut, rng, slots = self.ctx, self.dut, self.rng, self.dut.slots
        found = ctx.get(dut.beat.as_value())
        assert self.shown in (None, found), "A beat is not the one that was taken"
        known = [segment for segment in self.following if segment.arrived]
        if known and self.fresh is known[-1]:
            known.pop()
        self.fresh = None
        behind = [each for each in known if len(each.slots) < each.arrived]
        if known and not self.chance(stalls.follow):
            segment = rng.choice(behind if behind and rng.random() < 0.8 else known)
            self.set(slots.tail_tag, segment.tag)
            self.set(slots.after, segment.slots[-1])
            behind = len(segment.slots) < segment.arrived
            assert (ctx.get(slots.tail) != segment.slots[-1]) == behind, "The latest slot is another one"
            if behind:
                slot = ctx.get(slots.next)
                assert slot not in self.live, f"Slot {slot} is in use"
                self.live.add(slot)
                segment.slots.append(slot)
            self.seen["missing beat"] += not behind and segment.arrived < segment.beats

        ready = [each for each in known if each.taken < len(each.slots)]
        taken = None if self.chance(stalls.take) or not ready else rng.choice(ready)
        self.set(slots.take, taken is not None)
        if taken:
            number = taken.taken
            taken.taken += 1
            self.set(slots.slot, taken.slots[number])
            self.shown = self.buffered.pack({
                "data": taken.data[number], "error": taken.first_error(number + 1) != Resp.OKAY})
        else:
            self.set(slots.slot, rng.randrange(self.config.buffer_beats))

        followed = [each for each in known if each.released < each.readable
                    and each.released + 1 < (len(each.slots) + (len(each.slots) == each.beats))]
        freed = None if self.chance(stalls.release) or not followed else rng.choice(followed)
        self.set(slots.release, freed is not None)
        assert ctx.get(dut.slot_freed) == (freed is not None)
        self.idle = 0 if taken or freed else self.idle + 1
        if freed:
            slot = freed.slots[freed.released]
            freed.released += 1
            self.live.remove(slot)
            self.credits += 1
            self.set(slots.released, slot)
            self.seen["full"] += self.credits == 1
        else:
            self.set(slots.released, rng.randrange(self.config.buffer_beats))

    def finish(self):
        """Tags of segments that were written are free; their result remains until the next launch."""
        for segment in [each for each in self.following if each.released == each.beats]:
            self.following.remove(segment)
            self.tags.append(segment.tag)
            self.done += 1

    # -- Many cycles.

    async def send(self, segments, stalls=PATTERNS["none"]):
        """Launch the segments in this order, and run until all were written; returns the cycles."""
        left, total, cycles, self.idle = deque(segments), self.done + len(segments), 0, 0
        while self.done < total:
            if await self.step(left[0] if left else None, stalls):
                left.popleft()
            cycles += 1
            assert self.idle < 300, f"{total - self.done} of {total} segments were not written"
        return cycles

    async def drain(self):
        """Complete all segments, and a few cycles more in which nothing may happen."""
        while self.reading or self.incoming or self.waiting or self.following:
            await self.step()
        for _ in range(4):
            await self.step()
        assert len(self.tags) == self.config.tags and self.credits == self.config.buffer_beats


def run(config, rng, body):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    dut, reset = BeatBuffer(config), Signal()

    async def after_reset(bench):
        await bench.reset()
        await body(bench)

    return run_bench(ResetInserter(reset)(dut), lambda ctx: Bench(ctx, dut, reset, rng), after_reset)
