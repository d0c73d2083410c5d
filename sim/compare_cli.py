"""``dmace compare dma``: random requests, good and bad, on the hardware and on the reference model."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.memory import STALLS
from sim.terminal import add_config, add_seed, integer, simulate_dma

__all__ = ["configure", "run"]

MOST_REQUESTS = 10_000_000


def configure(parser):
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="Post random requests, good and bad, to "
                             "the engine and to its model, and compare all that can be observed.")
    add_config(dma, "tiny")
    dma.add_argument("--requests", type=integer, default=1000, metavar="N",
                     help="requests to post at least (default: 1000)")
    add_seed(dma)
    dma.add_argument("--stalls", choices=STALLS, default="random",
                     help="pauses on every channel of every bus (default: random)")
    dma.add_argument("--latency", type=integer, default=20, metavar="CYCLES",
                     help="of the memory, for reads and for writes (default: 20)")
    dma.add_argument("--waves", metavar="FILE", help="write a trace of every signal")
    dma.add_argument("--json", metavar="FILE", help="write the result as JSON, '-' for standard output")


def run(args):
    if not 1 <= args.requests <= MOST_REQUESTS:
        raise UserError(f"--requests must be from 1 to {MOST_REQUESTS}, not {args.requests}.")
    if not 2 <= args.latency <= 10_000:
        raise UserError(f"--latency must be from 2 to 10000 cycles, not {args.latency}.")
    if args.seed < 0:
        raise UserError(f"--seed must not be negative, not {args.seed}.")
    if args.json not in (None, "-") and not Path(args.json).resolve().parent.is_dir():
        raise UserError(f"--json: there is no folder {Path(args.json).resolve().parent}.")
    result = simulate_dma(args.config, "sim.compare", {"requests": args.requests, "stalls": args.stalls,
                                                      "latency": args.latency},
                          seed=args.seed, waves=args.waves)
    text = json.dumps(result, indent=2)
    if args.json == "-":
        print(text)
    else:
        if args.json:
            Path(args.json).write_text(text + "\n", encoding="utf-8")
        _show(result)
    return 1 if result["mismatches"] else 0


def _show(result):
    console = Console()
    table = Table(title=f"DMA engine {result['config']} and its model, seed {result['seed']}")
    table.add_column("what")
    table.add_column("number", justify="right")
    for name, value in (("requests", result["requests"]), ("cycles", result["cycles"]),
                        *result["errors_provoked"].items(), ("mismatches", result["mismatches"])):
        table.add_row(name, f"{value:,}")
    console.print(table)
    for sentence in result["first_mismatches"]:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
