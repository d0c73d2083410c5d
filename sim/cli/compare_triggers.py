# SPDX-License-Identifier: Apache-2.0
"""``dmace compare triggers``: random operations on trigger counters, in RTL and in the golden model."""

import argparse

from rich.console import Console
from rich.table import Table

from hw.endpoint.config import PRESETS
from sim.terminal import Row, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

TICKS, MOST_TICKS = 20_000, 100_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                        help=f"preset of the endpoint: {', '.join(PRESETS)} (default: tiny)")
    parser.add_argument("--ticks", type=integer, default=TICKS, metavar="N",
                        help=f"minimum number of ticks (default: {TICKS})")
    add_seed(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    check_range("--ticks", args.ticks, 1, MOST_TICKS)
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is reported at once.
    from sim.triggers.bench import build_bench
    from sim.triggers.compare import compare

    config = PRESETS[args.config].triggers
    with measuring(args.config) as (building, notify):
        program = build_bench(config, status=building)
        notify("", total=args.ticks, advance=0)
        done = 0

        def progress(ticks: int, firings: int) -> None:
            nonlocal done
            notify(f"{firings:,} firings", advance=ticks - done)
            done = ticks

        result = {"config": args.config, "seed": args.seed,
                  **compare(config, ticks=args.ticks, seed=args.seed, program=program, progress=progress)}
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 1 if result["mismatches"] else 0


def _show(result: Row) -> None:
    console = Console()
    table = Table(title=f"Trigger counters {result['config']} and their model, seed {result['seed']}")
    table.add_column("what")
    table.add_column("number", justify="right")

    def section(rows: dict[str, int]) -> None:
        table.add_section()
        for name, number in rows.items():
            table.add_row(name, f"{number:,}")

    section({name: result[name] for name in ("ticks", "firings", "cycles")})
    section({f"verdict {name}": number for name, number in sorted(result["codes"].items())})
    section({name: result[name] for name in ("resets", "pages", "reads", "mismatches")})
    console.print(table)
    for sentence in result["first_mismatches"]:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
