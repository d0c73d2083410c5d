# SPDX-License-Identifier: Apache-2.0
"""The whole FSM pool of the smallest configuration, whose ports are ready, makes progress unless its chunks wait for
GRANTs or data of neighbours: bounded, by ABC, for any programs, GRANTs and data.
"""

import pytest
from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.ace.layouts import PhaseLayout, chunk_layout, landed_layout
from hw.ace.pool.pool import FsmPool
from hw.ace.receive import received_grant_layout
from hw.ace.words import PROGRAM_WIDTH, Waits
from tests.formal.small import ACE, swept
from tests.harness.aiger import violated

pytestmark = [pytest.mark.formal, pytest.mark.long]

PATIENCE = 7
"""Cycles in which nothing passes a port of the pool, while it works."""
DEPTH = 50


class Pool(wiring.Component):
    """A pool whose ports, programs and drain accept at once. Its chunks are filled, and their sends have beats; packets
    are read in the cycle after they leave, and those for the loopback have arrived then.

    Parameters
    ----------
    shown : function of the pool, and the number of cycles for which nothing has passed a port of it, and the FSM of the
        solver's choice has had a chunk and waited neither for GRANTs nor for data
        Returns what is asserted.
    """

    def __init__(self, shown):
        self.shown = shown
        super().__init__({
            "chunk_valid": In(1), "chunk": In(chunk_layout(ACE)), "word": In(PROGRAM_WIDTH), "stop": In(1),
            "grant_valid": In(1), "grant": In(received_grant_layout(ACE)),
            "landed_valid": In(1), "landed": In(landed_layout(ACE)), "watched": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = FsmPool(ACE)
        ready = swept(m, dut.init, ACE.fsms << ACE.port_bits)
        o, landed, chunk = dut.sends[0], dut.landed[0], dut.chunks.payload
        at, span = PhaseLayout["span"].offset, PhaseLayout(self.word[:PhaseLayout.size]).span
        stopped, watched, known = Signal(), Signal(), Signal()
        with m.If(~known):
            m.d.sync += [known.eq(1), watched.eq(self.watched)]
        m.d.sync += stopped.eq(stopped | self.stop)
        m.d.comb += [
            dut.chunks.valid.eq(self.chunk_valid & ready), chunk.eq(self.chunk), chunk.ended.eq(1), chunk.filled.eq(1),
            chunk.piece_beats.eq(1), dut.communicator_status.stopped.eq(stopped.replicate(ACE.communicators)),
            # With a span of 1 position at least.
            dut.program.word.eq(Cat(self.word[:at], (span == 0) | span[0], self.word[at + 1:])),
            dut.program.ready.eq(1), dut.done.ready.eq(1), o.ready.eq(1), o.free.eq(-1),
            dut.signals.ready.eq(1), dut.signals.free.eq(-1),
            dut.grant.valid.eq(self.grant_valid & ready), dut.grant.payload.eq(self.grant),
            dut.grant_share.share.fsm_mask.eq(ACE.fsms - 1), dut.state.fsm.eq(watched),
        ]
        local = Signal()
        m.d.sync += [local.eq(o.valid & (o.payload.port == ACE.local_port)), o.read.eq(o.valid),
                     o.fsm.eq(o.payload.fsm)]
        m.d.comb += [landed.valid.eq(local | self.landed_valid), landed.payload.eq(self.landed),
                     landed.payload.local.eq(local)]
        with m.If(local):
            m.d.comb += landed.payload.fsm.eq(o.fsm)
        quiet, state = Signal(range(PATIENCE + 2)), dut.state.state
        moves = (dut.chunks.valid & dut.chunks.ready) | Cat(
            port.valid for port in (dut.program, dut.done, o, dut.signals, dut.grant, landed)).any()
        works = state.busy & (state.waits != Waits.GRANT.value) & (state.waits != Waits.DATA.value)
        m.d.sync += quiet.eq(Mux(works & ~moves, Mux(quiet > PATIENCE, quiet, quiet + 1), 0))
        m.d.comb += Assert(self.shown(dut, quiet))
        return m


def test_the_pool_waits_for_neighbours_only():
    assert violated(Pool(lambda dut, quiet: quiet <= PATIENCE), name="pool-progress", depth=DEPTH) is None


def test_packets_are_reached():
    """Cycles before the bound, a packet leaves."""
    assert violated(Pool(lambda dut, quiet: ~dut.sends[0].valid), name="pool-packets", depth=DEPTH,
                    wanted=True) < DEPTH - PATIENCE

