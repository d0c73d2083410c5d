# SPDX-License-Identifier: Apache-2.0
"""The communicators' status, for the chunk of each FSM.

CommunicatorStatus -> FsmCommunicators -> Fsm, SendArbiter.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.communicator_status import CommunicatorStatusSignature
from hw.ace.communicators import PRIORITY_WIDTH
from hw.ace.config import AceConfig

from .fsm_ports import FsmCommunicator, state_layout

__all__ = ["FsmCommunicators"]


class FsmCommunicators(wiring.Component):
    """Select, for each FSM, the status of its chunk's communicator.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    communicator_status : ``In(CommunicatorStatusSignature)``
    states : ``In(state_layout).array(fsms)``
    o : ``Out(FsmCommunicator).array(fsms)``
    priorities : ``Out(PRIORITY_WIDTH).array(fsms)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "communicator_status": In(CommunicatorStatusSignature(config)),
            "states": In(state_layout(config)).array(config.fsms),
            "o": Out(FsmCommunicator()).array(config.fsms),
            "priorities": Out(PRIORITY_WIDTH).array(config.fsms),
        })

    def elaborate(self, platform):
        m = Module()
        status = self.communicator_status
        for state, fsm, priority in zip(self.states, self.o, self.priorities, strict=True):
            m.d.sync += [
                priority.eq(status.priorities[state.communicator]),
                fsm.epoch.eq(status.epochs[state.communicator]),
                fsm.stopped.eq(status.stopped.bit_select(state.communicator, 1) & state.busy),
            ]
        return m
