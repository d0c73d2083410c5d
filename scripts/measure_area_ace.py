# SPDX-License-Identifier: Apache-2.0
"""Measure area and logic depth of the accelerator's blocks by Yosys, one after the other, and note them in
docs/area_ace.json.

    scripts/measure_area_ace.py --config tiny                       # all blocks that have no figures yet
    scripts/measure_area_ace.py --config tiny --block fill drain    # these, whatever there is
    scripts/measure_area_ace.py --config tiny --pipes 4             # those that several pipes change
    scripts/measure_area_ace.py --config tiny --whole               # the accelerator in one piece

Then scripts/generate_docs.py puts them into docs/area.md. Presets are measured with one pipe, and what several pipes
change with two and four. `wide` takes half an hour; in one piece, its SRAM is too large for Yosys.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from amaranth.lib.wiring import Component  # noqa: E402

from fpga.area import measure  # noqa: E402
from fpga.gates import measure_gates  # noqa: E402
from hw import emit  # noqa: E402
from hw.ace.chunker import Chunker  # noqa: E402
from hw.ace.command_queues import CommandQueues  # noqa: E402
from hw.ace.communicator_status import CommunicatorStatus  # noqa: E402
from hw.ace.communicators import Communicators  # noqa: E402
from hw.ace.config import PRESETS, AceConfig  # noqa: E402
from hw.ace.control import Control  # noqa: E402
from hw.ace.decoder import Decoder  # noqa: E402
from hw.ace.drain import Drain  # noqa: E402
from hw.ace.engine import AceEngine  # noqa: E402
from hw.ace.extents import Extents  # noqa: E402
from hw.ace.faults import Faults  # noqa: E402
from hw.ace.fill import Fill  # noqa: E402
from hw.ace.link.port import LinkPort  # noqa: E402
from hw.ace.operations import Operations  # noqa: E402
from hw.ace.pipe_merge import PipeMerge  # noqa: E402
from hw.ace.pipe_split import PipeSplit  # noqa: E402
from hw.ace.pool.pool import FsmPool  # noqa: E402
from hw.ace.programs.store import Programs  # noqa: E402
from hw.ace.receive import Receive, settle_cycles  # noqa: E402
from hw.ace.sram import Sram  # noqa: E402
from hw.ace.tables import share_readers  # noqa: E402
from hw.ace.transfers import Transfers  # noqa: E402
from hw.ace.transmit import Transmit  # noqa: E402
from hw.ace.watchdog import Watchdog  # noqa: E402
from hw.common.doorbell import Doorbell  # noqa: E402
from hw.common.regions import RegionTable  # noqa: E402

FIGURES = ROOT / "docs" / "area_ace.json"

BLOCKS: dict[str, Callable[[AceConfig], Component]] = {
    "receive": Receive, "drain": Drain, "fill": Fill, "link": LinkPort, "pool": FsmPool, "chunker": Chunker,
    "transmit": Transmit, "decoder": Decoder, "operations": Operations, "control": Control, "faults": Faults,
    "command_queues": CommandQueues, "doorbell": Doorbell, "regions": RegionTable, "watchdog": Watchdog,
    "communicator_status": lambda config: CommunicatorStatus(config, settle=settle_cycles(config)),
    "transfers": Transfers, "programs": lambda config: Programs(config, clients=5), "extents": Extents,
    "communicators": lambda config: Communicators(config, shares=share_readers(config)),
    "sram": lambda config: Sram(_short(config)), "pipe_merge": PipeMerge, "pipe_split": PipeSplit,
}

TIMES: dict[str, Callable[[AceConfig], int]] = {"link": lambda config: config.ports, "transfers": lambda config: 2}
"""Blocks of which an accelerator has several."""

OF_A_PIPE = {"receive": Receive, "transmit": Transmit}
PIPED = ("receive", "transmit", "pool", "sram", "pipe_merge", "pipe_split")
"""Blocks that several pipes change."""

SRAM_ROWS = 1024
"""Rows of a bank: the least that are block RAM in all presets."""


def _short(config: AceConfig) -> AceConfig:
    """Sizes with a small SRAM: its logic is the same but for the bits of an address."""
    banks = 4 if config.pipes == 1 else 8
    chunk_bytes = max(1024, banks * SRAM_ROWS * config.beat_bytes // config.fsms)
    return replace(config, slots=config.fsms, chunk_bytes=chunk_bytes,
                   message_bytes=config.packet_bytes)


def _parts(name: str, config: AceConfig) -> dict[str, tuple[Component, int]]:
    """Name -> component and how often an accelerator has it; those of pipes by their number of ports."""
    if name not in OF_A_PIPE or config.pipes == 1:
        return {name: (BLOCKS[name](config), TIMES[name](config) if name in TIMES else 1)}
    sizes = [len(ports) for ports in config.pipe_ports]
    return {f"{name} of {size} port{'s' if size > 1 else ''}": (OF_A_PIPE[name](config, sizes.index(size)), count)
            for size, count in Counter(sizes).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", choices=list(PRESETS), default="tiny")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--block", nargs="+", choices=list(BLOCKS), help="(default: those without figures)")
    which.add_argument("--whole", action="store_true", help="the accelerator in one piece, with its SRAM")
    parser.add_argument("--pipes", type=int, choices=(1, 2, 4), default=1)
    args = parser.parse_args()
    config = replace(PRESETS[args.config], pipes=args.pipes)
    if args.whole:
        _note(args.config, config, "whole", _fpga(
            emit.verilog(AceEngine(config), name="whole", assertions=False), "whole"))
        return
    kind = "blocks" if args.pipes == 1 else f"pipes_{args.pipes}"
    known = _figures().get(args.config, {}).get(kind, {})
    for block in args.block or (BLOCKS if args.pipes == 1 else PIPED):
        for name, (component, count) in _parts(block, config).items():
            if not args.block and name in known:
                continue
            text = emit.verilog(component, name=block, assertions=False)
            gates = measure_gates(text, top=block)
            found = {"count": count, **_fpga(text, block), "transistors": gates.transistors,
                     "memory_bits": gates.memory_bits}
            if block == "sram":
                # Its memory is that of the slots.
                found |= {"block_ram": 0, "lut_ram": 0, "memory_bits": 0}
            _note(args.config, config, kind, {name: found})


def _fpga(text: str, name: str) -> dict[str, Any]:
    area, depth = measure(text, top=name)

    def cells(prefix: str) -> int:
        return sum(count for cell, count in area.cells.items() if cell.startswith(prefix))

    return {"lut": area.lut, "flip_flop": area.flip_flop, "shift": cells("SRL"), "lut_ram": area.lut_ram,
            "block_ram": area.block_ram, "dsp": cells("DSP"), "levels": depth.levels, "yosys": version("pyosys")}


def _figures() -> dict[str, Any]:
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}


def _note(preset: str, config: AceConfig, part: str, found: dict[str, Any]) -> None:
    figures = _figures()
    own = figures.setdefault(preset, {"sram_bits": 8 * config.slots * config.chunk_bytes, "blocks": {}})
    own.setdefault(part, {}).update(found)
    print(preset, found, flush=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
