# SPDX-License-Identifier: Apache-2.0
"""``dmace compare ace``: random collectives on clusters, in RTL and in the golden model."""

import argparse

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.ace.faults import FAULT_COUNTS
from sim.cli.terminal_ace import add_config, add_pipes, at_work, with_pipes
from sim.terminal import Row, add_json, add_seed, check_file, check_range, integer, write_json

__all__ = ["configure", "run"]

COLLECTIVES, MOST_COLLECTIVES = 200, 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_pipes(parser)
    parser.add_argument("--collectives", type=integer, metavar="N",
                        help=f"minimum number of collectives (default: {COLLECTIVES})")
    parser.add_argument("--revoke", type=integer, metavar="N",
                        help="instead, end N collectives at random moments, by COMMUNICATOR_REVOKE, memory "
                        "errors and cut links, and check the reports and the collectives after reopening")
    add_seed(parser)
    parser.add_argument("--no-stalls", action="store_true", help="no stalls on links and memories")
    parser.add_argument("--faults", action="store_true", help="links drop, corrupt, duplicate, delay and reorder "
                        "packets at random, deliver duplicates of them much later, and go down for a while")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.collectives is not None:
        check_range("--collectives", args.collectives, 1, MOST_COLLECTIVES)
    if args.revoke is not None:
        check_range("--revoke", args.revoke, 1, MOST_COLLECTIVES)
        if args.faults or args.no_stalls or args.collectives is not None:
            raise UserError("--revoke has collectives, faults and stalls of its own; leave out --collectives, --faults "
                            "and --no-stalls.")
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is reported at once.
    from sim.ace.compare import compare
    from sim.ace.compare_errors import compare_errors

    config = with_pipes(args)
    with at_work(args.config, config) as (library, notify):
        if args.revoke is None:
            result = compare(config, collectives=args.collectives or COLLECTIVES, seed=args.seed,
                             stalls=not args.no_stalls, faults=args.faults, library=library, progress=notify)
        else:
            result = compare_errors(config, errors=args.revoke, seed=args.seed, library=library,
                                    progress=notify)
    result = {"config": args.config, "pipes": config.pipes, "seed": args.seed, **result}
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    kinds = [name for name in FAULT_COUNTS if name != "cut"]
    nothing = args.faults and not all(result["faults"][name] for name in kinds)
    if nothing and args.json != "-":
        Console().print("Not every kind of fault has occurred: increase --collectives.")
    return 1 if result["mismatches"] or result["hangs"] or nothing else 0


def _show(result: Row) -> None:
    console = Console()
    table = Table(title=f"Accelerators {result['config']} and their model, seed {result['seed']}")
    table.add_column("what")
    table.add_column("number", justify="right")
    for name in ("collectives", "errors", "longest", "cycles"):
        if name in result:
            table.add_row(name, f"{result[name]:,}")
    for name in ("kinds", "types", "operations", "causes", "shapes"):
        if name not in result:
            continue
        table.add_section()
        for key, value in result[name].items():
            table.add_row(key, f"{value:,}")
    if result.get("faults"):
        table.add_section()
        for name, number in result["faults"].items():
            table.add_row(f"packets {name}", f"{number:,}")
        for name, number in result["link_counts"].items():
            table.add_row(f"links' {name.replace('_', ' ')}", f"{number:,}")
    table.add_section()
    for name in ("mismatches", "hangs"):
        table.add_row(name, f"{result[name]:,}")
    console.print(table)
    for sentence in result["first_mismatches"]:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
