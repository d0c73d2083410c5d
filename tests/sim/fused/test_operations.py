# SPDX-License-Identifier: Apache-2.0
"""Tasks compute what whole arrays do; orders and counters."""

from dataclasses import replace

import numpy as np
import pytest

from hw.endpoint.config import TINY
from hw.errors import UserError
from sim.ace.endpoints import Link, Memory
from sim.fused.bench import describe
from sim.fused.counters import Counter, Counters
from sim.fused.operations import ELEMENTS, OPERATIONS, Sizes, make
from sim.fused.setup import Method, Order, Setup, Thread, sequence
from sim.system.fused_calibration import FusedCase


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_tasks_together_are_the_reference(name, element, seed):
    sizes = Sizes(ranks=3, slices=4, tasks=2, slice_bytes=176, depth=5, element=element)
    operation = make(name, sizes, seed=seed)
    computed = operation.parts.reshape(3, operation.targets, 4, 176)
    assert len(np.unique(computed)) > 100
    if name == "gemv":
        assert np.array_equal(computed, operation.reference)
    else:
        assert np.array_equal(computed.swapaxes(0, 1), operation.reference)


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"element": "fp64"}, "Elements must be int32 or fp32, not 'fp64'."),
    ({"ranks": 1}, "The number of ranks must be from 2 to 4, not 1."),
    ({"ranks": 5}, "The number of ranks must be from 2 to 4, not 5."),
    ({"slices": 65}, "The number of slices must be from 1 to 64, not 65."),
    ({"tasks": 257}, "The number of tasks must be from 1 to 256, not 257."),
    ({"depth": 0}, "The depth must be from 1 to 256, not 0."),
    ({"slice_bytes": 60}, "A slice must be a multiple of 8 bytes for each of its 2 tasks and at most 1 MiB, not 60 "
     "bytes."),
])
def test_sizes_out_of_range(wrong, sentence):
    with pytest.raises(UserError) as error:
        Sizes(**{"ranks": 2, "slices": 4, "tasks": 2, "slice_bytes": 64} | wrong)
    assert str(error.value) == sentence


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"workgroups": 0}, "workgroups must be from 1 to 1,024, not 0."),
    ({"compute": -1}, "compute must be from 0 to 4,294,967,296, not -1."),
    ({"wait_period": 0}, "wait_period must be from 1 to 1,048,576, not 0."),
    ({"receipts": "mail"}, "receipts must be counter or signal, not 'mail'."),
    ({"thread": Thread(period=0)}, "A thread's period and gap must be at least 1 cycle and its latency at least 0, not "
     "0, 4 and 100."),
])
def test_setup_out_of_range(wrong, sentence):
    with pytest.raises(UserError) as error:
        Setup(**wrong)
    assert str(error.value) == sentence


def test_orders():
    every = {(distance, number) for distance in range(4) for number in range(2)}
    for order in Order:
        for rank in range(4):
            assert set(sequence(order, rank, 4, 2)) == every
    assert sequence(Order.REMOTE_FIRST, 1, 3, 2) == [(1, 0), (2, 0), (1, 1), (2, 1), (0, 0), (0, 1)]
    assert sequence(Order.REMOTE_LAST, 1, 3, 2) == [(0, 0), (0, 1), (1, 0), (2, 0), (1, 1), (2, 1)]
    # Targets 0, 1 and 2.
    assert sequence(Order.BY_RANK, 1, 3, 1) == [(2, 0), (0, 0), (1, 0)]


def test_counters():
    counters = Counters(TINY)
    assert counters.consecutive(60, "Slices") == [Counter(0, number) for number in range(60)]
    assert counters.consecutive(5, "Slices") == [Counter(1, number) for number in range(5)]
    assert counters.any(6, "Slices") == [*(Counter(0, number) for number in range(60, 64)), Counter(1, 5),
                                         Counter(1, 6)]
    with pytest.raises(UserError, match=r"^Slices need 58 counters of one block, and no block of the endpoint's 2 has "
                       r"as many left\.$"):
        counters.consecutive(58, "Slices")
    with pytest.raises(UserError, match=r"^Slices need 58 counters, and the endpoint's 2 blocks have 57 left\.$"):
        counters.any(58, "Slices")


def test_description_for_the_system_simulator():
    operation = make("gemm", Sizes(ranks=4, slices=8, tasks=4, slice_bytes=1024))
    setup = Setup(link=Link(latency=10), memory=Memory(read_latency=20, write_latency=20), compute=60)
    described = describe("gemm", operation, setup, Method.UNFUSED, Order.REMOTE_LAST)
    assert described == {
        "operation": "gemm", "ranks": 4, "slices": 8, "slice_bytes": 1024, "workgroups": 8, "tasks": 4,
        "compute_cycles": 60, "order": "remote-last", "fused": False, "relay": True, "link_bytes_per_cycle": 8,
        "link_latency": 10, "memory_latency": 20, "write_cycles": 20, "flag_cycles": 25, "packet_bytes": 256,
        "header_bytes": 0, "beat_bytes": 8}
    assert FusedCase(**described).total_tasks == 4 * 8 * 4
    paced = replace(setup, link=Link(latency=10, bytes_per_cycle=4.0), receipts="signal")
    changed = {"link_bytes_per_cycle": 4.0, "header_bytes": 16, "flag_cycles": 5}
    assert describe("gemm", operation, paced, Method.UNFUSED, Order.REMOTE_LAST) == described | changed
