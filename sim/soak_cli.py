"""``dmace soak dma``: thousands of random copies under the fast harness, every byte checked."""

from rich.console import Console
from rich.table import Table

from hw.dma_engine.config import PRESETS
from sim.terminal import add_config, add_json, add_seed, check_file, check_range, fast_harness, integer, write_json

__all__ = ["configure", "run"]


def configure(parser):
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="Copy random lengths between random bytes, one "
                             "at a time and back to back, and check every byte.")
    add_config(dma, "wide")
    dma.add_argument("--single", type=integer, default=4000, metavar="N",
                     help="requests one at a time (default: %(default)s)")
    dma.add_argument("--together", type=integer, default=300, metavar="N",
                     help="requests back to back, in each run of that kind (default: %(default)s)")
    dma.add_argument("--rounds", type=integer, default=1, metavar="N",
                     help="do all that N times, with seeds that follow (default: %(default)s)")
    add_seed(dma)
    add_json(dma)


def run(args):
    for name, most in (("single", 10_000_000), ("together", 10_000_000), ("rounds", 1_000_000)):
        check_range(f"--{name}", getattr(args, name), 1, most)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is told at once.
    from sim.soak import runs

    rows, soaks = [], runs(PRESETS[args.config], args.single, args.together)
    with fast_harness(args.config) as (harness, tell):
        for seed in range(args.seed, args.seed + args.rounds):
            for soak in soaks:
                tell(f"{soak.name}, seed {seed}", None if rows else args.rounds * len(soaks))
                rows.append(soak.run(harness, seed))
    result = {"config": args.config, "seed": args.seed, "runs": rows}
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 0


def _show(result):
    table = Table(title=f"DMA engine {result['config']}: random copies")
    for name in ("run", "seed", "requests", "bytes", "wrong bytes", "cycles"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for row in result["runs"]:
        table.add_row(row["run"], str(row["seed"]), *(f"{row[name]:,}" for name in (
            "requests", "bytes", "wrong_bytes", "cycles")))
    Console().print(table)
