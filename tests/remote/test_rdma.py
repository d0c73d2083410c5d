# SPDX-License-Identifier: Apache-2.0
"""Queue pairs between endpoints: both ends agree, whatever their number. The drivers only record."""

import re
from types import SimpleNamespace

import pytest

from dmace.runtime.errors import DmaceError
from hw.rdma.config import TINY, remote_memory
from sim.remote.rdma import connect_rdma
from sim.remote.simulated import POOL_ADDRESS

POOL_BYTES = 1 << 16


class _Driver:
    """Records the calls of a driver."""

    config = TINY

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        async def call(*positional, **named):
            self.calls.append((name, positional, named))
            return 0x100 * len(self.calls) + named.get("key", 0)

        return call

    def of(self, wanted):
        return [(positional, named) for name, positional, named in self.calls if name == wanted]


class _Cluster:
    def __init__(self, size):
        self.size = size
        self.endpoints = [SimpleNamespace(rdma=_Driver(), dma=_Driver()) for _ in range(size)]

    def do(self, *coroutines):
        results = []
        for coroutine in coroutines:
            with pytest.raises(StopIteration) as ended:
                coroutine.send(None)
            results.append(ended.value.value)
        return results


@pytest.mark.parametrize("size", [2, 3, 8])
def test_both_ends_agree(size):
    cluster = _Cluster(size)
    peers = connect_rdma(cluster, POOL_BYTES, timeout=7, selective=True)
    units = [endpoint.rdma for endpoint in cluster.endpoints]
    stations = [unit.of("set_station")[0][1] for unit in units]
    assert len({station["mac"] for station in stations}) == len({station["ipv4"] for station in stations}) == size
    for rank, unit in enumerate(units):
        assert sorted(peers[rank]) == [other for other in range(size) if other != rank]
        opened, remotes = unit.of("open"), unit.of("define_remote")
        regions = cluster.endpoints[rank].dma.of("define_region")
        for index, peer in enumerate(peers[rank]):
            back = peers[peer].index(rank)
            connection, other = opened[index][0][0], units[peer].of("open")[back][0][0]
            assert (connection.qpn, connection.peer_qpn) == (other.peer_qpn, other.qpn)
            assert connection.timeout == 7 and connection.selective
            assert connection.qpn % TINY.queue_pairs == index and connection.qpn > 1
            assert (connection.peer_mac, connection.peer_ip) == (stations[peer]["mac"], stations[peer]["ipv4"])
            key = units[peer].of("define_region")[0][1]["key"]
            (number,), remote = remotes[index]
            assert number == remote["qp"] == index and remote["rkey"] & 0xFF == key
            assert (remote["va"], remote["length"]) == (POOL_ADDRESS, POOL_BYTES)
            assert regions[index] == ((1 + index,), {"base": remote_memory(index), "length": POOL_BYTES})


def test_too_many_endpoints():
    sentence = "The RoCEv2 unit has 8 queue pairs, too few for 9 endpoints."
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        connect_rdma(_Cluster(9), POOL_BYTES)
