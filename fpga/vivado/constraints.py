# SPDX-License-Identifier: Apache-2.0
"""Constraints of a card on a board: pins, reference clock, reset, and the FPGA's configuration memory.

The IP constrains its own clocks and the position of its transceivers. The pins of the lanes are constrained, too, so
that other transceivers than the board's are an error and not a card without a link.
"""

from .boards import Board

__all__ = ["REFCLK_NS", "xdc"]

REFCLK_NS = 10.0
"""Period of the slot's reference clock."""


def xdc(board: Board, *, lanes: int) -> str:
    """Constraints for the first ``lanes`` of the board."""
    lines = ["# Written by dmace fpga package. No Vivado has run this.",
             f"# Pins and settings of the {board.title} are from:",
             *(f"#   {source}" for source in board.sources)]
    lines += ["", *(f"set_property {name} {value} [current_design]" for name, value in board.properties)]
    if board.power:
        lines.append(f"set_operating_conditions -design_power_budget {board.power}")
    positive, negative = board.refclk
    site, standard = board.perst
    lines += [
        "",
        f"set_property PACKAGE_PIN {positive} [get_ports pcie_refclk_p]",
        f"set_property PACKAGE_PIN {negative} [get_ports pcie_refclk_n]",
        f"create_clock -name pcie_refclk -period {REFCLK_NS:.3f} [get_ports pcie_refclk_p]",
        "",
        f"set_property -dict {{PACKAGE_PIN {site} IOSTANDARD {standard} PULLUP true}} [get_ports pcie_perst_n]",
        "set_false_path -from [get_ports pcie_perst_n]",
        "",
    ]
    lines += [f"set_property PACKAGE_PIN {pins[lane]} [get_ports {{{port}[{lane}]}}]"
              for port, pins in board.pins.items() for lane in range(lanes)]
    return "\n".join(lines) + "\n"
