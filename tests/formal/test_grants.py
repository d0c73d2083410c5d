# SPDX-License-Identifier: Apache-2.0
"""The store of GRANTs loses none: each reaches its FSM in the phase that it names. By induction."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Format, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.ace.config import SEQUENCE_WIDTH, STEP_WIDTH
from hw.ace.layouts import PHASE_WIDTH, grant_layout
from hw.ace.pool.grants import GrantStore
from tests.formal.small import ACE, assume_constant, swept
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened, row_of

pytestmark = [pytest.mark.formal, pytest.mark.long]

PLACE = data.StructLayout({"sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH})
"""A phase of a chunk."""


class Stored(wiring.Component):
    """The GRANTs for an FSM from a port, both of the solver's choice: each is forwarded at once while the FSM is in its
    phase, and else in the cycle after the FSM has entered that, the latest one if there were several; nothing else is.
    A restart of the communicator drops it.

    Assumed: one FSM enters a phase in a cycle, and stays in it for another one; until then, the neighbour at the port
    that sent a GRANT for the phase sends none for another: it has to receive the sends of this phase first.
    """

    def __init__(self):
        super().__init__({
            "valid": In(1), "grant": In(grant_layout(ACE)), "port": In(ACE.port_bits), "fsm": In(ACE.fsm_bits),
            "restart": In(1), "restarted": In(ACE.fsm_bits), "inside": In(ACE.fsms), "odd": In(ACE.fsms),
            "places": In(PLACE).array(ACE.fsms),
            "watched_fsm": In(ACE.fsm_bits), "watched_port": In(ACE.port_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = GrantStore(ACE)
        m.submodules.dut = parts = elaborated(dut)
        ready = swept(m, dut.init, ACE.fsms << ACE.port_bits)
        m.d.comb += [
            Assume(ready | ~self.valid), dut.grant.valid.eq(self.valid), dut.grant.payload.grant.eq(self.grant),
            dut.grant.payload.port.eq(self.port), dut.share.share.fsm_first.eq(self.fsm),
            dut.restart.valid.eq(self.restart), dut.restart.share.fsm_first.eq(self.restarted),
        ]
        # -- The FSMs' phases.
        inside_before, entered, entered_before = Signal(ACE.fsms), Signal(ACE.fsms), Signal(ACE.fsms)
        m.d.sync += [inside_before.eq(self.inside), entered_before.eq(entered)]
        m.d.comb += [entered.eq(self.inside & ~inside_before), Assume((entered & (entered - 1)) == 0)]
        for number, (place, phase, state) in enumerate(zip(self.places, dut.phases, dut.states, strict=True)):
            now, before = Cat(place, self.odd[number]), Signal(len(Value.cast(place)) + 1, name=f"before_{number}")
            m.d.sync += before.eq(now)
            m.d.comb += [
                Assume(~(self.inside & inside_before)[number] | (now == before)),
                Assume(~entered_before[number] | self.inside[number]),
                phase.inside.eq(self.inside[number]), phase.entered.eq(entered[number]),
                phase.odd.eq(self.odd[number]), state.sequence.eq(place.sequence), state.phase.eq(place.phase),
                Assume(~entered[number] | (dut.entered.fsm == number) & (dut.entered.port[0] == self.odd[number])),
            ]
        # -- The latest GRANT from the watched port, until its phase.
        fsm, port = self.watched_fsm, self.watched_port
        assume_constant(m, Cat(fsm, port))
        came, kept = Signal(), Signal()
        here, place, granted, latest = Signal(PLACE), Signal(PLACE), Signal(STEP_WIDTH), Signal(STEP_WIDTH)
        named, entry = Signal(PLACE), Cat(port, fsm)
        m.d.comb += here.eq(Array(Value.cast(place) for place in self.places)[fsm])
        m.d.sync += [came.eq(self.valid & (self.fsm == fsm) & (self.port == port)), granted.eq(self.grant.granted),
                     named.sequence.eq(self.grant.sequence), named.phase.eq(self.grant.phase)]
        at_once = came & self.inside.bit_select(fsm, 1) & (here == named)
        later, found, newer = Signal(), Signal(), Signal()
        m.d.comb += later.eq(kept & entered.bit_select(fsm, 1) & (here == place))
        m.d.sync += [found.eq(later), newer.eq(at_once)]
        with m.If(came & ~at_once):
            m.d.sync += [kept.eq(1), place.eq(named), latest.eq(granted)]
        with m.Elif(found):
            m.d.sync += kept.eq(0)
        with m.If(self.restart & (self.restarted == fsm)):
            m.d.sync += kept.eq(0)
        valid, count, back = (Array(getattr(phase, name) for phase in dut.phases)[fsm]
                              for name in ("valid", "granted", "back"))
        goes_back = port[0] ^ self.odd.bit_select(fsm, 1)
        stored, rows_kept = row_of(m, opened(parts, "table").submodules.memory, entry), internal(parts, "kept")
        m.d.comb += [
            Assume(~(came & kept) | (named == place)),
            Assert(Mux(goes_back, back == (at_once | found), valid == (at_once | found & ~newer)),
                   Format("a GRANT is lost, or from nowhere")),
            Assert(~valid | goes_back | (count == Mux(at_once, granted, latest)), Format("an old GRANT")),
            Assert(rows_kept.bit_select(entry, 1) == kept, Format("the row is in use")),
            Assert(~kept | (stored == Cat(place, latest)), Format("the row")),
            Assert(ready | (rows_kept == 0), Format("a row before the sweep")),
        ]
        return m


def test_grants():
    prove(Stored(), name="pool-grants", depth=4, mode="prove")
