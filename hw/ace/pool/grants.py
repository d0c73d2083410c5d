# SPDX-License-Identifier: Apache-2.0
"""Received GRANTs: stored until the FSM enters their phase, or forwarded at once.

Receive -> GrantStore -> Fsm.  Latency: 1 cycle from a GRANT, or from the start of its phase.  Throughput: one GRANT per
cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.communicators import CommunicatorWrite, ShareRead, own
from hw.ace.config import SEQUENCE_WIDTH, STEP_WIDTH, AceConfig
from hw.ace.layouts import PHASE_WIDTH, grant_layout
from hw.ace.pipe_merge import GrantReceived
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .fsm_ports import PhaseGrants, state_layout
from .steps import PhaseEntered

__all__ = ["GrantStore"]


class GrantStore(wiring.Component):
    """A GRANT for a phase that its FSM has not entered is stored until the FSM enters it; others are forwarded at once.

    In a phase with sends at both ports of a dimension, both neighbours grant receives.

    There is a row for each port of an FSM. Before the neighbour at that port grants the same FSM receives of another
    phase or chunk, it has received all sends of the earlier phase, so no row is needed twice at a time. A row for each
    phase would not suffice: in another collective, whose dimensions have another order, a different neighbour may grant
    the same phase, and it does not know about the first one.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    restart : ``In(CommunicatorWrite)``
        Clears the rows of the FSMs of its share.
    grant : ``In(GrantReceived)``, share : ``Out(ShareRead)``
        The FSM of a GRANT follows from its communicator's share and its sequence number.
    entered : ``In(PhaseEntered)``
    phases : ``In(PhaseGrants).array(fsms)``, states : ``In(state_layout).array(fsms)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "restart": In(CommunicatorWrite(config)),
            "grant": In(GrantReceived(config)), "share": Out(ShareRead(config)), "entered": In(PhaseEntered(config)),
            "phases": In(PhaseGrants()).array(config.fsms), "states": In(state_layout(config)).array(config.fsms),
        })

    def elaborate(self, platform):
        m = Module()
        config, grant, port_bits = self.config, self.grant.payload.grant, self.config.port_bits
        row_layout = data.StructLayout({"sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH, "granted": STEP_WIDTH})
        m.submodules.table = table = Table(
            row_layout, depth=config.fsms << port_bits, reads=2, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), table.init)
        came, valid = Signal(grant_layout(config), reset_less=True), Signal()
        number, port = Signal(config.fsm_bits, reset_less=True), Signal(port_bits, reset_less=True)
        m.d.comb += self.share.number.eq(grant.communicator)
        m.d.sync += [valid.eq(self.grant.valid), came.eq(grant), port.eq(self.grant.payload.port),
                     number.eq(own(self.share.share, grant.sequence)[0])]
        kept = Signal(config.fsms << port_bits)
        entry, granted_now = Signal(range(len(kept))), Signal(config.fsms)
        m.d.comb += [
            entry.eq(Cat(port, number)),
            table.write.en.eq(valid & ~granted_now.any()), table.write.addr.eq(entry),
            *(table.write.data[name].eq(came[name]) for name, _ in row_layout),
        ]
        phases, sequences = (Array(state[name] for state in self.states) for name in ("phase", "sequence"))
        # At most one FSM enters a phase in a cycle. GRANTs of both neighbours may have arrived: their rows are read in
        # that cycle, and compared in the next one.
        found, enters = Signal(range(len(kept)), reset_less=True), Signal()
        fsm = found[port_bits:]
        arrives, known, clears = Signal(len(kept)), Signal(2), [Signal(len(kept), name=f"clears_{back}")
                                                                for back in range(2)]
        m.d.comb += arrives.eq(Mux(table.write.en, 1 << entry, 0))
        m.d.sync += [found.eq(Cat(self.entered.port, self.entered.fsm)),
                     enters.eq(Cat(phase.entered for phase in self.phases).any())]
        rows = [Signal(row_layout, name=f"row_{back}", reset_less=True) for back in range(2)]
        for back, read in enumerate(table.read):
            row, here = rows[back], Signal(name=f"here_{back}", reset_less=True)
            m.d.comb += [
                read.addr.eq(Cat(self.entered.port ^ back, self.entered.fsm)),
                known[back].eq(here & (row.sequence == sequences[fsm]) & (row.phase == phases[fsm])),
                clears[back].eq(Mux(known[back] & enters, 1 << (found ^ back), 0)),
            ]
            m.d.sync += [row.eq(read.data), here.eq(kept.bit_select(read.addr, 1))]
        m.d.sync += kept.eq(kept & ~(clears[0] | clears[1]) | arrives)
        for index, (phase, state) in enumerate(zip(self.phases, self.states, strict=True)):
            back, forward = port[0] ^ phase.odd, Signal(name=f"forward_{index}")
            # The newer one of two GRANTs at one port is that which arrives as the FSM enters.
            entered, newer = (Signal(name=f"{name}_{index}") for name in ("entered", "newer"))
            m.d.sync += [entered.eq(phase.entered), newer.eq(forward)]
            m.d.comb += [
                granted_now[index].eq(valid & phase.inside & (number == index) & (came.phase == state.phase)
                                      & (came.sequence == state.sequence)),
                forward.eq(granted_now[index] & ~back), phase.valid.eq(forward | entered & known[0] & ~newer),
                phase.granted.eq(Mux(forward, came.granted, rows[0].granted)),
                phase.back.eq(granted_now[index] & back | entered & known[1]),
            ]
            share = self.restart.share
            with m.If(self.restart.valid & ~((index - share.fsm_first)[:config.fsm_bits] & ~share.fsm_mask).any()):
                m.d.sync += kept[index << port_bits:index + 1 << port_bits].eq(0)
        return m
