# SPDX-License-Identifier: Apache-2.0
"""A perceptron whose layers are on two machines: activations and gradients cross by the mechanisms of dmace.remote.

Each machine is an endpoint in RTL, or, with ``--double``, a test double without clock cycles. Losses and weights must
be those of one process, bit for bit. With ``--network ethernet`` the machines are connected by RoCEv2, and the last
batch may be smaller; puts over links only write, so static placement and messages with copies are compared.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from dmace.remote.machine import Machine
from dmace.remote.step import Outcome
from hw.endpoint.config import PRESETS
from hw.errors import UserError
from sim.remote.step_times import METHODS, train


@contextmanager
def machines(args: argparse.Namespace) -> Iterator[Sequence[Machine]]:
    """``with`` two machines."""
    if args.double:
        from sim.remote.double import FunctionalMachines

        yield FunctionalMachines(2).machines
    elif args.network == "ethernet":
        from sim.remote.ethernet import Ethernet, ethernet_machines

        with ethernet_machines(Ethernet(config=args.config)) as both:
            yield both.machines
    else:
        from sim.endpoint.cluster import EndpointCluster
        from sim.remote.puts import connect_puts
        from sim.remote.simulated import SimulatedMachines

        with EndpointCluster(PRESETS[args.config], (2,)) as cluster:
            yield SimulatedMachines(cluster, connect_puts).machines


def show(found: dict[str, list[Outcome]], lengths: Sequence[int]) -> None:
    """Print a row for the last step of each length of a batch, by each method."""
    table = Table(title="training on two machines, per step")
    for column in ("mechanism", "rows", "transfers", "bytes sent", "bytes copied", "cycles", "loss"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for name, outcomes in found.items():
        for length, outcome in dict(zip(lengths, outcomes, strict=True)).items():
            table.add_row(name, str(length), str(outcome.transfers), f"{outcome.sent_bytes:,}",
                          f"{outcome.copied_bytes:,}", "-" if outcome.cycles is None else f"{outcome.cycles:,}",
                          f"{float(outcome.values['loss'][0]):.4f}")
    console = Console()
    console.print(table)
    console.print("All losses and weights are those of one process, bit for bit.", highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--double", action="store_true", help="do without the RTL")
    parser.add_argument("--network", default="links", choices=["links", "ethernet"],
                        help="puts over links, or RoCEv2 (default: %(default)s)")
    parser.add_argument("--config", default="tiny", choices=list(PRESETS), help="preset (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=32, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--last", type=int, help="rows of the last batch, if it is smaller")
    args = parser.parse_args(argv)
    try:
        for name, value in (("--steps", args.steps), ("--batch", args.batch), ("--last", args.last)):
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, not {value}.")
        reads = args.double or args.network == "ethernet"
        if args.last not in (None, args.batch) and not reads:
            raise UserError("--last needs remote reads: --network ethernet or --double.")
        lengths = [args.batch] * (args.steps - 1) + [args.last or args.batch]
        found = {}
        for name, method in METHODS.items():
            if reads or not method.reads:
                with machines(args) as opened:
                    found[name] = train(opened, method, lengths)
        show(found, lengths)
    except UserError as error:
        print(f"remote_training: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
