"""``dmace bench dma``: how fast the DMA engine is, measured under the fast harness."""

import json
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hw.dma_engine.config import PRESETS
from hw.errors import UserError
from sim.terminal import add_config, add_seed, integer

__all__ = ["configure", "run"]

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, 1048576)
LATENCIES = (100, 250, 500)


def configure(parser):
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="Measure share of the bus, latencies and "
                             "fairness of the engine before a memory of set latency; every byte is checked.")
    add_config(dma, "wide")
    dma.add_argument("--latency", default=_listed(LATENCIES), metavar="L,...",
                     help="of the memory, in cycles, for reads and for writes (default: %(default)s)")
    dma.add_argument("--sizes", default=_listed(SIZES), metavar="BYTES,...",
                     help="of requests (default: %(default)s)")
    dma.add_argument("--queues", type=integer, metavar="N", help="queues that are posted to (default: 16, or all)")
    dma.add_argument("--unaligned", action="store_true", help="sources 3 and destinations 17 bytes beyond alignment")
    add_seed(dma)
    dma.add_argument("--json", metavar="FILE", help="write the result as JSON, '-' for standard output")
    dma.add_argument("--plot", metavar="FILE", help="draw the shares of the bus, and those of other engines, as PNG")


def run(args):
    config = PRESETS[args.config]
    queues = min(16, config.queues) if args.queues is None else args.queues
    latencies, sizes = _integers("--latency", args.latency), _integers("--sizes", args.sizes)
    _check(args, config, queues, latencies, sizes)
    # Imported here, so that a wrong option is told at once.
    from sim.bench import UNALIGNED, Bench
    from sim.fast import build_harness

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"building {args.config}", total=None, note="")

        def building(what, done, total):
            progress.update(task, completed=done, total=total or None, note=what)

        def measuring(what):
            progress.update(task, advance=1, note=what)

        harness = build_harness(config, status=building)
        bench = Bench(harness, queues=queues, seed=args.seed, shifts=UNALIGNED if args.unaligned else (0, 0))
        progress.reset(task, description=f"measuring {args.config}", total=bench.steps(sizes, latencies) + 1)
        result = {"config": args.config, **bench.run(sizes, latencies, progress=measuring)}
    if args.plot:
        from sim.bench_plot import draw

        draw(result, args.plot)
    text = json.dumps(result, indent=2)
    if args.json == "-":
        print(text)
    else:
        if args.json:
            Path(args.json).write_text(text + "\n", encoding="utf-8")
        _show(result)
    return 0


def _integers(name, given):
    """Integers of an option ``A,B,...``."""
    try:
        values = [int(part, 0) for part in given.split(",")]
    except ValueError:
        raise UserError(f"{name} must be integers with commas between them, not {given!r}.") from None
    if len(set(values)) != len(values):
        raise UserError(f"{name} must not have the same number twice, as {given!r} has.")
    return values


def _listed(values):
    return ",".join(map(str, values))


def _check(args, config, queues, latencies, sizes):
    for latency in latencies:
        if not 2 <= latency <= 10_000:
            raise UserError(f"--latency must be from 2 to 10000 cycles, not {latency}.")
    for size in sizes:
        if not 1 <= size <= 4 << 20:
            raise UserError(f"--sizes must be from 1 to {4 << 20} bytes, not {size}.")
    if not 2 <= queues <= config.queues:
        raise UserError(f"--queues must be from 2 to {config.queues} for {args.config}, not {queues}.")
    if not 0 <= args.seed < 1 << 53:
        raise UserError(f"--seed must be from 0 to {(1 << 53) - 1}, not {args.seed}.")
    for name in ("json", "plot"):
        path = getattr(args, name)
        if path not in (None, "-") and not Path(path).resolve().parent.is_dir():
            raise UserError(f"--{name}: there is no folder {Path(path).resolve().parent}.")
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")


def _show(result):
    console = Console()
    shift = f", {result['source_shift']} and {result['destination_shift']} bytes off" if result["source_shift"] else ""
    table = Table(title=f"DMA engine {result['config']}, {result['data_width']} bit, {result['queues']} queues{shift}",
                  caption="Queues full; and threads that wait for SC before they post more, cycles from doorbell to SC")
    for name in ("latency", "size", "bus share", "R share", "requests/cycle", "by SC: share", "p50", "p99"):
        table.add_column(name, justify="right")
    before = None
    for row in result["results"]:
        closed, seen = row["closed_loop"], row["closed_loop"]["to_seen"] or {}
        if before not in (None, row["latency"]):
            table.add_section()
        before = row["latency"]
        table.add_row(f"{row['latency']}", f"{row['size']:,}", f"{row['bus_share']:.3f}", f"{row['read_share']:.3f}",
                      f"{row['requests_per_cycle']:.4f}", f"{closed['bus_share']:.3f}", _cycles(seen.get("p50")),
                      _cycles(seen.get("p99")))
    console.print(table)

    table = Table(title="One 64 B request, cycles")
    for name in ("latency", "doorbell to AR", "to data done", "beyond memory", "done to RC", "done to SC",
                 "64 B behind 64 KiB", f"among {result['behind'][0]['among']} x 64 KiB"):
        table.add_column(name, justify="right")
    for one, behind in zip(result["single_by_latency"], result["behind"], strict=True):
        table.add_row(*(_cycles(value) for value in (
            one["latency"], one["doorbell_to_first_ar"], one["doorbell_to_done"], one["overhead"], one["done_to_rc"],
            one["done_to_sc"], behind["done"], behind["done_among"])))
    console.print(table)

    table = Table(title=f"{result['load'][0]['size']} B requests at a set rate, cycles from doorbell to SC")
    for name in ("latency", "asked", "got", "p50", "p90", "p99", "most"):
        table.add_column(name, justify="right")
    for row in result["load"]:
        seen = row["to_seen"] or {}
        table.add_row(f"{row['latency']}", f"{row['asked']:.2f}", f"{row['bus_share']:.3f}",
                      *(_cycles(seen.get(name)) for name in ("p50", "p90", "p99", "max")))
    console.print(table)
    fair = result["fairness"]
    console.print(f"Fairness over {fair['queues']} full queues, {fair['size']} B: Jain's index {fair['jain']:.4f}, "
                  f"{fair['least']:,} to {fair['most']:,} bytes each.", highlight=False)
    console.print(f"{result['cycles']:,} cycles at {result['cycles_per_second']:,} cycles/s.", highlight=False)


def _cycles(value):
    return "-" if value is None else f"{value:,}"
