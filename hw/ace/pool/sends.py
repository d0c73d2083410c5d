# SPDX-License-Identifier: Apache-2.0
"""Arbitration of the ports among the FSMs' DATA packets.

Fsm -> SendArbiter -> Transmit.  Latency: 1 cycle.  Throughput: one packet per cycle for each pipe; per port, a packet
per two.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.age_arbiter import AgeArbiter
from hw.ace.communicator_status import CommunicatorStatusSignature
from hw.ace.communicators import PRIORITY_WIDTH
from hw.ace.config import AceConfig
from hw.ace.layouts import send_layout
from hw.ace.transmit import SendPort
from hw.ace.watchdog import PortTurns
from hw.stream import selected

from .fsm_ports import FsmsPaused, FsmStart, PacketOffer, state_layout

__all__ = ["PoolCounts", "SendArbiter"]


class PoolCounts(wiring.Signature):
    """Counts of the pool, a strobe per cycle: ``starved_cycles``, an FSM has data to send and none may send."""

    def __init__(self) -> None:
        super().__init__({"starved_cycles": Out(1)})


class SendArbiter(wiring.Component):
    """In each pipe, serve the FSM of the previous packet until its message ends, it has to wait, or a chunk of a higher
    priority may send; then serve the oldest chunk of the highest priority that may send.

    So chunks follow each other through their phases and all dimensions are busy; with round robin they would all be in
    the same phase at the same time.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    offers : ``In(PacketOffer).array(fsms)``, states : ``In(state_layout).array(fsms)``
    priorities : ``In(PRIORITY_WIDTH).array(fsms)``
        Of the FSMs' communicators.
    starts : ``In(FsmStart).array(fsms)``, communicator_status : ``In(CommunicatorStatusSignature)``
        Age and priority of a new chunk. All payloads are equal. At most one in two cycles: ``priorities`` follows a
        start after two, and an order that contradicts itself would grant no FSM.
    paused : ``In(FsmsPaused)``
    o : ``Out(SendPort).array(pipes)``
    turns : ``Out(PortTurns)``, counts : ``Out(PoolCounts)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "offers": In(PacketOffer(config)).array(config.fsms),
            "states": In(state_layout(config)).array(config.fsms),
            "priorities": In(PRIORITY_WIDTH).array(config.fsms),
            "starts": In(FsmStart(config)).array(config.fsms), "paused": In(FsmsPaused(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)),
            "o": Out(SendPort(config)).array(config.pipes), "turns": Out(PortTurns(config)),
            "counts": Out(PoolCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        offers, sent, taken = self.offers, 0, 0
        for number, o in enumerate(self.o):
            chosen, leaves = self._pipe(m, number, o)
            taken |= chosen
            sent |= leaves
        for number, offer in enumerate(offers):
            m.d.comb += [offer.taken.eq(taken[number]),
                         offer.read.eq(sum(o.read & (o.fsm == number) for o in self.o))]
        m.d.comb += [
            self.counts.starved_cycles.eq(
                Cat(state.wants for state in self.states).any() & ~Cat(offer.valid for offer in offers).any()),
            self.turns.sent.eq(sent),
        ]
        m.d.sync += self.turns.offering.eq(Cat(
            Cat(offer.valid & (state.communicator == number)
                for offer, state in zip(offers, self.states, strict=True)).any()
            for number in range(self.config.communicators)))
        return m

    def _pipe(self, m, number, o):
        """Serve the ports of a pipe, the only ones for which it has credit. Return the FSMs whose offer is taken, and
        the communicators of which a packet leaves."""
        config, offers, priorities = self.config, self.offers, self.priorities
        m.submodules[f"turn_{number}"] = turn = AgeArbiter(config.fsms)
        open_ = Signal(config.fsms, name=f"open_{number}")      # with an offer for a port with free entries
        last = Signal(config.fsms, name=f"last_{number}")       # FSM of the latest packet
        packets = Signal(range(config.message_packets + 1), name=f"packets_{number}")
        stays, chosen = Signal(name=f"stays_{number}"), Signal(config.fsms, name=f"chosen_{number}")
        send = Signal(send_layout(config), name=f"send_{number}", reset_less=True)
        valid, free = Signal(name=f"valid_{number}"), Signal(name=f"free_{number}")
        # Chunks of a higher priority than that of the latest packet; than that of the starting chunk.
        latest, starting = (Signal(PRIORITY_WIDTH, name=f"{name}_{number}") for name in ("latest", "starting"))
        higher, taken = Signal(config.fsms, name=f"higher_{number}"), Signal(config.fsms, name=f"taken_{number}")
        m.d.sync += latest.eq(Array(priorities)[send.fsm])
        m.d.comb += [
            higher.eq(Cat(priority > latest for priority in priorities)),
            starting.eq(self.communicator_status.priorities[self.starts[0].payload.communicator]),
            turn.outranked.eq(Cat(starting > priority for priority in priorities)),
            # ``free`` does not yet include the packet that waits here.
            open_.eq(Cat(offer.valid & o.free.bit_select(offer.port, 1) & ~(valid & (send.port == offer.port))
                         for offer in offers)),
            turn.requests.eq(open_),
            stays.eq((open_ & last).any() & ~(open_ & higher).any() & (packets != config.message_packets)),
            chosen.eq(Mux(stays, last, turn.grant_onehot)),
            free.eq(~valid | o.ready),
            turn.started.eq(Cat(start.valid for start in self.starts)),
            o.paused.eq(self.paused.fsms),
            o.valid.eq(valid), o.payload.eq(send),
            taken.eq(Mux(free, chosen, 0)),
        ]
        with m.If(free):
            m.d.sync += valid.eq(open_.any())
            with m.If(open_.any()):
                m.d.sync += [last.eq(chosen), packets.eq(Mux(stays, packets, 0) + 1), *(
                    value.eq(selected(value.shape(), chosen, values)) for value, values in (
                        (send.port, [offer.port for offer in offers]), (send.fsm, range(config.fsms)),
                        (send.address, [offer.address for offer in offers]),
                        (send.header, [offer.header for offer in offers])))]
        return taken, Mux(valid & o.ready, 1 << send.header.communicator, 0)
