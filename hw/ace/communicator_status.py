# SPDX-License-Identifier: Apache-2.0
"""The state of each communicator, broadcast to all stages: whether it is open, its epoch, priority and ports.

Registers, Faults -> CommunicatorStatus -> decoder, operations, chunker, FSM pool, receive.  Latency: 1 cycle.
"""

from functools import reduce
from operator import or_

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature

from .communicators import EPOCH_WIDTH, PRIORITY_WIDTH, CommunicatorWrite
from .config import AceConfig
from .words import CommunicatorState, Status

__all__ = ["ActivitySignature", "CommunicatorEnd", "CommunicatorStatus", "CommunicatorStatusSignature"]


def _registered(config):
    """The state of all communicators, side by side."""
    count = config.communicators
    return {
        "states": data.ArrayLayout(2, count), "epochs": data.ArrayLayout(EPOCH_WIDTH, count),
        "priorities": data.ArrayLayout(PRIORITY_WIDTH, count), "ports": data.ArrayLayout(config.ports, count),
        "statuses": data.ArrayLayout(8, count),
    }


class CommunicatorStatusSignature(wiring.Signature):
    """State of all communicators, side by side, broadcast to every stage that depends on it.

    Driven by CommunicatorStatus, from registers, in every cycle: a level, without handshake.

    Members
    -------
    stopped : ``Out(communicators)``
        ENDING or REVOKED: nothing new starts, and work in progress is dropped.
    closed : ``Out(communicators)``
        Not OPEN.
    states, epochs, priorities, ports, statuses : ``Out``, an element for each communicator
        CommunicatorState; the current epoch; the priority class; the ports that its programs use; why it was stopped.
    """

    def __init__(self, config: AceConfig) -> None:
        count = config.communicators
        super().__init__({"stopped": Out(count), "closed": Out(count),
                          **{name: Out(shape) for name, shape in _registered(config).items()}})


class CommunicatorEnd(EventSignature):
    """A communicator ends with ``payload.status``. Driven by Faults; no effect unless the communicator is open."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(data.StructLayout({"communicator": config.communicator_bits, "status": 8}))


class ActivitySignature(wiring.Signature):
    """Communicators with work in a stage, one bit each: a level, driven by that stage."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"communicators": Out(config.communicators)})


_HOLDERS = ("operations", "cutting", "decoding", "reporting")


class CommunicatorStatus(wiring.Component):
    """CLOSED or OPEN by a write of its entry; ENDING by an error; REVOKED when it has no work in progress.

    Parameters
    ----------
    config : AceConfig
    settle : int
        Cycles in which work that no stage reports leaves the pipelines: the minimum time from a communicator's end to
        REVOKED.

    Members
    -------
    write : ``In(CommunicatorWrite)``
        Write of an entry: it opens if it is valid.
    end : ``In(CommunicatorEnd)``
        Ends a communicator, if it is open.
    operations, cutting, decoding, reporting : ``In(ActivitySignature)``
        Communicators with chunks in progress; whose chunk is being cut; whose command is being decoded; with ABORTs
        still to be sent. A communicator is not REVOKED while any of them reports it.
    communicator_status : ``Out(CommunicatorStatusSignature)``
    """

    def __init__(self, config: AceConfig, *, settle: int) -> None:
        self.config = config
        self.settle = settle
        super().__init__({
            "write": In(CommunicatorWrite(config)), "end": In(CommunicatorEnd(config)),
            **{name: In(ActivitySignature(config)) for name in _HOLDERS},
            "communicator_status": Out(CommunicatorStatusSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        communicator_status, state, write, end = self.communicator_status, CommunicatorState, self.write, self.end
        busy, kept = Signal(self.config.communicators), Signal(data.StructLayout(_registered(self.config)))
        m.d.comb += [getattr(communicator_status, name).eq(kept[name]) for name, _ in kept.shape()]
        m.d.comb += busy.eq(reduce(or_, (getattr(self, name).communicators for name in _HOLDERS)))
        # An age of 2: at least ``settle`` cycles have passed.
        now = Signal(range(self.settle))
        m.d.sync += now.eq(Mux(now == self.settle - 1, 0, now + 1))
        for number in range(self.config.communicators):
            age = Signal(2, name=f"age_{number}")
            here = kept.states[number]
            m.d.comb += [communicator_status.stopped[number].eq(here[1]),
                         communicator_status.closed[number].eq(here != state.OPEN)]
            with m.If((here == state.ENDING) & (now == 0) & (age != 2)):
                m.d.sync += age.eq(age + 1)
            with m.If((here == state.ENDING) & (age == 2) & ~busy[number]):
                m.d.sync += here.eq(state.REVOKED)
            with m.If(end.valid & (end.payload.communicator == number) & (here == state.OPEN)):
                m.d.sync += [here.eq(state.ENDING), kept.statuses[number].eq(end.payload.status), age.eq(0)]
            with m.If(write.valid & (write.number == number)):
                m.d.sync += [
                    here.eq(Mux(write.mode.valid, state.OPEN, state.CLOSED)),
                    kept.epochs[number].eq(write.mode.epoch), kept.priorities[number].eq(write.mode.priority),
                    kept.ports[number].eq(write.mode.ports), kept.statuses[number].eq(Status.OK),
                ]
        return m
