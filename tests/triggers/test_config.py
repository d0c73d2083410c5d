# SPDX-License-Identifier: Apache-2.0
"""Sizes of trigger counters that are refused, each with a sentence that names the value and the rule."""

import re

import pytest

from hw.triggers.config import TriggerConfig


@pytest.mark.parametrize(("sizes", "sentence"), [
    ({"blocks": 3}, "Trigger blocks must be a power of two from 2 to 8, not 3"),
    ({"dma_pages": 0}, "dma_pages must be an integer from 1 to 127, not 0"),
    ({"dma_pages": 100, "ace_pages": 29}, "Counters can post to at most 128 pages, not 129"),
    ({"doorbell_id_width": 17}, "Doorbell ID width must be 1 to 16 bits, not 17"),
    ({"pipelined": 1}, "pipelined must be True or False, not 1"),
])
def test_wrong_values(sizes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        TriggerConfig(**{"blocks": 2, "dma_pages": 1, "ace_pages": 1} | sizes)
