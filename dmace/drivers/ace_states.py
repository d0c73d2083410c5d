# SPDX-License-Identifier: Apache-2.0
"""The accelerator's work in progress, decoded from its registers as named tuples and as sentences."""

from collections.abc import Mapping
from typing import NamedTuple

from hw.ace.config import DIMENSIONS
from hw.ace.words import CommunicatorState, LinkCause, LinkState, Stage, Status, Waits

__all__ = ["CommunicatorStatus", "Fault", "FsmState", "LinkStatus", "Pending", "QueueState", "SlotState"]


class QueueState(NamedTuple):
    """QUEUE_STATE and QUEUE_COUNT of a queue."""

    status: Status
    waiting: int
    active: int
    count: int      # type: ignore[assignment]  # hides tuple.count, which is never used


class FsmState(NamedTuple):
    """FSM_STATE and FSM_STEPS of an FSM."""

    busy: int
    wants: int
    granted: int
    ready: int
    phase: int
    port: int
    waits: Waits
    communicator: int
    sequence: int
    sent: int
    received: int

    def __str__(self) -> str:
        return self.describe({port: f"port {port}" for port in range(2 * DIMENSIONS)})

    def describe(self, neighbours: Mapping[int, str]) -> str:
        """Its wait condition as text; ``neighbours``: port -> name of the peer."""
        waits = {
            Waits.NOTHING: "makes progress", Waits.GRANT: f"waits for a GRANT from {neighbours[self.port]}",
            Waits.DATA: f"waits for data from {neighbours[self.port ^ 1]}", Waits.PORT: f"waits for port {self.port}",
            Waits.SRAM: "waits for the SRAM", Waits.PROGRAM: "waits for its program",
            Waits.MEMORY: "waits for read data from memory",
        }
        return (f"{waits[self.waits]}: communicator {self.communicator}, chunk {self.sequence}, phase {self.phase}, "
                f"step {self.sent}; {self.received} receives done")


class SlotState(NamedTuple):
    """SLOT_STATE of a slot."""

    stage: Stage
    communicator: int
    sequence: int


class CommunicatorStatus(NamedTuple):
    """COMMUNICATOR_STATE of a communicator: ``work`` if a collective of it is not over, ``chunks`` that have begun."""

    state: CommunicatorState
    work: int
    epoch: int
    priority: int
    chunks: int


class Fault(NamedTuple):
    """Why a communicator ended, as all its ranks know it; ``named`` if there is a chunk: phase, step and sequence."""

    communicator: int
    status: Status
    rank: int
    port: int
    phase: int
    named: int
    step: int
    sequence: int

    def __str__(self) -> str:
        text = f"{self.status.name} at rank {self.rank} of communicator {self.communicator}"
        if self.status == Status.LINK_DOWN:
            text += f", port {self.port}"
        if not self.named:
            return text
        return f"{text}: chunk {self.sequence}, phase {self.phase}, step {self.step}"


class LinkStatus(NamedTuple):
    """LINK_STATE of a port, and what it has counted since reset, up to 65,535."""

    state: LinkState
    cause: LinkCause
    unacknowledged: int
    credits: int
    replays: int
    crc_errors: int
    sequence_errors: int
    duplicates: int
    timeouts: int
    stale: int


class Pending(NamedTuple):
    """Work in progress, by number: queues that hold or have commands, communicators, slots in use, FSMs with a chunk;
    the errors of communicators that ended; links that are down or wait for an acknowledgement."""

    queues: dict[int, QueueState]
    communicators: dict[int, CommunicatorStatus]
    slots: dict[int, SlotState]
    fsms: dict[int, FsmState]
    faults: list[Fault]
    links: dict[int, LinkStatus]

    def lines(self, neighbours: Mapping[int, str] | None = None) -> list[str]:
        """As sentences; ``neighbours``: port -> who is there."""
        where = {port: f" to {name}" for port, name in (neighbours or {}).items()}
        neighbours = neighbours or {port: f"port {port}" for port in range(2 * DIMENSIONS)}
        lines = [f"communicator {fault.communicator} is {self.communicators[fault.communicator].state.name}: {fault}"
                 for fault in self.faults]
        lines += [f"port {port}{where.get(port, '')} is {link.state.name}, {link.unacknowledged} packets not "
                  f"acknowledged, {link.timeouts} timeouts" for port, link in self.links.items()]
        lines += [f"queue {number} is held: {state.status.name}" for number, state in self.queues.items()
                  if state.status]
        lines += [f"queue {number} has {state.waiting} commands waiting, {state.active} in progress"
                  for number, state in self.queues.items() if not state.status]
        lines += [f"FSM {number} {state.describe(neighbours)}" for number, state in self.fsms.items()]
        lines += [f"slot {number}, communicator {state.communicator}, chunk {state.sequence}: {_STAGES[state.stage]}"
                  for number, state in self.slots.items() if state.stage != Stage.LINKS]
        return lines


_STAGES = {
    Stage.FILLING: "waits for read data from memory", Stage.FILLED: "waits for its FSM",
    Stage.DRAINING: "waits for write responses from memory",
}
