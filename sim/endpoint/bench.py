# SPDX-License-Identifier: Apache-2.0
"""Cost of puts, and sharing of the memory port by DMA engine and accelerator, measured in RTL.

Every byte of a put is compared. Shares are computed from the endpoint's own counters.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmace.drivers.ace import AceBus
from hw.ace.config import WIRE_HEADER_BYTES
from hw.ace.numerics.formats import DType
from hw.ace.words import Collective
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.descriptors import Descriptor, RingLocation
from hw.dma_engine.words import NativeWord, RequestFlag
from hw.endpoint.config import EndpointConfig, remote_address
from sim.ace.endpoints import Link, Memory, Reason
from sim.ace.shared_library import ClusterFailed
from sim.endpoint.cluster import EndpointCluster

__all__ = ["contention", "latency", "throughput"]

_SOURCE, _TARGET, _WORDS, _RING = 0x10_0000, 0x8000_0000, 0x5000, 0x8000
_MOST = 1 << 24


def _pair(config: EndpointConfig, link_latency: int, link_rate: float, memory_latency: int, seed: int,
          **options: Any) -> EndpointCluster:
    """Two neighbours, of which rank 0 can put to rank 1."""
    link = Link(latency=link_latency, bytes_per_cycle=link_rate * config.beat_bytes)
    memory = Memory(read_latency=memory_latency, write_latency=memory_latency)
    cluster = EndpointCluster(config, (2,), link=link, memory=memory, seed=seed, **options)
    here, there = cluster.endpoints
    cluster.do(here.dma.define_region(0, base=_SOURCE, length=_MOST),
               there.define_export(0, base=_TARGET, length=_MOST, ports=[1]))
    cluster.do(here.dma.define_region(1, base=remote_address(0, 0), length=_MOST, readable=False),
               there.define_export(1, base=_WORDS & -4096, length=4096, ports=[1]))
    cluster.write_memory(1, _WORDS, bytes(64))
    return cluster


async def _ring(bus: AceBus, queue: int) -> None:
    """Ring the doorbell of a queue whose descriptor ring has one descriptor."""
    await bus.store(PAGE_BYTES * queue, (1).to_bytes(16, "little"))


def latency(config: EndpointConfig, size: int, *, link_latency: int = 100, link_rate: float = 1.0,
            memory_latency: int = 100, seed: int = 1, **options: Any) -> dict[str, int]:
    """One put of ``size`` bytes, a multiple of 8, between two idle neighbours.

    Returns
    -------
    dict
        Cycles from the doorbell's store until the last bytes are in the neighbour's memory (``data``), until the RC
        word is in the neighbour's memory (``rc``), and until the SC word is in local memory (``sc``); ``*_bound`` is
        the part of each that is due to links and memories.
    """
    rng = np.random.default_rng(seed)
    with _pair(config, link_latency, link_rate, memory_latency, seed, **options) as cluster:
        data = rng.integers(0, 256, size, np.uint8)
        # The watch waits for a value of 1 in the last word.
        data[-8:] = np.frombuffer((1).to_bytes(8, "little"), np.uint8)
        cluster.write_memory(0, _SOURCE, data)
        cluster.write_memory(1, _TARGET, bytes(size))
        cluster.start_queue(0, 1, rc=remote_address(0, 1, _WORDS % 4096))
        cluster.clear_watches()
        watches = [cluster.watch(1, _TARGET + size - 8, 1), cluster.watch(1, _WORDS, 1)]
        sent = cluster.watch(0, cluster.word_address(1), 1)
        begin = cluster.cycle
        cluster.post(0, 1, NativeWord.copy(src=(0, 0), dst=(1, 0), length=size))
        if cluster.run(100_000 + 10 * size) != Reason.DONE:
            raise ClusterFailed(f"A put of {size} bytes did not complete.")
        if not np.array_equal(cluster.read_memory(1, _TARGET, size), data):
            raise ClusterFailed(f"A put of {size} bytes stored wrong data.")
        there, word = (cluster.met(1, watch) - begin for watch in watches)
        here = cluster.met(0, sent) - begin
    packets = -(-size // config.ace.packet_bytes)
    rate = link_rate * config.beat_bytes
    data_bound = 2 * memory_latency + link_latency + (size + packets * WIRE_HEADER_BYTES) / rate
    completed = data_bound + link_latency + WIRE_HEADER_BYTES / rate
    word_bound = link_latency + (config.beat_bytes + WIRE_HEADER_BYTES) / rate + memory_latency
    return {"bytes": size, "data": there, "data_bound": round(data_bound), "rc": word,
            "rc_bound": round(completed + word_bound), "sc": here, "sc_bound": round(completed + memory_latency)}


def throughput(config: EndpointConfig, size: int, *, total: int | None = None, link_latency: int = 100,
               link_rate: float = 1.0, memory_latency: int = 100, seed: int = 1, **options: Any) -> dict[str, float]:
    """Consecutive puts of ``size`` bytes from a descriptor ring, ``total`` bytes in all; by default enough that the
    cycles at start and end are negligible.

    Returns
    -------
    dict
        ``link_share``: payload bytes per cycle divided by the link's bandwidth, which includes headers; ``most``: the
        share on a link that is always busy, with packets as long as those of these puts.
    """
    total = max(size, 1 << 18 if size >= 256 else 1 << 16) if total is None else total
    rows = max(1, total // size)
    rng = np.random.default_rng(seed)
    with _pair(config, link_latency, link_rate, memory_latency, seed, **options) as cluster:
        data = rng.integers(0, 256, rows * size, np.uint8)
        cluster.write_memory(0, _SOURCE, data)
        cluster.write_memory(1, _TARGET, bytes(rows * size))
        descriptor = Descriptor.copy_2d(src=(0, 0), dst=(1, 0), row_bytes=size, rows=rows, src_stride=size,
                                        dst_stride=size, flags=RequestFlag.SC)
        cluster.write_memory(0, _RING, bytes(4096))
        cluster.write_memory(0, _RING, descriptor.to_bytes())
        cluster.start_queue(0, 0, ring=RingLocation(base=_RING, size=3))
        begin = cluster.cycle
        cluster.do(_ring(cluster.whole_bus(0), 0))
        end, = cluster.wait_requests((0, 0, rows), limit=1_000_000 + 20 * rows * size)
        if not np.array_equal(cluster.read_memory(1, _TARGET, rows * size), data):
            raise ClusterFailed(f"Puts of {size} bytes stored wrong data.")
        link, = (link for link in cluster.statistics()["links"] if (link["rank"], link["port"]) == (0, 0))
    packet = min(size, config.ace.packet_bytes)
    return {"bytes": size, "puts": rows, "cycles": end - begin,
            "link_share": round(rows * size / (end - begin) / (link_rate * config.beat_bytes), 4),
            "most": round(packet / (packet + WIRE_HEADER_BYTES), 4), "waited": link["waited"]}


def contention(config: EndpointConfig, weights: Sequence[int], *, cycles: int = 6000, copy_bytes: int = 4096,
               memory_latency: int = 60, seed: int = 1, **options: Any) -> dict[str, Any]:
    """An endpoint whose DMA engine and accelerator both read and write at their maximum rates.

    Parameters
    ----------
    weights : (int, int)
        Weights of the DMA engine and of the accelerator, for reads and for writes.

    Returns
    -------
    dict
        ``dma_read_share``, ``dma_write_share``: the DMA engine's share of the beats of both; ``read_busy``,
        ``write_busy``: share of the cycles with a beat on R and on W.
    """
    memory = Memory(read_latency=memory_latency, write_latency=memory_latency)
    with EndpointCluster(config, (1,), memory=memory, seed=seed, **options) as cluster:
        endpoint, = cluster.endpoints
        shares = dict(zip(("dma", "ace"), weights, strict=True))
        rows = 64
        cluster.write_memory(0, _SOURCE, bytes(copy_bytes))
        cluster.write_memory(0, _TARGET, bytes(copy_bytes))
        cluster.do(endpoint.share_memory(read=shares, write=shares))
        for number, base in enumerate((_SOURCE, _TARGET)):
            cluster.do(endpoint.dma.define_region(number, base=base, length=_MOST))
        descriptor = Descriptor.copy_2d(src=(0, 0), dst=(1, 0), row_bytes=copy_bytes, rows=rows, src_stride=0,
                                        dst_stride=0)
        for queue in range(2):
            address = _RING + 0x1000 * queue
            cluster.write_memory(0, address, bytes(4096))
            cluster.write_memory(0, address, descriptor.to_bytes())
            cluster.start_queue(0, queue, ring=RingLocation(base=address, size=3))
        count = (cycles + 4000) * config.beat_bytes // 4
        pending = cluster.submit(Collective.ALL_REDUCE, [np.ones(count, np.uint32)], dtype=DType.INT32)
        bus = cluster.whole_bus(0)
        cluster.do(*(_ring(bus, queue) for queue in range(2)))
        cluster.clear_watches()
        cluster.run(1500)       # until both engines run at their maximum rates
        before, begin = cluster.do(endpoint.counters())[0], cluster.cycle
        cluster.run(cycles)
        (after,), end = cluster.do(endpoint.counters()), cluster.cycle
        del pending
    found = {name: (after[name] - before[name]) % (1 << 32) for name in before}
    return {"weights": list(weights), **{
        key: round(value, 4) for kind in ("read", "write") for both in [
            found[f"dma_{kind}_beats"] + found[f"ace_{kind}_beats"]]
        for key, value in ((f"dma_{kind}_share", found[f"dma_{kind}_beats"] / both),
                           (f"{kind}_busy", both / (end - begin)))}}
