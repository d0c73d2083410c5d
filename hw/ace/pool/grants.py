# SPDX-License-Identifier: Apache-2.0
"""Received GRANTs: stored until the FSM enters their phase, or forwarded at once.

Receive -> GrantStore -> Fsm.  Latency: 1 cycle.  Throughput: one GRANT per cycle.
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
        fsm, enters = self.entered.fsm, Signal()
        arrives, known, clears = Signal(len(kept)), Signal(2), [Signal(len(kept), name=f"clears_{back}")
                                                                for back in range(2)]
        m.d.comb += [arrives.eq(Mux(table.write.en, 1 << entry, 0)),
                     enters.eq(Cat(phase.entered for phase in self.phases).any())]
        # At most one FSM enters a phase in a cycle. GRANTs of both neighbours may have arrived.
        for back, read in enumerate(table.read):
            row, found = read.data, Signal(range(len(kept)), name=f"found_{back}")
            m.d.comb += [
                found.eq(Cat(self.entered.port ^ back, fsm)), read.addr.eq(found),
                known[back].eq(kept.bit_select(found, 1) & (row.sequence == sequences[fsm])
                               & (row.phase == phases[fsm])),
                clears[back].eq(Mux(known[back] & enters, 1 << found, 0)),
            ]
        m.d.sync += kept.eq((kept | arrives) & ~(clears[0] | clears[1]))
        for index, (phase, state) in enumerate(zip(self.phases, self.states, strict=True)):
            back = port[0] ^ phase.odd
            m.d.comb += [
                granted_now[index].eq(valid & phase.inside & (number == index) & (came.phase == state.phase)
                                      & (came.sequence == state.sequence)),
                phase.valid.eq(granted_now[index] & ~back | phase.entered & known[0]),
                phase.granted.eq(Mux(granted_now[index] & ~back, came.granted, table.read[0].data.granted)),
                phase.back.eq(granted_now[index] & back | phase.entered & known[1]),
            ]
            share = self.restart.share
            with m.If(self.restart.valid & ~((index - share.fsm_first)[:config.fsm_bits] & ~share.fsm_mask).any()):
                m.d.sync += kept[index << port_bits:index + 1 << port_bits].eq(0)
        return m
