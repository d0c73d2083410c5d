# SPDX-License-Identifier: Apache-2.0
"""The option of the verbs for PCIe that gives the engine a clock of its own."""

import argparse

from sim.terminal import check_range, integer

__all__ = ["add_engine_clock", "has_two_clocks"]

LEAST_MHZ, MOST_MHZ = 50, 1000


def add_engine_clock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine-mhz", type=integer, metavar="MHZ",
                        help="a clock of its own for the engine, beside the hard block's 250 MHz, with crossings "
                        "between both (default: one clock)")


def has_two_clocks(args: argparse.Namespace) -> bool:
    """Whether the option was given; raise :class:`UserError` if its value is out of range."""
    if args.engine_mhz is None:
        return False
    check_range("--engine-mhz", args.engine_mhz, LEAST_MHZ, MOST_MHZ)
    return True
