# SPDX-License-Identifier: Apache-2.0
"""The accelerator: a chunk is filled into a slot of the SRAM, waits for its FSM, passes its phases, and is drained.

Slot and FSM follow from its number, as in the hardware. Ports belong to pipes, each with lanes of its own.
"""

from hw.ace.config import AceConfig

from .chunk import Chunk
from .endpoint import WAITS, Decision, Endpoint
from .kernel import Server
from .picker import Picker
from .routes import Grain, Leg

__all__ = ["Accelerator"]

_DATA = -1
"""Instead of what a GRANT grants."""


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
        self._lanes, self._readers = ([Server(self.kernel, rate) for _ in range(kind.pipes)] for _ in range(2))
        packets = config.message_bytes // config.packet_bytes if config.whole_packets else 1
        self._pickers = [Picker(self.kernel, self.key(Decision.PICK + pipe), reader, delay=self.wait["transmit_cycles"],
                                packets=packets) if config.turns == "message" else None
                         for pipe, reader in enumerate(self._readers)]
        self._slots: dict[int, Chunk] = {}
        self._grants: dict[tuple[int, int, int], int] = {}      # early GRANTs: by operation, index and leg
        # Operation, index, leg, bytes, port, and what a GRANT grants.
        self._arrived: list[tuple[int, int, int, int, int, int]] = []
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
        if not self.config.whole_packets:
            self.kernel.at(self.kernel.now + self.wait["grant_cycles"], self._granted, number, index, leg, granted)
            return
        self._arrived.append((number, index, leg, self.config.beat_bytes, port, granted))
        self.kernel.decide(self.key(Decision.RECEIVE), self._receive)

    def _granted(self, number: int, index: int, leg: int, granted: int) -> None:
        chunk = self.chunks.get((number, index))
        if chunk is not None and chunk.inside and chunk.leg == leg:
            chunk.granted = granted
            self.go_on(chunk, chunk.route.legs[leg])
        else:
            self._grants[number, index, leg] = granted

    # -- Receive

    def comes(self, number: int, index: int, leg: int, grain: Grain, port: int) -> None:
        self._arrived.append((number, index, leg, grain.size, port ^ 1, _DATA))
        self.kernel.decide(self.key(Decision.RECEIVE), self._receive)

    def _receive(self) -> None:
        """Receive what has arrived at this time, the oldest first."""
        self._arrived.sort()
        receive = self._receive_packet if self.config.whole_packets else self._receive_message
        for arrived in self._arrived:
            receive(*arrived)
        self._arrived.clear()

    def _receive_packet(self, number: int, index: int, leg: int, size: int, port: int, granted: int) -> None:
        """It is complete, and passes the lanes of its pipe after those that came before."""
        lanes = self._lanes[self._pipes[port]]
        begin = max(lanes.free, self.kernel.now)
        end = max(lanes.serve(size), begin + round(self._stored * size))
        self.ports[port].leaves(size, begin, end)
        if granted != _DATA:
            self.kernel.at(begin + self.wait["grant_cycles"], self._granted, number, index, leg, granted)
        else:
            self.kernel.at(end + self.wait["receive_cycles"], self.landed, number, index, leg)

    def _receive_message(self, number: int, index: int, leg: int, size: int, port: int, _: int) -> None:
        """It passes the lanes while it arrives, if they are free; its last packet only when it is complete."""
        ready = self._lanes[self._pipes[port]].pass_through(size)
        stored = round(self._stored * min(size, self.config.packet_bytes))
        self.kernel.at(ready + stored + self.wait["receive_cycles"], self.landed, number, index, leg)
