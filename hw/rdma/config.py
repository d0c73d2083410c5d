# SPDX-License-Identifier: Apache-2.0
"""Sizes of the RoCEv2 unit, validated once, and the three named presets."""

from dataclasses import dataclass

from hw.common.sizes import PAGE_BYTES, is_integer, is_power_of_two

__all__ = ["ADDR_WIDTH", "BASE", "LENGTH_WIDTH", "MIN_MTU", "PRESETS", "REMOTE_LSB", "REMOTE_OFFSET_WIDTH",
           "REMOTE_PORT", "REMOTE_WIDTH", "TINY", "WIDE", "RdmaConfig", "remote_memory"]

ADDR_WIDTH = 64

LENGTH_WIDTH = 48
"""Bits of a length of registered memory."""

REMOTE_PORT = 6
"""Bits 62:60 of an address with bit 63 set that names memory of a remote machine."""

REMOTE_LSB, REMOTE_WIDTH = 48, 12
"""Lowest bit and bits of the number of a remote memory in such an address; the offset is below."""

REMOTE_OFFSET_WIDTH = REMOTE_LSB

MIN_MTU = 256
"""Smallest path MTU (IBTA 1.6, 9.3.3.1.5)."""


@dataclass(frozen=True, kw_only=True)
class RdmaConfig:
    """Sizes of one RoCEv2 unit with one Ethernet port.

    Parameters
    ----------
    data_width : int
        Bits of a beat on the Ethernet port and of the memory streams; 64, 128, 256, 512 or 1024.
    id_width : int
        Bits of the transaction IDs of the DMA engine's bursts, 1 to 16.
    queue_pairs : int
        Queue pairs; power of two, 2 to 1024.
    window : int
        Packets of one queue pair between transmission and acknowledgement; power of two, 8 to 256. At least the
        round trip divided by the time of a packet.
    packets : int
        Packets of all queue pairs between acceptance from the DMA engine and acknowledgement; power of two, 16 to
        4096.
    buffer_beats : int
        Beats of payload kept until their acknowledgement; power of two, 64 to 65536, at least two packets of
        ``max_mtu``. At least the round trip times the beats per cycle of the line.
    block_beats : int
        Beats in an allocation unit of that buffer; power of two, 1 to 64. The payload of a packet occupies whole
        units.
    remotes : int
        Remote memories: entries of the table of remote keys; power of two, 2 to 4096.
    regions : int
        Local memory regions with an R_Key; power of two, 2 to 4096.
    max_mtu : int
        Longest payload of a packet in bytes; 256, 512, 1024, 2048 or 4096.
    reads : int
        READ requests of one queue pair that the responder holds; power of two, 1 to 16. The peer must not have more
        in flight.
    receive_beats : int
        Beats of received payload that wait for memory; power of two, at least three packets of ``max_mtu``.
    response_beats : int
        Beats of READ responses that wait for the line; power of two, at least two packets of ``max_mtu``.
    writes : int
        Received WRITE packets in flight to memory; power of two, 4 to 512.
    selective : bool
        Include selective repeat; without it, lost packets are repeated by go-back-N alone.
    timer_cycles : int
        Clock cycles in 4.096 us, the unit of the acknowledgement timeout (IBTA 1.6, 9.7.6.1.3); power of two, 16 to
        4096. 1024 at 250 MHz.
    """

    data_width: int
    id_width: int = 8
    queue_pairs: int = 256
    window: int = 128
    packets: int = 1024
    buffer_beats: int = 8192
    block_beats: int = 8
    remotes: int = 1024
    regions: int = 1024
    max_mtu: int = 4096
    reads: int = 16
    receive_beats: int = 2048
    response_beats: int = 2048
    writes: int = 128
    selective: bool = True
    timer_cycles: int = 1024

    def __post_init__(self) -> None:
        if not is_power_of_two(self.data_width, 64, 1024):
            raise ValueError(f"data_width must be 64, 128, 256, 512 or 1024, not {self.data_width!r}")
        if not is_integer(self.id_width, 1, 16):
            raise ValueError(f"id_width must be an integer from 1 to 16, not {self.id_width!r}")
        if type(self.selective) is not bool:
            raise ValueError(f"selective must be True or False, not {self.selective!r}")
        if not is_power_of_two(self.max_mtu, 256, 4096):
            raise ValueError(f"max_mtu must be 256, 512, 1024, 2048 or 4096, not {self.max_mtu!r}")
        mtu_beats = self.mtu_beats
        for name, low, high in (
                ("queue_pairs", 2, 1024), ("window", 8, 256), ("packets", 16, 4096),
                ("block_beats", 1, 64), ("buffer_beats", max(64, 2 * mtu_beats), 65536),
                ("remotes", 2, 1 << REMOTE_WIDTH), ("regions", 2, 4096), ("reads", 1, 16),
                ("receive_beats", 3 * mtu_beats, 65536), ("response_beats", 2 * mtu_beats, 65536),
                ("writes", 4, 512), ("timer_cycles", 16, 4096)):
            value = getattr(self, name)
            if not is_power_of_two(value, low, high):
                raise ValueError(f"{name} must be a power of two from {low} to {high}, not {value!r}")
        # A burst is stored whole before it is posted.
        blocks = PAGE_BYTES // MIN_MTU * -(-MIN_MTU // (self.beat_bytes * self.block_beats))
        if self.blocks < blocks:
            raise ValueError(f"buffer_beats must be at least {blocks} units of {self.block_beats} beats, so that a "
                             f"burst fits, not {self.buffer_beats!r}")

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def lane_bits(self) -> int:
        """Bits of a byte position inside a beat."""
        return (self.beat_bytes - 1).bit_length()

    @property
    def mtu_beats(self) -> int:
        """Beats of the longest payload that starts at lane 0."""
        return self.max_mtu // self.beat_bytes

    @property
    def packet_blocks(self) -> int:
        """Allocation units of the longest packet."""
        return -(-self.mtu_beats // self.block_beats)

    @property
    def mtu_bits(self) -> int:
        return self.max_mtu.bit_length() - 1

    @property
    def qp_bits(self) -> int:
        return (self.queue_pairs - 1).bit_length()

    @property
    def packet_bits(self) -> int:
        return (self.packets - 1).bit_length()

    @property
    def blocks(self) -> int:
        """Allocation units of the buffer of payload."""
        return self.buffer_beats // self.block_beats

    @property
    def remote_bits(self) -> int:
        return (self.remotes - 1).bit_length()

    @property
    def region_bits(self) -> int:
        return (self.regions - 1).bit_length()

    @property
    def sweep_rows(self) -> int:
        """Rows of the longest table that is initialised after reset."""
        return max(self.queue_pairs, self.remotes, self.regions, self.packets)


def remote_memory(number: int, offset: int = 0) -> int:
    """Address of a byte of remote memory ``number``, in the form of the DMA engine's region and queue tables."""
    if not is_integer(number, 0, (1 << REMOTE_WIDTH) - 1):
        raise ValueError(f"A remote memory must be an integer from 0 to {(1 << REMOTE_WIDTH) - 1}, not {number!r}")
    if not is_integer(offset, 0, (1 << REMOTE_OFFSET_WIDTH) - 1):
        raise ValueError(f"An offset in a remote memory must be less than 2 ** {REMOTE_OFFSET_WIDTH}, not {offset!r}")
    return 1 << 63 | REMOTE_PORT << 60 | number << REMOTE_LSB | offset


TINY = RdmaConfig(data_width=64, queue_pairs=8, window=16, packets=32, buffer_beats=512, block_beats=8, remotes=16,
                  regions=16, max_mtu=1024, reads=4, receive_beats=512, response_beats=256, writes=16)
BASE = RdmaConfig(data_width=256, queue_pairs=64, window=64, packets=256, buffer_beats=2048, remotes=256, regions=256,
                  receive_beats=512, response_beats=512, writes=64)
WIDE = RdmaConfig(data_width=512, id_width=10, window=256)

PRESETS = {"tiny": TINY, "base": BASE, "wide": WIDE}
