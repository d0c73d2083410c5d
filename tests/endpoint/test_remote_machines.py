# SPDX-License-Identifier: Apache-2.0
"""The DMA engines of two endpoints write and read each other's memory over RoCEv2."""

import random
from functools import cache

import pytest

from dmace.drivers.rdma import Connection
from hw.dma_engine.words import NativeWord, RequestFlag, Status
from hw.endpoint.config import TINY
from hw.rdma.config import TINY as RDMA
from hw.rdma.config import remote_memory
from sim.endpoint.cluster import EndpointCluster, library
from sim.rdma.network import Faults, Line

pytestmark = [pytest.mark.rtl, pytest.mark.long]

CONFIG = TINY.with_rdma(RDMA)
LOCAL, REMOTE = 0, 1
"""Regions of each DMA engine: own memory, and the other's."""

POOL, LENGTH, VA, QP, KEY = 0x10_0000, 1 << 16, 0x7F00_0000_1000, 2, 0xA5
QUEUE, WORD = 1, 0x8000


@cache
def _library():
    return library(CONFIG)


def _mac(rank):
    return f"02:00:00:00:00:{rank + 1:02x}"


def _qpn(rank):
    return 0x1000 * (rank + 1) + QP


async def _set_up(endpoint, rank, *, selective, length=LENGTH):
    peer, rdma = 1 - rank, endpoint.rdma
    await rdma.set_station(mac=_mac(rank), ipv4=f"10.0.0.{rank + 1}")
    rkey = await rdma.define_region(3, va=VA, length=length, address=POOL, key=KEY)
    await rdma.open(Connection(qpn=_qpn(rank), peer_qpn=_qpn(peer), peer_mac=_mac(peer), peer_ip=f"10.0.0.{peer + 1}",
                               mtu=256, send_psn=0xFF_FFF0 + rank, receive_psn=0xFF_FFF0 + peer,
                               max_reads=RDMA.reads, timeout=3, selective=selective))
    await rdma.define_remote(1, qp=QP, rkey=rkey, va=VA, length=length)
    await endpoint.dma.define_region(LOCAL, base=POOL, length=LENGTH)
    await endpoint.dma.define_region(REMOTE, base=remote_memory(1), length=LENGTH)


def _cluster(seed, *, selective=False, **options):
    cluster = EndpointCluster(CONFIG, (2,), library=_library(), lines=[Line(bytes_per_cycle=8, latency=20)] * 2,
                              seed=seed, **options)
    for rank in range(2):
        cluster.write_memory(rank, POOL, random.Random(seed + rank).randbytes(LENGTH))
    cluster.do(*(_set_up(endpoint, rank, selective=selective) for rank, endpoint in enumerate(cluster.endpoints)))
    for rank in range(2):
        cluster.start_queue(rank, QUEUE)
    return cluster


def _memory(cluster, rank):
    return cluster.read_memory(rank, POOL, LENGTH).tobytes()


def _requests(rng, count):
    """Copies between the lower halves of both memories: ``(read, source, destination, length)``."""
    half = LENGTH // 2
    return [(rng.random() < 0.5, rng.randrange(half - 4096), rng.randrange(half - 4096),
             rng.choice([1, 8, 63, 256, 257, 1000, 4096])) for _ in range(count)]


@pytest.mark.parametrize("loss, selective", [(0.0, False), (0.02, False), (0.02, True)])
def test_copies_to_and_from_a_remote_machine(loss, selective, seed):
    rng = random.Random(seed)
    with _cluster(seed, selective=selective) as cluster:
        for port in range(2):
            cluster.network.fault(port, Faults(loss=loss, duplicate=loss / 2))
        here, there = bytearray(_memory(cluster, 0)), bytearray(_memory(cluster, 1))
        for number, (read, source, destination, length) in enumerate(_requests(rng, 40), 1):
            src, dst = (REMOTE, LOCAL) if read else (LOCAL, REMOTE)
            cluster.post(0, QUEUE, NativeWord.copy(src=(src, source), dst=(dst, destination), length=length,
                                                   flags=RequestFlag.SC))
            cluster.wait_requests((0, QUEUE, number), limit=2_000_000)
            data, target = (there, here) if read else (here, there)
            target[destination:destination + length] = data[source:source + length]
        assert cluster.request_word(0, QUEUE).status == Status.OK
        assert _memory(cluster, 0) == here and _memory(cluster, 1) == there
        counters = cluster.do(cluster.endpoints[0].rdma.counters())[0]
        assert (counters["packets_resent"] > 0) == (loss > 0)


def test_a_word_at_the_peer_follows_its_data(seed):
    """RC at the peer counts requests whose data is there."""
    with _cluster(seed) as cluster:
        cluster.start_queue(0, 2, rc=remote_memory(1, WORD))
        cluster.write_memory(1, POOL + WORD, bytes(8))
        data = _memory(cluster, 0)
        cluster.post(0, 2, NativeWord.copy(src=(LOCAL, 5), dst=(REMOTE, 77), length=3000))
        cluster.clear_watches()
        watch = cluster.watch(1, POOL + WORD, 1)
        cluster.keep_bytes(1, watch, POOL + 77, 3000)
        assert cluster.run(100_000).name == "DONE"
        assert cluster.kept_bytes(1, watch, 3000).tobytes() == data[5:3005]


def test_a_request_beyond_the_peer_fails_alone(seed):
    """The peer refuses a range: the request and the queue pair fail, and the other endpoint's memory is unchanged."""
    with _cluster(seed) as cluster:
        cluster.do(cluster.endpoints[0].rdma.define_remote(1, qp=QP, rkey=3 << 8 | KEY, va=VA + 4096, length=LENGTH))
        before = _memory(cluster, 1)
        cluster.post(0, QUEUE, NativeWord.copy(src=(LOCAL, 0), dst=(REMOTE, LENGTH - 4096 + 8), length=64,
                                               flags=RequestFlag.SC))
        cluster.wait_requests((0, QUEUE, 1))
        assert cluster.request_word(0, QUEUE).status == Status.WRITE_SLVERR
        assert _memory(cluster, 1) == before
        faults = cluster.do(*(endpoint.rdma.take_fault() for endpoint in cluster.endpoints))
        assert [fault.fault.name for fault in faults] == ["REMOTE_ACCESS", "LOCAL_ACCESS"]
        assert {fault.qp for fault in faults} == {QP}
