# SPDX-License-Identifier: Apache-2.0
"""The accelerator: a chunk is filled into a slot of the SRAM, waits for its FSM, passes its phases, and is drained.

Slot and FSM follow from its number, as in the hardware. Ports belong to pipes, each with lanes of its own.
"""

from hw.ace.config import AceConfig

from .chunk import Chunk
from .endpoint import WAITS, Decision, Endpoint
from .kernel import Server
from .lanes import Lanes
from .picker import Picker
from .routes import Grain, Leg

__all__ = ["Accelerator"]

class Accelerator(Endpoint):
    """An endpoint that reads each byte of memory once, and writes each once."""

    def prepare(self) -> None:
        config, kind = self.config, self.kind
        cycle = 1e12 / config.clock_hz
        self.wait = {name: round(getattr(self.machine.calibration, name) * cycle) for name in WAITS}
        self.latency = self.machine.memory_latency
        self._stored = self.machine.calibration.beat_cycles * cycle / config.beat_bytes
        rate = kind.receive_bytes * config.clock_hz if kind.receive_bytes else None
        pipes = enumerate(AceConfig(pipes=kind.pipes).pipe_ports)
        self._pipes = {port: pipe for pipe, ports in pipes for port in ports}
        self._lanes = [Lanes(self.kernel, self.key(Decision.RECEIVE + pipe), ports, rate, self._stored)
                       for pipe, ports in enumerate(AceConfig(pipes=kind.pipes).pipe_ports)]
        self._readers = [Server(self.kernel, rate) for _ in range(kind.pipes)]
        packets = config.message_bytes // config.packet_bytes if config.whole_packets else 1
        self._pickers = [Picker(self.kernel, self.key(Decision.PICK + pipe), reader, delay=self.wait["transmit_cycles"],
                                packets=packets) if config.turns == "message" else None
                         for pipe, reader in enumerate(self._readers)]
        self._slots: dict[int, Chunk] = {}
        self._grants: dict[tuple[int, int, int], int] = {}      # early GRANTs: by operation, index and leg
        self._arrived: list[tuple[int, int, int, int, int]] = []    # messages
        self._to_drain: list[tuple[int, Chunk]] = []

    def ways(self) -> list[float | None]:
        port = self.kind.port_bytes
        return [self.config.npu.bus_bytes_per_s, port and port * self.config.clock_hz]

    def sender(self, port: int) -> tuple[Server, Picker | None]:
        return self._readers[self._pipes[port]], self._pickers[self._pipes[port]]

    # -- Fill and drain

    def has_free_slot(self) -> bool:
        slots = self.config.slots
        return slots is None or self.begun % slots not in self._slots

    def fill(self, chunk: Chunk) -> None:
        if self.config.slots is not None:
            self._slots[chunk.number % self.config.slots] = chunk
        fills = chunk.route.fills
        read = self.memory.read(chunk.operation.moved(chunk.index, fills), least=self.wait["chunk_cycles"])
        self.kernel.at(read + self.wait["fill_cycles"] + (self.latency if fills else 0), self.is_filled, chunk)

    def drain(self, chunk: Chunk) -> None:
        self._to_drain.append((chunk.number, chunk))
        self.kernel.decide(self.key(Decision.DRAIN), self._drain)

    def _drain(self) -> None:
        self._to_drain.sort()
        for _, chunk in self._to_drain:
            written = self.memory.write(chunk.operation.moved(chunk.index, chunk.route.drains))
            self.kernel.at(written + self.wait["drain_cycles"] + (self.latency if chunk.route.drains else 0),
                           self.ended, chunk)
        self._to_drain.clear()

    def ended(self, chunk: Chunk) -> None:
        if self.config.slots is not None:
            del self._slots[chunk.number % self.config.slots]
            self.kernel.decide(self.key(Decision.FILL), self.start_chunks)
        super().ended(chunk)

    # -- GRANTs

    def granted(self, chunk: Chunk, leg: Leg) -> int | None:
        if leg.granted:
            self._grant(chunk, leg)
        return self._grants.pop((chunk.operation.number, chunk.index, chunk.leg), 0)

    def has_left(self, chunk: Chunk, leg: Leg, grain: Grain) -> None:
        if grain.grants:
            chunk.safe += grain.grants
            self._grant(chunk, leg)

    def _grant(self, chunk: Chunk, leg: Leg) -> None:
        upstream = self.neighbours[leg.port ^ 1]
        assert isinstance(upstream, Accelerator)
        self.ports[leg.port ^ 1].signal(upstream.grant_comes, (
            chunk.operation.number, chunk.index, chunk.leg, chunk.safe, leg.port))

    def grant_comes(self, number: int, index: int, leg: int, granted: int, port: int) -> None:
        """A GRANT has arrived at ``port``."""
        def begins(begin: int, end: int) -> None:
            self.ports[port].leaves(size, begin, end)
            self.kernel.at(begin + self.wait["grant_cycles"], self._granted, number, index, leg, granted)

        if self.config.whole_packets:
            size = self.config.beat_bytes
            self._lanes[self._pipes[port]].packet(port, size, begins)
        else:
            self.kernel.at(self.kernel.now + self.wait["grant_cycles"], self._granted, number, index, leg, granted)

    def _granted(self, number: int, index: int, leg: int, granted: int) -> None:
        chunk = self.chunks.get((number, index))
        if chunk is not None and chunk.inside and chunk.leg == leg:
            chunk.granted = granted
            self.go_on(chunk, chunk.route.legs[leg])
        else:
            self._grants[number, index, leg] = granted

    # -- Receive

    def comes(self, number: int, index: int, leg: int, grain: Grain, port: int) -> None:
        here, size = port ^ 1, grain.size
        lanes = self._lanes[self._pipes[here]]

        def begins(begin: int, end: int) -> None:
            self.ports[here].leaves(size, begin, end)
            self.kernel.at(end + self.wait["receive_cycles"], self.landed, number, index, leg)

        if self.config.whole_packets:
            lanes.packet(here, size, begins)
        else:
            self._arrived.append((number, index, leg, size, here))
            self.kernel.decide(self.key(Decision.ARRIVE), self._receive)

    def _receive(self) -> None:
        """Receive the messages that have arrived at this time, the oldest first. They pass the lanes while they arrive,
        if those are free; only the last packet when it is complete."""
        self._arrived.sort()
        for number, index, leg, size, port in self._arrived:
            ready = self._lanes[self._pipes[port]].server.pass_through(size)
            stored = round(self._stored * min(size, self.config.packet_bytes))
            self.kernel.at(ready + stored + self.wait["receive_cycles"], self.landed, number, index, leg)
        self._arrived.clear()
