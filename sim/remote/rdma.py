# SPDX-License-Identifier: Apache-2.0
"""All endpoints as peers of each other, by queue pairs of their RoCEv2 units on one Ethernet network."""

from dmace.drivers.rdma import Connection, RdmaDriver
from dmace.runtime.errors import DmaceError
from hw.rdma.config import remote_memory
from sim.endpoint.cluster import EndpointCluster

from .simulated import POOL_ADDRESS

__all__ = ["connect_rdma"]

_MOST_RANKS = 250


def connect_rdma(cluster: EndpointCluster, pool_bytes: int, *, timeout: int = 4,
                 selective: bool = False) -> list[tuple[int, ...]]:
    """Open a queue pair between each two endpoints: number n of a unit for its n-th peer, like remote memory n.

    Parameters
    ----------
    timeout : int
        Local ACK timeout of :class:`Connection`.
    selective : bool
        Repeat lost packets selectively.
    """
    units = [endpoint.rdma for endpoint in cluster.endpoints if endpoint.rdma is not None]
    if len(units) < cluster.size:
        raise DmaceError("The endpoints have no RoCEv2 units.")
    if cluster.size > min(_MOST_RANKS, units[0].config.queue_pairs, units[0].config.remotes):
        raise DmaceError(f"The RoCEv2 unit has {units[0].config.queue_pairs} queue pairs, too few for {cluster.size} "
                         "endpoints.")
    peers = [tuple(other for other in range(cluster.size) if other != rank) for rank in range(cluster.size)]
    for rank, unit in enumerate(units):
        cluster.do(unit.set_station(mac=_mac(rank), ipv4=_ip(rank)))
    keys = [cluster.do(unit.define_region(0, va=POOL_ADDRESS, length=pool_bytes, address=POOL_ADDRESS, key=1 + rank))[0]
            for rank, unit in enumerate(units)]
    for rank, unit in enumerate(units):
        for index, peer in enumerate(peers[rank]):
            connection = Connection(qpn=_qpn(unit, index), peer_qpn=_qpn(unit, peers[peer].index(rank)),
                                    peer_mac=_mac(peer), peer_ip=_ip(peer), mtu=unit.config.max_mtu, timeout=timeout,
                                    max_reads=unit.config.reads, selective=selective)
            cluster.do(unit.open(connection))
            cluster.do(unit.define_remote(index, qp=index, rkey=keys[peer], va=POOL_ADDRESS, length=pool_bytes))
            cluster.do(cluster.endpoints[rank].dma.define_region(1 + index, base=remote_memory(index),
                                                                 length=pool_bytes))
    return peers


def _qpn(unit: RdmaDriver, index: int) -> int:
    """Number of a queue pair: the index in its lower bits, and 1 above, as 0 and 1 are reserved."""
    return unit.config.queue_pairs + index


def _mac(rank: int) -> str:
    return f"02:00:00:00:00:{rank + 1:02x}"


def _ip(rank: int) -> str:
    return f"10.0.0.{rank + 1}"
