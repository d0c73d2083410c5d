# SPDX-License-Identifier: Apache-2.0
"""A rank's communication: chunks of collectives through their phases.

:class:`Endpoint` is what all engines have in common, and by itself the ideal one: only the links take time. A chunk
starts, waits for an FSM where their number is limited, goes through the legs of its route, and ends. The other engines
are in :mod:`.accelerator` and :mod:`.conventional`.
"""

from collections.abc import Callable
from typing import Protocol

from .background import Backlog
from .calibration import Calibration
from .chunk import Chunk
from .configuration import MachineConfig
from .grains import Grain, Leg
from .kernel import Kernel, Server, picoseconds
from .memory import Memory
from .operation import Operation
from .picker import Picker
from .port import Port, Taken
from .switches import Switch

__all__ = ["WAITS", "Decision", "Endpoint", "OfEndpoints"]


class Decision:
    """Order of an endpoint's decisions of a time."""

    FILL, RUN, DRAIN, READ, ARRIVE = range(5)
    RECEIVE = 5
    """And the following ones, one for each pipe."""
    PICK = 9
    """And the following ones, one for each pipe."""
    PORT = 13
    """And the following ones, one for each port."""
    DIMENSION = 19
    """And the following ones, one for each dimension."""


_Handler = Callable[["Endpoint"], Callable[..., object]]


def _comes(endpoint: "Endpoint") -> Callable[..., object]:
    return endpoint.comes


WAITS = ("receive_cycles", "transmit_cycles", "send_cycles", "phase_cycles", "grant_cycles", "start_cycles",
         "divide_cycles", "chunk_cycles", "fill_cycles", "drain_cycles", "turn_cycles", "end_cycles")
"""Latencies of an engine, as :class:`.Calibration` names them."""


class OfEndpoints(Protocol):
    """The part of the machine that its endpoints use."""

    kernel: Kernel
    config: MachineConfig
    calibration: Calibration
    switches: list[Switch | None]
    """By dimension; None where there is a ring."""
    memory_latency: int
    """Picoseconds."""
    agreed: list[list[tuple[Operation, int]]]
    """By communicator, chunks in the order in which all of its ranks begin them: operations, and numbers of chunks."""

    def endpoint(self, rank: int) -> "Endpoint":
        ...

    def communicating(self, rank: int, whether: bool) -> None:
        ...

    def next_operation(self, operations: list[Operation]) -> Operation:
        ...


class Endpoint:
    """One rank's engine.

    Parameters
    ----------
    machine : Machine
    rank : int

    Attributes
    ----------
    neighbours : list
        By port, the endpoint at the other end of its link. Set by the machine.
    active : int
        Picoseconds in which a collective was in progress here.
    """

    neighbours: list["Endpoint"]

    def __init__(self, machine: OfEndpoints, rank: int) -> None:
        self.machine, self.rank = machine, rank
        self.kernel, self.config, self.kind = machine.kernel, machine.config, machine.config.kind
        self.wait = dict.fromkeys(WAITS, 0)
        self.latency = self.next_packet = 0
        self.prepare()
        self.ports: list[Port] = []
        for number in range(2 * len(self.config.shape)):
            # Both directions along a dimension share the link to its switch.
            shared = number % 2 and machine.switches[number // 2] is not None
            self.ports.append(self.ports[-1] if shared else self._port(number))
        self.memory = Memory(self.kernel, self.kind.memory_bytes_per_s,
                             min((way for way in self.ways() if way), default=None), self.config.memory_pool)
        self.chunks: dict[tuple[int, int], Chunk] = {}          # by operation and index
        self._tasks: list[Operation] = []      # operations with chunks that have not begun
        self._agreed: dict[int, int] = {}      # by communicator, how far this rank is in the machine's list
        self._early: dict[tuple[int, int, int], tuple[int, int]] = {}    # ``(came, stored)`` before the phase
        self.begun = self._run = 0             # chunks that have got a slot, and an FSM
        self._fsms: set[int] = set()
        # By dimension, chunks that wait for a phase, where the number of chunks in one is limited, and chunks in one.
        self._queues: list[list[tuple[tuple[float, ...], int, Chunk]]] = [[] for _ in self.config.shape]
        self._waited = 0
        self._inside = [0] * len(self.config.shape)
        self._filled: dict[int, Chunk] = {}
        self._in_progress, self._since, self.active = 0, 0, 0

    def key(self, resource: int) -> int:
        """Key of a :class:`Decision`."""
        return resource << 16 | self.rank

    def _port(self, number: int) -> Port:
        reader, picker = self.sender(number)
        link, switch = self.config.dimension_links[number // 2], self.machine.switches[number // 2]
        backlog = Backlog(link.background) if link.background.load and switch is None else None
        return Port(self.kernel, self.config, link, key=self.key(Decision.PORT + number),
                    delay=self.wait["transmit_cycles"], reader=reader, picker=picker,
                    slower=self.config.stragglers.link_factor(self.rank),
                    latency=None if switch is None else switch.up_latency, backlog=backlog)

    # -- What engines have of their own

    def prepare(self) -> None:
        """Set latencies, and make what the ports need."""

    def ways(self) -> list[float | None]:
        """Limits of each direction between memory and communication."""
        return [None]

    def sender(self, port: int) -> tuple[Server, Picker | None]:
        """Server that reads the grains for a port, and the arbiter of several ports; None if the port is its own."""
        return Server(self.kernel, None), None

    def has_free_slot(self) -> bool:
        """The next chunk may start."""
        return True

    def fill(self, chunk: Chunk) -> None:
        """A chunk starts; :meth:`is_filled` must follow."""
        self.is_filled(chunk)

    def granted(self, chunk: Chunk, leg: Leg) -> int | None:
        """Receives that the neighbour has granted for a phase that a chunk enters; None if it need not."""
        return None

    def has_left(self, chunk: Chunk, leg: Leg, grain: Grain) -> None:
        """A port has taken a grain."""

    def offer(self, chunk: Chunk, leg: Leg, grain: Grain) -> None:
        """The next grain of a chunk may be sent."""
        self.ports[leg.port].offer(chunk)

    def source(self, chunk: Chunk) -> int | None:
        """Bytes from the begin of the SRAM to the next grain of a chunk; None without an SRAM."""
        return None

    def comes(self, number: int, index: int, leg: int, grain: Grain, port: int) -> None:
        """The last byte of a grain has arrived; :meth:`landed` must follow."""
        self.landed(number, index, leg)

    def all_sent(self, chunk: Chunk) -> None:
        """A chunk has nothing more to send in its phase, and may have received another grain."""

    def drain(self, chunk: Chunk) -> None:
        """A chunk has passed its last phase; :meth:`ended` must follow."""
        self.ended(chunk)

    # -- Collectives

    def communicates(self, change: int) -> None:
        """1 or -1: a collective or a send begins or ends here."""
        if not self._in_progress:
            self._since = self.kernel.now
            self.machine.communicating(self.rank, True)
        self._in_progress += change
        if not self._in_progress:
            self.active += self.kernel.now - self._since
            self.machine.communicating(self.rank, False)

    def begin(self, operation: Operation) -> None:
        """The rank's command is here."""
        self.communicates(1)
        start = self.wait["start_cycles"] + (self.wait["divide_cycles"] if operation.divides else 0)
        start += picoseconds(self.kind.launch_s)
        self.kernel.at(self.kernel.now + start, self._begin, operation)

    def _begin(self, operation: Operation) -> None:
        if not operation.chunks:
            self._finish(operation)
            return
        self._tasks.append(operation)
        self.kernel.decide(self.key(Decision.FILL), self.start_chunks)

    def _finish(self, operation: Operation) -> None:
        end = self.kernel.now + self.wait["end_cycles"] + self.latency + picoseconds(self.kind.sync_s)
        self.kernel.at(end, self._finished, operation)

    def _finished(self, operation: Operation) -> None:
        self.communicates(-1)
        operation.finished(self.rank)

    # -- Chunks begin

    def start_chunks(self) -> None:
        """Start as many chunks as there are free slots for, in the order on which the ranks of each
        communicator agree."""
        while self._tasks and self.has_free_slot():
            ready = [operation for operation in self._tasks if self._next(operation)]
            if not ready:
                return
            operation = self.machine.next_operation(ready)
            agreed, at = self.machine.agreed[operation.communicator], self._agreed.get(operation.communicator, 0)
            if at == len(agreed):
                agreed.append((operation, operation.begun[self.rank]))
            index = agreed[at][1]
            self._agreed[operation.communicator] = at + 1
            operation.begun[self.rank] = index + 1
            if index + 1 == operation.chunks:
                self._tasks.remove(operation)
            chunk = Chunk(self, operation, index, operation.route(self.rank, index), (*operation.key, index),
                          self.begun)
            self.begun += 1
            self.chunks[operation.number, index] = chunk
            self.fill(chunk)

    def _next(self, operation: Operation) -> bool:
        """No other operation of its communicator must begin a chunk first."""
        agreed, at = self.machine.agreed[operation.communicator], self._agreed.get(operation.communicator, 0)
        return at == len(agreed) or agreed[at][0] is operation

    def is_filled(self, chunk: Chunk) -> None:
        self._filled[chunk.number] = chunk
        self.kernel.decide(self.key(Decision.RUN), self._turn)

    def _turn(self) -> None:
        """Filled chunks get their FSMs, one after the other."""
        fsms = self.kind.fsms
        while (chunk := self._filled.get(self._run)) is not None:
            if fsms is not None:
                chunk.fsm = self._run % fsms
                if chunk.fsm in self._fsms:
                    return
                self._fsms.add(chunk.fsm)
            del self._filled[self._run]
            self._run += 1
            self.kernel.at(self.kernel.now + self.wait["turn_cycles"], self._enter, chunk)

    # -- Phases

    def _enter(self, chunk: Chunk) -> None:
        chunk.leg += 1
        if chunk.leg == len(chunk.route.legs):
            self._through(chunk)
            return
        leg = chunk.route.legs[chunk.leg]
        if self.kind.per_dimension is None:
            self._begin_leg(chunk, leg)
            return
        self._waited += 1
        order = (*chunk.operation.key, self._waited) if self.config.turns == "fifo" else chunk.key
        self._queues[leg.port // 2].append((order, self._waited, chunk))
        self.kernel.decide(self.key(Decision.DIMENSION + leg.port // 2), lambda: self._admit(leg.port // 2))

    def _admit(self, dimension: int) -> None:
        """Begin phases in a dimension, up to the limit of the endpoint's kind, in the order of their collectives; of
        one collective the oldest chunk first or, with ``turns="fifo"``, the one that has waited longest."""
        queue, limit = self._queues[dimension], self.kind.per_dimension
        assert limit is not None
        queue.sort()
        while queue and self._inside[dimension] < limit:
            self._inside[dimension] += 1
            chunk = queue.pop(0)[2]
            self._begin_leg(chunk, chunk.route.legs[chunk.leg])

    def _begin_leg(self, chunk: Chunk, leg: Leg) -> None:
        chunk.grains, chunk.sent, chunk.inside = leg.grains, 0, True
        chunk.came, chunk.stored = self._early.pop((chunk.operation.number, chunk.index, chunk.leg), (0, 0))
        chunk.safe = leg.granted
        chunk.granted = self.granted(chunk, leg)
        self.go_on(chunk, leg)

    def go_on(self, chunk: Chunk, leg: Leg) -> None:
        """Offer the next grain if it may go; after the last one, end the phase once all has been received."""
        grains, sent = leg.grains, chunk.sent
        if sent == len(grains):
            self.all_sent(chunk)
            if chunk.stored == leg.comes and chunk.inside and not chunk.offered:
                chunk.inside = False
                if self.kind.per_dimension is not None:
                    self._inside[leg.port // 2] -= 1
                    self.kernel.decide(self.key(Decision.DIMENSION + leg.port // 2), lambda: self._admit(leg.port // 2))
                self.kernel.at(self.kernel.now + self.wait["phase_cycles"], self._enter, chunk)
            return
        if chunk.offered:
            return
        grain = grains[sent]
        if grain.need > chunk.came or (not chunk.whole and not chunk.permits(grain.send)) or (
                chunk.granted is not None and grain.send >= chunk.granted):
            return
        chunk.offered = True
        self.offer(chunk, leg, grain)

    def take(self, chunk: Chunk) -> Taken:
        """A port has chosen the chunk: its next grain, and where it goes."""
        leg = chunk.route.legs[chunk.leg]
        grain = leg.grains[chunk.sent]
        chunk.sent += 1
        self.has_left(chunk, leg, grain)
        gap = self.wait["send_cycles"] if grain.ends and chunk.sent < len(leg.grains) else self.next_packet
        self.kernel.at(self.kernel.now + gap, self._may_offer, chunk)
        arguments = (chunk.operation.number, chunk.index, chunk.leg, grain, leg.port)
        if grain.hop:
            wire = grain.size + grain.packets * self.config.header_bytes
            return grain.size, grain.packets, self.towards(leg.port, wire, _comes, grain.hop), arguments
        return grain.size, grain.packets, self._to_all(leg.port, grain, arguments[:3]), arguments

    def towards(self, port: int, wire: int, handler: _Handler, hop: int = 1) -> Callable[..., object]:
        """Handler for the end of a port's link: that of the receiver or, if there is a switch, of the switch.

        Parameters
        ----------
        port : int
        wire : int
            Bytes on the link.
        handler : callable
            The handler of an endpoint that receives.
        hop : int
            Ranks to the receiver, through a switch.
        """
        switch = self.machine.switches[port // 2]
        if switch is None:
            return handler(self.neighbours[port])
        per_byte, endpoint = self.ports[port].per_byte, self.machine.endpoint

        def at_switch(*arguments: object) -> None:
            switch.forward(self.rank, -hop if port % 2 else hop, wire, per_byte,
                           lambda rank: handler(endpoint(rank)), arguments)
        return at_switch

    def _to_all(self, port: int, grain: Grain, order: tuple[int, ...]) -> Callable[..., object]:
        """Handler for the end of a port's link, where a switch adds the grains of all ranks."""
        switch, endpoint = self.machine.switches[port // 2], self.machine.endpoint
        assert switch is not None
        per_byte = self.ports[port].per_byte

        def at_switch(*arguments: object) -> None:
            switch.reduce(self.rank, (*order, grain.send), grain, per_byte, lambda rank: _comes(endpoint(rank)),
                          arguments)
        return at_switch

    def _may_offer(self, chunk: Chunk) -> None:
        chunk.offered = False
        self.go_on(chunk, chunk.route.legs[chunk.leg])

    def landed(self, number: int, index: int, leg: int, came: int = 1, stored: int = 1) -> None:
        """A grain has ``came`` so far that it may be forwarded, or is ``stored`` completely, or both."""
        chunk = self.chunks.get((number, index))
        if chunk is None or chunk.leg != leg or not chunk.inside:
            before = self._early.get((number, index, leg), (0, 0))
            self._early[number, index, leg] = before[0] + came, before[1] + stored
            return
        chunk.came, chunk.stored = chunk.came + came, chunk.stored + stored
        self.go_on(chunk, chunk.route.legs[leg])

    # -- Chunks end

    def _through(self, chunk: Chunk) -> None:
        if self.kind.fsms is not None:
            self._fsms.discard(chunk.fsm)
            self.kernel.decide(self.key(Decision.RUN), self._turn)
        self.drain(chunk)

    def ended(self, chunk: Chunk) -> None:
        """All of a chunk is in memory."""
        operation = chunk.operation
        del self.chunks[operation.number, chunk.index]
        operation.ended[self.rank] += 1
        if operation.ended[self.rank] == operation.chunks:
            self._finish(operation)
