# SPDX-License-Identifier: Apache-2.0
"""One queue that misbehaves takes nothing from the others."""

import pytest

from hw.dma_engine.config import TINY
from sim.dma.bench import Bench, isolation
from tests.harness.fast import fast


@pytest.mark.rtl
@pytest.mark.parametrize("kind", isolation.KINDS)
def test_others_keep_their_throughput(kind):
    bench = Bench(fast(TINY), queues=4)
    row = isolation.beside(bench, 20, kind, size=256)
    assert row["bad_words_per_cycle"] > 0.2
    assert row["alone"] > 0.8
    assert row["beside"] > 0.95 * row["alone"]
