# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/caches.md in Python, for requests of which each one ends before the next: counts, no cycles.

It shares no code with the model: addresses are mapped by tables, sets are lists in order of use.
"""

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Request", "Serial"]


@dataclass(frozen=True)
class Request:
    """A load or store of the sectors ``mask`` of the line ``number``."""

    store: bool
    number: int
    mask: int
    pc: int
    allocate: bool


@dataclass
class _Line:
    number: int
    pc: int
    valid: int = 0
    dirty: int = 0
    reused: bool = False


@dataclass
class Serial:
    """Counts of a machine (a ``MachineConfig``) with a policy's options after some requests."""

    machine: object
    policy: dict
    counts: Counter = field(default_factory=Counter)

    def __post_init__(self):
        cache = self.machine.cache
        self.sets = [[] for _ in range(cache.sets)]         # the least recently used first
        self.rows = {}                                      # (channel, bank) -> row
        self.whole = (1 << cache.line // cache.sector) - 1
        self.reuse = {}                                     # PC -> count

    def where(self, number):
        """Channel, bank and row of a line: lines are dealt to channels in pieces, and fill rows there."""
        cache, dram = self.machine.cache, self.machine.dram
        piece, within = divmod(number, dram.interleave // cache.line)
        channel = piece % dram.channels
        inside = piece // dram.channels * (dram.interleave // cache.line) + within
        row = inside * cache.line // dram.row
        digits, rest = [], row
        while rest:
            rest, digit = divmod(rest, dram.banks)
            digits.append(digit)
        bank = 0
        for digit in digits:
            bank ^= digit
        return channel, bank, row

    def access(self, numbers_and_masks, kind):
        for number, mask in numbers_and_masks:
            channel, bank, row = self.where(number)
            open_row = self.rows.get((channel, bank))
            self.counts["row_hits" if open_row == row else "row_conflicts" if open_row is not None else
                        "row_misses"] += 1
            self.rows[channel, bank] = row
            self.counts[f"dram_{kind}s"] += 1
            self.counts["dram_bytes_read" if kind == "read" else "dram_bytes_written"] += \
                mask.bit_count() * self.machine.cache.sector

    def run(self, requests):
        for request in requests:
            self.writes = []
            read = self.store(request) if request.store else self.load(request)
            self.access(read, "read")                       # reads are first: their queue is never below the mark
            self.access(self.writes, "write")
        return self.counts

    def found(self, number):
        for line in self.sets[number % len(self.sets)]:
            if line.number == number:
                return line
        return None

    def use(self, line, hit):
        ways = self.sets[line.number % len(self.sets)]
        ways.remove(line)
        ways.append(line)
        if hit and not line.reused:
            line.reused = True
            if self.policy.get("predict"):
                self.reuse[line.pc] = min(self.count(line.pc) + self.machine.predictor.reuse,
                                          self.machine.predictor.counter)

    def count(self, pc):
        return self.reuse.get(pc, self.machine.predictor.counter)

    def allocates(self, request):
        wanted = request.allocate if self.policy.get("regions") else bool(
            self.policy["stores" if request.store else "loads"])
        sampled = request.number % len(self.sets) % self.machine.predictor.sampled == 0
        if wanted and self.policy.get("predict") and not sampled and self.count(request.pc) == 0:
            return False, True
        return wanted, wanted

    def new(self, request):
        ways = self.sets[request.number % len(self.sets)]
        if len(ways) == self.machine.cache.ways:
            victim = ways.pop(0)
            self.counts["evictions"] += 1
            if not victim.reused and self.policy.get("predict"):
                self.reuse[victim.pc] = max(self.count(victim.pc) - self.machine.predictor.waste, 0)
            if victim.dirty:
                self.counts["write_backs"] += 1
                self.write_back(victim)
        line = _Line(request.number, request.pc)
        ways.append(line)
        return line

    def write_back(self, victim):
        self.writes.append((victim.number, victim.dirty))
        if not self.policy.get("rinse"):
            return
        for ways in self.sets:
            for line in ways:
                if line.dirty and self.where(line.number) == self.where(victim.number):
                    self.writes.append((line.number, line.dirty))
                    line.dirty = 0
                    self.counts["rinsed"] += 1

    def load(self, request):
        self.counts["loads"] += 1
        line = self.found(request.number)
        if line and line.valid & request.mask == request.mask:
            self.counts["load_hits"] += 1
            self.use(line, hit=True)
            return []
        allocating, wanted = self.allocates(request)
        if line:
            self.use(line, hit=False)
        elif allocating:
            line = self.new(request)
        else:
            self.counts["load_bypasses"] += 1
            self.counts["predicted_bypasses"] += wanted
            return [(request.number, request.mask)]
        self.counts["load_fills"] += 1
        line.valid = self.whole
        return [(request.number, self.whole)]

    def store(self, request):
        self.counts["stores"] += 1
        line = self.found(request.number)
        allocating, wanted = self.allocates(request)
        if wanted if line else allocating:
            self.counts["store_hits" if line else "store_allocations"] += 1
            if line:
                self.use(line, hit=True)
            else:
                line = self.new(request)
            line.valid |= request.mask
            line.dirty |= request.mask
            return []
        self.counts["store_bypasses"] += 1
        if line:
            line.valid |= request.mask
            line.dirty &= ~request.mask
        else:
            self.counts["predicted_bypasses"] += wanted
        self.writes.append((request.number, request.mask))
        return []
