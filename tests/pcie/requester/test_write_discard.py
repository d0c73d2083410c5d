# SPDX-License-Identifier: Apache-2.0
"""Discards of the write path, in the middle of random traffic."""

import pytest

from tests.pcie.requester.write_traffic import run_traffic

pytestmark = pytest.mark.long


@pytest.mark.parametrize("width, most", [(512, 4), (128, 10), pytest.param(512, None, marks=pytest.mark.long)])
def test_discards(width, most, seed):
    """A discard at any time leaves nothing, and the next traffic finds no trace of it."""
    seen = run_traffic(width, seed, prefetch=2, most=most, cycles=1200, discards=30)
    for case in ("discarded", "discarded_tlps", "discarded_flushes", "responses"):
        assert seen[case], case
