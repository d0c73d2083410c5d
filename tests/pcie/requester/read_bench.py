# SPDX-License-Identifier: Apache-2.0
"""The read path between random bursts, a root complex and R, with every TLP, beat and response checked."""

from collections import Counter, deque
from dataclasses import dataclass, field

from amaranth.hdl import ResetInserter, Value

from hw.axi import Resp
from hw.pcie.config import PcieConfig
from hw.pcie.layouts import (
    ReadTlp,
    completion_layout,
    flush_layout,
    read_beat_layout,
    read_burst_layout,
    write_response_layout,
)
from hw.pcie.requester.reads import ReadPath
from tests.harness.cell import CellBench, run_cell
from tests.pcie.requester.root_complex import Packer, Request, memory_beat, plan, unexpected

__all__ = ["SMALL", "Burst", "ReadBench", "run_reads"]

SMALL = PcieConfig(axi_id_width=8, doorbell_addr_width=16, tags=64, reorder_slots=8, order_rows=128)

EVENTS = ("unsupported", "aborted", "poisoned", "malformed", "unexpected", "timed_out")


@dataclass
class Burst:
    """A burst; ``next`` is the first byte that is not yet requested."""

    id: int
    addr: int
    beats: int
    cache: int = 0
    qos: int = 0
    next: int = field(init=False)
    end: int = field(init=False)

    def __post_init__(self):
        self.next = self.addr


@dataclass
class Rates:
    """Probabilities per cycle."""

    bursts: float = 1
    tlps: float = 1
    beats: float = 1
    completions: float = 1
    flushes: float = 0
    unexpected: float = 0


class ReadBench(CellBench):
    """Drives the read path cycle by cycle.

    ``bursts`` are issued in order. ``fault`` names the fault of the next request, ``delay`` the cycles before a
    completion; ``responding`` lets completions through.
    """

    def __init__(self, ctx, rng, dut, config):
        super().__init__(ctx, rng)
        self.dut, self.config, self.cycle = dut, config, 0
        self.rates = Rates()
        self.burst_pack, self.beat_pack, self.tlp_pack, self.completion_pack, self.flush_pack, self.done_pack = map(
            Packer, (read_burst_layout(config), read_beat_layout(config), ReadTlp, completion_layout(config),
                     flush_layout(config), write_response_layout(config)))
        self.bursts, self.flushes, self.pages = deque(), deque(), {}
        self.in_order, self.flushing = {}, {}
        self.requests, self.by_beat, self.sending = {}, {}, None
        self.expected, self.events = Counter(), Counter()
        self.fault, self.delay, self.responding = (lambda: None), (lambda: 0), True
        self.max_read, self.timeout = 512, 0
        self.refusing = self.discarding = False
        self.tlp_cycles, self.burst_cycles, self.beat_cycles, self.sent_cycles = [], [], [], []
        self.stalled, self.sent = {}, []
        self.levels(bus_master=1, extended_tags=1, max_read=2, halt=0, timeout=0)

    def levels(self, **values):
        """Change settings."""
        for name, value in values.items():
            self.set(getattr(self.dut.settings, name), value)
        if "max_read" in values:
            self.max_read = 128 << values["max_read"]
            self.cut = min(self.max_read, self.config.read_bytes)
        if "timeout" in values:
            self.timeout = values["timeout"]
        self.refusing |= not values.get("bus_master", 1)

    def discard(self, value):
        """Set ``discard``; all that waits is dropped."""
        self.discarding = bool(value)
        self.set(self.dut.discard, value)
        if value:
            self.in_order.clear()
            self.flushing = _Unchecked(self.flushing)
            self.stalled["beats"] = None
            for name, waiting in (("bursts", self.bursts), ("flushes", self.flushes)):
                while len(waiting) > bool(self.stalled.get(name)):
                    waiting.pop()
        else:
            self.requests.clear()
            self.flushing = {}

    # -- Traffic.

    def add(self, id, offset, beats, **attributes):
        """A burst in a page of its own."""
        page = self.rng.getrandbits(52)
        burst = Burst(id, page << 12 | offset, beats, **attributes)
        beat = self.config.beat_bytes
        burst.end = burst.addr - burst.addr % beat + beats * beat
        assert burst.end - 1 >> 12 == page
        self.pages[page] = burst
        self.bursts.append(burst)
        return burst

    def add_random(self, ids, longest=None):
        beat, per_page = self.config.beat_bytes, 4096 // self.config.beat_bytes
        first = self.rng.randrange(per_page)
        beats = self.rng.randint(1, min(per_page - first, longest or per_page))
        offset = self.rng.choice((0, 0, self.rng.randrange(beat)))
        self.add(self.rng.choice(ids), first * beat + offset, beats, cache=self.rng.randrange(16),
                 qos=self.rng.randrange(16))

    def add_flush(self):
        address = self.rng.getrandbits(62)
        self.flushes.append((self.rng.randrange(1 << self.config.axi_id_width), address, self.rng.randrange(8)))

    # -- One cycle.

    async def step(self):
        self._drive()
        self._issue()
        self._send()
        self._receive()
        for name in EVENTS:
            self.events[name] += self.ctx.get(getattr(self.dut.events, name))
        await self.ctx.tick()
        self.cycle += 1

    def _offer(self, port, name, payload, rate):
        """Drive a stream that stays valid until it is accepted; returns whether it is accepted."""
        offered = self.stalled.get(name) or (payload is not None and self.chance(rate))
        self.set(port.valid, int(offered))
        if offered:
            self.set(Value.cast(port.payload), payload)
        return bool(offered)

    def _drive(self):
        burst = self.bursts[0] if self.bursts else None
        word = burst and self.burst_pack.pack(id=burst.id, addr=burst.addr, len=burst.beats - 1, cache=burst.cache,
                                              prot=0, qos=burst.qos)
        self.offers_burst = self._offer(self.dut.bursts, "bursts", word, self.rates.bursts)
        flush = self.flushes[0] if self.flushes else None
        word = flush and self.flush_pack.pack(id=flush[0], address=flush[1], attributes=flush[2])
        self.offers_flush = self._offer(self.dut.flushes.requests, "flushes", word, self.rates.flushes)
        self.set(self.dut.tlps.ready, int(self.chance(self.rates.tlps)))
        self.set(self.dut.beats.ready, int(self.chance(self.rates.beats)))
        self.set(self.dut.flushes.done.ready, 1)
        if self.sending is None and self.responding:
            self.sending = self._choose()
        beat = self.sending[0].beats[self.sending[1]] if self.sending else None
        word = beat and self.completion_pack.pack(**beat)
        self.offers_completion = self._offer(self.dut.completions, "completions", word, self.rates.completions)

    def _choose(self):
        """The next completion: those of one tag are in order."""
        if self.chance(self.rates.unexpected):
            free = [tag for tag in range(1 << 8) if tag not in self.requests and tag >= self.unused_from]
            if free:
                self.expected["unexpected"] += 1
                return [unexpected(self.rng.choice(free), self.rng, self.config.beat_bytes), 0, None]
        due = [request for request in self.requests.values()
               if request.completions and request.completions[0].earliest <= self.cycle]
        if not due:
            return None
        request = self.rng.choice(due) if self.shuffled else due[0]
        return [request.completions.pop(0), 0, request]

    shuffled = True
    """Whether requests complete in any order."""

    cuts = 0.4
    """How often a completion ends at a boundary."""

    high_tags = False
    """Whether all tags are allowed, because the setting changes."""

    unused_from = 0
    """Unexpected completions have tags from this one on."""

    def _issue(self):
        self.stalled["bursts"] = self.offers_burst
        if self.offers_burst and self.ctx.get(self.dut.bursts.ready):
            self.stalled["bursts"] = False
            burst = self.bursts.popleft()
            self.burst_cycles.append(self.cycle)
            if not self.discarding:
                self.in_order.setdefault(burst.id, deque()).append([burst, 0])
        self.stalled["flushes"] = self.offers_flush
        if self.offers_flush and self.ctx.get(self.dut.flushes.requests.ready):
            self.stalled["flushes"] = False
            flush = self.flushes.popleft()
            if not self.discarding:
                self.flushing[flush[1]] = [flush, None]
        valid = self.ctx.get(self.dut.tlps.valid)
        word = self.ctx.get(Value.cast(self.dut.tlps.payload)) if valid else None
        self._stable("tlps", word, self.ctx.get(self.dut.tlps.ready))
        if valid:
            self.seen["tlp offered"] += 1
        if valid and self.ctx.get(self.dut.tlps.ready):
            self._accept(self.tlp_pack.unpack(word))

    def _stable(self, name, word, ready):
        before = self.stalled.get(name)
        assert before is None or word == before, f"{name} changed before the transfer in cycle {self.cycle}"
        self.stalled[name] = None if ready else word

    def _accept(self, tlp):
        tag = tlp["tag"]
        old = self.requests.get(tag)
        assert old is None or (old.busy_until is not None and not old.completions and self.cycle >= old.busy_until), \
            f"tag {tag} is in use"
        assert tag < self.config.tags and (tag < 32 or self.high_tags or self.ctx.get(self.dut.settings.extended_tags))
        self.tlp_cycles.append(self.cycle)
        self.seen["tlp"] += 1
        if tlp["first_be"] == 0:
            assert (tlp["last_be"], tlp["dwords"]) == (0, 1)
            entry = self.flushing[tlp["address"]]
            assert entry[1] is None and tlp["attributes"] == entry[0][2]
            request = entry[1] = Request(tag, tlp["address"] * 4, tlp["address"] * 4 + 1, self.cycle, flush=True)
        else:
            request = self._accept_read(tlp)
        self.requests[tag] = request
        plan(request, self.rng, beat_bytes=self.config.beat_bytes, fault=self.fault(), timeout=self.timeout,
             delay=self.delay, cuts=self.cuts)
        self.expected += request.events
        self.seen.update(event for event in [request.fault] if event)

    def _accept_read(self, tlp):
        start, end = tlp["address"] * 4, (tlp["address"] + tlp["dwords"]) * 4
        skipped = {0b1111: 0, 0b1110: 1, 0b1100: 2, 0b1000: 3}[tlp["first_be"]]
        assert tlp["last_be"] == (0 if tlp["dwords"] == 1 else 0b1111)
        burst = self.pages[start >> 12]
        limit = min(self.max_read, self.config.read_bytes)
        # Refused pieces are not seen.
        assert (start + skipped == burst.next or (self.refusing and start + skipped > burst.next)) and end <= burst.end
        assert start // limit == (end - 1) // limit and (end == burst.end or end % self.cut == 0)
        burst.next = end
        no_snoop, relaxed = burst.cache in (2, 3), burst.qos & 1
        assert tlp["attributes"] == no_snoop | relaxed << 1 | (burst.qos >> 1 & 1) << 2
        request = Request(tlp["tag"], start + skipped, end, self.cycle)
        beat = self.config.beat_bytes
        for address in range(start - start % beat, end, beat):
            self.by_beat[address] = request
        return request

    def _send(self):
        if not self.offers_completion:
            return
        self.stalled["completions"] = True
        if self.ctx.get(self.dut.completions.ready):
            self.stalled["completions"] = False
            completion, number, request = self.sending
            self.sent_cycles.append(self.cycle)
            self.sending = [completion, number + 1, request] if number + 1 < len(completion.beats) else None
            if self.sending is None:
                self.sent.append(completion)
            if self.sending is None and request and completion.final:
                assert self.requests[request.tag] is request
                del self.requests[request.tag]

    def _receive(self):
        valid = self.ctx.get(self.dut.beats.valid)
        ready = self.ctx.get(self.dut.beats.ready)
        word = self.ctx.get(Value.cast(self.dut.beats.payload)) if valid else None
        if not self.ctx.get(self.dut.discard):
            self._stable("beats", word, ready)
        if valid and ready:
            self._check(self.beat_pack.unpack(word))
        if self.ctx.get(self.dut.flushes.done.valid):
            assert not self.ctx.get(self.dut.discard)
            done = self.done_pack.unpack(self.ctx.get(Value.cast(self.dut.flushes.done.payload)))
            matching = [address for address, (flush, request) in self.flushing.items() if flush[0] == done["id"]
                        and (done["resp"] == (request.outcome[0] if request else Resp.DECERR).value)
                        and (request or self.refusing)]
            assert matching, f"no flush has {done}"
            del self.flushing[matching[0]]
            self.seen["flush"] += 1

    def _check(self, found):
        assert not self.ctx.get(self.dut.discard)
        assert self.in_order.get(found["id"]), f"unexpected beat of ID {found['id']}"
        entry = self.in_order[found["id"]][0]
        burst, number = entry
        beat = self.config.beat_bytes
        address = burst.addr - burst.addr % beat + number * beat
        request = self.by_beat.get(address)
        assert request or self.refusing, f"beat {number} of {burst} was never requested"
        resp = request.outcome[address] if request else Resp.DECERR
        assert found["resp"] == resp.value, f"beat {number} of {burst} has {found['resp']}: {request}"
        unused = 8 * max(burst.addr - address, 0)
        data = memory_beat(address, beat) if resp is Resp.OKAY else 0
        assert found["data"] >> unused == data >> unused, f"beat {number} of {burst} has the wrong data"
        entry[1] += 1
        assert found["last"] == (entry[1] == burst.beats)
        self.beat_cycles.append(self.cycle)
        self.seen["beat"] += 1
        self.seen[resp.name] += 1
        if found["last"]:
            self.in_order[burst.id].popleft()
            self.seen["burst"] += 1

    # -- Ends.

    def clear(self):
        """Drop all that is in flight, as a reset does."""
        for waiting in (self.bursts, self.flushes, self.in_order, self.flushing, self.requests, self.stalled):
            waiting.clear()
        self.sending = None
        self.events, self.expected = Counter(), Counter()

    def pending(self):
        return bool(self.bursts or self.flushes or self.flushing or self.sending or any(self.in_order.values())
                    or any(request.completions for request in self.requests.values()))

    async def drain(self, limit=6000):
        """Run until nothing is expected any more and all tags are free."""
        end, self.rates.unexpected = self.cycle + limit, 0
        while self.pending() or not self.ctx.get(self.dut.idle):
            assert self.cycle < end, f"no progress: {self.bursts} {self.flushing} {self.in_order} {self.requests}"
            await self.step()
        for _ in range(4):
            await self.step()
        assert self.ctx.get(self.dut.idle)
        assert +self.events == +self.expected, (self.events, self.expected)


class _Unchecked(dict):
    """Flushes without a response, one of which may be in a TLP that stays on offer."""

    def __bool__(self):
        return False


def run_reads(rng, body, config=SMALL, reset=None):
    """Run ``body`` on a bench; returns it. ``reset`` is a signal."""
    dut, made = ReadPath(config), []

    async def testbench(ctx):
        bench = ReadBench(ctx, rng, dut, config)
        made.append(bench)
        await body(bench)
        await bench.drain()

    run_cell(dut if reset is None else ResetInserter(reset)(dut), testbench)
    return made[0]
