# SPDX-License-Identifier: Apache-2.0
"""A machine's traffic and utilisation, as plain data."""

from typing import Protocol, TypedDict

from .compute import Compute
from .configuration import MachineConfig
from .endpoint import Endpoint
from .kernel import SECOND

__all__ = ["LinkStatistics", "MemoryStatistics", "Statistics", "summary"]


class LinkStatistics(TypedDict):
    """One direction of a link."""

    rank: int
    port: int
    payload_bytes: int
    wire_bytes: int
    packets: int
    busy_seconds: float
    utilisation: float


class MemoryStatistics(TypedDict):
    """A rank's memory."""

    rank: int
    read_bytes: int
    write_bytes: int
    read_seconds: float
    write_seconds: float


class Statistics(TypedDict, total=False):
    """Keys are those of :func:`summary`."""

    seconds: float
    ranks: int
    links: list[LinkStatistics]
    dimensions: list[float]
    memory: list[MemoryStatistics]
    network_bytes_per_s: float
    communication_seconds: float
    compute_seconds: float


class _Machine(Protocol):
    """The part of the machine that is summarised."""

    config: MachineConfig
    endpoints: list[Endpoint]
    computes: list[Compute]

    @property
    def now(self) -> float:
        ...


def summary(machine: _Machine) -> Statistics:
    """
    Returns
    -------
    Statistics
        ``seconds``; ``ranks``; ``links``: for each rank and port payload and wire bytes, packets, busy seconds,
        ``utilisation`` (busy over seconds) and, by dimension, ``dimensions`` with the mean utilisation; ``memory``:
        bytes read and written and busy seconds by rank; ``network_bytes_per_s``: payload that a rank sends, over the
        seconds in which a collective was in progress there; ``communication_seconds`` and ``compute_seconds``: of the
        busiest rank. A folded machine has one rank's rows; all others' are equal.
    """
    seconds, config = machine.now, machine.config
    links: list[LinkStatistics] = []
    for endpoint in machine.endpoints:
        for number, port in enumerate(endpoint.ports):
            if number % 2 and config.dimension_links[number // 2].switched:
                continue
            links.append({"rank": endpoint.rank, "port": number, "payload_bytes": port.payload_bytes,
                          "wire_bytes": port.wire_bytes, "packets": port.packets, "busy_seconds": port.busy / SECOND,
                          "utilisation": port.busy / SECOND / seconds if seconds else 0.0})
    memory: list[MemoryStatistics] = [
        {"rank": endpoint.rank, "read_bytes": endpoint.memory.reads.bytes, "write_bytes": endpoint.memory.writes.bytes,
         "read_seconds": endpoint.memory.reads.busy / SECOND, "write_seconds": endpoint.memory.writes.busy / SECOND}
        for endpoint in machine.endpoints]
    active = max(endpoint.active for endpoint in machine.endpoints) / SECOND
    sent = sum(link["payload_bytes"] for link in links) / len(machine.endpoints)
    by_dimension = [[link["utilisation"] for link in links if link["port"] // 2 == dimension]
                    for dimension in range(len(machine.config.shape))]
    return {
        "seconds": seconds, "ranks": machine.config.ranks, "links": links,
        "dimensions": [sum(part) / len(part) for part in by_dimension], "memory": memory,
        "network_bytes_per_s": sent / active if active else 0.0, "communication_seconds": active,
        "compute_seconds": max(compute.busy for compute in machine.computes) / SECOND,
    }
