# SPDX-License-Identifier: Apache-2.0
"""The read path with random traffic: data, responses, order, tags and slots."""

import random
from dataclasses import replace

import pytest

from tests.pcie.requester.read_bench import SMALL, Rates, run_reads


@pytest.mark.parametrize("width, ids", [(512, 1), (512, 3), (512, 200), (256, 3), (128, 1), (128, 200)])
def test_random(width, ids, seed):
    rng = random.Random(seed + width + ids)
    config = replace(SMALL, data_width=width, read_bytes=rng.choice((128, 256, 512)))

    async def body(bench):
        bench.levels(max_read=rng.randrange(6))
        bench.delay = lambda: rng.randrange(60)
        for _ in range(2):
            bench.rates = Rates(*(rng.choice((0.3, 0.7, 1)) for _ in range(4)), flushes=0.2)
            for _ in range(12):
                bench.add_random(range(ids), longest=rng.choice((1, 4, None)) if width == 512 else 12)
                if rng.random() < 0.3:
                    bench.add_flush()
            for _ in range(120):
                await bench.step()

    bench = run_reads(rng, body, config)
    assert bench.seen["burst"] == 24 and bench.seen["OKAY"] == bench.seen["beat"] and bench.seen["flush"]
