# SPDX-License-Identifier: Apache-2.0
"""``dmace compare``: random requests to the hardware and to the golden model."""

import argparse

from rich.console import Console
from rich.table import Table

from sim.cli.compare_ace import configure as configure_ace
from sim.cli.compare_ace import run as run_ace
from sim.cli.compare_pcie import configure as configure_pcie
from sim.cli.compare_pcie import run as run_pcie
from sim.cli.compare_triggers import configure as configure_triggers
from sim.cli.compare_triggers import run as run_triggers
from sim.memory import STALLS
from sim.terminal import (
    Row,
    add_config,
    add_json,
    add_latency,
    add_seed,
    check_range,
    integer,
    simulate_dma,
    write_json,
)

__all__ = ["configure", "run"]

MOST_REQUESTS = 10_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="Post random requests, valid and invalid, "
                             "to the engine and to its model, and compare all observable results.")
    add_config(dma, "tiny")
    dma.add_argument("--requests", type=integer, default=1000, metavar="N",
                     help="minimum number of requests (default: 1000)")
    add_seed(dma)
    dma.add_argument("--stalls", choices=STALLS, default="random",
                     help="stalls on every channel of every bus (default: random)")
    add_latency(dma, 20)
    dma.add_argument("--waves", metavar="FILE", help="write a trace of every signal")
    add_json(dma)
    ace = designs.add_parser("ace", help="the collectives accelerator", description="Run random collectives on "
                             "clusters of 2 to 16 ranks, and compare each rank's buffers with the model.")
    configure_ace(ace)
    pcie = designs.add_parser("pcie", help="the DMA engine behind the PCIe adapter", description="Post random requests "
                              "from two GPUs and the host to a card, with faults and resets on PCIe, and compare all "
                              "memories, completion words and statuses with the model.")
    configure_pcie(pcie)
    triggers = designs.add_parser("triggers", help="the trigger counters", description="Tick, prepare and reset random "
                                  "counters in the trigger unit and in its model, and compare each verdict, posted "
                                  "word, refusal and count.")
    configure_triggers(triggers)


def run(args: argparse.Namespace) -> int:
    if args.design == "ace":
        return run_ace(args)
    if args.design == "pcie":
        return run_pcie(args)
    if args.design == "triggers":
        return run_triggers(args)
    check_range("--requests", args.requests, 1, MOST_REQUESTS)
    result = simulate_dma(args.config, "sim.dma.compare", {
        "requests": args.requests, "stalls": args.stalls, "latency": args.latency,
    }, args)
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 1 if result["mismatches"] else 0


def _show(result: Row) -> None:
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
