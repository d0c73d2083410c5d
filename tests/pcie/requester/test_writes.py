# SPDX-License-Identifier: Apache-2.0
"""The write path under random traffic: what is written is what is strobed, and each burst has its response."""

import pytest

from tests.pcie.requester.write_traffic import run_traffic


@pytest.mark.parametrize("width, prefetch, most", [
    (512, 1, None), (512, 3, 4), (128, 2, 10), pytest.param(256, 1, None, marks=pytest.mark.long)])
def test_random_bursts(width, prefetch, most, seed):
    """Flushes come after the write, and responses in the order of the bursts."""
    seen = run_traffic(width, seed, prefetch=prefetch, most=most, cycles=1200)
    if most:
        for case in ("flush=False OKAY 0", "flush=False OKAY 1", "flush=True OKAY 1", "flush=False DECERR 0",
                     "flush=False SLVERR 0", "messages_sent", "refused"):
            assert seen[case], case
