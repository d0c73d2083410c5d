# SPDX-License-Identifier: Apache-2.0
"""The Vivado project of a card: an endpoint behind the project's own PCIe adapter and the FPGA's hard block."""

import json
from typing import Any

from hw import emit
from hw.card.card import Card
from hw.card.config import PRESETS, CardConfig
from hw.errors import UserError

from ..crossings import known_crossings
from ..crossings import xdc as crossings_xdc
from .boards import BOARDS, Board
from .constraints import xdc
from .hard_block import IP, LANES, MODULE, options
from .top import CARD, top

__all__ = ["build_tcl", "files", "lanes"]

_MODULE = "card"


def lanes(target: str, preset: str) -> int:
    """Lanes of a board that a card uses. Raises :class:`UserError` where the board has fewer."""
    board, needed = BOARDS[target], LANES[PRESETS[preset].pcie.data_width]
    if needed > board.lanes:
        raise UserError(f"{target} has {board.lanes} lanes, and the card {preset} needs {needed}: choose a smaller "
                        "--config.")
    return needed


def files(target: str, preset: str, *, not_run: str) -> dict[str, str]:
    """Files of the project and their contents; ``not_run`` is the sentence about what has been checked.

    Raises :class:`UserError` if the preset needs more lanes than the board has.
    """
    board, config, width = BOARDS[target], PRESETS[preset], lanes(target, preset)
    card = Card(config)
    text = emit.verilog(card, name=_MODULE, assertions=False)
    pins: dict[str, Any] = {"module": _MODULE, "config": preset, **emit.pins(card, text=text)}
    crossings = _crossings(config, pins)
    return {
        f"{_MODULE}.v": text,
        "top.v": top(pins, lanes=width),
        "pins.json": json.dumps(pins, indent=1) + "\n",
        "card.xdc": xdc(board, lanes=width),
        **crossings,
        "build.tcl": build_tcl(target, preset, crossings=tuple(crossings), not_run=not_run),
        "README.md": _readme(board, target, preset, config, not_run=not_run),
    }


def _crossings(config: CardConfig, pins: dict[str, Any]) -> dict[str, str]:
    """Constraints between the card's clock domains, where it has more than one clock."""
    if sum(pin["name"].endswith("clk") and "__" not in pin["name"] for pin in pins["pins"]) < 2:
        return {}
    return {"crossings.xdc": crossings_xdc(known_crossings(Card(config)), below=f"{CARD}/")}


def build_tcl(target: str, preset: str, *, crossings: tuple[str, ...] = (), not_run: str) -> str:
    """Tcl that makes project and bitstream: ``vivado -mode batch -source build.tcl``.

    Parameters
    ----------
    target, preset : str
    crossings : tuple of str
        Constraint files whose cells exist only after synthesis.
    not_run : str
        Sentence for the head of the script.
    """
    board = BOARDS[target]
    vendor, library, name, version = IP.split(":")
    listed = "\n".join(f"    {option} {{{value}}}" for option, value in options(PRESETS[preset].pcie).items())
    late = "".join(f"""add_files -fileset constrs_1 [file join $here {file}]
set_property USED_IN_SYNTHESIS false [get_files {file}]
set_property PROCESSING_ORDER LATE [get_files {file}]
""" for file in crossings)
    return f"""# Written by dmace fpga package. {not_run}
# {board.title}: the card, preset {preset}, with the FPGA's PCIe hard block.
#
#     vivado -mode batch -source build.tcl
set here [file dirname [file normalize [info script]]]
create_project dmace_card_{target.replace('-', '_')} [file join $here project] -part {board.part} -force
add_files [list [file join $here {_MODULE}.v] [file join $here top.v]]
add_files -fileset constrs_1 [file join $here card.xdc]
{late}
# The PCIe hard block.
create_ip -vendor {vendor} -library {library} -name {name} -version {version} -module_name {MODULE}
set options {{
{listed}
}}
set properties [list]
foreach {{option value}} $options {{ lappend properties CONFIG.$option $value }}
set_property -dict $properties [get_ips {MODULE}]
# Vivado only warns of a value that other options exclude, and keeps another.
foreach {{option value}} $options {{
    set kept [get_property CONFIG.$option [get_ips {MODULE}]]
    if {{![string equal -nocase $kept $value]}} {{
        error "The PCIe IP has $option $kept instead of $value."
    }}
}}

# A port of the IP or the card with another width than the top's wire is an error.
foreach module {{{MODULE} {_MODULE}}} {{
    set_msg_config -id {{Synth 8-689}} -string [list "module '$module'"] -new_severity ERROR
}}
set_property top top [current_fileset]
update_compile_order -fileset sources_1
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {{[get_property PROGRESS [get_runs impl_1]] ne "100%"}} {{
    error "There is no bitstream: see the logs in project."
}}
open_run impl_1
report_timing_summary -file [file join $here timing.rpt]
report_utilization -hierarchical -file [file join $here utilization.rpt]
report_cdc -file [file join $here cdc.rpt]
set slack [get_property SLACK [get_timing_paths]]
if {{$slack < 0}} {{
    error "The clock is missed by [expr {{-$slack}}] ns, so that the card would not work reliably: see timing.rpt."
}}
"""


def _readme(board: Board, target: str, preset: str, config: CardConfig, *, not_run: str) -> str:
    width = config.pcie.data_width
    return f"""# dmace on {board.title}

{not_run}

    vivado -mode batch -source build.tcl

makes `project/` for `{board.part}`: the endpoint behind the project's PCIe adapter, preset `{preset}`, and the
FPGA's PCIe hard block with Gen3 x{LANES[width]} and {width} bits. `top.v` connects them; its links 0 and 1 are each
other's neighbour. BAR 0 has the registers and the MSI-X table, BAR 2 the doorbells, a page of 4 KiB for each queue.

Made by `dmace fpga package --target {target} --design card --config {preset}`. Pins and settings of the board are from
the sources in `card.xdc`; they have not been tried on the board.
"""
