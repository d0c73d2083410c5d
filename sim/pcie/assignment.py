# SPDX-License-Identifier: Apache-2.0
"""Bus numbers, addresses and settings by the backdoor, as the library's enumeration makes them.

Enumeration takes 12 us of simulated time, for some 500 configuration requests. A test that does not need the driver's
view of the card can do without.
"""

from collections.abc import Sequence
from typing import Any

from cocotbext.pcie.core.utils import PcieId

__all__ = ["assign"]

_WINDOW_BYTES = 1 << 20


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _open(bridge: Any, prefetchable: tuple[int, int], plain: tuple[int, int]) -> None:
    """Set the windows of a bridge, each from a first to a last address; one that ends before it begins is closed."""
    bridge.prefetchable_mem_base, bridge.prefetchable_mem_limit = prefetchable
    bridge.mem_base, bridge.mem_limit = plain


def _number(bridge: Any, identity: PcieId, secondary: int, subordinate: int) -> None:
    bridge.pcie_id = identity
    bridge.pri_bus_num, bridge.sec_bus_num, bridge.sub_bus_num = identity.bus, secondary, subordinate


def _place(function: Any, base: tuple[int, int]) -> tuple[int, int]:
    """Give the BARs of a function addresses from ``base`` on (32-bit, prefetchable); returns what follows them."""
    plain, prefetchable = base
    for number in (0, 2, 4):
        wide = function.bar[number] & 4
        mask = function.bar_mask[number] | (function.bar_mask[number + 1] if wide else 0xFFFF_FFFF) << 32
        size = (1 << 64) - mask if function.bar_mask[number] or (wide and function.bar_mask[number + 1]) else 0
        if size and wide:
            address = _aligned(prefetchable, size)
            function.bar[number] |= address & 0xFFFF_FFFF
            function.bar[number + 1] = address >> 32
            prefetchable = address + size
        elif size:
            address = _aligned(plain, size)
            function.bar[number] |= address
            plain = address + size
    return plain, prefetchable


def assign(root: Any, switch: Any, ports: Sequence[Any], devices: Sequence[Any], *, max_read: int) -> None:
    """Set up ``root``, ``switch`` and its ``ports``, each with one device.

    Parameters
    ----------
    root : :class:`cocotbext.pcie.core.RootComplex`
        With ``max_payload_size`` set, and one port.
    switch : :class:`cocotbext.pcie.core.Switch`
        Behind that port.
    ports, devices : sequence
        Downstream ports of the switch, and the device behind each.
    max_read : int
        MRRS as in the configuration space: 128 bytes shifted left by this number.
    """
    root_port, upstream = root.endpoints[0], switch.upstream_bridge
    last_bus = 2 + len(devices)
    _number(root_port, root_port.pcie_id, 1, last_bus)
    _number(upstream, PcieId(1, 0, 0), 2, last_bus)
    plain = first_plain = root.mem_base
    prefetchable = first_prefetchable = root.prefetchable_mem_base
    for number, (port, device) in enumerate(zip(ports, devices, strict=True)):
        _number(port, PcieId(2, number + 1, 0), 3 + number, 3 + number)
        device.bus_num = 3 + number
        start = (_aligned(plain, _WINDOW_BYTES), _aligned(prefetchable, _WINDOW_BYTES))
        plain, prefetchable = (_aligned(end, _WINDOW_BYTES) for end in _place(device.functions[0], start))
        _open(port, (start[1], prefetchable - 1), (start[0], plain - 1))
    for bridge in (root.upstream_bridge, root_port, upstream):
        _open(bridge, (first_prefetchable, prefetchable - 1), (first_plain, plain - 1))
    for function in (root_port, upstream, *ports, *(device.functions[0] for device in devices)):
        function.pcie_cap.max_payload_size = root.max_payload_size
        function.pcie_cap.extended_tag_field_enable = True
        function.io_space_enable = function.memory_space_enable = function.bus_master_enable = True
    root_port.pcie_cap.crs_software_visibility_enable = True
    for device in devices:
        device.functions[0].pcie_cap.max_read_request_size = max_read
