# SPDX-License-Identifier: Apache-2.0
"""Sizes of the trigger counters, validated once."""

from dataclasses import dataclass

from hw.common.sizes import is_integer, is_power_of_two

__all__ = ["BLOCK_LSB", "BLOCK_WIDTH", "COUNTERS_PER_BLOCK", "COUNTER_SPACE", "GENERATION_WIDTH", "INDEX_WIDTH",
           "MOST_DUE", "PAGE_WIDTH", "SLOT_BYTES", "THRESHOLD_WIDTH", "VALUE_WIDTH", "TriggerConfig", "counter_address"]

INDEX_WIDTH = 6
"""Bits of a counter's number in its block."""

COUNTERS_PER_BLOCK = 1 << INDEX_WIDTH

SLOT_BYTES = 64
"""Bytes of the preparation page that belong to one counter."""

THRESHOLD_WIDTH, GENERATION_WIDTH, VALUE_WIDTH, PAGE_WIDTH = 32, 16, 20, 8

MOST_DUE = 3
"""Firings of a counter that may be pending."""

COUNTER_SPACE, BLOCK_LSB, BLOCK_WIDTH = 0xF, 52, 8
"""Bits 63:60 of a counter address, and the lowest bit and the bits of the block in it."""


@dataclass(frozen=True, kw_only=True)
class TriggerConfig:
    """Sizes of the trigger counters of one endpoint.

    Parameters
    ----------
    blocks : int
        Blocks of 64 counters; power of two, 2 to 8. As many as there are tenants that use triggers.
    dma_pages, ace_pages : int
        Doorbell pages of the DMA engine and of the accelerator, to which counters post; each at least 1, together at
        most 128.
    doorbell_id_width : int
        Bits of transaction IDs of stores to the pages.
    pipelined : bool
        Counters in block RAM, and more registers, for slow FPGAs. Two cycles more from an operation to its verdict,
        three from the request of a firing to its word.
    """

    blocks: int
    dma_pages: int
    ace_pages: int
    doorbell_id_width: int = 4
    pipelined: bool = False

    def __post_init__(self) -> None:
        if not is_power_of_two(self.blocks, 2, 8):
            raise ValueError(f"Trigger blocks must be a power of two from 2 to 8, not {self.blocks!r}")
        for name in ("dma_pages", "ace_pages"):
            if not is_integer(getattr(self, name), 1, 127):
                raise ValueError(f"{name} must be an integer from 1 to 127, not {getattr(self, name)!r}")
        if self.pages > 128:
            raise ValueError(f"Counters can post to at most 128 pages, not {self.pages}")
        if not is_integer(self.doorbell_id_width, 1, 16):
            raise ValueError(f"Doorbell ID width must be 1 to 16 bits, not {self.doorbell_id_width!r}")
        if not isinstance(self.pipelined, bool):
            raise ValueError(f"pipelined must be True or False, not {self.pipelined!r}")

    @property
    def pages(self) -> int:
        """Doorbell pages of both engines."""
        return self.dma_pages + self.ace_pages

    @property
    def counters(self) -> int:
        return self.blocks * COUNTERS_PER_BLOCK

    @property
    def read_latency(self) -> int:
        """Cycles from an operation, or from the request of a firing, to its row."""
        return 2 if self.pipelined else 0

    @property
    def block_bits(self) -> int:
        return (self.blocks - 1).bit_length()

    @property
    def counter_bits(self) -> int:
        """Bits of a counter's number: the block, and below it the number in the block."""
        return self.block_bits + INDEX_WIDTH

    @property
    def doorbell_addr_width(self) -> int:
        """Bits of addresses in the tick and preparation pages."""
        return 12 + self.block_bits + 1

    def tick_page(self, block: int) -> int:
        """Number of a block's tick page in the doorbell space."""
        return self.pages + block

    def preparation_page(self, block: int) -> int:
        """Number of a block's preparation page in the doorbell space."""
        return self.pages + self.blocks + block


def counter_address(block: int) -> int:
    """Address that stands for the counters of a block in tables of regions and of exported spans."""
    if not is_integer(block, 0, 7):
        raise ValueError(f"A block must be an integer from 0 to 7, not {block!r}")
    return COUNTER_SPACE << 60 | block << BLOCK_LSB
