# SPDX-License-Identifier: Apache-2.0
"""Resets of the card as a host causes them: function-level reset, hot reset, link down, and bus-master disable.

The library's model has no function-level reset and no link states. :class:`sim.pcie.hard_block.HardBlock` adds them;
here are the sequences of the host's software around them. After all resets the configuration must be restored, since
BARs and enables are lost.

The data link layer stays up in the library's ports: while the link is down, the hard block drops TLPs and responds to
non-posted requests with UR in place of the switch port, and credits continue to return. One TLP that waits for credits
in the port as the link fails may still leave.
"""

from dataclasses import dataclass

from cocotb.triggers import RisingEdge, Timer, with_timeout

from sim.pcie.system import PcieSystem

__all__ = ["Configuration", "function_level_reset", "hot_reset", "link_down", "save", "set_bus_master"]

_COMMAND, _BARS, _BRIDGE_CONTROL = 0x04, range(0x10, 0x28, 4), 0x3E
_BUS_MASTER, _INITIATE_RESET, _SECONDARY_RESET = 1 << 2, 1 << 15, 1 << 6


def _controls(system: PcieSystem) -> tuple[int, int]:
    """Addresses of device control, and of message control of MSI-X."""
    function = system.card.function
    return 4 * function.pcie_cap.offset + 8, 4 * function.msix_cap.offset + 2


async def _read_word(system: PcieSystem, address: int) -> int:
    return int(await system.root.config_read_word(system.identity, address))


async def _write_word(system: PcieSystem, address: int, value: int) -> None:
    await system.root.config_write_word(system.identity, address, value)


@dataclass(frozen=True)
class Configuration:
    """The card's configuration registers that a reset clears."""

    command: int
    bars: tuple[int, ...]
    device_control: int
    message_control: int

    async def restore(self, system: PcieSystem) -> None:
        """Write it back by configuration requests, the enables last."""
        for address, value in zip(_BARS, self.bars, strict=True):
            await system.root.config_write_dword(system.identity, address, value)
        device, message = _controls(system)
        await _write_word(system, device, self.device_control)
        await _write_word(system, message, self.message_control)
        await _write_word(system, _COMMAND, self.command)
        await RisingEdge(system.dut.clk)
        await RisingEdge(system.dut.clk)


async def save(system: PcieSystem) -> Configuration:
    """Read the configuration by configuration requests."""
    device, message = _controls(system)
    bars = [await system.root.config_read_dword(system.identity, address) for address in _BARS]
    return Configuration(await _read_word(system, _COMMAND), tuple(bars), await _read_word(system, device),
                         await _read_word(system, message))


async def set_bus_master(system: PcieSystem, enable: bool) -> None:
    """Set bus-master enable; returns when the pins show it."""
    command = await _read_word(system, _COMMAND)
    await _write_word(system, _COMMAND, command | _BUS_MASTER if enable else command & ~_BUS_MASTER)
    await RisingEdge(system.dut.clk)
    await RisingEdge(system.dut.clk)


async def function_level_reset(system: PcieSystem, *, restore: bool = True, timeout_us: int = 100) -> None:
    """Software initiates a function-level reset, and waits until the card has finished it (6.6.2).

    Parameters
    ----------
    restore : bool
        Restore the configuration afterwards.
    timeout_us : int
        Limit of the card's time; the specification allows 100 ms.

    Raises
    ------
    SimTimeoutError
        If the card does not assert ``cfg_flr_done`` in time.
    """
    saved = await save(system)
    system.card.flr_done.clear()
    await _write_word(system, _controls(system)[0], saved.device_control | _INITIATE_RESET)
    await with_timeout(system.card.flr_done.wait(), timeout_us, "us")
    if restore:
        await saved.restore(system)


async def link_down(system: PcieSystem, *, duration_ns: int = 1000) -> None:
    """The link fails without warning, and is up again after ``duration_ns``; the configuration is lost."""
    if duration_ns < 200:
        raise ValueError(f"A link must be down for at least 200 ns, not {duration_ns!r}")
    card = system.card
    card.link_up = False
    card.refresh()
    await RisingEdge(system.dut.clk)
    card.user_reset.value = 1
    card.reset_configuration()
    await card.flush()
    await Timer(duration_ns, "ns")
    # A TLP that waited for credits in the meantime has left its queue.
    await card.flush(4)
    card.bus_num = 0
    card.link_up = True
    card.user_reset.value = 0
    card.refresh()
    for _ in range(4):
        await RisingEdge(system.dut.clk)


async def hot_reset(system: PcieSystem, *, restore: bool = True, duration_ns: int = 1000) -> None:
    """Software resets the secondary bus of the switch port in front of the card."""
    saved = await save(system)
    root, port = system.root, system.card_port.pcie_id
    control = await root.config_read_word(port, _BRIDGE_CONTROL)
    await root.config_write_word(port, _BRIDGE_CONTROL, control | _SECONDARY_RESET)
    await link_down(system, duration_ns=duration_ns)
    await root.config_write_word(port, _BRIDGE_CONTROL, control)
    if restore:
        await saved.restore(system)
