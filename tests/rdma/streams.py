# SPDX-License-Identifier: Apache-2.0
"""Drivers and monitors of the requester's streams, under cocotb."""

from collections import deque

from cocotb.triggers import FallingEdge, RisingEdge

from hw.rdma import layouts
from tests.harness.fields import Fields

__all__ = ["Ports", "Sink", "Source"]

LAYOUTS = {"writes": layouts.write_layout, "responses": layouts.response_layout, "reads": layouts.read_layout,
           "beats": layouts.read_beat_layout, "posted": layouts.posted_layout, "send": layouts.send_layout,
           "returned": layouts.returned_layout, "retire": layouts.retire_layout, "packets": layouts.transmit_layout}


class Ports:
    """Ports of a design under cocotb."""

    def __init__(self, dut):
        self._dut, self._found = dut, {}

    def _handle(self, path):
        if path not in self._found:
            self._found[path] = getattr(self._dut, path.replace(".", "__"))
        return self._found[path]

    def get(self, path):
        return int(self._handle(path).value)

    def set(self, path, value):
        self._handle(path).value = int(value)

    async def settle(self):
        await FallingEdge(self._dut.clk)

    async def tick(self):
        await RisingEdge(self._dut.clk)


class Source:
    """Drives a stream from a queue of payloads."""

    def __init__(self, bench, name, chance):
        self.bench, self.name, self.chance = bench, name, chance
        self.fields = Fields(LAYOUTS[name](bench.config))
        self.queue, self.offered, self._valid = deque(), False, None

    def begin(self):
        if not self.offered and self.queue and self.bench.chance(self.chance):
            self.offered = True
            self.bench.ports.set(f"{self.name}.payload", self.queue[0][0])
        if self._valid != self.offered:
            self.bench.ports.set(f"{self.name}.valid", self.offered)
            self._valid = self.offered

    def end(self):
        """The item that was accepted in this cycle, or None."""
        if self.offered and self.bench.ports.get(f"{self.name}.ready"):
            self.offered = False
            return self.queue.popleft()[1]
        return None

    def put(self, fields, what=None):
        self.queue.append((self.fields.pack(fields), what))


class Sink:
    """Accepts a stream; while it stalls, checks that the item stays."""

    def __init__(self, bench, name, chance):
        self.bench, self.name, self.chance = bench, name, chance
        self.fields = Fields(LAYOUTS[name](bench.config))
        self._ready = self._stalled = None

    def begin(self):
        ready = self.bench.chance(self.chance)
        if ready != self._ready:
            self.bench.ports.set(f"{self.name}.ready", ready)
            self._ready = ready

    def end(self):
        ports = self.bench.ports
        valid = ports.get(f"{self.name}.valid")
        assert valid or self._stalled is None, "an offered item was withdrawn"
        if not valid:
            return None
        value = ports.get(f"{self.name}.payload")
        assert self._stalled in (None, value), "an offered item changed"
        self._stalled = None if self._ready else value
        return value if self._ready else None
