# SPDX-License-Identifier: Apache-2.0
"""Measure area and logic depth of the presets by Yosys and note them in docs/area.json.

    scripts/measure_area.py                                 # all: hours on a slow machine, `wide` most of them
    scripts/measure_area.py --config base --family xcup     # one; the others keep their figures

Then scripts/generate_docs.py makes docs/area.md of them.
"""

import argparse
import json
import sys
from importlib.metadata import version
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fpga.area import FAMILIES, measure  # noqa: E402
from hw import emit  # noqa: E402
from hw.dma_engine import DmaEngine  # noqa: E402
from hw.dma_engine.config import PRESETS  # noqa: E402

FIGURES = ROOT / "docs" / "area.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", nargs="+", choices=list(PRESETS), default=list(PRESETS))
    parser.add_argument("--family", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    args = parser.parse_args()
    for config, family in product(args.config, args.family):
        text = emit.verilog(DmaEngine(PRESETS[config]), name="dma_engine", assertions=False)
        # Levels are of 6-input LUTs, whatever the family.
        area, depth = measure(text, family=family, top="dma_engine", depth=family == "xcup")
        row = {"lut": area.lut, "lut_ram": area.lut_ram, "flip_flop": area.flip_flop, "block_ram": area.block_ram,
               "levels": depth.levels if depth else None, "yosys": version("pyosys")}
        print(config, family, row, flush=True)
        figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
        figures.setdefault(config, {})[family] = row
        ordered = {name: {kind: figures[name][kind] for kind in FAMILIES if kind in figures[name]}
                   for name in PRESETS if name in figures}
        FIGURES.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
