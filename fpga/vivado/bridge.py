# SPDX-License-Identifier: Apache-2.0
"""The Vivado project of a single core: the core as an IP, and a block design with the vendor's AXI bridge for PCIe.

For boards without the hard block that the adapter needs, and for one engine alone. Names of cells and options follow
AMD's product guides PG194 (AXI bridge for PCIe, 7 series and UltraScale) and PG195 (its successor for UltraScale+).
"""

import json
from dataclasses import dataclass
from typing import Any

from hw import emit
from hw.verilog_cli import component

from .boards import BOARDS
from .ipxact import Pins, component_xml, links, wrapper

__all__ = ["CARDS", "CORES", "Card", "build_tcl", "files", "xdc"]

_INTERNAL = ("events__", "interrupts__")
"""Outputs that stay open: of an observer, and of the queues' interrupts, for which a card has one line here."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A PCIe card.

    ``bridge`` is the VLNV of its AXI bridge, ``options`` what it is set to, ``pins`` are sites of the reference clock
    (p, n) and of PERST#, with the I/O standard of the latter; ``source`` says where they are from. ``cores`` are those
    that a project can be written for.
    """

    title: str
    part: str
    preset: str
    bridge: str
    options: dict[str, str]
    ports: dict[str, str | None]
    pins: tuple[str, str, str, str]
    source: str
    cores: tuple[str, ...] = ("dma", "ace", "endpoint")


#: The bridge's names of its clock, resets and buses.
_XDMA: dict[str, str | None] = {
    "clock": "sys_clk", "gt_clock": "sys_clk_gt", "reset": "sys_rst_n", "aclk": "axi_aclk",
    "aresetn": "axi_aresetn", "to_memory": "S_AXI_B", "from_host": "M_AXI_B", "mgt": "pcie_mgt",
    "irq": "usr_irq_req"}
_PCIE3: dict[str, str | None] = {
    "clock": "refclk", "gt_clock": "sys_clk_gt", "reset": "sys_rst_n", "aclk": "axi_aclk",
    "aresetn": "axi_aresetn", "to_memory": "S_AXI", "from_host": "M_AXI", "mgt": "pcie_7x_mgt",
    "irq": "intx_msi_request"}
_PCIE2: dict[str, str | None] = {
    "clock": "REFCLK", "gt_clock": None, "reset": "axi_aresetn", "aclk": "axi_aclk_out",
    "aresetn": "axi_aresetn", "to_memory": "S_AXI", "from_host": "M_AXI", "mgt": "pcie_7x_mgt",
    "irq": "INTX_MSI_Request"}

CARDS = {
    "alveo-u250": Card(
        title="AMD Alveo U250", part="xcu250-figd2104-2L-e", preset="wide", bridge="xilinx.com:ip:xdma:4.1",
        options={"functional_mode": "AXI_Bridge", "mode_selection": "Advanced", "en_axi_slave_if": "true",
                 "pl_link_cap_max_link_width": "X16", "pl_link_cap_max_link_speed": "8.0_GT/s",
                 "axi_data_width": "512_bit", "axisten_freq": "250", "pf0_bar0_scale": "Megabytes",
                 "pf0_bar0_size": "1"},
        cores=("dma", "ace"), ports=_XDMA, pins=(*BOARDS["alveo-u250"].refclk, *BOARDS["alveo-u250"].perst),
        source="fpga/vivado/boards.py"),
    "kcu105": Card(
        title="AMD KCU105", part="xcku040-ffva1156-2-e", preset="base", bridge="xilinx.com:ip:axi_pcie3:3.0",
        options={"mode_selection": "Advanced", "pl_link_cap_max_link_width": "X8",
                 "pl_link_cap_max_link_speed": "8.0_GT/s", "axi_data_width": "256_bit", "axisten_freq": "250",
                 "pf0_bar0_scale": "Megabytes", "pf0_bar0_size": "1"},
        ports=_PCIE3, pins=("AB6", "AB5", "K22", "LVCMOS18"), source="litex-boards, platforms/xilinx_kcu105.py"),
    "nitefury": Card(
        title="RHS Research NiteFury II", part="xc7a200tfbg484-2", preset="tiny", bridge="xilinx.com:ip:axi_pcie:2.9",
        options={"NO_OF_LANES": "X4", "MAX_LINK_SPEED": "5.0_GT/s", "M_AXI_DATA_WIDTH": "128",
                 "S_AXI_DATA_WIDTH": "128", "BAR0_SCALE": "Megabytes", "BAR0_SIZE": "1"},
        ports=_PCIE2, pins=("F6", "E6", "J1", "LVCMOS33"), source="amaranth-boards, nitefury"),
}
"""Cards that a project can be written for."""

CORES = {"dma": ("dma_engine", "DMA engine"), "ace": ("ace", "collectives accelerator"),
         "endpoint": ("endpoint", "endpoint")}
"""Cores: their modules' names, and what they are called."""


def files(card_name: str, design: str, *, not_run: str) -> dict[str, str]:
    """Files of the project and their contents; ``not_run`` is the sentence about what has been checked."""
    card, (module, _) = CARDS[card_name], CORES[design]
    engine = component(module, card.preset)
    text = emit.verilog(engine, name=module, assertions=False)
    pins: dict[str, Any] = {"module": module, "config": card.preset, **emit.pins(engine, text=text)}
    shown = {**pins, "pins": [pin for pin in pins["pins"] if not pin["name"].startswith(_INTERNAL)]}
    name = f"dmace_{module}"
    return {
        f"ip/{module}.v": text,
        f"ip/{name}.v": wrapper(shown, name=name),
        "ip/pins.json": json.dumps(pins, indent=1) + "\n",
        "ip/component.xml": component_xml(shown, name=name, version="1.0", files=[f"{module}.v", f"{name}.v"]),
        "build.tcl": build_tcl(card_name, design, shown, not_run=not_run),
        "card.xdc": xdc(card),
        "README.md": _readme(card_name, design, not_run=not_run),
    }


def build_tcl(card_name: str, design: str, pins: Pins, *, not_run: str) -> str:
    """Tcl that makes project and bitstream: ``vivado -mode batch -source build.tcl``."""
    card, (module, title) = CARDS[card_name], CORES[design]
    ports, options = card.ports, " ".join(f"CONFIG.{key} {{{value}}}" for key, value in card.options.items())
    doorbells, registers = (
        max(1 << pin["width"], 4096) for bus in ("s_axi_db", "s_axil") for pin in pins["pins"]
        if pin["name"] == f"{bus}__awaddr")
    looped = "" if not links(pins) else """
# Links. What carries them to another card comes between these; so, it is its own neighbour. Others are silent.
connect_bd_intf_net [get_bd_intf_pins engine/tx_0] [get_bd_intf_pins engine/rx_1]
connect_bd_intf_net [get_bd_intf_pins engine/tx_1] [get_bd_intf_pins engine/rx_0]
"""
    gt_clock = (f"connect_bd_net [get_bd_pins refclk/IBUF_OUT] [get_bd_pins pcie/{ports['gt_clock']}]\n"
                if ports["gt_clock"] else "")
    divided = "IBUF_DS_ODIV2" if ports["gt_clock"] else "IBUF_OUT"
    return f"""# Written by dmace fpga package. {not_run}
# {card.title}: the {title}, preset {card.preset}, behind the card's PCIe.
#
#     vivado -mode batch -source build.tcl
set here [file dirname [file normalize [info script]]]
create_project dmace_{design}_{card_name.replace('-', '_')} [file join $here project] -part {card.part} -force
set_property ip_repo_paths [file join $here ip] [current_project]
update_ip_catalog
add_files -fileset constrs_1 [file join $here card.xdc]

create_bd_design top
# PCIe: its bridge is the engine's way to GPU and host memory, and the host's way to the engine.
create_bd_cell -type ip -vlnv {card.bridge} pcie
set_property -dict [list {options}] [get_bd_cells pcie]
create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf refclk
set_property -dict [list CONFIG.C_BUF_TYPE {{IBUFDSGTE}}] [get_bd_cells refclk]
create_bd_intf_port -mode Slave -vlnv xilinx.com:interface:diff_clock_rtl:1.0 pcie_refclk
create_bd_port -dir I -type rst pcie_perst_n
set_property CONFIG.POLARITY ACTIVE_LOW [get_bd_ports pcie_perst_n]
connect_bd_intf_net [get_bd_intf_ports pcie_refclk] [get_bd_intf_pins refclk/CLK_IN_D]
connect_bd_net [get_bd_pins refclk/{divided}] [get_bd_pins pcie/{ports['clock']}]
{gt_clock}connect_bd_net [get_bd_ports pcie_perst_n] [get_bd_pins pcie/{ports['reset']}]
make_bd_intf_pins_external [get_bd_intf_pins pcie/{ports['mgt']}]

# The engine. Its two subordinate ports are in BAR 0: doorbells at 0, registers behind them.
create_bd_cell -type ip -vlnv dmace:dmace:dmace_{module}:1.0 engine
foreach {{cell slaves masters}} {{to_memory 1 1 from_host 1 2}} {{
    create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $cell
    set_property -dict [list CONFIG.NUM_SI $slaves CONFIG.NUM_MI $masters] [get_bd_cells $cell]
}}
foreach cell {{engine to_memory from_host}} {{
    connect_bd_net [get_bd_pins pcie/{ports['aclk']}] [get_bd_pins $cell/aclk]
    connect_bd_net [get_bd_pins pcie/{ports['aresetn']}] [get_bd_pins $cell/aresetn]
}}
connect_bd_intf_net [get_bd_intf_pins engine/m_axi] [get_bd_intf_pins to_memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins to_memory/M00_AXI] [get_bd_intf_pins pcie/{ports['to_memory']}]
connect_bd_intf_net [get_bd_intf_pins pcie/{ports['from_host']}] [get_bd_intf_pins from_host/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins from_host/M00_AXI] [get_bd_intf_pins engine/s_axi_db]
connect_bd_intf_net [get_bd_intf_pins from_host/M01_AXI] [get_bd_intf_pins engine/s_axil]
connect_bd_net [get_bd_pins engine/irq] [get_bd_pins pcie/{ports['irq']}]
{looped}
assign_bd_address -offset 0x0 -range {doorbells:#x} [get_bd_addr_segs engine/s_axi_db/reg0]
assign_bd_address -offset {max(doorbells, 0x10000):#x} -range {registers:#x} [get_bd_addr_segs engine/s_axil/reg0]
assign_bd_address

validate_bd_design
save_bd_design
make_wrapper -files [get_files top.bd] -top -import
set_property top top_wrapper [current_fileset]
update_compile_order -fileset sources_1
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
open_run impl_1
report_timing_summary -file [file join $here timing.rpt]
report_utilization -file [file join $here utilization.rpt]
"""


def xdc(card: Card) -> str:
    """Constraints of the card: reference clock and reset of PCIe."""
    positive, negative, reset, standard = card.pins
    return (f"# Written by dmace fpga package. Pins: {card.source}.\n"
            f"set_property PACKAGE_PIN {positive} [get_ports {{pcie_refclk_clk_p[0]}}]\n"
            f"set_property PACKAGE_PIN {negative} [get_ports {{pcie_refclk_clk_n[0]}}]\n"
            "create_clock -name pcie_refclk -period 10.000 [get_ports {pcie_refclk_clk_p[0]}]\n"
            f"set_property -dict {{PACKAGE_PIN {reset} IOSTANDARD {standard} PULLUP true}} [get_ports pcie_perst_n]\n"
            "set_false_path -from [get_ports pcie_perst_n]\n")


def _readme(card_name: str, design: str, *, not_run: str) -> str:
    card, (_, title) = CARDS[card_name], CORES[design]
    return f"""# dmace on {card.title}

{not_run}

    vivado -mode batch -source build.tcl

makes `project/` for `{card.part}` with the {title}, preset `{card.preset}`, as the IP in `ip/`. BAR 0 has the
doorbells at 0, a page of 4 KiB for each queue, and the registers behind them. Made by
`dmace fpga package --target {card_name} --design {design}`.
"""
