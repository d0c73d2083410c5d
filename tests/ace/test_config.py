# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from hw.ace.config import AceConfig
from hw.dma_engine.timing import DmaTimingOptions


@pytest.mark.parametrize("change, message", [
    ({"prod": 1}, "prod must be True or False, not 1"),
    ({"avg": "no"}, "avg must be True or False, not 'no'"),
    ({"data_width": 2048}, "data_width must be a power of two from 64 to 1024, not 2048"),
    ({"data_width": 1024, "packet_bytes": 64}, "packet_bytes must be a power of two from 128 to 1024, not 64"),
    ({"dimensions": 4}, "dimensions must be from 1 to 3, not 4"),
    ({"address_width": 31}, "address_width must be from 32 to 64, not 31"),
    ({"lanes": 32}, "lanes must be a power of two from 1 to 16, not 32"),
    ({"fsms": 3}, "fsms must be a power of two from 2 to 32, not 3"),
    ({"timing": True}, "timing must be AceTimingOptions, not True"),
    ({"timing": DmaTimingOptions()}, f"timing must be AceTimingOptions, not {DmaTimingOptions()!r}"),
])
def test_wrong_sizes(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AceConfig(**change)
