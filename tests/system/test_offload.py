# SPDX-License-Identifier: Apache-2.0
"""Memory bandwidth that the accelerator saves, and the conditions for it."""

from dataclasses import replace

import pytest

from sim.system import ENDPOINTS
from sim.system.memory import POOLS
from sim.validation.offload import NPU, memory_needed, share_of_ideal

SHAPE = (4, 4, 4)


def test_accelerator_is_near_ideal_where_a_conventional_endpoint_is_not():
    assert share_of_ideal(SHAPE, ENDPOINTS["ace"], size=64 << 20, memory_pool="separate") >= 0.97
    assert 1 / 5 <= share_of_ideal(SHAPE, ENDPOINTS["compopt"], size=8 << 20, memory_pool="separate") <= 1 / 3


def test_reads_and_writes_of_one_pool_take_twice_as_long():
    """At 128 GB/s for both, the accelerator fills and drains 64 GB/s; links of 4x4x4 could carry 125 GB/s of a buffer.
    A conventional endpoint moves 2.5 bytes for each that it sends, instead of at most 1.5 in one direction."""
    shares = [share_of_ideal(SHAPE, ENDPOINTS["ace"], size=64 << 20, memory_pool=pool) for pool in POOLS]
    assert shares[0] == pytest.approx(64 / 125, rel=0.1) and shares[1] > 0.9
    shares = [share_of_ideal(SHAPE, ENDPOINTS["compopt"], size=8 << 20, memory_pool=pool) for pool in POOLS]
    assert shares[0] / shares[1] == pytest.approx(1.5 / 2.5, rel=0.05)


@pytest.mark.parametrize("pool, ratio", [("shared", 35 / 16), ("separate", 21 / 8)])
def test_memory_bandwidth_is_proportional_to_bytes(pool, ratio):
    """On 4x2, an all-reduce sends 7/4 of its buffer. A conventional endpoint reads 21/8, and writes 7/4; the
    accelerator reads the buffer, and writes it."""
    needs = [memory_needed((4, 2), kind, share=0.5, size=4 << 20, memory_pool=pool) for kind in (
        replace(ENDPOINTS["ace"], receive_bytes=None), replace(ENDPOINTS["compopt"], sms=NPU.sms - 1))]
    assert needs[1] / needs[0] == pytest.approx(ratio, rel=0.1)


def test_no_memory_is_enough_for_too_few_fsms():
    assert memory_needed(SHAPE, replace(ENDPOINTS["ace"], fsms=1), size=1 << 20) is None
