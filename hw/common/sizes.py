# SPDX-License-Identifier: Apache-2.0
"""Widths that both engines, their models and their drivers share, and checks of a configuration's values."""

from typing import Protocol, TypeGuard

__all__ = [
    "ADDR_WIDTH", "COUNT_WIDTH", "DOMAIN_WIDTH", "FAILED_WIDTH", "FRAME_WIDTH", "LARGE_PAGE_BITS", "OFFSET_WIDTH",
    "PAGE_BYTES", "PAGE_ID_WIDTH", "REGION_BEYOND", "REGION_ID_WIDTH", "SMALL_PAGE_BITS", "WEIGHT_WIDTH",
    "EngineSizes", "is_integer", "is_power_of_two",
]

PAGE_BYTES = 4096
"""AXI4 bursts never cross this boundary (IHI 0022, A3.4.1), and a doorbell page is this long."""

ADDR_WIDTH = 64
OFFSET_WIDTH = 36
REGION_ID_WIDTH = 8
REGION_BEYOND = "the region is valid and ends beyond the last address"
"""Why software's commit of a region is refused."""
PAGE_ID_WIDTH = 10
SMALL_PAGE_BITS, LARGE_PAGE_BITS = 16, 21
"""Paged regions have pages of 64 KiB or of 2 MiB."""
FRAME_WIDTH = ADDR_WIDTH - SMALL_PAGE_BITS
DOMAIN_WIDTH = 8
COUNT_WIDTH = 32
FAILED_WIDTH = 24
WEIGHT_WIDTH = 4
"""Bits of a weight of a deficit round robin; weight 0 counts as 1."""


class EngineSizes(Protocol):
    """The part of an engine's configuration that the blocks shared by both engines use."""

    @property
    def doorbell_addr_width(self) -> int: ...

    @property
    def doorbell_id_width(self) -> int: ...

    @property
    def extended(self) -> int: ...

    @property
    def extended_bits(self) -> int: ...

    @property
    def queue_bits(self) -> int: ...

    @property
    def queues(self) -> int: ...

    @property
    def region_bits(self) -> int: ...

    @property
    def regions(self) -> int: ...

    @property
    def sweep_rows(self) -> int: ...


def is_integer(value: object, low: int, high: int) -> TypeGuard[int]:
    """Whether ``value`` is an integer of that range; True and 1.0 are not integers here."""
    return type(value) is int and low <= value <= high


def is_power_of_two(value: object, low: int, high: int) -> TypeGuard[int]:
    return is_integer(value, low, high) and value & (value - 1) == 0
