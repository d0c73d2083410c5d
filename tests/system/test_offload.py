# SPDX-License-Identifier: Apache-2.0
"""Memory bandwidth that the accelerator saves, and the conditions for it."""

from dataclasses import replace

import pytest

from sim.system import ENDPOINTS
from sim.validation.offload import NPU, memory_needed, share_of_ideal

SHAPE = (4, 4, 4)


def test_accelerator_is_near_ideal_where_a_conventional_endpoint_is_not():
    assert share_of_ideal(SHAPE, ENDPOINTS["ace"], size=64 << 20) >= 0.97
    assert 1 / 5 <= share_of_ideal(SHAPE, ENDPOINTS["compopt"], size=8 << 20) <= 1 / 3


def test_memory_bandwidth_is_proportional_to_bytes():
    """A conventional endpoint reads 21/8 bytes for each that the accelerator reads, on 4x2."""
    needs = [memory_needed((4, 2), kind, share=0.5, size=4 << 20) for kind in (
        replace(ENDPOINTS["ace"], receive_bytes=None), replace(ENDPOINTS["compopt"], sms=NPU.sms - 1))]
    assert needs[1] / needs[0] == pytest.approx(21 / 8, rel=0.1)


def test_no_memory_is_enough_for_too_few_fsms():
    assert memory_needed(SHAPE, replace(ENDPOINTS["ace"], fsms=1), size=1 << 20) is None
