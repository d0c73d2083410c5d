# SPDX-License-Identifier: Apache-2.0
"""Sizes of the PCIe adapter, validated once."""

from dataclasses import dataclass

from hw.common.sizes import ADDR_WIDTH, is_integer, is_power_of_two

__all__ = [
    "ADDR_WIDTH", "ATTRIBUTE_WIDTH", "DWORD_BYTES", "LENGTH_WIDTH", "MAX_PAYLOAD_BYTES", "MIN_PAYLOAD_BYTES",
    "TAG_WIDTH", "PcieConfig",
]

DWORD_BYTES = 4

TAG_WIDTH = 8
"""Bits of a tag: the hard block has up to 256."""

LENGTH_WIDTH = 11
"""Bits of a TLP's length in double words (DW), which is at most 1,024."""

ATTRIBUTE_WIDTH = 3
"""Attributes of a TLP: ID-based ordering, relaxed ordering, no snoop (bits 2, 1, 0)."""

MIN_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES = 128, 1024
"""Range of the maximum payload size (MPS) that the UltraScale+ hard block supports."""


@dataclass(frozen=True, kw_only=True)
class PcieConfig:
    """Sizes of one adapter between AXI4 and the PCIe hard block of UltraScale+ (PG213).

    Parameters
    ----------
    data_width : int
        Bits of the hard block's AXI4-Stream interfaces and of ``s_axi``: 128, 256 or 512. With 512, RQ and RC carry
        parts of two TLPs in one beat (straddling).
    axi_id_width : int
        Bits of ``s_axi`` transaction IDs, 1 to 16.
    doorbell_addr_width : int
        Bits of doorbell addresses, 13 to 32: pages of 4 KiB, all of BAR 2.
    doorbell_id_width : int
        Bits of the doorbell bus's transaction IDs, 1 to 16.
    tags : int
        Read requests in flight; power of two, 32 to 256. Full rate needs the round trip in cycles times requests per
        cycle. Without extended tags in the configuration space, the adapter uses 32 of them.
    read_bytes : int
        Longest read request; power of two, 128 to 512. The adapter also obeys the maximum read request size (MRRS).
    reorder_slots : int
        Read requests in flight that may not be delivered as they arrive, because an older request of the same AXI ID
        is in flight; power of two, 4 to 256. Each takes ``read_bytes`` of block RAM.
    order_rows : int
        Rows of the table that finds older requests of the same AXI ID; power of two, 32 to 1024. IDs that share a row
        are kept in order, too. Choose at least twice ``tags``.
    write_beats : int
        Beats of posted data waiting for RQ; power of two, at least two of the longest payloads, at most 1024.
    vectors : int
        MSI-X vectors; power of two, 2 to 64. One more than queues, or more, gives each queue a vector of its own.
    queues : int
        Queues whose completions interrupt; power of two, 2 to 64.
    two_clocks : bool
        The engine has a clock of its own, of any frequency and phase. It costs a crossing for each bus, with 4 to 5
        cycles of latency. Choose it if the engine does not reach the hard block's 250 MHz, or is to run faster.

    Raises
    ------
    ValueError
        If a size is out of its range.
    """

    data_width: int = 512
    axi_id_width: int
    doorbell_addr_width: int
    doorbell_id_width: int = 4
    tags: int = 256
    read_bytes: int = 512
    reorder_slots: int = 64
    order_rows: int = 512
    write_beats: int = 128
    vectors: int = 32
    queues: int = 64
    two_clocks: bool = False

    def __post_init__(self) -> None:
        def need(name: str, low: int, high: int) -> None:
            if not is_power_of_two(value := getattr(self, name), low, high):
                raise ValueError(f"{name} must be a power of two from {low} to {high}, not {value!r}")

        need("data_width", 128, 512)
        for name, low, high in (("axi_id_width", 1, 16), ("doorbell_addr_width", 13, 32),
                                ("doorbell_id_width", 1, 16)):
            if not is_integer(value := getattr(self, name), low, high):
                raise ValueError(f"{name} must be from {low} to {high}, not {value!r}")
        need("tags", 32, 1 << TAG_WIDTH)
        need("read_bytes", MIN_PAYLOAD_BYTES, 512)
        need("reorder_slots", 4, 256)
        need("order_rows", 32, 1024)
        need("write_beats", 2 * MAX_PAYLOAD_BYTES // self.beat_bytes, 1024)
        need("vectors", 2, 64)
        need("queues", 2, 64)
        if not isinstance(self.two_clocks, bool):
            raise ValueError(f"two_clocks must be True or False, not {self.two_clocks!r}")

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def lane_bits(self) -> int:
        """Bits of a byte position inside a beat."""
        return (self.beat_bytes - 1).bit_length()

    @property
    def beat_dwords(self) -> int:
        return self.beat_bytes // DWORD_BYTES

    @property
    def dword_lane_bits(self) -> int:
        """Bits of the position of a DW inside a beat."""
        return (self.beat_dwords - 1).bit_length()

    @property
    def straddle(self) -> bool:
        """Whether a beat of RQ or RC may carry the end of one TLP and the start of the next."""
        return self.data_width == 512

    @property
    def tag_bits(self) -> int:
        """Bits of the tags in use."""
        return (self.tags - 1).bit_length()

    @property
    def slot_bits(self) -> int:
        return (self.reorder_slots - 1).bit_length()

    @property
    def order_bits(self) -> int:
        return (self.order_rows - 1).bit_length()

    @property
    def sweep_rows(self) -> int:
        """Cycles of the sweep after reset: rows of the longest table that takes part in it."""
        return max(self.tags, self.reorder_slots)

    @property
    def queue_bits(self) -> int:
        return (self.queues - 1).bit_length()
