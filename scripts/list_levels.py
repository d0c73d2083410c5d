# SPDX-License-Identifier: Apache-2.0
"""List the registers of a card, or of a part of it, where paths of too many levels of 6-input LUTs end, and where those
paths start.

    scripts/list_levels.py dma_engine --config card --over 8
    scripts/list_levels.py adapter --config wide --over 7

The DMA engine of `wide` takes some minutes and 2 GiB, its accelerator a quarter of an hour and 6 GiB. Modules that
another run measures are left out, and paths end at their ports: of `ace` its SRAM, and all but one of its equal links
and lanes; of `endpoint` these, the DMA engine and the conversions of numbers; of `card` the accelerator.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fpga.area import measure_endpoints  # noqa: E402
from hw import emit  # noqa: E402
from hw.ace.engine import AceEngine  # noqa: E402
from hw.ace.sram import Sram  # noqa: E402
from hw.card.card import Card  # noqa: E402
from hw.card.config import PRESETS  # noqa: E402
from hw.dma_engine import DmaEngine  # noqa: E402
from hw.endpoint.engine import Endpoint  # noqa: E402
from hw.pcie.adapter import PcieAdapter  # noqa: E402

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

SHOWN = 12
"""Starts of paths that are printed for one endpoint."""

_EQUAL = ("*.network.link_[1-9]", "*.alus.lane_[1-9]", "*.alus.lane_[1-9][0-9]", "*.chunks.sram")

DESIGNS: dict[str, tuple[str, ...]] = {
    "card": ("*.ace",),
    "endpoint": ("*.dma", *_EQUAL, "*.alus", "*.drain.divide", "*.drain.narrow", "*.fill.widen"),
    "dma_engine": (), "ace": _EQUAL, "sram": (), "adapter": (),
}
"""Designs, and patterns for the names of the modules that are left out."""


def component(design: str, preset: str, changed: dict[str, Any]) -> "Component":
    card = PRESETS[preset]
    if design == "card":
        return Card(replace(card, **changed))
    if design == "endpoint":
        return Endpoint(replace(card.endpoint, **changed))
    if design == "dma_engine":
        return DmaEngine(replace(card.endpoint.dma, **changed))
    if design in ("ace", "sram"):
        return (AceEngine if design == "ace" else Sram)(replace(card.endpoint.ace, **changed))
    return PcieAdapter(replace(card.pcie, **changed))


def setting(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    return name, int(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("design", choices=DESIGNS)
    parser.add_argument("--config", choices=list(PRESETS), default="card", help="preset of the card (default: card)")
    parser.add_argument("--set", action="append", default=[], type=setting, metavar="NAME=NUMBER",
                        help="in place of the preset's, a field of the part's configuration")
    parser.add_argument("--over", type=int, default=8, metavar="N", help="levels that are allowed (default: 8)")
    args = parser.parse_args()
    try:
        part = component(args.design, args.config, dict(args.set))
    except (TypeError, ValueError) as error:        # a field that the configuration does not have, or a wrong value
        parser.error(str(error))
    text = emit.verilog(part, name=args.design, assertions=False, shared=False)
    for endpoint in measure_endpoints(text, top=args.design, over=args.over, boxes=DESIGNS[args.design]):
        starts = [f"{name} ({levels})" for name, levels in endpoint.starts.items()]
        more = f" and {len(starts) - SHOWN} more" if len(starts) > SHOWN else ""
        print(f"{endpoint.levels} levels, {endpoint.bits} bits: {endpoint.name}")
        print(f"    from {', '.join(starts[:SHOWN])}{more}")
        print(f"    through {' > '.join(endpoint.path)}")


if __name__ == "__main__":
    main()
