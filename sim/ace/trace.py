# SPDX-License-Identifier: Apache-2.0
"""A trace of a cluster: packets, the phases of chunks, and bursts, written to a file for Perfetto.

::

    with traced(cluster, "trace.json"):        # for https://ui.perfetto.dev or chrome://tracing
        cluster.collective(Collective.ALL_REDUCE, inputs)

A cycle is a microsecond in the file, and 0 is where the log begins.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmace.drivers.ace import Share
from hw.ace.config import DIMENSIONS, SEQUENCE_WIDTH, AceConfig
from hw.ace.layouts import PacketKind
from sim.ace.cluster import Cluster
from sim.ace.log import Log, Packet

__all__ = ["Phase", "chrome", "phases", "traced"]

MEMORY, PORTS, FSMS = 0, 1, 1 + 2 * DIMENSIONS
"""Threads of a rank's process: that of the memory, the first of the ports, the first of the FSMs."""


@contextmanager
def traced(cluster: Cluster, path: str | Path) -> Iterator[None]:
    """Write a trace of what a :class:`sim.ace.cluster.Cluster` does meanwhile, also if that fails."""
    try:
        with cluster.log() as log:
            yield
    finally:
        made = chrome(log, cluster.config, [communicator.share for communicator in cluster.communicators])
        Path(path).write_text(json.dumps(made) + "\n", encoding="utf-8")


def chrome(log: Log, config: AceConfig, shares: Sequence[Share]) -> dict[str, Any]:
    """Trace events of Chrome for a :class:`sim.ace.log.Log`: an object for JSON.

    ``shares``: the :class:`dmace.drivers.ace.Share` of each communicator.
    """
    timed: list[dict[str, Any]] = []
    threads: set[tuple[int, int]] = set()

    def add(rank: int, thread: int, name: str, begin: int, end: int, arguments: dict[str, Any]) -> None:
        threads.add((rank, thread))
        timed.append({"ph": "X", "pid": rank + 1, "tid": thread, "ts": begin - log.begin, "dur": end - begin,
                      "name": name, "args": arguments})

    for packet in log.packets:
        if not packet.came and packet.kind != PacketKind.CREDIT:
            add(packet.rank, PORTS + packet.port, *_packet(packet, config.beat_bytes))
    for phase in phases(log.packets, shares):
        add(phase.rank, FSMS + phase.fsm, f"chunk {phase.sequence} phase {phase.phase}", phase.begin, phase.end, {
            "communicator": phase.communicator, "bytes_sent": phase.sent * config.beat_bytes,
            "bytes_received": phase.received * config.beat_bytes})
    # Bursts overlap, so their slices are asynchronous: a viewer puts those of one name beside each other.
    for number, burst in enumerate(log.bursts):
        name = "memory writes" if burst.write else "memory reads"
        common = {"pid": burst.rank + 1, "tid": MEMORY, "cat": name, "name": name, "id": number}
        timed.append(common | {"ph": "b", "ts": burst.begin - log.begin,
                               "args": {"address": hex(burst.address), "beats": burst.beats}})
        timed.append(common | {"ph": "e", "ts": burst.end + 1 - log.begin})
    ranks = {event["pid"] - 1 for event in timed}
    names = [_name("process_name", rank, 0, f"rank {rank}") for rank in sorted(ranks)]
    names += [_name("thread_name", rank, thread, f"port {thread - PORTS}" if thread < FSMS else f"FSM {thread - FSMS}")
              for rank, thread in sorted(threads)]
    return {"traceEvents": names + sorted(timed, key=lambda event: event["ts"]), "displayTimeUnit": "ms",
            "otherData": {"unit": "1 us is a clock cycle"}}


@dataclass
class Phase:
    """A phase of a chunk at a rank: from its first packet or GRANT that left, until its last packet left or came, and
    not longer than the FSM's next phase is away; with beats of payload."""

    rank: int
    communicator: int
    fsm: int
    sequence: int
    phase: int
    begin: int
    end: int
    sent: int = 0
    received: int = 0


def phases(packets: Iterable[Packet], shares: Sequence[Share]) -> list[Phase]:
    """Every :class:`Phase`, those of an FSM one after the other."""
    groups: defaultdict[tuple[int, int], list[Packet]] = defaultdict(list)
    for packet in packets:
        if packet.kind != PacketKind.CREDIT:
            groups[packet.rank, packet.communicator].append(packet)
    made: list[Phase] = []
    for (rank, communicator), group in sorted(groups.items()):
        fsms: defaultdict[int, list[Phase]] = defaultdict(list)
        for _, phase in sorted(_phases(rank, shares[communicator], group).items()):
            fsms[phase.fsm].append(phase)
        for found in fsms.values():
            # A packet of the FSM may wait in a port's queue while the next phase's packets leave at another port.
            for phase, after in zip(found[-2::-1], found[:0:-1], strict=True):
                phase.begin, phase.end = min(phase.begin, after.begin), min(phase.end, after.begin)
            made += found
    return made


def _phases(rank: int, share: Share, packets: Iterable[Packet]) -> dict[tuple[int, int], Phase]:
    """(number, phase) -> :class:`Phase`, of one communicator; numbers do not wrap as sequences do."""
    found: dict[tuple[int, int], Phase] = {}
    number: int | None = None
    for packet in sorted(packets, key=lambda packet: packet.begin):
        half = 1 << SEQUENCE_WIDTH - 1
        number = packet.sequence if number is None else number + (packet.sequence - number + half) % (2 * half) - half
        # The neighbour may grant a phase long before this rank is there.
        if packet.came and packet.kind == PacketKind.GRANT:
            continue
        phase = found.setdefault((number, packet.phase), Phase(
            rank, packet.communicator, share.first_fsm + packet.sequence % share.fsms, packet.sequence, packet.phase,
            packet.begin, packet.end))
        phase.end = max(phase.end, packet.end + 1)
        if packet.kind == PacketKind.DATA:
            if packet.came:
                phase.received += packet.beats + 1
            else:
                phase.sent += packet.beats + 1
    return found


def _packet(packet: Packet, beat_bytes: int) -> tuple[str, int, int, dict[str, Any]]:
    """Name, begin, end and arguments of a packet's slice."""
    chunk = f"chunk {packet.sequence} phase {packet.phase}"
    arguments = {"communicator": packet.communicator}
    if packet.kind == PacketKind.GRANT:
        name, arguments["granted"] = f"GRANT {packet.granted} of {chunk}", packet.granted
    else:
        beats = packet.beats + 1
        name = chunk
        arguments |= {"beats": beats, "bytes": beats * beat_bytes, "offset": packet.offset, "reduce": packet.reduce}
    return name, packet.begin, packet.end + 1, arguments


def _name(kind: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": rank + 1, "tid": thread, "name": kind, "args": {"name": name}}
