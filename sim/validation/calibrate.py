# SPDX-License-Identifier: Apache-2.0
"""Constants of the system simulator, read off the log of small all-reduces: the cycles between one thing and the next.

Each is the shortest time that was seen, so what had to wait for a busy link does not count.
"""

from collections.abc import Callable

import numpy as np

from dmace.drivers.ace import Share
from hw.ace.config import WIRE_HEADER_BYTES
from hw.ace.layouts import PacketKind
from hw.ace.words import Collective
from sim.ace.bench.runner import MEMORY_LATENCY, Bench
from sim.ace.communicators import Communicator
from sim.ace.log import Burst, Packet
from sim.system.calibration import Calibration

__all__ = ["measure"]

RING, TORUS = (4,), (2, 2, 2)

TRANSMIT_CYCLES, SEND_CYCLES = 7, 8
"""By the contracts of ``pool``, ``transmit`` and ``fsm``: on links is seen only what they come to with others."""


_Wanted = Callable[[Packet], bool]


def measure(bench: Bench, command: str = "") -> Calibration:
    """A :class:`Calibration` of the accelerator of a :class:`Bench`; ``command`` is the command line that made it."""
    config = bench.config
    one = _Run(bench, RING, RING[0] * 64)
    # One FSM alone: nothing else is on the links when its next chunk begins.
    alone = _Run(bench, RING, 4 * config.chunk_bytes, fsms=1, slots=2)
    phases, longer = (_Run(bench, TORUS, 2 * 8 * size) for size in (32, config.packet_bytes))
    long = _Run(bench, RING, 2 * RING[0] * config.packet_bytes)
    transmit = TRANSMIT_CYCLES
    receive = one.shortest(_came(PacketKind.DATA), _left(PacketKind.DATA)) - transmit
    # A phase ends with the last beat of a packet: here one of 64 bytes, there one of ``packet_bytes``.
    ends, later = (run.shortest(_came(PacketKind.DATA), _left(PacketKind.GRANT)) for run in (phases, longer))
    few, most = 64 // config.beat_bytes, config.packet_beats
    per_beat = (later - ends) / (most - few) if most > few else 1.0
    landed = receive + round(per_beat * (few - 1))
    phase = ends - landed
    turn = alone.turn_around() - receive - round(per_beat * (most - 1)) - phase
    reads, writes = one.bursts(write=False), one.bursts(write=True)
    start = reads[0].begin - one.begin
    # The first read has a mark, with which the first receive is granted.
    fill = one.first(_left(PacketKind.GRANT)).begin - (reads[0].end + 1) - turn
    come = max(packet.end + 1 for packet in one.of(_came(PacketKind.DATA)))
    written, reported = writes[-2], writes[-1]
    return Calibration(
        beat_bytes=config.beat_bytes, receive_cycles=receive, beat_cycles=round(per_beat, 3),
        transmit_cycles=transmit,
        send_cycles=SEND_CYCLES, phase_cycles=phase,
        grant_cycles=one.shortest(_came(PacketKind.GRANT), _left(PacketKind.DATA)) - transmit,
        start_cycles=start, divide_cycles=long.bursts(write=False)[0].begin - long.begin - start,
        fill_cycles=fill, turn_cycles=turn,
        chunk_cycles=_Run(bench, (2,), 256).between_fills(),
        # All but the last piece are drained before.
        drain_cycles=written.end + 1 - come - landed - phase - MEMORY_LATENCY - written.beats,
        end_cycles=reported.end + 1 - (written.end + 1) - MEMORY_LATENCY,
        measured={"command": command, "data_width": config.data_width, "fsms": config.fsms, "slots": config.slots,
                  "chunk_bytes": config.chunk_bytes, "packet_bytes": config.packet_bytes,
                  "link_rate": bench.link_rate, "link_latency": bench.link_latency,
                  "memory_latency": MEMORY_LATENCY, "header_bytes": WIRE_HEADER_BYTES})


def _came(kind: PacketKind) -> _Wanted:
    return lambda packet: packet.came and packet.kind == kind


def _left(kind: PacketKind) -> _Wanted:
    return lambda packet: not packet.came and packet.kind == kind


class _Run:
    """The log of one all-reduce, of rank 0."""

    def __init__(self, bench: Bench, shape: tuple[int, ...], size: int, *, fsms: int | None = None,
                 slots: int | None = None) -> None:
        config = bench.config
        self.fsms = fsms or config.fsms
        whole = Communicator(tuple(range(len(shape))), Share(0, self.fsms, 0, slots or config.slots))
        with bench.cluster(shape, [whole]) as cluster:
            self.begin = cluster.cycle
            with cluster.log() as log:
                cluster.collective(Collective.ALL_REDUCE, [np.ones(size // 4, np.float32)] * cluster.size)
            bench.cycles += cluster.cycle
        self._packets = sorted((packet for packet in log.packets if packet.rank == 0), key=lambda one: one.begin)
        self._bursts = sorted((burst for burst in log.bursts if burst.rank == 0), key=lambda one: one.begin)

    def of(self, wanted: _Wanted) -> list[Packet]:
        return [packet for packet in self._packets if wanted(packet)]

    def first(self, wanted: _Wanted) -> Packet:
        return self.of(wanted)[0]

    def bursts(self, *, write: bool) -> list[Burst]:
        return [burst for burst in self._bursts if burst.write == write]

    def shortest(self, cause: _Wanted, effect: _Wanted) -> int:
        """Cycles from the end of a packet to the begin of the next that it can have caused, of the same chunk."""
        times: list[int] = []
        for came in self.of(cause):
            after = [packet.begin for packet in self.of(effect)
                     if packet.begin > came.end and packet.sequence == came.sequence]
            times += [min(after) - came.end - 1] if after else []
        return min(times)

    def turn_around(self) -> int:
        """Cycles from the last packet of a chunk to the GRANT of the next one of its FSM."""
        last = {packet.sequence: packet.end + 1 for packet in self.of(_came(PacketKind.DATA))}
        grants = {packet.sequence: packet.begin for packet in reversed(self.of(_left(PacketKind.GRANT)))}
        return min(grants[number] - last[number - self.fsms] for number in grants if number >= self.fsms)

    def between_fills(self) -> int:
        """Cycles between the first reads of two chunks of a beat for each rank."""
        reads = self.bursts(write=False)
        return reads[len(reads) // 2].begin - reads[0].begin
