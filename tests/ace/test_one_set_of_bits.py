# SPDX-License-Identifier: Apache-2.0
"""The same bits whatever the sizes of chunks, messages, packets and SRAM, the number of FSMs, stalls and other traffic.

Each case is compared with the golden model elsewhere, which knows none of these; here, the cases are compared.
"""

from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import TINY
from hw.ace.numerics.formats import DType, Reduction
from hw.ace.words import Collective
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link, Memory

pytestmark = [pytest.mark.rtl, pytest.mark.soak]

CONFIGS = {
    "tiny": TINY,
    "small": replace(TINY, chunk_bytes=1024, message_bytes=128, packet_bytes=64, fsms=2, slots=2, link_beats=64),
    "broad": replace(TINY, data_width=128, lanes=2, fsms=8, slots=16, chunk_bytes=8192, message_bytes=2048),
}
SHAPE = (3, 2)
CASES = [
    (Collective.ALL_REDUCE, DType.FP32, 5000, False), (Collective.ALL_REDUCE, DType.BF16, 7001, False),
    (Collective.ALL_REDUCE, DType.FP16, 3333, True), (Collective.REDUCE_SCATTER, DType.FP16, 1001, False),
    (Collective.REDUCE, DType.FP32, 4097, False),
]


def _inputs(number, count, dtype):
    random = np.random.default_rng(number)
    numbers = np.ldexp(random.standard_normal(count, np.float32), random.integers(-8, 8, count, np.int32))
    if dtype == DType.FP32:
        return numbers.view(np.uint32)
    return numbers.astype(np.float16).view(np.uint16) if dtype == DType.FP16 else (
        numbers.view(np.uint32) >> 16).astype(np.uint16)


def _run(config, *, disturbed):
    """Outputs of all cases; ``disturbed``, with stalls and with barriers and copies on another communicator."""
    surroundings = {"link": Link(latency=7, bytes_per_cycle=3, stall=0.2),
                    "memory": Memory(read_latency=33, jitter=20, stall=0.2)} if disturbed else {}
    outputs = []
    with Cluster(config, SHAPE, **surroundings) as cluster:
        for number, (collective, dtype, count, widen) in enumerate(CASES):
            many = count * (cluster.size if collective == Collective.REDUCE_SCATTER else 1)
            pendings = [cluster.submit(
                collective, [_inputs(100 * number + rank, many, dtype) for rank in range(cluster.size)], count=count,
                dtype=dtype, op=Reduction.SUM, widen=widen, root=4 if collective == Collective.REDUCE else None)]
            if disturbed and len(cluster.communicators) > 1:
                pendings.append(cluster.submit(
                    Collective.ALL_GATHER, [np.arange(500, dtype=np.uint32)] * cluster.size, dtype=DType.INT32,
                    communicator=1, queue=1))
            outputs.append(cluster.wait(*pendings)[0].outputs)
    return outputs


def test_one_set_of_bits():
    runs = {(name, disturbed): _run(config, disturbed=disturbed)
            for name, config in CONFIGS.items() for disturbed in (False, True)}
    first = runs.pop(("tiny", False))
    for name, run in runs.items():
        for case, expected, got in zip(CASES, first, run, strict=True):
            for rank, (right, bits) in enumerate(zip(expected, got, strict=True)):
                assert (right is None) == (bits is None), (name, case, rank)
                assert right is None or np.array_equal(right, bits), (name, case, rank)
    for (collective, *_), outputs in zip(CASES, first, strict=True):
        if collective == Collective.ALL_REDUCE:
            assert all(np.array_equal(outputs[0], one) for one in outputs)
