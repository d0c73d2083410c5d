# SPDX-License-Identifier: Apache-2.0
"""A machine that can be worked out on paper: collectives one after the other at a fixed rate, compute undisturbed."""

from heapq import heappop, heappush
from types import SimpleNamespace

from sim.system.handle import Handle
from sim.system.workloads import Processor


class StubMachine:
    """Collectives take ``bytes / rate`` seconds in the order in which they are issued."""

    def __init__(self, shape=(4,), rate=1.0, slow=1.0):
        self.config = SimpleNamespace(shape=shape, npu=SimpleNamespace(
            flops=Processor().flops, memory_bytes_per_s=Processor().memory))
        self.now, self.rate, self.slow = 0.0, rate, slow
        self.issued, self.computed = [], []
        self._free, self._events = 0.0, []

    def at(self, time, callback):
        heappush(self._events, (time, len(self._events) + id(callback), callback))

    def issue(self, collective, count, *, dimensions=None, priority=0, ranks=None, root=None, tag="", done):
        self.issued.append((collective, count, dimensions, priority, tag))
        self._free = end = max(self.now, self._free) + count / self.rate
        self.at(end, lambda: done(end))
        return Handle(tag, self.now)

    def compute(self, seconds, *, memory_bytes=0, rank=None, tag="", done):
        assert all(self.now >= end for _, end in self.computed), "two computes at a time"
        end = self.now + max(seconds, memory_bytes / self.config.npu.memory_bytes_per_s) * self.slow
        self.computed.append((self.now, end))
        self.at(end, lambda: done(end))
        return Handle(tag, self.now)

    def run(self):
        while self._events:
            self.now, _, callback = heappop(self._events)
            callback()

    def statistics(self):
        return {"issued": len(self.issued)}
