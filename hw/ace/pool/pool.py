# SPDX-License-Identifier: Apache-2.0
"""The pool of FSMs, and what they share: access to programs, received GRANTs, and arbitration of the ports.

::

    chunks, landed -> FsmDispatch -+         +-> ProgramSteps -> program, done
                                   |         |        | entered
                                   +-> Fsm <-+-> GrantStore <- grant
                                   |   x n   |
    status -> FsmCommunicators ----+         +-> SendArbiter -> sends
                                             +-> SignalArbiter -> signals
                                             +-> FsmLookups <- lookups, state

Chunker -> FsmPool -> Transmit, and Receive -> FsmPool.  Latency: 4 cycles from the request of a step to its word, 2
from an offer to the packet.  Throughput: one step and one GRANT per cycle, and one packet for each pipe;
per port, a packet per two.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.communicator_status import CommunicatorStatusSignature
from hw.ace.communicators import CommunicatorWrite, ShareRead
from hw.ace.config import AceConfig
from hw.ace.fill import FillMarked
from hw.ace.layouts import chunk_layout, through_layout
from hw.ace.pipe_merge import GrantReceived
from hw.ace.pipe_split import GrantPort
from hw.ace.programs.store import ProgramRead
from hw.ace.receive import ChunkLookup, DataLanded
from hw.ace.transmit import SendPort
from hw.ace.watchdog import PortTurns
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring

from .communicators import FsmCommunicators
from .dispatch import FsmDispatch
from .fsm import Fsm
from .fsm_ports import FsmFilled, FsmLookup, FsmsBusy
from .grants import GrantStore
from .lookups import FsmLookups
from .sends import PoolCounts, SendArbiter
from .signals import SignalArbiter
from .steps import ProgramSteps

__all__ = ["FsmPool"]


class FsmPool(wiring.Component):
    """``fsms`` FSMs. Only connects.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    chunks : ``In(stream.Signature(chunk_layout))``
        Stalls while the chunk's FSM is busy.
    busy : ``Out(FsmsBusy)``
    filled : ``In(FsmFilled)``, marked : ``In(FillMarked)``
    done : ``Out(stream.Signature(through_layout))``
        Slots whose chunk has completed its phases, or has only the last receive before it.
    program : ``Out(ProgramRead)``
    lookups : ``In(ChunkLookup).array(pipes)``, landed : ``In(DataLanded).array(pipes)``, grant : ``In(GrantReceived)``
    lookup_shares : ``Out(ShareRead).array(pipes)``, grant_share : ``Out(ShareRead)``
    sends : ``Out(SendPort).array(pipes)``, signals : ``Out(GrantPort)``
    state : ``In(FsmLookup)``
    communicator_status : ``In(CommunicatorStatusSignature)``
        Chunks of a stopped communicator are dropped. Packets of higher priority go first.
    restart : ``In(CommunicatorWrite)``
        Clears the stored GRANTs for the FSMs of its share.
    turns : ``Out(PortTurns)``, counts : ``Out(PoolCounts)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "chunks": In(stream.Signature(chunk_layout(config))), "busy": Out(FsmsBusy(config)),
            "filled": In(FsmFilled(config)), "marked": In(FillMarked(config)),
            "done": Out(stream.Signature(through_layout(config))), "program": Out(ProgramRead(config)),
            "lookups": In(ChunkLookup(config)).array(config.pipes),
            "landed": In(DataLanded(config)).array(config.pipes), "grant": In(GrantReceived(config)),
            "lookup_shares": Out(ShareRead(config)).array(config.pipes), "grant_share": Out(ShareRead(config)),
            "sends": Out(SendPort(config)).array(config.pipes), "signals": Out(GrantPort(config)),
            "state": In(FsmLookup(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)), "restart": In(CommunicatorWrite(config)),
            "turns": Out(PortTurns(config)), "counts": Out(PoolCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(dispatch=FsmDispatch(config), communicators=FsmCommunicators(config), lookups=FsmLookups(config),
                  steps=ProgramSteps(config), grants=GrantStore(config), sends=SendArbiter(config),
                  signals=SignalArbiter(config))
        wires.add(**{f"fsm_{number}": Fsm(config) for number in range(config.fsms)})
        wires.broadcast("self.filled", *(f"fsm_{number}.filled" for number in range(config.fsms)))
        wires.broadcast("self.marked", *(f"fsm_{number}.marked" for number in range(config.fsms)))
        for number in range(config.fsms):
            wires.broadcast(f"dispatch.starts[{number}]", f"fsm_{number}.start", f"sends.starts[{number}]")
            wires.connect(f"dispatch.landings[{number}]", f"fsm_{number}.landed")
            wires.connect(f"communicators.o[{number}]", f"fsm_{number}.communicator")
            wires.connect(f"communicators.priorities[{number}]", f"sends.priorities[{number}]")
            wires.broadcast(f"fsm_{number}.chunk", f"dispatch.held[{number}]", f"lookups.held[{number}]",
                            f"steps.held[{number}]")
            wires.broadcast(f"fsm_{number}.state", f"communicators.states[{number}]", f"lookups.states[{number}]",
                            f"grants.states[{number}]", f"sends.states[{number}]")
            wires.connect(f"fsm_{number}.steps", f"steps.requests[{number}]")
            wires.connect(f"fsm_{number}.grants", f"grants.phases[{number}]")
            wires.connect(f"fsm_{number}.packets", f"sends.offers[{number}]")
            wires.connect(f"fsm_{number}.signals", f"signals.i[{number}]")

        # -- Chunks.
        wires.connect("self.chunks", "dispatch.chunks")
        wires.connect("dispatch.busy", "self.busy")
        wires.connect("dispatch.paused", "sends.paused")
        wires.connect("steps.program", "self.program")
        wires.connect("steps.done", "self.done")
        wires.connect("steps.entered", "grants.entered")

        # -- Packets.
        wires.connect("self.lookups", "lookups.packets")
        wires.connect("lookups.shares", "self.lookup_shares")
        wires.connect("self.landed", "dispatch.landed")
        wires.connect("self.grant", "grants.grant")
        wires.connect("grants.share", "self.grant_share")
        wires.connect("sends.o", "self.sends")
        wires.connect("signals.o", "self.signals")

        # -- Communicators, registers and counters.
        wires.connect("self.init", "grants.init")
        wires.connect("self.restart", "grants.restart")
        wires.broadcast("self.communicator_status", "communicators.communicator_status", "sends.communicator_status")
        wires.connect("self.state", "lookups.state")
        wires.connect("sends.turns", "self.turns")
        wires.connect("sends.counts", "self.counts")
        wires.finish()
        return m
