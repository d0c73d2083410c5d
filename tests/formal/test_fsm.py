# SPDX-License-Identifier: Apache-2.0
"""An FSM of the pool never waits for nothing: while it has a chunk, it makes a step within a few cycles, or a neighbour
still has to deliver what it waits for. Before the end of the fill, a GRANT is of receives that marks permit; and in a
phase, only its receives and those of the next one are granted. By induction, for any program.
"""

from itertools import chain

import pytest
from amaranth.hdl import Assert, Assume, Cat, Format, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.ace.layouts import chunk_layout, done_layout
from hw.ace.pool.fsm import UNREAD_WIDTH, Fsm
from hw.ace.pool.fsm_ports import StepKind, fetched_layout
from hw.ace.words import Waits
from tests.formal.small import ACE
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]

STATES = ("IDLE", "NEXT", "PHASE", "PHASE_WAIT", "ENTER", "SEND", "SEND_WAIT", "SENDING", "SETTLE", "ENDING", "PART",
          "LEAVING", "FINISH")

PATIENCE = 3
"""Cycles without a step in which no neighbour has to deliver anything."""


class Enabled(wiring.Component):
    """One FSM; its neighbours are as the solver likes, and what they still have to deliver is counted at the ports.

    They still have to deliver: a word of the program that the FSM requests, or the acceptance of its chunk's end; the
    acceptance of a packet or GRANT that it offers; reads of accepted packets, and packets in the loopback; the end of
    the fill; and GRANTs or data, as the FSM's ``state`` reports. The pool's arbiters are not part of this: that
    they serve each requester is in ``test_pool.py``.

    Assumed: a word arrives only once after its request; sends have beats; packets are read after they were taken; at
    most a few are in Transmit.
    """

    def __init__(self):
        beats = In(7)
        super().__init__({
            "start": In(1), "chunk": In(chunk_layout(ACE)), "filled": In(1), "filled_payload": In(done_layout(ACE)),
            "marked": In(1), "marked_slot": In(ACE.slot_bits),
            "stopped": In(1), "step_ready": In(1), "phase_valid": In(1), "send_valid": In(1),
            "fetched": In(fetched_layout(ACE)), "grant": In(1), "granted": In(12), "back": In(1), "taken": In(1),
            "read": In(2), "landed": In(4), "landed_end": In(4), "final": In(4), "beats": beats.array(2, 2),
            "local": In(1), "signals_ready": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        dut = Fsm(ACE)
        m.submodules.dut = parts = elaborated(dut)
        steps, packets, signals, state = dut.steps, dut.packets, dut.signals, dut.state
        taken = self.taken & packets.valid
        m.d.comb += [
            dut.start.valid.eq(self.start & ~dut.chunk.busy), dut.start.payload.eq(self.chunk),
            dut.filled.valid.eq(self.filled), dut.filled.payload.eq(self.filled_payload),
            dut.marked.valid.eq(self.marked), dut.marked.payload.eq(self.marked_slot),
            dut.communicator.stopped.eq(self.stopped), steps.ready.eq(self.step_ready & steps.valid),
            steps.phase_valid.eq(self.phase_valid), steps.send_valid.eq(self.send_valid),
            steps.fetched.eq(self.fetched),
            dut.grants.valid.eq(self.grant), dut.grants.granted.eq(self.granted), dut.grants.back.eq(self.back),
            packets.taken.eq(taken), packets.read.eq(self.read),
            *(signal.eq(bit) for signals, bits in (
                (dut.landed.valid, self.landed), (dut.landed.end, self.landed_end), (dut.landed.final, self.final))
              for signal, bit in zip(chain(*signals), bits, strict=True)),
            *(dut.landed.beats[odd_phase][odd].eq(self.beats[odd_phase][odd])
              for odd_phase in range(2) for odd in range(2)),
            dut.landed.local.eq(self.local),
            signals.ready.eq(self.signals_ready & signals.valid),
        ]
        # -- Items that the neighbours still have to deliver.
        phase, send, unread = Signal(), Signal(), Signal(UNREAD_WIDTH)
        accepted = steps.valid & steps.ready
        m.d.sync += [
            phase.eq((phase | (accepted & (steps.kind == StepKind.PHASE))) & ~self.phase_valid),
            send.eq((send | (accepted & (steps.kind == StepKind.SEND))) & ~self.send_valid),
            unread.eq(unread + taken - self.read),
        ]
        current = fetched_layout(ACE)(internal(parts, "current"))
        m.d.comb += [
            Assume(~self.phase_valid | phase), Assume(~self.send_valid | send), Assume(self.read <= unread),
            Assume(~taken | ~unread[-1]), Assume(~self.local | (internal(parts, "looped") != 0)),
            Assume(~self.phase_valid | (self.fetched.sends == 0) | (self.fetched.span != 0)),
        ]
        chunk = chunk_layout(ACE)(internal(parts, "chunk"))
        waits = Value.cast(state.waits)
        expected, busy = Signal(), dut.chunk.busy
        m.d.comb += expected.eq(Cat(
            steps.valid, phase, send, packets.valid, unread != 0, internal(parts, "looped") != 0, signals.valid,
            ~chunk.ended, chunk.ended & ~chunk.filled & ~self.stopped,
            waits == Waits.GRANT.value, waits == Waits.DATA.value).any())
        # -- Cycles without a step.
        at, before, idle = dut._fsm.state, Signal(8), Signal(range(PATIENCE + 2))
        m.d.sync += [before.eq(at), idle.eq(Mux(busy & ~expected & (at == before), idle + 1, 0))]

        def state_is(name):
            return dut._fsm.ongoing(name)

        left, later = internal(parts, "left"), internal(parts, "later")
        m.d.comb += [
            Assert(idle <= PATIENCE, Format("the FSM waits for nothing")),
            Assert(internal(parts, "unread") == unread, Format("unread")),
            Assert(state_is("PHASE_WAIT") == phase, Format("phase")),
            Assert(state_is("SEND_WAIT") == send, Format("send")),
            Assert(~state_is("SENDING") | (left != 0), Format("a send without beats")),
            Assert(~Cat(state_is(name) for name in ("SEND", "SEND_WAIT", "SENDING", "SETTLE")).any()
                   | (current.span != 0), Format("span")),
            Assert(~state_is("ENTER") | (current.sends == 0) | (current.span != 0), Format("span")),
            Assert(Cat(state_is(name) for name in STATES).any(), Format("no state")),
            Assert(~internal(parts, "news") | (internal(parts, "marks") != 0), Format("a mark before the start")),
            Assert(~later | dut.grants.inside | state_is("LEAVING"), Format("receives of the phase after the next")),
            Assert(~signals.valid | (signals.payload.header.phase == state.phase)
                   | later & (chunk.filled | chunk.early), Format("receives of the next phase before the fill")),
        ]
        return m


def test_fsm():
    prove(Enabled(), name="fsm", depth=6, mode="prove")
