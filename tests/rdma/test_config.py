# SPDX-License-Identifier: Apache-2.0
"""RdmaConfig: sizes that depend on each other."""

import re
from dataclasses import replace

import pytest

from hw.rdma.config import TINY, WIDE


@pytest.mark.parametrize(("sizes", "message"), [
    ({"buffer_beats": 256}, "buffer_beats must be at least 64 units of 8 beats, so that a burst fits, not 256"),
    ({"block_beats": 64}, "buffer_beats must be at least 16 units of 64 beats, so that a burst fits, not 512"),
])
def test_a_burst_fits(sizes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(TINY, **sizes)


def test_derived_sizes():
    assert (TINY.blocks, TINY.packet_blocks, TINY.sweep_rows) == (64, 16, 32)
    assert (WIDE.blocks, WIDE.packet_blocks, WIDE.sweep_rows) == (1024, 8, 1024)
