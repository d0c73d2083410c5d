# SPDX-License-Identifier: Apache-2.0
"""Where a descriptor ring may lie."""

import pytest

from hw.dma_engine.descriptors import RingLocation


def test_ring_lies_at_a_multiple_of_its_length():
    assert RingLocation(base=0x10000, size=10, records=0x2000).entries == 1024
    # Small ones fill no page, and lie at one all the same.
    assert RingLocation(base=0x3000, size=3, records=0x1000).entries == 8


@pytest.mark.parametrize(("location", "sentence"), [
    ({"base": 0x1000, "size": 7}, "A descriptor ring of 128 entries must be at a multiple of 8192, not 0x1000"),
    ({"base": 0x840, "size": 3}, "A descriptor ring of 8 entries must be at a multiple of 4096, not 0x840"),
    ({"base": 0x10000, "size": 10, "records": 0x1000},
     "Completion records of 1024 entries must be at a multiple of 8192, not 0x1000"),
])
def test_others_are_refused(location, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        RingLocation(**location)
