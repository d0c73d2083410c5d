# SPDX-License-Identifier: Apache-2.0
"""Top of a card in Verilog: the hard block's IP, its reference clock and reset, and the card.

::

    lanes <-> pcie (IP) <- rq, cc, -> rc, cq, <-> cfg  card  tx 0 -> rx 1, tx 1 -> rx 0
    reference clock, PERST# ---^

All connections of the IP and the card are made from their lists of ports: one without a connection, or with another
width than its counterpart, is an error.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .hard_block import MODULE, TIED, UNUSED, Port, ports

__all__ = ["CARD", "top"]

Pins = Mapping[str, Any]
"""Contents of a ``pins.json``."""

CARD, PCIE = "card", "pcie"
"""Names of the cells of the card and the IP."""

PORTS = ("pcie_refclk_p", "pcie_refclk_n", "pcie_perst_n")
"""Ports of the top, but for those of the lanes."""

_PACKETS = {"rq": "s_axis_rq", "cc": "s_axis_cc", "rc": "m_axis_rc", "cq": "m_axis_cq"}
"""Packet interfaces: the card's name, and the IP's."""

_LINK = re.compile(r"([tr]x)__(\d+)__(payload|valid|ready)")

_CLOCK_AND_RESET = {"clk": "user_clk", "rst": "reset[1]"}
"""Driver of each clock and reset of the card."""

_OWN = {
    "pci_exp_txn": "pcie_txn", "pci_exp_txp": "pcie_txp", "pci_exp_rxn": "pcie_rxn", "pci_exp_rxp": "pcie_rxp",
    "user_clk": "user_clk", "user_reset": "user_reset", "sys_clk": "refclk_fabric", "sys_clk_gt": "refclk",
    "sys_reset": "pcie_perst_n",
}
"""Ports of the IP that the top itself connects. ``sys_reset`` is active-low."""


def top(pins: Pins, *, lanes: int) -> str:
    """Verilog of the module ``top`` around the card of a ``pins.json``."""
    listed = pins["pins"]
    widths = {pin["name"]: pin["width"] for pin in listed}
    block = {port.name: port for port in ports(widths["rq__tdata"], lanes)}
    joined = {_counterpart(name): name for name in widths if _counterpart(name)}
    for theirs, ours in joined.items():
        _check(block[theirs], next(pin for pin in listed if pin["name"] == ours))
    header = [f"    {direction} wire {_range(lanes)}{name}" for name, direction in (
        ("pcie_rxp", "input"), ("pcie_rxn", "input"), ("pcie_txp", "output"), ("pcie_txn", "output"))]
    header += [f"    input wire {name}" for name in PORTS]
    wires = [f"    wire {_range(width)}{name};" for name, width in widths.items() if name not in _CLOCK_AND_RESET]
    wires += [f"    wire {_range(block[theirs].width)}{theirs};\n    assign {ours} = {theirs}[0];"
              for theirs, ours in joined.items() if block[theirs].width != widths[ours]]
    return "\n".join([
        "// Written by dmace fpga package; do not edit.",
        "`default_nettype none",
        "module top (", ",\n".join(header), ");",
        *wires,
        "",
        "    // Reference clock of the slot.",
        "    wire refclk, refclk_fabric;",
        "    IBUFDS_GTE4 #(.REFCLK_HROW_CK_SEL(2'b00)) refclk_buffer (",
        "        .I(pcie_refclk_p), .IB(pcie_refclk_n), .CEB(1'b0), .O(refclk), .ODIV2(refclk_fabric));",
        "",
        "    // The hard block's reset, with a register more for the distance.",
        "    wire user_clk, user_reset;",
        "    reg [1:0] reset;",
        "    initial reset = 2'b11;",
        "    always @(posedge user_clk) reset <= {reset[0], user_reset};",
        "",
        f"    {MODULE} {PCIE} (",
        _bound((port.name, _source(port, joined, widths)) for port in block.values()),
        "    );",
        "",
        f"    {pins['module']} {CARD} (",
        _bound((name, _CLOCK_AND_RESET.get(name, name)) for name in widths),
        "    );",
        "",
        *_loop(widths),
        "endmodule",
        "`default_nettype wire",
        "",
    ])


def _counterpart(pin: str) -> str:
    """The IP's port of a pin of the card, or nothing for a clock, a reset or a link."""
    bus, _, signal = pin.partition("__")
    if pin in _CLOCK_AND_RESET or _LINK.fullmatch(pin):
        return ""
    if bus == "cfg":
        return signal
    if bus in _PACKETS:
        return f"{_PACKETS[bus]}_{signal}"
    raise AssertionError(f"The top has no connection for the card's pin {pin}.")


def _check(theirs: Port, ours: Mapping[str, Any]) -> None:
    """Directions are opposite and widths equal; the bits of the IP's ``tready`` are equal to each other."""
    ready = ours["width"] == 1 and theirs.name.endswith("_tready") and theirs.direction == "output"
    if theirs.direction == ours["direction"] or not (theirs.width == ours["width"] or ready):
        raise AssertionError(f"{theirs} does not fit the card's pin {ours}.")


def _source(port: Port, joined: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """Expression at a port of the IP; empty for an open output."""
    if port.name in joined:
        ours = joined[port.name]
        return ours if widths[ours] == port.width else port.name
    if port.name in _OWN:
        return _OWN[port.name]
    if port.name in TIED:
        return f"{port.width}'h{TIED[port.name]:x}"
    if port.name in UNUSED:
        return ""
    raise AssertionError(f"The top has no connection for {port}.")


def _loop(widths: Mapping[str, int]) -> Iterable[str]:
    """Links 0 and 1 to each other, until a transport to another card replaces this; nothing arrives on the others."""
    yield "    // Links: 0 and 1 are each other's neighbour, and the others are cut."
    for name, width in widths.items():
        link = _LINK.fullmatch(name)
        if link and (link[1], link[3]) in (("rx", "payload"), ("rx", "valid"), ("tx", "ready")):
            other, number = {"rx": "tx", "tx": "rx"}[link[1]], int(link[2])
            cut = f"{width}'h{int(link[3] == 'ready'):x}"
            yield f"    assign {name} = {f'{other}__{1 - number}__{link[3]}' if number < 2 else cut};"


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


def _bound(connections: Iterable[tuple[str, str]]) -> str:
    return ",\n".join(f"        .{port}({source})" for port, source in connections)
