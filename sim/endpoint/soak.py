# SPDX-License-Identifier: Apache-2.0
"""Work for two endpoints of any sizes: copies, puts and an all-reduce at the same time, every byte checked."""

import itertools
from dataclasses import dataclass

import numpy as np

from hw.ace.numerics.formats import DType
from hw.ace.words import Collective
from hw.dma_engine.words import NativeWord, RequestFlag
from hw.endpoint.config import EndpointConfig, remote_address

from .cluster import EndpointCluster

__all__ = ["Worked", "work"]

_SOURCE, _COPIED, _EXPORTED, _LENGTH = 0x10_0000, 0x11_0000, 0x20_0000, 0x1_0000
_REQUESTS, _LONGEST, _ELEMENTS = 8, 3000, 2000


@dataclass(frozen=True)
class Worked:
    requests: int
    cycles: int
    findings: tuple[str, ...]
    """A sentence for each memory that is wrong."""


def work(config: EndpointConfig, *, seed: int) -> Worked:
    """Queue 0 of each endpoint copies in local memory, queue 1 puts to the other one, and both add an all-reduce.

    Needs two queues and two regions, as all configurations have. Raises :class:`ClusterFailed` where something does
    not end.

    Parameters
    ----------
    config : EndpointConfig
    seed : int
        Of data, lengths, alignments and the cluster.
    """
    rng, findings = np.random.default_rng(seed), []
    with EndpointCluster(config, (2,), seed=seed) as cluster:
        sources = [rng.integers(0, 256, _LENGTH, np.uint8) for _ in range(2)]
        copied, exported = ([np.zeros(_LENGTH, np.uint8) for _ in range(2)] for _ in range(2))
        for rank, endpoint in enumerate(cluster.endpoints):
            cluster.write_memory(rank, _SOURCE, sources[rank])
            for address in (_COPIED, _EXPORTED):
                cluster.write_memory(rank, address, bytes(_LENGTH))
            cluster.do(endpoint.define_export(1, base=_EXPORTED, length=_LENGTH, ports=[0, 1]),
                       endpoint.dma.define_region(0, base=_SOURCE, length=2 * _LENGTH),
                       endpoint.dma.define_region(1, base=remote_address(rank, 1), length=_LENGTH, readable=False))
            for queue in range(2):
                cluster.start_queue(rank, queue)
        inputs = [rng.integers(0, 1 << 32, _ELEMENTS, np.uint32) for _ in range(2)]
        reduced = cluster.submit(Collective.ALL_REDUCE, inputs, dtype=DType.INT32)
        words: dict[tuple[int, int], list[NativeWord]] = {}
        for rank, queue in itertools.product(range(2), range(2)):
            area, base = ((copied[rank], _LENGTH), (exported[1 - rank], 0))[queue]
            for place in range(0, _LENGTH, _LENGTH // _REQUESTS):
                length, src = int(rng.integers(1, _LONGEST)), int(rng.integers(_LENGTH - _LONGEST))
                dst = place + int(rng.integers(_LENGTH // _REQUESTS - _LONGEST))
                area[dst:dst + length] = sources[rank][src:src + length]
                words.setdefault((rank, queue), []).append(NativeWord.copy(
                    src=(0, src), dst=(queue, base + dst), length=length, flags=RequestFlag.SC))
        # A queue refuses more words than it can store.
        for first in range(0, _REQUESTS, config.dma.queue_depth):
            last = min(first + config.dma.queue_depth, _REQUESTS)
            for (rank, queue), mine in words.items():
                cluster.post(rank, queue, *mine[first:last])
            if not first:
                outcome, = cluster.wait(reduced)
            cluster.wait_requests(*((rank, queue, last) for rank, queue in words))
        for rank, output in enumerate(outcome.outputs):
            for name, wrong in (
                    ("copies", (cluster.read_memory(rank, _COPIED, _LENGTH) != copied[rank]).sum()),
                    ("puts to it", (cluster.read_memory(rank, _EXPORTED, _LENGTH) != exported[rank]).sum()),
                    ("elements of the all-reduce", (output != inputs[0] + inputs[1]).sum())):
                if wrong:
                    findings.append(f"Seed {seed}: of the {name}, rank {rank} has {wrong:,} wrong values.")
            for queue in range(2):
                word = cluster.request_word(rank, queue)
                if word.failed or word.count != _REQUESTS:
                    findings.append(f"Seed {seed}: queue {queue} of rank {rank} completed {word}.")
        return Worked(4 * _REQUESTS, cluster.cycle, tuple(findings))
