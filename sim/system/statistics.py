"""What a machine has carried, as plain data."""

from .kernel import SECOND

__all__ = ["summary"]


def summary(machine):
    """
    Returns
    -------
    dict
        ``seconds``; ``ranks``; ``links``: for each rank and port payload and wire bytes, packets, busy seconds,
        ``utilisation`` (busy over seconds) and, by dimension, ``dimensions`` with the mean utilisation; ``memory``:
        bytes read and written and busy seconds by rank; ``network_bytes_per_s``: payload that a rank sends, over the
        seconds in which a collective was under way there; ``communication_seconds`` and ``compute_seconds``: of the
        busiest rank. A folded machine has one rank's rows; all others' are equal.
    """
    seconds, links = machine.now, []
    for endpoint in machine.endpoints:
        for number, port in enumerate(endpoint.ports):
            links.append({"rank": endpoint.rank, "port": number, "payload_bytes": port.payload_bytes,
                          "wire_bytes": port.wire_bytes, "packets": port.packets, "busy_seconds": port.busy / SECOND,
                          "utilisation": port.busy / SECOND / seconds if seconds else 0.0})
    memory = [{"rank": endpoint.rank, "read_bytes": endpoint.fills.bytes + endpoint.reads.bytes,
               "write_bytes": endpoint.drains.bytes + endpoint.writes.bytes,
               "read_seconds": (endpoint.fills.busy + endpoint.reads.busy) / SECOND,
               "write_seconds": (endpoint.drains.busy + endpoint.writes.busy) / SECOND}
              for endpoint in machine.endpoints]
    active = max(_active(endpoint) for endpoint in machine.endpoints) / SECOND
    sent = sum(link["payload_bytes"] for link in links) / len(machine.endpoints)
    by_dimension = [[link["utilisation"] for link in links if link["port"] // 2 == dimension]
                    for dimension in range(len(machine.config.shape))]
    return {
        "seconds": seconds, "ranks": machine.config.ranks, "links": links,
        "dimensions": [sum(part) / len(part) for part in by_dimension], "memory": memory,
        "network_bytes_per_s": sent / active if active else 0.0, "communication_seconds": active,
        "compute_seconds": max(compute.busy for compute in machine.computes) / SECOND,
    }


def _active(endpoint):
    return endpoint.active
