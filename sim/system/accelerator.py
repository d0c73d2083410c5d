# SPDX-License-Identifier: Apache-2.0
"""The accelerator: a chunk is filled into a slot of the SRAM, waits for its FSM, passes its phases, and is drained.

Slot and FSM follow from its number, as in the hardware. Ports belong to pipes, each with lanes of its own.
"""

from collections.abc import Callable
from functools import partial

from hw.ace.config import SRAM_RUN_BEATS, AceConfig

from .banks import Banks, Stream
from .chunk import Chunk
from .endpoint import WAITS, Decision, Endpoint
from .grains import Grain, Leg
from .kernel import Server
from .lanes import Lanes
from .packet_picker import OFFER_CYCLES, READ_CYCLES, PacketPicker
from .picker import Picker

__all__ = ["Accelerator"]


def _grant_comes(endpoint: Endpoint) -> Callable[..., object]:
    assert isinstance(endpoint, Accelerator)
    return endpoint.grant_comes


_DRAIN, _FILL = 0, 1
"""Users of the banks."""

_RECEIVE_CYCLES = 4
"""By the contracts of ``link`` and ``receive``: from a packet's arrival until its first beat is requested from the
SRAM."""

_MOVE_CYCLES = {_FILL: 6, _DRAIN: 2}
"""By the contracts of ``fill`` and ``drain``: from the arrival of a beat from memory until its write is requested from
the SRAM; and from a beat's write to memory, six cycles after its read was requested, until a cycle with a request for
the same bank."""

LEAST_COARSE = 8
"""Coarse chunks in slots, at least, even if they are longer than the SRAM: several for each phase and direction."""


class Accelerator(Endpoint):
    """An endpoint that reads each byte of memory once, and writes each once."""

    def prepare(self) -> None:
        config, kind = self.config, self.kind
        cycle = 1e12 / config.clock_hz
        self.wait = {name: round(getattr(self.machine.calibration, name) * cycle) for name in WAITS}
        self.latency = self.machine.memory_latency
        self._cycle, self._stored = cycle, self.machine.calibration.beat_cycles * cycle / config.beat_bytes
        rate = kind.receive_bytes * config.clock_hz if kind.receive_bytes else None
        built = AceConfig(pipes=kind.pipes)
        self._pipes = {port: pipe for pipe, ports in enumerate(built.pipe_ports) for port in ports}
        # Users of the banks, in the order of their precedence: drain, fill, receive and transmit of each pipe.
        self._banks = Banks(built.sram_banks, 2 + 2 * kind.pipes) if config.bank_stalls else None
        self._lanes = [Lanes(self.kernel, self.key(Decision.RECEIVE + pipe), ports, rate, per_byte=self._stored,
                             cycle=cycle) for pipe, ports in enumerate(built.pipe_ports)]
        self._readers = [Server(self.kernel, rate) for _ in range(kind.pipes)]
        packets = config.message_bytes // config.packet_bytes if config.whole_packets else 1
        picker = Picker
        delay, self._entered = self.wait["transmit_cycles"], 0
        if config.whole_packets:
            picker, delay = PacketPicker, delay - round(READ_CYCLES * cycle)
            self._entered = round(_RECEIVE_CYCLES * cycle)
            self.next_packet = round(OFFER_CYCLES * cycle) if config.turns == "message" else 0
        self._pickers = [picker(self.kernel, self.key(Decision.PICK + pipe), reader, delay=delay, packets=packets,
                                read=partial(self._read, pipe) if self._banks else None, cycle=cycle)
                         if config.turns == "message" else None for pipe, reader in enumerate(self._readers)]
        self._slots: dict[int, Chunk] = {}
        self._weight = 0       # of all chunks in slots: 1 each, more for coarse ones
        self._grants: dict[tuple[int, int, int], int] = {}      # early GRANTs: by operation, index and leg
        self._arrived: list[tuple[int, int, int, int, int]] = []    # messages
        self._to_drain: list[tuple[int, bool, Chunk]] = []     # whether all has been received

    def ways(self) -> list[float | None]:
        port = self.kind.port_bytes
        return [self.config.npu.bus_bytes_per_s, port and port * self.config.clock_hz]

    def sender(self, port: int) -> tuple[Server, Picker | None]:
        return self._readers[self._pipes[port]], self._pickers[self._pipes[port]]

    # -- SRAM

    def _place(self, number: int) -> int:
        """Bytes from the begin of the SRAM to the slot of a chunk."""
        return (number if self.config.slots is None else number % self.config.slots) * self.config.chunk_bytes

    def source(self, chunk: Chunk) -> int:
        return self._place(chunk.number) + chunk.route.legs[chunk.leg].grains[chunk.sent].source

    def _use(self, user: int, place: int, size: int, *, reads: bool = False,
             writes: bool = False) -> tuple[Stream, int]:
        """A user of the banks begins to move ``size`` bytes at ``place``."""
        assert self._banks is not None
        beat, cycle = self.config.beat_bytes, round(self.kernel.now / self._cycle)
        return self._banks.begin(user, cycle, place // beat, -(-size // beat), reads=reads, writes=writes)

    def _read(self, pipe: int, place: int, size: int) -> tuple[Stream, int]:
        """Transmit begins to read a packet."""
        return self._use(2 + self.kind.pipes + pipe, place, size, reads=True)

    def _move(self, user: int, chunk: Chunk, size: int, begin: int, end: int, *, before: int = 0) -> None:
        """Fill or drain moves ``size`` bytes of a chunk, which follow ``before`` others, between these times."""
        if self._banks is None or not size:
            return
        run, begin, end = SRAM_RUN_BEATS * self.config.beat_bytes, *(
            time + round(_MOVE_CYCLES[user] * self._cycle) for time in (begin, end))
        for first in range(0, size, run):
            self.kernel.at(begin + (end - begin) * first // size, self._moves, user,
                           self._place(chunk.number) + before + first, min(run, size - first))

    def _moves(self, user: int, place: int, size: int) -> None:
        self._use(user, place, size, reads=user == _DRAIN, writes=user == _FILL)

    # -- Fill and drain

    def has_free_slot(self) -> bool:
        slots = self.config.slots
        if slots is None:
            return True
        # Coarse chunks: as many bytes as the SRAM has, but several chunks for each of the phases.
        full = self._weight >= slots and len(self._slots) >= LEAST_COARSE
        return self.begun % slots not in self._slots and not full

    def fill(self, chunk: Chunk) -> None:
        if self.config.slots is not None:
            self._slots[chunk.number % self.config.slots] = chunk
            self._weight += chunk.operation.weight(chunk.index)
        fills = chunk.route.fills
        size = chunk.operation.moved(chunk.index, fills)
        begin = max(self.memory.reads.free, self.kernel.now)
        read = self.memory.read(size, least=self.wait["chunk_cycles"])
        self._move(_FILL, chunk, size, begin + self.latency, read + self.latency)
        after = self.wait["fill_cycles"] + (self.latency if fills else 0)
        chunk.whole = not chunk.route.marks
        for mark in chunk.route.marks:
            self.kernel.at(begin + (read - begin) * mark // fills + after, self._marked, chunk)
        self.kernel.at(read + after, self.is_filled if chunk.whole else self._whole, chunk)

    def _marked(self, chunk: Chunk) -> None:
        """A fill with a mark has ended. With the first one, the chunk may have its FSM."""
        first = not chunk.marks
        chunk.mark()
        if first:
            self.is_filled(chunk)
        else:
            self._fills(chunk)

    def _whole(self, chunk: Chunk) -> None:
        chunk.whole = True
        self._fills(chunk)

    def _fills(self, chunk: Chunk) -> None:
        """More of a chunk is filled."""
        if chunk.inside:
            leg = chunk.route.legs[chunk.leg]
            if leg.granted:
                self._grant(chunk)
            self.go_on(chunk, leg)

    def all_sent(self, chunk: Chunk) -> None:
        route = chunk.route
        leg = route.legs[chunk.leg]
        if route.part and not chunk.parted and leg is route.legs[-1] and chunk.stored + route.rest >= leg.comes:
            chunk.parted = True
            self._to_drain.append((chunk.number, False, chunk))
            self.kernel.decide(self.key(Decision.DRAIN), self._drain)

    def drain(self, chunk: Chunk) -> None:
        self._to_drain.append((chunk.number, True, chunk))
        self.kernel.decide(self.key(Decision.DRAIN), self._drain)

    def _drain(self) -> None:
        self._to_drain.sort(key=lambda one: one[:2])
        for _, whole, chunk in self._to_drain:
            size, part = (chunk.operation.moved(chunk.index, pieces) for pieces in (
                chunk.route.drains, chunk.route.part))
            size = size - part if whole else part
            begin = max(self.memory.writes.free, self.kernel.now)
            written = self.memory.write(size)
            self._move(_DRAIN, chunk, size, begin, written, before=part if whole else 0)
            if not whole:
                continue
            self.kernel.at(written + self.wait["drain_cycles"] + (self.latency if chunk.route.drains else 0),
                           self.ended, chunk)
        self._to_drain.clear()

    def ended(self, chunk: Chunk) -> None:
        if self.config.slots is not None:
            del self._slots[chunk.number % self.config.slots]
            self._weight -= chunk.operation.weight(chunk.index)
            self.kernel.decide(self.key(Decision.FILL), self.start_chunks)
        super().ended(chunk)

    # -- GRANTs

    def granted(self, chunk: Chunk, leg: Leg) -> int | None:
        if leg.granted and not (chunk.leg and chunk.route.legs[chunk.leg - 1].ahead):
            self._grant(chunk)
        if leg.ahead:
            self._grant(chunk, ahead=1)
        return self._grants.pop((chunk.operation.number, chunk.index, chunk.leg), 0)

    def has_left(self, chunk: Chunk, leg: Leg, grain: Grain) -> None:
        if grain.grants:
            chunk.safe += grain.grants
            self._grant(chunk)

    def _grant(self, chunk: Chunk, *, ahead: int = 0) -> None:
        """Grant what is safe of this phase or, ``ahead``, all of the next one."""
        number = chunk.leg + ahead
        leg = chunk.route.legs[number]
        granted = leg.granted if ahead else chunk.safe if chunk.whole else chunk.marks
        self.ports[leg.port ^ 1].signal(self.towards(leg.port ^ 1, self.config.header_bytes, _grant_comes), (
            chunk.operation.number, chunk.index, number, granted, leg.port))

    def grant_comes(self, number: int, index: int, leg: int, granted: int, port: int) -> None:
        """A GRANT has arrived at ``port``."""
        def begins() -> None:
            granted_at = self.kernel.now + self.wait["grant_cycles"] - self._entered
            self.kernel.at(granted_at, self._granted, number, index, leg, granted)

        if not self.config.whole_packets:
            begins()
            return
        size = self.config.beat_bytes
        self.kernel.at(self.kernel.now + self._entered, self._lanes[self._pipes[port]].packet, port, size, begins,
                       partial(self._taken, port, size))

    def _taken(self, port: int, size: int, began: int) -> None:
        """A packet has left a port, and its beats have been requested from the SRAM from ``began`` until now."""
        self.ports[port].leaves(size, began - self._entered, self.kernel.now - self._entered)

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
        if not self.config.whole_packets:
            self._arrived.append((number, index, leg, size, here))
            self.kernel.decide(self.key(Decision.ARRIVE), self._receive)
            return
        pipe = self._pipes[here]

        def begins() -> Stream | None:
            stream, waits = None, 0
            if self._banks is not None:
                place = self._place(self.chunks[number, index].number) + grain.target
                stream, waits = self._use(2 + pipe, place, size, reads=grain.reduce, writes=True)
            come = self.kernel.now + round(waits * self._cycle) + self.wait["receive_cycles"] - self._entered
            self.kernel.at(come, self.landed, number, index, leg, 1, 0)
            return stream

        def ends(began: int) -> None:
            self._taken(here, size, began)
            # The packet was reported with its first beat; this is the last one.
            last = self.kernel.now + self.wait["receive_cycles"] - round(self._stored * self.config.beat_bytes)
            self.kernel.at(last - self._entered, self.landed, number, index, leg, 0, 1)

        self.kernel.at(self.kernel.now + self._entered, self._lanes[pipe].packet, here, size, begins, ends)

    def _receive(self) -> None:
        """Receive the messages that have arrived at this time, the oldest first. They pass the lanes while they arrive,
        if those are free."""
        self._arrived.sort()
        for number, index, leg, size, port in self._arrived:
            ready = self._lanes[self._pipes[port]].server.pass_through(size)
            self.kernel.at(ready + self.wait["receive_cycles"], self.landed, number, index, leg)
        self._arrived.clear()
