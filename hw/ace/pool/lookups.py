# SPDX-License-Identifier: Apache-2.0
"""Look-ups of FSMs: by received packets, and by software.

Receive, Faults -> FsmLookups.  Latency: 1 cycle for a packet, none for software.  Throughput: one of each per cycle,
a packet from each pipe.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.communicators import ShareRead, own
from hw.ace.config import AceConfig
from hw.ace.receive import ChunkLookup

from .fsm_ports import FsmChunk, FsmLookup, state_layout

__all__ = ["FsmLookups"]


class FsmLookups(wiring.Component):
    """Find the FSM and the slot of a received packet's chunk, and the state of an FSM for software.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    packets : ``In(ChunkLookup).array(pipes)``, shares : ``Out(ShareRead).array(pipes)``
        The FSM of a packet follows from its communicator's share and its sequence number.
    state : ``In(FsmLookup)``
    held : ``In(FsmChunk).array(fsms)``, states : ``In(state_layout).array(fsms)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "packets": In(ChunkLookup(config)).array(config.pipes),
            "shares": Out(ShareRead(config)).array(config.pipes), "state": In(FsmLookup(config)),
            "held": In(FsmChunk(config)).array(config.fsms),
            "states": In(state_layout(config)).array(config.fsms),
        })

    def elaborate(self, platform):
        m = Module()
        slots, arithmetics = (Array(getattr(held, name) for held in self.held) for name in ("slot", "arithmetic"))
        m.d.comb += self.state.state.eq(Array(self.states)[self.state.fsm])
        for number, (packet, share) in enumerate(zip(self.packets, self.shares, strict=True)):
            found, entry = Signal(self.config.fsm_bits, name=f"found_{number}"), packet.destination
            m.d.comb += [share.number.eq(packet.chunk.communicator),
                         found.eq(own(share.share, packet.chunk.sequence)[0])]
            with m.If(packet.valid):
                m.d.sync += [entry.fsm.eq(found), entry.slot.eq(slots[found]),
                             entry.arithmetic.eq(arithmetics[found])]
        return m
