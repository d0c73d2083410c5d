# SPDX-License-Identifier: Apache-2.0
"""Formal proofs of the queues of pending firings, within a number of cycles, with few counters: if only counters that
are not queued become due, only queued counters leave, and no queue overflows.
"""

from dataclasses import replace

import pytest
from amaranth.hdl import Assert, Assume, Cat, Cover, Format, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

import hw.triggers.pending
from hw.triggers.config import COUNTERS_PER_BLOCK, INDEX_WIDTH, TriggerConfig
from hw.triggers.pending import PendingFirings
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

CONFIG = TriggerConfig(blocks=2, dma_pages=1, ace_pages=1)
PIPELINED = replace(CONFIG, pipelined=True)
FEW = 2
"""Counters of a block."""


class Queued(wiring.Component):
    """``PendingFirings`` with few counters in each block, and the set of those that are queued.

    ``flaw``: counters may become due while they are queued.
    """

    def __init__(self, config=CONFIG, *, flaw=False):
        self.config = config
        self.flaw = flaw
        super().__init__({
            "due": In(1), "due_block": In(CONFIG.block_bits), "due_index": In(range(FEW)),
            "resetting": In(CONFIG.blocks), "ready": In(1), "requeue": In(1),
            "allowed": In(CONFIG.blocks + 1), "free": In(CONFIG.blocks + 1),
            "pages_valid": In(1), "pages_block": In(CONFIG.block_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut, latency = PendingFirings(self.config), self.config.read_latency
        hw.triggers.pending.COUNTERS_PER_BLOCK = FEW
        try:
            m.submodules.dut = parts = dut.elaborate(platform)
        finally:
            hw.triggers.pending.COUNTERS_PER_BLOCK = COUNTERS_PER_BLOCK
        leave = dut.leave
        block, index = leave.counter[INDEX_WIDTH:], leave.counter[:INDEX_WIDTH]
        m.d.comb += [
            dut.due.valid.eq(self.due), dut.due.block.eq(self.due_block), dut.due.payload.index.eq(self.due_index),
            dut.resetting.eq(self.resetting), dut.settings.pages_valid.eq(self.pages_valid),
            dut.settings.pages_block.eq(self.pages_block),
            *(look_up.allowed.eq(allowed) for look_up, allowed in zip(dut.pages, self.allowed, strict=True)),
            *(look_up.free.eq(free) for look_up, free in zip(dut.pages, self.free, strict=True)),
            dut.ready.eq(self.ready), dut.requeue.eq(self.requeue),
            Assume(~self.due | ~self.resetting.bit_select(self.due_block, 1)),
            Assume(self.due_index < FEW),
            Assert(~leave.valid | ~self.resetting.bit_select(block, 1), Format("a firing left in a reset")),
            Assert(~leave.valid | (index < FEW), Format("a firing of no counter left")),
        ]
        # The counter that can be queued again in this cycle.
        left, left_block, left_index = leave.valid, block, index
        if latency:
            left, left_block, left_index = self._on_its_way(m, leave)
        else:
            m.d.comb += Assume(~self.due | ~leave.valid)
        for number in range(CONFIG.blocks):
            inside = [Signal(name=f"inside_{number}_{position}") for position in range(FEW)]
            queue = parts.submodules[f"queue_{number}"]
            for position, queued in enumerate(inside):
                due = self.due & (self.due_block == number) & (self.due_index == position)
                leaves = leave.valid & (block == number) & (index == position)
                again = self.requeue & left & (left_block == number) & (left_index == position)
                if not self.flaw:
                    m.d.comb += Assume(~due | ~queued)
                m.d.comb += Assert(~leaves | queued, Format("a firing left that was not queued"))
                m.d.sync += queued.eq((queued & ~leaves | due | again) & ~self.resetting[number])
            m.d.comb += [
                Assert(queue.level == sum(inside), Format("a queue does not hold the queued counters")),
                Assert(~queue.i.valid | queue.i.ready, Format("a queue overflows")),
                Cover((sum(inside) == (FEW - 1 if latency else FEW)) & self.requeue & left & (left_block == number)),
            ]
        return m

    def _on_its_way(self, m, leave):
        """The table shows one counter after the other, and that of a firing ``read_latency`` cycles after it left."""
        valid, counter = leave.valid, leave.counter
        for age in range(self.config.read_latency):
            later, then = Signal(name=f"left_{age}"), Signal.like(leave.counter, name=f"counter_{age}")
            m.d.sync += [later.eq(valid & ~self.resetting.bit_select(counter[INDEX_WIDTH:], 1)), then.eq(counter)]
            valid, counter = later, then
            # It is due until it is shown, so it does not become due, and no other firing leaves.
            m.d.comb += [Assume(~valid | ~self.ready),
                         Assume(~valid | ~self.due | (Cat(self.due_index, counter[INDEX_WIDTH:]) !=
                                                      Cat(counter[:1], self.due_block)))]
        m.d.comb += [
            Assume(~valid | ~self.due), Assume(valid | ~self.requeue),
            Assume(~self.requeue | ~self.resetting.bit_select(self.due_block, 1)),
            Assume(~self.requeue | (Cat(self.due_index, self.due_block) == Cat(counter[:1], counter[INDEX_WIDTH:]))),
        ]
        return valid, counter[INDEX_WIDTH:], counter[:INDEX_WIDTH]


both = pytest.mark.parametrize("config", [CONFIG, PIPELINED], ids=["plain", "pipelined"])


@both
@pytest.mark.parametrize("depth", [6, pytest.param(8, marks=pytest.mark.soak)])
def test_queues(depth, config):
    prove(Queued(config), name=f"trigger-queues-{depth}-{config.read_latency}", depth=depth)


@both
def test_queues_are_full_at_times(config):
    prove(Queued(config), name=f"trigger-queues-cover-{config.read_latency}", depth=5 + config.read_latency,
          mode="cover")


def test_queues_are_not_vacuous():
    with pytest.raises(ProofFailed, match="Assert failed"):
        prove(Queued(flaw=True), name="trigger-queues-flaw", depth=4)
