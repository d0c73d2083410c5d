# SPDX-License-Identifier: Apache-2.0
"""Options of the verbs that measure over a simulated network: line, memory, loss, lists of sizes, plots."""

import argparse

from hw.errors import UserError
from sim.rdma.wire import LINE_RATES
from sim.terminal import check_file, check_range, integer

__all__ = ["add_line", "add_plot", "add_sizes", "check_line", "check_plot", "integers", "probabilities"]


def add_line(parser: argparse.ArgumentParser, stations: str) -> None:
    """Add the options of the line between two ``stations``, and of their memories."""
    parser.add_argument("--line-rate", type=float, metavar="BYTES", help="bytes per cycle of each segment (default: "
                        + ", ".join(f"{rate:g} for {name}" for name, rate in LINE_RATES.items()) + ")")
    parser.add_argument("--line-latency", type=integer, default=50, metavar="CYCLES",
                        help=f"latency of each of the two segments between the {stations} (default: %(default)s)")
    parser.add_argument("--latency", type=integer, default=100, metavar="CYCLES",
                        help="latency of the memories, for reads and for writes (default: %(default)s)")


def check_line(args: argparse.Namespace, beat_bytes: int) -> float:
    """The line rate in bytes per cycle. Raises UserError for options of :func:`add_line` that are out of range."""
    rate: float = LINE_RATES[args.config] if args.line_rate is None else args.line_rate
    if not 0 < rate <= beat_bytes:
        raise UserError(f"--line-rate must be more than 0 and at most the {beat_bytes} bytes of a beat, not {rate:g}.")
    check_range("--line-latency", args.line_latency, 1, 100_000)
    check_range("--latency", args.latency, 2, 10_000)
    return rate


def add_sizes(parser: argparse.ArgumentParser, default: str, what: str) -> None:
    """Add ``--sizes``."""
    parser.add_argument("--sizes", default=default, metavar="BYTES,...", help=f"{what} (default: %(default)s)")


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--plot``."""
    parser.add_argument("--plot", metavar="FILE.png", help=what)


def check_plot(args: argparse.Namespace) -> None:
    """Raise UserError unless the file of ``--plot`` can be a PNG."""
    check_file("--plot", args.plot)
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")


def integers(name: str, given: str) -> list[int]:
    """Integers of an option ``A,B,...``."""
    try:
        return [int(part, 0) for part in given.split(",")]
    except ValueError:
        raise UserError(f"{name} must be integers separated by commas, not {given!r}.") from None


def probabilities(name: str, given: str, most: float) -> list[float]:
    """Probabilities of an option ``P,Q,...``, which may be empty."""
    try:
        found = [float(part) for part in given.split(",") if given]
    except ValueError:
        raise UserError(f"{name} must be probabilities separated by commas, not {given!r}.") from None
    for probability in found:
        if not 0 <= probability <= most:
            raise UserError(f"{name} must be from 0 to {most:g}, not {probability:g}.")
    return found
