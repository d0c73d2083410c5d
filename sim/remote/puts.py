# SPDX-License-Identifier: Apache-2.0
"""Neighbours on a ring as peers, by puts over the links of the accelerator.

A put only writes: static placement and messages work, remote reads and with them dynamic allocation do not.
"""

from dmace.runtime.errors import DmaceError
from hw.endpoint.config import remote_address
from sim.endpoint.cluster import EndpointCluster

from .simulated import POOL_ADDRESS

__all__ = ["connect_puts"]


def connect_puts(cluster: EndpointCluster, pool_bytes: int) -> list[tuple[int, ...]]:
    """Export each pool as span 0 to the neighbours on a ring."""
    if len(cluster.shape) != 1 or cluster.size < 2:
        raise DmaceError(f"Peers by puts need a ring of at least 2 endpoints, not a shape of {cluster.shape}.")
    size = cluster.size
    found = []
    for rank, endpoint in enumerate(cluster.endpoints):
        cluster.do(endpoint.define_export(0, base=POOL_ADDRESS, length=pool_bytes, ports=[0, 1]))
        # Port 0 leads to the next rank, port 1 to the previous one; on a ring of two they are the same.
        ports = {(rank + 1) % size: 0} | ({(rank - 1) % size: 1} if size > 2 else {})
        found.append(tuple(ports))
        for index, port in enumerate(ports.values()):
            cluster.do(endpoint.dma.define_region(1 + index, base=remote_address(port, 0), length=pool_bytes,
                                                  readable=False))
    return found
