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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from dmace.remote.execution import run_alone
from dmace.remote.machine import Machine
from dmace.remote.plan import analyze
from dmace.remote.step import Outcome, Step, open_devices
from hw.endpoint.config import PRESETS
from hw.errors import UserError
from sim.remote.training import initial_weights, training_graph

SIZES = (64, 32, 32, 10)
LAYERS = (0, 1, 1)
"""Machine of each layer."""

Floats = npt.NDArray[np.float32]


class Method(NamedTuple):
    """Options of the analyzer, and whether they need remote reads."""

    options: dict[str, Any]
    reads: bool = False


METHODS = {
    "analyzer": Method({}),
    "dynamic": Method({"known": "dynamic", "fuse": 0}, reads=True),
    "rpc": Method({"known": "rpc", "varying": "rpc", "fuse": 0}),
}


def batches(lengths: Sequence[int]) -> Iterator[tuple[Floats, Floats]]:
    """Points around a centre for each class, and one-hot labels."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((SIZES[-1], SIZES[0]))
    for length in lengths:
        labels = rng.integers(SIZES[-1], size=length)
        points = centres[labels] + 0.5 * rng.standard_normal((length, SIZES[0]))
        yield points.astype(np.float32), np.eye(SIZES[-1], dtype=np.float32)[labels]


@contextmanager
def machines(args: argparse.Namespace) -> Iterator[list[Machine]]:
    """``with`` two machines."""
    if args.double:
        from sim.remote.double import FunctionalMachines

        yield list(FunctionalMachines(2).machines)
        return
    from sim.endpoint.cluster import EndpointCluster
    from sim.remote.puts import connect_puts
    from sim.remote.rdma import connect_rdma
    from sim.remote.simulated import SimulatedMachines

    with EndpointCluster(PRESETS[args.config], (2,)) as cluster:
        connect = connect_puts if args.network == "links" else connect_rdma
        yield list(SimulatedMachines(cluster, connect).machines)


def train(args: argparse.Namespace, method: Method, lengths: Sequence[int]) -> list[Outcome]:
    """Outcomes of all steps. Raises UserError if a step differs from that of one process."""
    graph = training_graph(SIZES, LAYERS, None if len(set(lengths)) > 1 else lengths[0])
    weights = initial_weights(SIZES)
    alone, outcomes = dict(weights), []
    with machines(args) as found:
        devices = open_devices(found)
        with Step(graph, analyze(graph, devices, **method.options), devices) as step:
            for number, (x, y) in enumerate(batches(lengths)):
                outcomes.append(step.run({"x": x, "y": y, **weights}))
                expected = run_alone(graph, {"x": x, "y": y, **alone})
                if any(value.tobytes() != expected[name].tobytes() for name, value in outcomes[-1].values.items()):
                    raise UserError(f"step {number} differs from the same step in one process.")
                weights = {name: outcomes[-1].values[f"{name}+"] for name in weights}
                alone = {name: expected[f"{name}+"] for name in alone}
    return outcomes


def show(found: dict[str, list[Outcome]]) -> None:
    """Print a row for each method; cycles are those of the last step."""
    table = Table(title="training on two machines, per step")
    for column in ("mechanism", "transfers", "bytes sent", "bytes copied", "cycles", "first loss", "last loss"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for name, outcomes in found.items():
        last = outcomes[-1]
        losses = [float(outcome.values["loss"][0]) for outcome in (outcomes[0], last)]
        table.add_row(name, str(last.transfers), f"{last.sent_bytes:,}", f"{last.copied_bytes:,}",
                      "-" if last.cycles is None else f"{last.cycles:,}", *(f"{loss:.4f}" for loss in losses))
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
        show({name: train(args, method, lengths) for name, method in METHODS.items() if reads or not method.reads})
    except UserError as error:
        print(f"remote_training: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
