# SPDX-License-Identifier: Apache-2.0
"""A GPU behind the switch: memory in a 64-bit prefetchable BAR, and threads that store to other functions' BARs."""

from collections.abc import Sequence
from typing import Any

from cocotbext.pcie.core import Device, Endpoint
from cocotbext.pcie.core.tlp import Tlp, TlpAttr, TlpType

from sim.pcie.completer import Completer, CompleterSettings
from sim.pcie.link import set_link

__all__ = ["Gpu"]

_READS = (TlpType.MEM_READ, TlpType.MEM_READ_64)
_WRITES = (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64)
PAGE_BYTES = 4096


class _Function(Endpoint):
    """Endpoint function whose BAR 0 is the memory of a completer."""

    def __init__(self, size: int, settings: CompleterSettings, seed: int) -> None:
        super().__init__()
        self.device_id, self.class_code = 0x0006, 0x030200
        self.configure_bar(0, size, ext=True, prefetch=True)
        self.completer = Completer(
            self.send, locate=lambda address: int(self.match_bar(address)[1]), identity=lambda: self.pcie_id,
            max_payload=lambda: 128 << self.pcie_cap.max_payload_size, size=size, settings=settings, seed=seed)
        for kind in _READS:
            self.register_rx_tlp_handler(kind, self.completer.handle_read)
        for kind in _WRITES:
            self.register_rx_tlp_handler(kind, self.completer.handle_write)


class Gpu:
    """One GPU.

    Parameters
    ----------
    size : int
        Bytes of memory, a power of two.
    settings : :class:`CompleterSettings`
        How its memory responds.
    generation, lanes : int
        Its link.
    seed : int
        Of its random choices.

    Attributes
    ----------
    device : :class:`cocotbext.pcie.core.Device`
        To connect to a switch.
    completer : :class:`Completer`
        The memory and its errors; addresses there start at 0.
    base : int
        Address of the memory, after enumeration.
    """

    def __init__(self, size: int, *, settings: CompleterSettings, generation: int, lanes: int, seed: int = 0) -> None:
        self.function = _Function(size, settings, seed)
        self.device = Device(self.function)
        set_link(self.device.upstream_port, generation, lanes)
        self.completer: Completer = self.function.completer
        self.memory: Any = self.completer.memory

    @property
    def base(self) -> int:
        return int(self.function.bar[0] & ~0xF | self.function.bar[1] << 32)

    async def store(self, address: int, data: bytes, *, first_be: int | None = None, last_be: int | None = None,
                    relaxed: bool = False, poisoned: bool = False) -> None:
        """Post one memory write of exactly ``data``, whose address may be unaligned.

        Parameters
        ----------
        address, data
            The store; within 4 KiB and the maximum payload size.
        first_be, last_be : int or None
            Byte enables in place of those that follow from address and length.
        relaxed, poisoned : bool
            With relaxed ordering; with wrong data, marked so.
        """
        if len(data) > 128 << self.function.pcie_cap.max_payload_size:
            raise ValueError(f"A store of {len(data)} bytes exceeds the maximum payload size")
        if address % PAGE_BYTES + len(data) > PAGE_BYTES:
            raise ValueError(f"A store of {len(data)} bytes to {address:#x} crosses 4 KiB")
        tlp = Tlp()
        tlp.fmt_type = TlpType.MEM_WRITE_64 if address >> 32 else TlpType.MEM_WRITE
        tlp.requester_id = self.function.pcie_id
        tlp.attr = TlpAttr.RO if relaxed else TlpAttr(0)
        tlp.ep = poisoned
        tlp.set_addr_be_data(address, data)
        tlp.first_be = tlp.first_be if first_be is None else first_be
        tlp.last_be = tlp.last_be if last_be is None else last_be
        await self.function.perform_posted_operation(tlp)

    async def ring(self, address: int, words: Sequence[bytes], *, merged: int = 1) -> None:
        """Post 16-byte doorbell words to consecutive addresses, ``merged`` of them in a TLP."""
        for first in range(0, len(words), merged):
            await self.store(address + 16 * first, b"".join(words[first:first + merged]))

    async def load(self, address: int, length: int) -> bytes:
        """Read from another function's BAR."""
        return bytes(await self.function.mem_read(address, length))
