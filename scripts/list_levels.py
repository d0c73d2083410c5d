# SPDX-License-Identifier: Apache-2.0
"""List the registers of a DMA engine where paths of too many levels of 6-input LUTs end, and where those paths start.

    scripts/list_levels.py --config wide --segment-bytes 512 --word-interval 8 --over 8

All timing options are on, unless ``--no-timing-options`` is given. `wide` takes minutes.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fpga.area import measure_endpoints  # noqa: E402
from hw import emit  # noqa: E402
from hw.dma_engine import DmaEngine  # noqa: E402
from hw.dma_engine.config import PRESETS  # noqa: E402
from hw.dma_engine.timing import DmaTimingOptions  # noqa: E402

SHOWN = 12
"""Starts of paths that are printed for one endpoint."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", choices=list(PRESETS), default="wide")
    parser.add_argument("--segment-bytes", type=int, metavar="N", help="in place of the preset's")
    parser.add_argument("--word-interval", type=int, metavar="N", help="in place of the preset's")
    parser.add_argument("--over", type=int, default=8, metavar="N", help="levels that are allowed (default: 8)")
    parser.add_argument("--no-timing-options", action="store_true")
    args = parser.parse_args()
    changed = {name: value for name in ("segment_bytes", "word_interval") if (value := getattr(args, name)) is not None}
    timing = DmaTimingOptions() if args.no_timing_options else DmaTimingOptions.all()
    config = replace(PRESETS[args.config], timing=timing, **changed)
    text = emit.verilog(DmaEngine(config), name="dma_engine", assertions=False)
    for endpoint in measure_endpoints(text, top="dma_engine", over=args.over):
        starts = [f"{name} ({levels})" for name, levels in endpoint.starts.items()]
        more = f" and {len(starts) - SHOWN} more" if len(starts) > SHOWN else ""
        print(f"{endpoint.levels} levels, {endpoint.bits} bits: {endpoint.name}")
        print(f"    from {', '.join(starts[:SHOWN])}{more}")
        print(f"    through {' > '.join(endpoint.path)}")


if __name__ == "__main__":
    main()
