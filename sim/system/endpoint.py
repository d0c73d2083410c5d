# SPDX-License-Identifier: Apache-2.0
"""A rank's communication: chunks from memory through their phases and back.

A chunk is filled into a slot, waits for its FSM, goes through the legs of its route, and is drained. A slot and an FSM
follow from its number, as in the accelerator. Endpoints without SRAM have no slots, fills and drains: each grain is
read from memory before it is sent, and written to memory after it has arrived.
"""

from typing import Protocol

from .calibration import Calibration
from .chunk import Chunk
from .configuration import MachineConfig
from .kernel import Kernel, Server
from .memory import Memory, Reads
from .operation import Operation
from .picker import Picker
from .port import Port, Taken
from .routes import Grain, Leg

__all__ = ["Endpoint"]

_FILL, _RUN, _DRAIN, _READ, _RECEIVE, _PICK, _PORT = range(7)
_DIMENSION = _PORT + 6                                          # order of decisions


class _Machine(Protocol):
    """The part of the machine that its endpoints use."""

    kernel: Kernel
    config: MachineConfig
    calibration: Calibration
    memory_latency: int
    """Picoseconds."""
    agreed: list[tuple[Operation, int]]
    """Chunks in the order in which all ranks begin them: operations, and numbers of chunks."""

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

    def __init__(self, machine: _Machine, rank: int) -> None:
        self.machine, self.rank = machine, rank
        self.kernel, self.config = kernel, config = machine.kernel, machine.config
        self.kind, npu = config.kind, config.npu
        self.cycles = machine.calibration
        self._cycle = 1e12 / config.clock_hz
        self.sram, self.ideal = self.kind.engine == "sram", self.kind.engine == "ideal"
        wait = self._wait = {name: self._ticks(getattr(machine.calibration, name) if self.sram else 0) for name in (
            "receive_cycles", "transmit_cycles", "send_cycles", "phase_cycles", "grant_cycles", "start_cycles",
            "chunk_cycles", "fill_cycles", "drain_cycles", "turn_cycles", "end_cycles")}
        lanes = self.kind.receive_bytes
        rate = lanes * config.clock_hz if lanes and self.sram else None
        self.lanes, self.reader = Server(kernel, rate), Server(kernel, rate)
        picker = None
        if config.turns == "message" and self.sram:
            packets = config.message_bytes // config.packet_bytes if config.whole_packets else 1
            picker = Picker(kernel, self._key(_PICK), self.reader, delay=wait["transmit_cycles"], packets=packets)
        depth = machine.calibration.queue_packets if config.whole_packets else 1
        self.ports = [Port(kernel, config, link, key=self._key(_PORT + side + 2 * dimension), depth=depth,
                           delay=wait["transmit_cycles"], reader=self.reader, picker=picker)
                      for dimension, link in enumerate(config.dimension_links) for side in range(2)]
        ways: list[float | None] = [None if self.ideal else npu.bus_bytes_per_s]
        if self.kind.engine == "memory":
            ways.append(self.kind.sms * npu.sm_bytes * npu.clock_hz)
        elif self.sram:
            ways.append(config.beat_bytes * config.clock_hz if config.whole_packets else None)
        self.memory = Memory(kernel, self.kind.memory_bytes_per_s, min((way for way in ways if way), default=None),
                             config.memory_pool)
        self.reads = Reads(kernel, self.memory, key=self._key(_READ))
        self._stored = self.cycles.beat_cycles * self._cycle / config.beat_bytes if self.sram else 0
        self.latency = machine.memory_latency if self.sram else 0
        self._tasks: list[Operation] = []      # operations with chunks that have not begun
        self._agreed = 0                       # how far this rank is in the machine's list
        self._chunks: dict[tuple[int, int], Chunk] = {}         # by operation and index
        self._early: dict[tuple[int, int, int], int] = {}       # grains that came before the phase was entered
        self._grants: dict[tuple[int, int, int], int] = {}      # and GRANTs: by operation, index and leg
        self._begun = self._run = 0            # chunks that have got a slot, and an FSM
        self._slots: dict[int, Chunk] = {}
        self._fsms: set[int] = set()
        # By dimension, chunks that wait for a phase, where the number of chunks in one is limited, and chunks in one.
        self._queues: list[list[tuple[tuple[float, ...], int, Chunk]]] = [[] for _ in config.shape]
        self._waited = 0
        self._inside = [0] * len(config.shape)
        self._filled: dict[int, Chunk] = {}
        self._arrived: list[tuple[int, int, int, int, int]] = []
        self._finished_chunks: list[tuple[int, Chunk]] = []
        self._in_progress, self._since, self.active = 0, 0, 0

    def _ticks(self, cycles: float) -> int:
        return round(cycles * self._cycle)

    def _key(self, resource: int) -> int:
        return resource << 16 | self.rank

    # -- Collectives

    def begin(self, operation: Operation) -> None:
        """The rank's command is here."""
        if not self._in_progress:
            self._since = self.kernel.now
            self.machine.communicating(self.rank, True)
        self._in_progress += 1
        self.kernel.at(self.kernel.now + self._wait["start_cycles"], self._begin, operation)

    def _begin(self, operation: Operation) -> None:
        if not operation.chunks:
            self._finish(operation)
            return
        self._tasks.append(operation)
        self.kernel.decide(self._key(_FILL), self._fill)

    def _finish(self, operation: Operation) -> None:
        end = self.kernel.now + self._wait["end_cycles"] + self.latency
        self.kernel.at(end, self._finished, operation)

    def _finished(self, operation: Operation) -> None:
        self._in_progress -= 1
        if not self._in_progress:
            self.active += self.kernel.now - self._since
            self.machine.communicating(self.rank, False)
        operation.finished(self.rank)

    # -- Chunks begin

    def _fill(self) -> None:
        """Begin as many chunks as there are free slots for, in the order on which all ranks agree."""
        slots, agreed, wait = self.config.slots if self.sram else None, self.machine.agreed, self._wait
        while True:
            while self._agreed < len(agreed) and self.rank not in agreed[self._agreed][0].members:
                self._agreed += 1
            if slots is not None and self._begun % slots in self._slots:
                return
            if self._agreed < len(agreed):
                operation, index = agreed[self._agreed]
                if operation not in self._tasks:
                    return
            elif self._tasks:
                operation = self.machine.next_operation(self._tasks)
                index = operation.begun[self.rank]
                agreed.append((operation, index))
            else:
                return
            self._agreed += 1
            operation.begun[self.rank] = index + 1
            if index + 1 == operation.chunks:
                self._tasks.remove(operation)
            route = operation.route(self.rank, index)
            chunk = Chunk(self, operation, index, route, (*operation.key, index), self._begun)
            self._begun += 1
            self._chunks[operation.number, index] = chunk
            if not self.sram:
                self._is_filled(chunk)
                continue
            if slots is not None:
                self._slots[chunk.number % slots] = chunk
            read = self.memory.read(operation.moved(index, route.fills), least=wait["chunk_cycles"])
            self.kernel.at(read + wait["fill_cycles"] + (self.latency if route.fills else 0), self._is_filled, chunk)

    def _is_filled(self, chunk: Chunk) -> None:
        self._filled[chunk.number] = chunk
        self.kernel.decide(self._key(_RUN), self._turn)

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
            self.kernel.at(self.kernel.now + self._wait["turn_cycles"], self._enter, chunk)

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
        self.kernel.decide(self._key(_DIMENSION + leg.port // 2), lambda: self._admit(leg.port // 2))

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
        arrival_key = (chunk.operation.number, chunk.index, chunk.leg)
        chunk.grains, chunk.sent, chunk.inside = leg.grains, 0, True
        chunk.came = self._early.pop(arrival_key, 0)
        chunk.granted = self._grants.pop(arrival_key, 0) if self.sram else None
        chunk.safe = leg.granted
        if self.sram and leg.granted:
            self._grant(chunk, leg)
        self._go_on(chunk, leg)

    def _grant(self, chunk: Chunk, leg: Leg) -> None:
        upstream = self.neighbours[leg.port ^ 1]
        self.ports[leg.port ^ 1].signal(upstream.grant_comes, (
            chunk.operation.number, chunk.index, chunk.leg, chunk.safe))

    def grant_comes(self, number: int, index: int, leg: int, granted: int) -> None:
        self.kernel.at(self.kernel.now + self._wait["grant_cycles"], self._granted, number, index, leg, granted)

    def _granted(self, number: int, index: int, leg: int, granted: int) -> None:
        chunk = self._chunks.get((number, index))
        if chunk is not None and chunk.inside and chunk.leg == leg:
            chunk.granted = granted
            self._go_on(chunk, chunk.route.legs[leg])
        else:
            self._grants[number, index, leg] = granted

    def _go_on(self, chunk: Chunk, leg: Leg) -> None:
        """Offer the next grain if it may go; after the last one, end the phase once all has been received."""
        grains, sent = leg.grains, chunk.sent
        if sent == len(grains):
            if chunk.came == leg.comes and chunk.inside and not chunk.offered:
                chunk.inside = False
                if self.kind.per_dimension is not None:
                    self._inside[leg.port // 2] -= 1
                    self.kernel.decide(self._key(_DIMENSION + leg.port // 2), lambda: self._admit(leg.port // 2))
                self.kernel.at(self.kernel.now + self._wait["phase_cycles"], self._enter, chunk)
            return
        if chunk.offered:
            return
        grain = grains[sent]
        if grain.need > chunk.came or (chunk.granted is not None and grain.send >= chunk.granted):
            return
        chunk.offered = True
        if self.sram or self.ideal:
            self.ports[leg.port].offer(chunk)
        else:
            self.reads.request(chunk.key, grain.size * (2 if grain.reduce else 1), self.ports[leg.port].offer, chunk)

    def take(self, chunk: Chunk) -> Taken:
        """A port has chosen the chunk: its next grain, and where it goes."""
        leg = chunk.route.legs[chunk.leg]
        grain = leg.grains[chunk.sent]
        chunk.sent += 1
        if grain.grants:
            chunk.safe += grain.grants
            self._grant(chunk, leg)
        gap = self._wait["send_cycles"] if grain.ends and chunk.sent < len(leg.grains) else 0
        self.kernel.at(self.kernel.now + gap, self._may_offer, chunk)
        peer = self.neighbours[leg.port]
        return grain.size, grain.packets, peer.comes, (chunk.operation.number, chunk.index, chunk.leg, grain, leg.port)

    def _may_offer(self, chunk: Chunk) -> None:
        chunk.offered = False
        self._go_on(chunk, chunk.route.legs[chunk.leg])

    def comes(self, number: int, index: int, leg: int, grain: Grain, port: int) -> None:
        """The last byte of a grain has arrived."""
        if self.ideal:
            self._landed(number, index, leg)
            return
        self._arrived.append((number, index, leg, grain.size, port))
        self.kernel.decide(self._key(_RECEIVE), self._receive)

    def _receive(self) -> None:
        """Receive the grains that have arrived at this time, the oldest first."""
        wait = self._wait["receive_cycles"]
        self._arrived.sort()
        for number, index, leg, size, port in self._arrived:
            ready = self.lanes.pass_through(size) if self.sram else self.memory.write(size)
            stored = self._stored * min(size, self.config.packet_bytes)
            if self.config.receive_buffer_bytes is not None:
                self.kernel.at(ready + round(stored), self.ports[port ^ 1].freed, size)
            self.kernel.at(ready + wait + round(stored), self._landed, number, index, leg)
        self._arrived.clear()

    def _landed(self, number: int, index: int, leg: int) -> None:
        chunk = self._chunks.get((number, index))
        if chunk is None or chunk.leg != leg or not chunk.inside:
            arrival_key = (number, index, leg)
            self._early[arrival_key] = self._early.get(arrival_key, 0) + 1
            return
        chunk.came += 1
        self._go_on(chunk, chunk.route.legs[leg])

    # -- Chunks end

    def _through(self, chunk: Chunk) -> None:
        if self.kind.fsms is not None:
            self._fsms.discard(chunk.fsm)
            self.kernel.decide(self._key(_RUN), self._turn)
        if not self.sram:
            self._ended(chunk)
            return
        self._finished_chunks.append((chunk.number, chunk))
        self.kernel.decide(self._key(_DRAIN), self._drain)

    def _drain(self) -> None:
        self._finished_chunks.sort()
        for _, chunk in self._finished_chunks:
            written = self.memory.write(chunk.operation.moved(chunk.index, chunk.route.drains))
            self.kernel.at(written + self._wait["drain_cycles"] + (self.latency if chunk.route.drains else 0),
                           self._ended, chunk)
        self._finished_chunks.clear()

    def _ended(self, chunk: Chunk) -> None:
        operation = chunk.operation
        del self._chunks[operation.number, chunk.index]
        if self.sram and self.config.slots is not None:
            del self._slots[chunk.number % self.config.slots]
            self.kernel.decide(self._key(_FILL), self._fill)
        operation.ended[self.rank] += 1
        if operation.ended[self.rank] == operation.chunks:
            self._finish(operation)
