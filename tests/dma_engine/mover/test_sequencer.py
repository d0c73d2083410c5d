# SPDX-License-Identifier: Apache-2.0
"""The write sequencer alone, against the steps of each segment and a beat buffer that is a dictionary of lists.

The bench launches segments, lets their beats arrive in slots chosen at random, announces them at their first or last
beat, and offers words.  Each cycle it predicts whether a step is offered, and which; each address, each slot taken or
released and each event is compared with the model.  The link and the beat of a released slot are overwritten at once.
"""

import random
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from hw.dma_engine.layouts import address_layout, launch_layout
from hw.dma_engine.mover.sequencer import ADDRESS_DEPTH, COMPLETION_SPACING, WriteSequencer, step_layout
from tests.dma_engine.frontend.sizes import SMALL, SMALL_REGISTERED
from tests.harness.cell import CellBench, run_bench
from tests.harness.fields import Fields

BEAT, SEGMENT = SMALL.beat_bytes, SMALL.segment_bytes
CONFIGS = pytest.mark.parametrize("config", [SMALL, SMALL_REGISTERED], ids=["direct", "registered"])


@dataclass
class Stalls:
    """Probabilities per cycle that a handshake or an event is withheld, and that of a word and of ``urgent``."""

    steps: float = 0
    aw: float = 0
    launch: float = 0
    beat: float = 0
    announcement: float = 0
    whole: float = 0.5      # of a segment that is announced at its last beat
    word: float = 0
    urgent: float = 0.2


PATTERNS = {
    "none": Stalls(), "steps": Stalls(steps=0.5), "beats": Stalls(beat=0.6, announcement=0.2, whole=0),
    "aw": Stalls(aw=0.7), "all": Stalls(steps=0.3, aw=0.4, launch=0.2, beat=0.3, announcement=0.2, word=0.2),
}


@dataclass
class Segment:
    """A segment and its progress."""

    src: int
    dst: int
    size: int
    tag: int = 0
    queue: int = 0
    epoch: int = 0
    qos: int = 0
    whole: bool = False
    slots: list = field(default_factory=list)       # of the beats that have arrived
    linked: int = 0                                 # beats that arrived in earlier cycles

    def __post_init__(self):
        self.reads, self.writes = ((at % BEAT + self.size - 1) // BEAT + 1 for at in (self.src, self.dst))
        self.ahead = int(self.dst % BEAT < self.src % BEAT)
        self.steps = self.writes + self.ahead

    def fields(self):
        return {"src_addr": self.src, "dst_addr": self.dst, "size": self.size - 1, "src_beats": self.reads,
                "queue": self.queue, "epoch": self.epoch, "dst_attributes.qos": self.qos}

    def step(self, number):
        """The fields of a step that have a meaning."""
        beat = number - self.ahead
        fields = {"take": number < self.reads, "emit": beat >= 0, "first": number == 0, "completion": 0,
                  "queue": self.queue, "epoch": self.epoch, "shift": (self.dst - self.src) % BEAT}
        if beat >= 0:
            fields |= {"starts": beat == 0, "ends": beat == self.writes - 1}
        if beat == 0:
            fields["start_lane"] = self.dst % BEAT
        if beat == self.writes - 1:
            fields["end_lane"] = (self.dst + self.size - 1) % BEAT
        return fields

    def address(self):
        return self.tag, self.dst, self.writes - 1, self.qos


def word_step(word):
    lane = word["addr"] % BEAT
    return {"take": 0, "emit": 1, "first": 1, "starts": 1, "ends": 1, "completion": 1, "word": word["word"],
            "start_lane": lane, "end_lane": lane | (3 if word["half"] else 7), "queue": word["queue"],
            "epoch": word["epoch"]}


class Bench(CellBench):
    """Drives the sequencer one cycle at a time and checks each output."""

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut, self.config = dut, dut.config
        self.tags, self.slots = list(range(self.config.tags)), list(range(self.config.buffer_beats))
        self.credits = self.config.buffer_beats
        self.links = [self.garbage() for _ in self.slots]
        self.heads, self.tails = ([self.garbage() for _ in self.tags] for _ in range(2))
        self.reading, self.announced, self.offered = [], deque(), False
        self.accepted, self.active, self.number = deque(), None, 0
        self.taken = set()                      # slots read and not released
        self.word = self.urgent = None
        self.since, self.between = 0, False     # beats since the last word; a segment began since
        self.addresses, self.launched, self.done, self.idle = deque(), 0, 0, 0
        self.launches, self.steps, self.aw = (
            Fields(layout(self.config)) for layout in (launch_layout, step_layout, address_layout))

    def garbage(self):
        return self.rng.randrange(self.config.buffer_beats)

    async def step(self, segment=None, stalls=PATTERNS["none"]):
        """One cycle; returns whether ``segment``, if there is one, was launched."""
        launched = self.launch(segment, self.chance(stalls.launch), stalls.whole)
        arriving = self.arrive(self.chance(stalls.beat))
        self.offer(stalls)
        self.lookups()
        self.compare(self.chance(stalls.steps), self.chance(stalls.aw))
        await self.ctx.tick()
        if arriving:
            current, slot = arriving
            if current.linked:
                self.links[current.slots[-2]] = slot
            current.linked, self.tails[current.tag] = len(current.slots), slot
        if launched:
            self.launched, self.reading = self.launched + 1, [*self.reading, segment]
        return launched

    def launch(self, segment, withheld, whole):
        ctx, dut, rng = self.ctx, self.dut, self.rng
        launched = bool(segment and not withheld and self.tags and self.credits >= segment.reads)
        if launched:
            segment.tag, self.credits = self.tags.pop(rng.randrange(len(self.tags))), self.credits - segment.reads
            segment.queue, segment.epoch, segment.qos = rng.randrange(4), rng.randrange(4), rng.randrange(16)
            segment.whole = self.chance(whole)
        self.set(dut.launch.read, launched)
        self.set(dut.launch.signal, not launched and rng.randrange(2))
        payload = self.launches.pack({"tag": segment.tag} | {
            f"segment.{name}": value for name, value in segment.fields().items()}) if launched else (
            rng.getrandbits(self.launches.width))
        ctx.set(dut.launch.payload.as_value(), payload)
        return launched

    def arrive(self, withheld):
        """A beat of a segment whose read is in flight takes a slot, often one that was released a moment ago."""
        waiting = [segment for segment in self.reading if len(segment.slots) < segment.reads]
        if withheld or not waiting:
            return None
        segment = self.rng.choice(waiting)
        slot = self.slots.pop(self.rng.choice((-1, self.rng.randrange(len(self.slots)))))
        segment.slots.append(slot)
        if len(segment.slots) == 1:
            self.heads[segment.tag] = slot
        if len(segment.slots) == (segment.reads if segment.whole else 1):
            self.announced.append(segment)
            self.reading = [each for each in self.reading if each is not segment or not segment.whole]
        return segment, slot

    def offer(self, stalls):
        ctx, dut, rng = self.ctx, self.dut, self.rng
        self.offered = bool(self.announced) and (self.offered or not self.chance(stalls.announcement))
        self.set(dut.arrived.valid, self.offered)
        self.set(dut.arrived.payload, self.announced[0].tag if self.offered else rng.randrange(self.config.tags))
        if self.word is None and self.chance(stalls.word):
            half = rng.randrange(2)
            self.word = {"addr": rng.getrandbits(60) * 8 + half * 4 * rng.randrange(2), "half": half,
                         "word": rng.getrandbits(64), "id": rng.getrandbits(self.config.axi_id_width),
                         "attributes": {"qos": rng.randrange(16)}, "queue": rng.randrange(4),
                         "epoch": rng.randrange(4)}
            self.urgent = self.chance(stalls.urgent)
            ctx.set(dut.words.payload, self.word)
        self.set(dut.words.valid, self.word is not None)
        # It may be high for a word that is not on the stream yet.
        self.set(dut.words.urgent, self.urgent if self.word else rng.randrange(2))

    def lookups(self):
        """Respond to the sequencer's look-ups; a link and a tail change in the cycle after the beat's."""
        ctx, slots = self.ctx, self.dut.slots
        self.set(slots.head, self.heads[ctx.get(slots.head_tag)])
        self.set(slots.tail, self.tails[ctx.get(slots.tail_tag)])
        self.set(slots.next, self.links[ctx.get(slots.after)])

    def compare(self, no_step, no_aw):
        """Predict the step of this cycle and check all outputs, then advance the model."""
        ctx, dut = self.ctx, self.dut
        self.set(dut.steps.ready, not no_step)
        self.set(dut.aw.ready, not no_aw)
        segment = word = None
        if self.active:
            segment = self.active
            valid = self.number >= segment.reads or self.number < segment.linked
            self.seen["missing beat"] += not valid
        else:
            due = self.since >= COMPLETION_SPACING or (ctx.get(dut.words.urgent) and self.between)
            word = self.word if due or not self.accepted else None
            segment = None if word or not self.accepted else self.accepted[0]
            valid = bool(word or segment) and len(self.addresses) < ADDRESS_DEPTH
            self.seen["data before word"] += bool(self.word and segment)
        assert ctx.get(dut.steps.valid) == valid, f"step {self.number} of {segment or word}"
        if valid:
            want = word_step(word) if word else segment.step(self.number)
            got = ctx.get(dut.steps.payload.as_value())
            assert got & self.steps.mask(want) == self.steps.pack(want), segment or word
        taken = valid and not no_step
        begun = taken and not self.active and not word
        self.idle = 0 if taken else self.idle + 1

        # -- AW.
        assert ctx.get(dut.aw_level.level) == len(self.addresses)
        assert ctx.get(dut.aw.valid) == bool(self.addresses)
        assert ctx.get(dut.aw_level.taken) == (bool(self.addresses) and not no_aw)
        self.seen["full AW"] += len(self.addresses) == ADDRESS_DEPTH
        if self.addresses:
            got = ctx.get(dut.aw.payload.as_value())
            assert tuple(self.aw.unpack(got, name) for name in ("id", "addr", "len", "attributes.qos")) == (
                self.addresses[0])
            if not no_aw:
                self.addresses.popleft()

        # -- The buffer.
        takes = taken and not word and self.number < segment.reads
        assert ctx.get(dut.slots.take) == takes
        if takes:
            assert ctx.get(dut.slots.slot) == segment.slots[self.number]
        released = ctx.get(dut.slots.released) if ctx.get(dut.slots.release) else None
        assert ctx.get(dut.events.freed) == (released is not None)
        if released is not None:
            assert released in self.taken, f"slot {released} is released, but {self.taken} were read"
            self.taken.remove(released)
            self.slots.append(released)
            self.credits += 1
            self.links[released] = self.garbage()
        if takes:
            self.taken.add(segment.slots[self.number])

        # -- Announcements and words.
        accepts = self.offered and ctx.get(dut.arrived.ready)
        assert accepts or not self.offered or self.accepted, "An announcement stalls, but no segment waits"
        assert (ctx.get(dut.events.arrived), ctx.get(dut.events.began)) == (accepts, begun)
        if begun:
            assert ctx.get(dut.events.began_tag) == segment.tag
        if accepts:
            assert ctx.get(dut.events.arrived_tag) == self.announced[0].tag
        assert ctx.get(dut.words.valid & dut.words.ready) == bool(word and taken)
        self.advance(taken, begun, segment, word)
        if accepts:
            self.accepted.append(self.announced.popleft())
            self.offered = False

    def advance(self, taken, begun, segment, word):
        """The model after a step."""
        if not taken:
            return
        if word:
            self.addresses.append((word["id"], word["addr"], 0, word["attributes"]["qos"]))
            self.word, self.since, self.between = None, 0, False
            self.seen["words"] += 1
            self.seen["word before data"] += bool(self.accepted)
            return
        if begun:
            self.addresses.append(segment.address())
            self.accepted.popleft()
            self.between, self.number = True, 0
        self.since += self.number >= segment.ahead
        self.number += 1
        self.active = segment
        if self.number == segment.steps:
            self.active, self.number, self.done = None, 0, self.done + 1
            self.tags.append(segment.tag)

    async def send(self, segments, stalls=PATTERNS["none"]):
        """Launch the segments in this order, and run until all have been written; returns the cycles."""
        left, total, cycles = deque(segments), self.launched + len(segments), 0
        while self.done < total or self.word:
            if await self.step(left[0] if left else None, stalls if left else replace(stalls, word=0)):
                left.popleft()
            cycles += 1
            assert self.idle < 300, f"{self.done} of {total} segments were written"
        return cycles

    async def drain(self):
        """A few cycles more, after which nothing may be left."""
        for _ in range(ADDRESS_DEPTH + 4):
            await self.step()
        assert not self.addresses and not self.taken and len(self.slots) == self.config.buffer_beats


def run(config, rng, body):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    dut = WriteSequencer(config)
    return run_bench(dut, lambda ctx: Bench(ctx, dut, rng), body)


def random_segment(rng, most=SEGMENT):
    """A segment: its destination crosses no multiple of the segment size."""
    dst = rng.randrange(SEGMENT)
    size = rng.randint(1, min(most, SEGMENT - dst))
    return Segment(rng.getrandbits(40), rng.getrandbits(40) * SEGMENT + dst, size)


@pytest.mark.parametrize("pattern", [
    "none", "all", *(pytest.param(name, marks=pytest.mark.long) for name in PATTERNS if name not in ("none", "all"))])
def test_alignments(pattern, seed):
    """Every source alignment, destination alignment and length up to two beats and a byte, with each kind of stall."""
    rng = random.Random(f"{seed} {pattern}")
    cases = [Segment(rng.getrandbits(40) * BEAT + src, rng.getrandbits(40) * SEGMENT + dst, size)
             for src, dst, size in product(range(BEAT), range(BEAT), range(1, 2 * BEAT + 2))]
    rng.shuffle(cases)

    async def body(bench):
        await bench.send(cases, PATTERNS[pattern])

    seen = run(SMALL, rng, body)
    assert pattern != "aw" or seen["full AW"] > 100
    assert pattern != "beats" or seen["missing beat"] > 100


@CONFIGS
def test_segments(config, seed):
    """Random segments up to the longest, words, and random rates of all stalls, which change now and then."""
    rng = random.Random(f"{seed} segments")

    async def body(bench):
        for _ in range(20):
            rates = Stalls(*(rng.choice((0, 0, 0.2, 0.8)) for _ in range(5)), whole=rng.random(),
                           word=rng.choice((0, 0.05, 0.9)), urgent=rng.choice((0, 0.1, 1)))
            await bench.send([random_segment(rng) for _ in range(20)], rates)

    seen = run(config, rng, body)
    assert all(seen[name] for name in ("missing beat", "words", "word before data", "data before word")), seen


@pytest.mark.parametrize("urgent", [0, 1])
def test_words_between_segments(urgent, seed):
    """With words and data always waiting, a word follows 48 beats or, if urgent, every segment."""
    rng, count = random.Random(f"{seed} words"), 150

    async def body(bench):
        segments = [Segment(0, 0, SEGMENT) for _ in range(count)]
        await bench.send(segments, Stalls(steps=0.3, word=1, urgent=urgent))

    seen = run(SMALL, rng, body)
    words = count if urgent else count * SMALL.segment_beats // COMPLETION_SPACING
    assert abs(seen["word before data"] - words) <= 5


def test_throughput(seed):
    """One step per cycle, also for segments of one beat that need one step, and for words."""
    rng = random.Random(f"{seed} throughput")

    async def body(bench):
        cycles = await bench.send([random_segment(rng, most=1) for _ in range(200)])
        assert cycles < 400 + 10
        aligned = [Segment(8 * number, 8 * number % SEGMENT, 8) for number in range(200)]
        cycles = await bench.send(aligned)
        assert cycles < 200 + 10, f"200 segments of one step take {cycles} cycles"
        for _ in range(50):
            await bench.step(stalls=Stalls(word=1))
        assert bench.seen["words"] == 50

    run(SMALL, rng, body)


@CONFIGS
def test_withheld(config, seed):
    """Each handshake is withheld for a long time while all others are free; then everything completes."""
    rng = random.Random(f"{seed} withheld")

    async def body(bench):
        for name in ("steps", "aw", "launch", "beat", "announcement"):
            left = deque(random_segment(rng) for _ in range(40))
            for _ in range(200):
                if left and await bench.step(left[0], Stalls(**{name: 1}, word=0.3)):
                    left.popleft()
            done = bench.done
            await bench.send(left, Stalls(word=0.1))
            assert bench.done > done

    run(config, rng, body)
