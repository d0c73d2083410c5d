# SPDX-License-Identifier: Apache-2.0
"""Attributes of a TLP from those of its AXI burst, for reads and writes.

=====================  =====================================================================
attribute              of a burst
=====================  =====================================================================
no snoop               AxCACHE is 0b0010 or 0b0011, normal non-cacheable
relaxed ordering       bit 0 of AxQOS
ID-based ordering      bit 1 of AxQOS
=====================  =====================================================================
"""

from amaranth import *
from amaranth.lib import data

from .config import ATTRIBUTE_WIDTH

__all__ = ["tlp_attributes"]

_NON_CACHEABLE = 0b001
"""AxCACHE without its bit 0, bufferable."""


def tlp_attributes(burst: data.View) -> Value:
    """``ATTRIBUTE_WIDTH`` bits for a payload with ``cache`` and ``qos``; one level of logic."""
    attributes = Cat(burst.cache[1:] == _NON_CACHEABLE, burst.qos[:2])
    assert len(attributes) == ATTRIBUTE_WIDTH
    return attributes
