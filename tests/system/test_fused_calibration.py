# SPDX-License-Identifier: Apache-2.0
"""Cases of fused operations in cycles, against sums on paper."""

import re
from dataclasses import replace

import pytest

from hw.endpoint.config import TINY
from hw.errors import UserError
from sim.system.fused_calibration import FusedCase, predicted_cycles
from sim.system.slice_costs import SliceCosts, trigger_costs

FREE = SliceCosts()
"""Requests without any costs."""

PAIR = FusedCase(ranks=2, slices=4, slice_bytes=1024, compute_cycles=1000, link_bytes_per_cycle=8, header_bytes=0,
                 memory_latency=0)
"""Two ranks: 4 slices for each, 1,000 cycles of computation and 128 on the link for each slice."""


def cycles(case, costs=FREE):
    return round(predicted_cycles(case, costs), 3)


def tail(case, costs=FREE):
    """Cycles of a single slice after its computation: the last packet is read, sent and written after the others."""
    return cycles(replace(case, slices=1, compute_cycles=(0, 0)), costs)


def test_a_single_slice():
    """The simulator's port takes 7 cycles (``transmit_cycles``), and the first packet is read and the last written."""
    assert tail(PAIR) == 7 + 32 + 128 + 20 + 32
    assert tail(replace(PAIR, header_bytes=16)) == 7 + 32 + 4 * 34 + 20 + 32
    assert tail(replace(PAIR, link_bytes_per_cycle=2)) == 7 + 32 + 512 + 20 + 32
    assert tail(replace(PAIR, header_bytes=16, memory_latency=50), trigger_costs(TINY)) == 3 + 376 + 24 + 50


def test_compute_that_hides_all_slices():
    """Remote first: the rank's own slices hide the communication. Remote last: the last one is exposed."""
    assert cycles(PAIR) == 8000
    assert cycles(replace(PAIR, order="remote-last")) == 8000 + tail(PAIR)
    assert cycles(replace(PAIR, fused=False)) == 8000 + tail(PAIR) + 3 * 128


def test_link_that_hides_all_but_the_first_slice():
    """A slice takes 2,048 cycles on the link."""
    slow = replace(PAIR, link_bytes_per_cycle=0.5)
    assert cycles(replace(slow, compute_cycles=100)) == 100 + tail(slow) + 3 * 2048
    assert cycles(replace(slow, compute_cycles=100, order="remote-last")) == 500 + tail(slow) + 3 * 2048


def test_workgroups_and_ticks():
    """4 slots compute 4 slices at a time, or a slice of 4 tasks."""
    assert cycles(replace(PAIR, workgroups=4, order="remote-last")) == 2000 + tail(PAIR) + 3 * 128
    assert cycles(replace(PAIR, workgroups=4, tasks=4, order="remote-last")) == 8000 + tail(PAIR)
    assert cycles(replace(PAIR, workgroups=3, tasks=1)) == 3000


def test_times_of_each_task():
    times = (10, 20, 30, 40, 500, 600, 700, 800)
    assert cycles(replace(PAIR, compute_cycles=times)) == sum(times)
    assert cycles(replace(PAIR, compute_cycles=times[::-1], order="remote-last")) == sum(times) + max(
        tail(PAIR), tail(PAIR) + 3 * 128 - 60)
    assert cycles(replace(PAIR, compute_cycles=times, workgroups=8)) == 800


def test_each_cost_of_a_request_delays_the_end():
    late = replace(PAIR, order="remote-last")
    for name in ("tick_cycles", "request_cycles", "notify_cycles", "poll_cycles"):
        assert cycles(late, replace(FREE, **{name: 33})) == cycles(late) + 33
    assert cycles(late, replace(FREE, interval_cycles=5000)) == 5000 + 3 * 5000 + tail(PAIR)


def test_parts_and_flags():
    """A part's write delays its tick, and the end of a run that computation bounds; a flag's read delays the end."""
    late = replace(PAIR, order="remote-last")
    assert cycles(replace(late, write_cycles=33)) == cycles(replace(late, flag_cycles=33)) == cycles(late) + 33
    assert cycles(replace(PAIR, write_cycles=33)) == 8033
    assert cycles(replace(PAIR, flag_cycles=33)) == 8000
    with pytest.raises(UserError, match=r"^write_cycles of a case must be an integer from 0, not -1\.$"):
        replace(PAIR, write_cycles=-1)


def test_relays():
    """On a ring of 4, the slice for the opposite rank is stored at the neighbour and posted there again; each put takes
    as long as a single one, and the relay has no flag."""
    ring = replace(PAIR, ranks=4, slices=1, slice_bytes=64, compute_cycles=(1000, 4000, 100, 0), memory_latency=50,
                   order="remote-last")
    costs = replace(FREE, from_memory=True, tick_cycles=11, notify_cycles=13)
    one = 7 + 8 + 8 + 20 + 8 + 2 * 50
    assert cycles(ring, costs) == 5100 + 2 * (11 + one) + 13 + 50
    assert cycles(replace(ring, relay=False), costs) < cycles(ring, costs)


@pytest.mark.parametrize("order", ["remote-first", "remote-last"])
def test_all_reduce_in_two_phases(order):
    """Sums begin when the last partial sum has arrived, and leave one after the other."""
    case = replace(PAIR, operation="gemv", reduce_cycles=500, order=order, slices=1)
    if order == "remote-first":
        assert cycles(case) == 2000 + 500 + tail(PAIR)
    else:
        assert cycles(case) == 2000 + tail(PAIR) + 500 + tail(PAIR)
    more = replace(case, slices=4)
    if order == "remote-first":
        assert cycles(more) == 8000 + 4 * 500 + tail(PAIR)
    assert cycles(replace(more, fused=False)) == 8000 + tail(PAIR) + 4 * 500 + tail(PAIR) + 3 * 128


def test_all_reduce_with_workgroups():
    """Two slots: one adds the first two slices and computes the last, which it has at 4,200 cycles. The other waits for
    it, and adds it."""
    case = replace(PAIR, operation="gemv", reduce_cycles=100, workgroups=2)
    assert cycles(case) == 4000 + 3 * 100 + tail(PAIR)


def test_defaults_are_those_of_tiny():
    case = FusedCase(order="remote-last")
    assert predicted_cycles(case) == predicted_cycles(case, TINY) == predicted_cycles(case, trigger_costs(TINY))
    assert predicted_cycles(case) > predicted_cycles(case, FREE)


@pytest.mark.parametrize("values, sentence", [
    ({"operation": "moe"}, r"the operation of a case must be one of embedding, gemm, gemv, not 'moe'\."),
    ({"order": "by-rank"}, r"the order of a case must be remote-first or remote-last, not 'by-rank'\."),
    ({"ranks": 1}, r"ranks of a case must be an integer from 2, not 1\."),
    ({"slice_bytes": 0}, r"slice_bytes of a case must be an integer from 1, not 0\."),
    ({"workgroups": 2.0}, r"workgroups of a case must be an integer from 1, not 2\.0\."),
    ({"link_bytes_per_cycle": 0}, r"link_bytes_per_cycle of a case must be more than 0, not 0\."),
    ({"compute_cycles": (1, 2)}, r"compute_cycles of a case must be an integer from 0, or one for each of 16 tasks, "
     r"not \(1, 2\)\."),
    ({"compute_cycles": -1}, r"compute_cycles of a case must be an integer from 0, or one for each of 16 tasks, "
     r"not -1\."),
])
def test_wrong_cases(values, sentence):
    with pytest.raises(UserError) as caught:
        FusedCase(**values)
    assert re.fullmatch(sentence, str(caught.value))
