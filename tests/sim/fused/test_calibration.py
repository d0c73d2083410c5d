# SPDX-License-Identifier: Apache-2.0
"""The system simulator's cycles of a fused operation against those of RTL."""

import pytest

from hw.endpoint.config import TINY
from sim.ace.endpoints import Link
from sim.fused.bench import Bench, describe
from sim.fused.run import run
from sim.fused.setup import Method, Order, Setup
from sim.system.fused_calibration import FusedCase, predicted_cycles

pytestmark = [pytest.mark.rtl, pytest.mark.long]

LIMIT = 0.03
"""Largest difference, as a share of the cycles in RTL."""


@pytest.mark.parametrize(("name", "ranks", "slices"), [
    ("embedding", 2, 1), ("embedding", 2, 32), ("gemm", 2, 8), ("embedding", 4, 4), ("embedding", 4, 16)])
def test_prediction(name, ranks, slices, capsys):
    setup = Setup(workgroups=4, link=Link(latency=20, bytes_per_cycle=float(TINY.beat_bytes)))
    bench = Bench(name=name, ranks=ranks, target_bytes=32768, tasks=256, setup=setup).balanced(1.0, slices)
    operation = bench.operation(slices)
    for method in (Method.TRIGGERS, Method.UNFUSED):
        found = run(operation, bench.setup, method).cycles
        case = FusedCase(**describe(name, operation, bench.setup, method, Order.REMOTE_FIRST))
        predicted = predicted_cycles(case, TINY)
        with capsys.disabled():
            print(f"\n{name} {ranks} ranks {slices:2} slices {method.value:9} {found:,} cycles in RTL, "
                  f"{predicted:,.0f} predicted, {predicted / found - 1:+.1%}")
        assert abs(predicted - found) <= LIMIT * found
