"""Measure area and logic depth of the accelerator's blocks by Yosys, one after the other, and note them in
docs/area_ace.json.

    scripts/measure_area_ace.py --config tiny                       # all blocks that have no figures yet
    scripts/measure_area_ace.py --config tiny --block fill drain    # these, whatever there is

Then scripts/generate_docs.py puts them into docs/area.md. The SRAM is not synthesised: its bits are counted.
"""

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fpga.area import measure  # noqa: E402
from hw import emit  # noqa: E402
from hw.ace.chunker import Chunker  # noqa: E402
from hw.ace.config import PRESETS  # noqa: E402
from hw.ace.decoder import Decoder  # noqa: E402
from hw.ace.drain import Drain  # noqa: E402
from hw.ace.fill import Fill  # noqa: E402
from hw.ace.link import LinkPort  # noqa: E402
from hw.ace.operations import Operations  # noqa: E402
from hw.ace.pool import FsmPool  # noqa: E402
from hw.ace.receive import Receive  # noqa: E402
from hw.ace.transmit import Transmit  # noqa: E402

FIGURES = ROOT / "docs" / "area_ace.json"

BLOCKS = {"receive": Receive, "drain": Drain, "fill": Fill, "link": LinkPort, "pool": FsmPool, "chunker": Chunker,
          "transmit": Transmit, "decoder": Decoder, "operations": Operations}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", choices=list(PRESETS), default="tiny")
    parser.add_argument("--block", nargs="+", choices=list(BLOCKS), help="(default: those without figures)")
    args = parser.parse_args()
    config = PRESETS[args.config]
    for name in args.block or BLOCKS:
        figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
        found = figures.setdefault(args.config, {"sram_bits": 8 * config.slots * config.chunk_bytes, "blocks": {}})
        if not args.block and name in found["blocks"]:
            continue
        area, depth = measure(emit.verilog(BLOCKS[name](config), name=name, assertions=False), top=name)
        found["blocks"][name] = row = {
            "count": config.ports if name == "link" else 1, "lut": area.lut, "flip_flop": area.flip_flop,
            "shift": sum(count for cell, count in area.cells.items() if cell.startswith("SRL")),
            "lut_ram": area.lut_ram, "block_ram": area.block_ram,
            "dsp": sum(count for cell, count in area.cells.items() if cell.startswith("DSP")),
            "levels": depth.levels, "yosys": version("pyosys")}
        print(args.config, name, row, flush=True)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
