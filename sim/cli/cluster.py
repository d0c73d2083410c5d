# SPDX-License-Identifier: Apache-2.0
"""``dmace cluster``: a cluster of accelerators in RTL, which ranks in other processes use through a socket."""

import argparse
import os
import signal
import socket
import sys
from math import prod

from hw.ace.config import PRESETS
from hw.errors import UserError
from sim.ace.faults import HELP, parse
from sim.cli.terminal_ace import add_config, add_links, check_links, nodes
from sim.terminal import add_seed, check_range, integer

__all__ = ["configure", "run"]

MIB = 1 << 20
MOST_MEMORY = 256
"""MiB: offsets of a command are 28 bits, in elements, of which the smallest is a byte."""

FIRST_RANK = 300.0
"""Seconds until the first rank must have connected to a cluster that a rank has started."""


def configure(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", metavar="PATH", help="where ranks connect; when all have left, the cluster is made "
                       "again for the next ones")
    where.add_argument("--descriptor", type=integer, metavar="N", help="of a socket that listens; for one session")
    parser.add_argument("--nodes", default="4", metavar="SHAPE", help="ranks along each dimension: 4, 4x2, 4x2x2 "
                        "(default: 4)")
    add_config(parser)
    parser.add_argument("--puts", action="store_true", help="simulate whole endpoints, whose DMA engines transfer "
                        "between two ranks, too; collectives take some cycles more")
    add_links(parser)
    parser.add_argument("--memory", type=integer, default=MOST_MEMORY, metavar="MIB",
                        help=f"each rank's memory, up to {MOST_MEMORY} MiB, of which only used pages exist "
                        f"(default: {MOST_MEMORY})")
    parser.add_argument("--faults", metavar="SPEC", help=HELP)
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    shape = nodes(args.nodes)
    if prod(shape) < 2:
        raise UserError("A cluster needs 2 ranks at least.")
    check_links(args)
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    check_range("--memory", args.memory, 1, MOST_MEMORY)
    faults = None if args.faults is None else parse(args.faults)
    if faults is not None:
        faults.check(shape)
    # Imported here, so that a wrong option is reported at once.
    from dmace.cluster_client.protocol import listen
    from hw.endpoint.config import PRESETS as ENDPOINTS
    from sim.ace.endpoints import Link, Memory
    from sim.cluster_server.accelerators import Accelerators
    from sim.cluster_server.server import Session

    def make(descriptors: list[int]) -> Accelerators:
        return Accelerators((ENDPOINTS if args.puts else PRESETS)[args.config], shape, descriptors, args.memory * MIB,
                            link=Link(latency=args.link_latency, bytes_per_cycle=args.link_rate),
                            memory=Memory(read_latency=args.latency, write_latency=args.latency), faults=faults,
                            seed=args.seed)

    def session(listener: socket.socket, wait: float | None) -> bool:
        return Session(listener, shape, args.memory * MIB, make, wait=wait).serve()

    if args.descriptor is not None:
        try:
            listener = socket.socket(fileno=args.descriptor)
        except OSError as error:
            raise UserError(f"--descriptor must be of a socket, not {args.descriptor}: {error.strerror}.") from error
        with listener:
            return 0 if session(listener, FIRST_RANK) else 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with listen(args.socket) as listener:
        try:
            print(f"{prod(shape)} ranks of a {args.nodes} cluster may connect to {args.socket}.", file=sys.stderr)
            while True:
                session(listener, None)
        finally:
            os.unlink(args.socket)
