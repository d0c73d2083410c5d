# SPDX-License-Identifier: Apache-2.0
"""A reset ends only when its queue has no words, no segments in flight and no completion words: by induction."""

import pytest
from amaranth.hdl import Assert, Assume, Format, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.dma_engine.control.control import QueueControl
from hw.dma_engine.layouts import OpKind
from hw.dma_engine.words import Command
from tests.formal.small import DMA
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Reset(wiring.Component):
    """The RESET of the watched queue, compared with the last sample of its segments in flight and with its words.

    A queue that resets is not running, so the scheduler issues nothing of it after that sample.
    """

    def __init__(self):
        queues = DMA.queues
        super().__init__({
            "valid": In(1), "command": In(3), "queue": In(DMA.queue_bits), "watchdog": In(32), "in_flight": In(1),
            "ready": In(queues), "more": In(queues), "completions": In(queues), "notices": In(queues),
            "held": In(queues), "taken": In(1), "watched": In(DMA.queue_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = QueueControl(DMA)
        m.submodules.dut = parts = elaborated(dut)
        watched, before, known = self.watched, Signal.like(self.watched, name="before"), Signal()
        m.d.sync += [before.eq(watched), known.eq(1)]
        m.d.comb += [
            Assume(~known | (watched == before)), Assume(self.command <= max(command.value for command in Command)),
            dut.command.valid.eq(self.valid), dut.command.command.eq(self.command), dut.command.queue.eq(self.queue),
            dut.command.watchdog.eq(self.watchdog), dut.scan.in_flight.eq(self.in_flight),
            dut.occupancy.ready.eq(self.ready), dut.occupancy.more.eq(self.more),
            dut.pending.completions.eq(self.completions), dut.pending.notices.eq(self.notices), dut.held.eq(self.held),
            dut.scans.ready.eq(self.taken),
        ]

        def ours(bits):
            return bits.bit_select(watched, 1)

        # The last sample: resetting since then, nothing in flight; words, as of the previous cycle.
        since, idle, words = Signal(), Signal(), Signal()
        with m.If(dut.scan.valid & (dut.scan.queue == watched)):
            m.d.sync += [since.eq(ours(dut.states.resetting)), idle.eq(~self.in_flight)]
        m.d.sync += words.eq(ours(self.completions | self.notices))
        found = parts.submodules.found.i
        ends = found.valid & (found.payload.kind == OpKind.RESET) & (found.payload.queue == watched)
        scan = internal(parts, "scan")
        here = scan[2:] == watched
        resetting = ours(dut.states.resetting)
        m.d.comb += [
            Assert(~ends | (resetting & since), Format("a reset ends that was not in progress at the sample")),
            Assert(~ends | idle, Format("a reset ends with segments in flight")),
            Assert(~ends | ~words, Format("a reset ends with completion words")),
            Assert(~ends | ~ours(self.ready | self.more), Format("a reset ends with words in the queue")),
            Assert(~resetting | ~ours(dut.states.running | dut.states.enabled), Format("a queue runs in its reset")),
            # The registers are those of the watched queue while it is scanned.
            Assert(~(here & (scan[:2] != 0)) | ((internal(parts, "in_flight") == ~idle)
                                                & (internal(parts, "stopped") == since)), Format("the sample")),
            Assert(~(here & (scan[:2] == 3)) | (internal(parts, "pending") == words), Format("words")),
        ]
        return m


def test_reset():
    prove(Reset(), name="reset", depth=2, mode="prove")
