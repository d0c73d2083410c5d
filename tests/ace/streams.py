# SPDX-License-Identifier: Apache-2.0
"""Drive and monitor a component's streams under Verilator: inputs are set after a cycle's first edge, and outputs are
sampled in its middle."""

import random
from collections import deque

from amaranth.lib import data
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

__all__ = ["Sink", "Source", "bits", "random_fields", "reset", "run", "unpack"]

STALLS = {"none": (), "mixed": (0.1, 0.5, 0.9)}
"""Probabilities that a source or a sink stalls, each for a while; a number is a constant probability."""
_WHILE = 50


def bits(layout, fields):
    """``fields`` of ``layout`` as a port's number."""
    return layout.const(fields).as_bits()


def unpack(layout, number):
    """A port's ``number`` as a dictionary of fields."""
    return {name: number >> field.offset & ((1 << field.width) - 1) for name, field in layout}


def random_fields(rng, layout, **fixed):
    """Random value of each field of ``layout`` that is not given; where fields overlap, the given ones win."""
    if isinstance(layout, data.FlexibleLayout):
        number = rng.getrandbits(layout.size)
        for name, value in fixed.items():
            field = layout[name]
            number &= ~((1 << field.width) - 1 << field.offset)
            number |= int(getattr(value, "value", value)) << field.offset
        return unpack(layout, number)
    return {name: fixed[name] if name in fixed else _random(rng, field) for name, field in layout}


def _random(rng, field):
    if isinstance(field.shape, data.Layout):
        return random_fields(rng, field.shape)
    return rng.getrandbits(field.width)


async def reset(dut):
    """Start the clock, and leave reset in the middle of a cycle."""
    dut.rst.value = 1
    Clock(dut.clk, 4, "ns").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def run(dut, actors, *, until, limit=100_000):
    """Let ``actors`` drive and sample each cycle, until ``until()``; return the number of cycles."""
    for cycle in range(1, limit + 1):
        await RisingEdge(dut.clk)
        for actor in actors:
            actor.drive()
        await FallingEdge(dut.clk)
        for actor in actors:
            actor.sample(cycle)
        if until():
            return cycle
    raise AssertionError(f"Not done in {limit} cycles")


class _Stalls:
    """Whether to stall in this cycle."""

    def __init__(self, kind, rng):
        self.rates, self.rng = STALLS.get(kind) or ((kind,) if isinstance(kind, float) else ()), rng
        self.rate, self.left = 0.0, 0

    def __call__(self):
        if not self.rates:
            return False
        if not self.left:
            self.rate, self.left = self.rng.choice(self.rates), self.rng.randint(1, _WHILE)
        self.left -= 1
        return self.rng.random() < self.rate


class _Port:
    def __init__(self, dut, name, stalls, seed):
        self.valid, self.ready, self.payload = (
            getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))
        self.name = name
        self.rng = random.Random(f"{name} {seed}")
        self.stalls = _Stalls(stalls, self.rng)


class Source(_Port):
    """Offer ``items``, numbers, in order; ``taken(item, cycle)`` is called for each."""

    def __init__(self, dut, name, *, items=(), stalls="none", seed=0, taken=None):
        super().__init__(dut, name, stalls, seed)
        self.items = deque(items)
        self.taken = taken
        self.valid.value = 0
        self._offered = False

    def drive(self):
        stall = self.stalls()
        if not self._offered and self.items and not stall:
            self.payload.value = self.items[0]
            self._offered = True
        self.valid.value = int(self._offered)

    def sample(self, cycle):
        if self._offered and self.ready.value:
            self._offered = False
            item = self.items.popleft()
            if self.taken:
                self.taken(item, cycle)


class Sink(_Port):
    """Accept items; ``got(item, cycle)`` is called for each. An offered item must not change in the bits of
    ``mask(item)`` until it is accepted."""

    def __init__(self, dut, name, got, *, stalls="none", seed=0, mask=lambda item: -1):
        super().__init__(dut, name, stalls, seed)
        self.got, self.mask = got, mask
        self._waiting = None
        self._ready = False

    def drive(self):
        self._ready = not self.stalls()
        self.ready.value = int(self._ready)

    def sample(self, cycle):
        item = int(self.payload.value) if self.valid.value else None
        if self._waiting is not None:
            assert item is not None and not (self._waiting ^ item) & self.mask(item), f"{self.name} changed its offer"
        self._waiting = None if self._ready else item
        if self._ready and item is not None:
            self.got(item, cycle)
