# SPDX-License-Identifier: Apache-2.0
"""Chunks and their slots: a slot holds one chunk at a time, which starts once, under its own name. By induction."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Format, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.ace.chunk_status import name_layout
from hw.ace.chunker import Chunker
from hw.ace.communicators import own, share_layout
from tests.formal.small import ACE, assume_constant
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened, row_of

pytestmark = [pytest.mark.formal, pytest.mark.long]

_FREE = ("to_cut", "communicator_status", "operation", "drain_operation", "program", "fills", "drains", "filled",
         "drained", "chunks", "busy", "through", "restart")


class Slots(wiring.Component):
    """A slot, of the solver's choice, gets a chunk only after the one before has been drained from it; the chunk starts
    once, with its communicator and sequence number; and at most one chunk starts in two cycles.

    The communicators' FSMs and slots are constant, and any; all other inputs are free. Assumed: a slot is drained only
    after its chunk has started, the queue of drains never fills, and a communicator whose chunk is being cut is not
    restarted.
    """

    def __init__(self):
        members = Chunker(ACE).signature.members
        super().__init__({**{name: members[name] for name in _FREE},
                          "shares": In(share_layout(ACE)).array(ACE.communicators), "watched": In(ACE.slot_bits)})

    def elaborate(self, platform):
        m = Module()
        dut = Chunker(ACE)
        m.submodules.dut = parts = elaborated(dut)
        for name in _FREE:
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(dut, name))
        for share in self.shares:
            assume_constant(m, share)
        assume_constant(m, self.watched)
        slot, shares, cutting = self.watched, Array(self.shares), dut.cutting.communicators
        m.d.comb += [dut.cut_share.share.eq(shares[dut.cut_share.number]),
                     dut.start_share.share.eq(shares[dut.start_share.number]),
                     Assume(~dut.restart.valid | ~cutting.bit_select(dut.restart.number, 1))]

        names = parts._named_submodules["names"][0].write.data
        drains = parts._named_submodules["waiting"][0].i
        job, start, end = dut.fills.payload, dut.chunks.payload, dut.drained.payload
        held, due, name, started = Signal(), Signal(), Signal(name_layout(ACE)), Signal()
        cut = dut.fills.valid & dut.fills.ready & (job.slot == slot)
        starting = dut.chunks.valid & (start.slot == slot)
        starts = starting & dut.chunks.ready
        drained = dut.drained.valid & (end.slot == slot)
        m.d.sync += started.eq(dut.chunks.valid & dut.chunks.ready)
        with m.If(cut):
            m.d.sync += [held.eq(1), due.eq(1), name.eq(names)]
        with m.If(starts):
            m.d.sync += due.eq(0)
        with m.If(drained & ~end.part):
            m.d.sync += held.eq(0)
        taken, waiting = (internal(parts, kind).bit_select(slot, 1) for kind in ("taken", "waiting"))
        stored = row_of(m, opened(parts, "names").submodules.memory, slot)
        next_slot = own(shares[names.communicator], names.sequence)[1]
        m.d.comb += [
            Assume(~drained | (held & ~due)), Assume(~dut.through.valid | drains.ready),
            Assert(~cut | ~held, Format("the slot is in use")),
            Assert(~starting | due, Format("a chunk starts again, or before it is cut")),
            Assert(~starting | ((start.communicator == name.communicator) & (start.sequence == name.sequence)),
                   Format("under another name")),
            Assert(~(started & dut.chunks.valid), Format("two starts in two cycles")),
            Assert(taken == held, Format("the slot is taken")),
            Assert(~due | held, Format("a chunk without a slot")),
            Assert(waiting == (due & ~starting), Format("the chunk waits for its FSM")),
            Assert(~due | (stored == name.as_value()), Format("the stored name")),
            Assert(~cutting.any() | (next_slot != slot) | ~held, Format("a chunk is cut for a slot in use")),
        ]
        return m


def test_slots():
    prove(Slots(), name="chunker-slots", depth=3, mode="prove")
