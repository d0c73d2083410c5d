# SPDX-License-Identifier: Apache-2.0
"""``dmace bench ace``: performance of the collectives accelerator, and its memory traffic."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from rich.console import Console

from hw.ace.config import DIMENSIONS, MAX_RANKS, PRESETS, AceConfig
from hw.ace.numerics.formats import DType
from hw.ace.programs.schedule import assemble
from hw.ace.sizing import sized
from hw.ace.words import Collective, Ordered
from hw.errors import UserError
from sim.cli.terminal_ace import add_pipes
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

LINK_RATE, LINK_LATENCY = 1.0, 100
MOST_BYTES = 64 << 20


def configure(designs: Subparsers) -> None:
    ace = designs.add_parser("ace", help="the collectives accelerator", description="Measure all-reduces on a torus: "
                             "memory traffic, cycles relative to the links' bandwidth, and small all-reduces relative "
                             "to the links' latency. Every element is checked, and all counts against the models'.")
    ace.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                     help=f"preset of the accelerator: {', '.join(PRESETS)} (default: tiny)")
    ace.add_argument("--nodes", default="4x2x2", metavar="AxBxC", help="ranks along each dimension (default: "
                     "%(default)s)")
    ace.add_argument("--bytes", type=integer, metavar="N", help="size of each rank's buffer (default: 16 to 64 chunks)")
    ace.add_argument("--link-rate", type=float, default=LINK_RATE, metavar="BEATS", help="bandwidth of each "
                     "direction of a link in beats per cycle, headers included (default: %(default)s)")
    ace.add_argument("--latency", type=integer, metavar="CYCLES", help=f"latency of the links (default: "
                     f"{LINK_LATENCY}; and 20 and 500 for the large all-reduce)")
    add_pipes(ace)
    ace.add_argument("--sizes", default="rule", choices=["rule", "preset"], metavar="S", help="FSMs, slots, link "
                     "buffers and pipes: as many as the links' rate and latency need (rule), or those of the preset "
                     "(default: rule)")
    types = [dtype.name.lower() for dtype in DType if dtype.info.bytes == 4]
    ace.add_argument("--type", default="fp32", choices=types, metavar="T",
                     help=f"type of the elements: {', '.join(types)} (default: fp32)")
    ace.add_argument("--fsms", type=integer, metavar="N", help="FSMs of each accelerator (default: see --sizes)")
    ace.add_argument("--slots", type=integer, metavar="N", help="slots for chunks (default: twice --fsms, or see "
                     "--sizes)")
    ace.add_argument("--ordered", action="store_true", help="combine in rank order; on a ring")
    ace.add_argument("--sweep", action="store_true", help="also measure throughput over FSMs and SRAM: on a ring of 8 "
                     "and 4x2x2, with chunks as in the preset")
    ace.add_argument("--loss", action="store_true", help="also measure throughput of links that lose packets")
    ace.add_argument("--urgent", action="store_true", help="also measure a small all-reduce beside a large one, with "
                     "equal and with higher priority")
    add_seed(ace)
    add_json(ace)
    ace.add_argument("--plot", metavar="FILE", help="draw as PNG: utilisation and small all-reduces; with --sweep "
                     "also FILE-sweep, with --loss FILE-loss")
    ace.add_argument("--calibration", metavar="FILE", help="measure only the constants of the system simulator, and "
                     "write them as JSON")
    ace.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    shape = _shape(args.nodes)
    points = None if args.latency is None else (args.latency,)
    args.latency = LINK_LATENCY if args.latency is None else args.latency
    _check_links(args)
    # Imported here, so that a wrong option is reported at once.
    from sim.ace.bench.operating_points import LATENCIES

    latencies = points or LATENCIES
    config = _config(args, shape, latencies)
    size = _default_bytes(config, shape) if args.bytes is None else args.bytes
    _check(args, config, shape, size)
    if args.calibration is not None:
        return _calibrate(args, config)
    from sim.ace.bench import Bench, latency, loss, operating_points, sweep, throughput, urgent
    from sim.ace.bench.runner import MEMORY_LATENCY
    from sim.ace.shared_library import build_library

    doing = "all-reduce"
    with measuring(f"ace {args.config}") as (building, notify):
        many = sweep.largest(replace(config, chunk_bytes=PRESETS[args.config].chunk_bytes))

        def bench_of(one: AceConfig, cycles: int) -> Bench:
            return Bench(one, build_library(one, status=building), link_rate=args.link_rate, link_latency=cycles,
                         dtype=DType[args.type.upper()], seed=args.seed, ordered=args.ordered,
                         notify=lambda cycle: notify(f"{doing}: {cycle:,} cycles", advance=0))

        benches = {one: bench_of(one, args.latency) for one in ([config, many] if args.sweep else [config])}
        bench = benches[config]
        benches_of_latencies = [bench_of(config, cycles) for cycles in latencies]
        lists = {"operating_points": list(operating_points.cases(benches_of_latencies, shape, size)),
                 "latency": list(latency.cases(bench, shape)),
                 "urgent": list(urgent.cases(bench, shape)) if args.urgent else [],
                 "sweep": list(sweep.cases(benches[many], _default_bytes(many, (8,)))) if args.sweep else [],
                 "loss": list(loss.cases(bench, shape, size)) if args.loss else []}
        notify(doing, total=1 + sum(map(len, lists.values())))
        result: Row = {"config": args.config, "pipes": config.pipes, "fsms": config.fsms, "slots": config.slots,
                       "chunk_bytes": config.chunk_bytes, "link_beats": config.link_beats, "nodes": list(shape),
                       "ranks": prod(shape), "bytes": size, "type": args.type, "ordered": args.ordered,
                       "data_width": config.data_width, "link_rate": args.link_rate, "link_latency": args.latency,
                       "memory_latency": MEMORY_LATENCY, "seed": args.seed, **throughput.measure(bench, shape, size)}
        for key, cases in lists.items():
            for doing, case in cases:
                notify(doing)
                result.setdefault(key, []).append(case())
        result["hop"] = latency.fit(config, result["latency"], args.link_rate, args.latency)
    if args.plot:
        from sim.ace.bench.plot import draw

        draw(result, args.plot)
    write_json(args.json, result)
    if args.json != "-":
        console = Console()
        for part in (operating_points, throughput, latency, *([urgent] if args.urgent else []),
                     *([sweep] if args.sweep else []), *([loss] if args.loss else [])):
            part.show(result, console)
        simulated = sum(one.cycles for one in (*benches.values(), *benches_of_latencies))
        console.print(f"{simulated:,} cycles simulated.", highlight=False)
    return 0


def _config(args: argparse.Namespace, shape: tuple[int, ...], latencies: Sequence[int]) -> AceConfig:
    """The preset, with sizes by the rule for the longest of the ``latencies``, and the requested ones."""
    config = PRESETS[args.config]
    if args.sizes == "rule" and args.calibration is None:
        from sim.ace.bench.runner import MEMORY_LATENCY

        config = sized(config, shape, link_rate=args.link_rate, link_latency=max(latencies),
                       memory_latency=MEMORY_LATENCY)
    if args.pipes is not None:
        config = replace(config, pipes=args.pipes)
    if args.fsms is None and args.slots is None:
        return config
    fsms = config.fsms if args.fsms is None else args.fsms
    try:
        return replace(config, fsms=fsms, slots=2 * fsms if args.slots is None else args.slots)
    except ValueError as error:
        raise UserError(f"--fsms or --slots: {error}.") from error


def _calibrate(args: argparse.Namespace, config: AceConfig) -> int:
    check_file("--calibration", args.calibration)
    from sim.ace.bench import Bench
    from sim.ace.shared_library import build_library
    from sim.validation import calibrate

    with measuring(f"ace {args.config}") as (building, notify):
        library = build_library(config, status=building)
        notify("calibration", total=4)
        made = calibrate.measure(
            Bench(config, library, link_rate=args.link_rate, link_latency=args.latency, seed=args.seed),
            f"dmace bench ace --config {args.config} --link-rate {args.link_rate:g} --latency {args.latency} "
            "--calibration FILE")
    made.save(args.calibration)
    for name, value in made.cycles.items():
        print(f"{name:16} {value:g}")
    return 0


def _shape(nodes: str) -> tuple[int, ...]:
    parts = nodes.split("x")
    if not 1 <= len(parts) <= DIMENSIONS or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"--nodes must be 1 to {DIMENSIONS} sizes separated by x, like 4x2x2, not {nodes!r}.")
    shape = tuple(map(int, parts))
    if not 2 <= prod(shape) <= MAX_RANKS:
        raise UserError(f"--nodes must be 2 to {MAX_RANKS} ranks in total, not {prod(shape)}.")
    return shape


def _default_bytes(config: AceConfig, shape: tuple[int, ...]) -> int:
    """Enough chunks for a steady state, fewer if many ranks make a simulation slow."""
    return config.chunk_bytes * max(16, min(64, 1024 // prod(shape)))


def _check_links(args: argparse.Namespace) -> None:
    if not 0 < args.link_rate <= 1:
        raise UserError(f"--link-rate must be more than 0 and at most 1 beat per cycle, not {args.link_rate:g}.")
    check_range("--latency", args.latency, 1, 10_000)


def _check(args: argparse.Namespace, config: AceConfig, shape: tuple[int, ...], size: int) -> None:
    check_range("--bytes", size, 64, MOST_BYTES)
    if size % 64:
        raise UserError(f"--bytes must be a multiple of 64, so that no beat is partial, not {size:,}.")
    check_range("--seed", args.seed, 0, (1 << 53) - 1)
    check_file("--json", args.json)
    check_file("--plot", args.plot)
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")
    if args.ordered and args.sweep:
        raise UserError("--sweep cannot be combined with --ordered: rank order has no schedule for some of its shapes.")
    wanted = Ordered.ALL_REDUCE if args.ordered else Collective.ALL_REDUCE
    made = assemble(config, shape, tuple(range(len(shape))), (0,) * len(shape), collectives=[wanted])
    if why := made.left_out.get(wanted):
        raise UserError(f"--nodes {args.nodes} cannot be combined with --ordered: {why}." if args.ordered else
                        f"--nodes {args.nodes} is too large for {args.config}: {why}.")
