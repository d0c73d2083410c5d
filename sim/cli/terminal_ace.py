# SPDX-License-Identifier: Apache-2.0
"""Shared by the verbs that run a cluster: options, and the library with a progress bar."""

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite, prod
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hw.ace.config import DIMENSIONS, MAX_RANKS, PIPES, PRESETS, AceConfig
from hw.errors import UserError
from sim.terminal import check_range, integer

if TYPE_CHECKING:
    from sim.ace.shared_library import Library

__all__ = ["NotifyCycles", "add_config", "add_links", "add_pipes", "at_work", "check_links", "nodes", "with_pipes"]

NotifyCycles = Callable[[int, int | None, str], None]
"""Takes what is done, out of how much, and a note."""


def add_config(parser: argparse.ArgumentParser, default: str = "tiny") -> None:
    parser.add_argument("--config", default=default, choices=list(PRESETS), metavar="C",
                        help=f"preset of the accelerator: {', '.join(PRESETS)} (default: {default})")


def add_links(parser: argparse.ArgumentParser) -> None:
    """Add the options of links and memories; :func:`check_links` checks them."""
    parser.add_argument("--link-latency", type=integer, default=20, metavar="CYCLES",
                        help="latency of all links (default: 20)")
    parser.add_argument("--link-rate", type=float, default=0.0, metavar="BYTES",
                        help="bandwidth of all links in bytes per cycle; 0 for one beat (default: 0)")
    parser.add_argument("--latency", type=integer, default=100, metavar="CYCLES",
                        help="latency of the memories (default: 100)")


def check_links(args: argparse.Namespace) -> None:
    check_range("--link-latency", args.link_latency, 1, 100_000)
    check_range("--latency", args.latency, 1, 100_000)
    if not isfinite(args.link_rate) or args.link_rate < 0:
        raise UserError(f"--link-rate must be 0 or a number of bytes per cycle, not {args.link_rate:g}.")


def add_pipes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pipes", type=integer, choices=PIPES, metavar="N",
                        help="pipes of each accelerator between links and SRAM: 1, 2 or 4 (default: as in the preset)")


def with_pipes(args: argparse.Namespace) -> AceConfig:
    """The preset, with the requested number of pipes."""
    config = PRESETS[args.config]
    return config if args.pipes is None else replace(config, pipes=args.pipes)


def nodes(text: str) -> tuple[int, ...]:
    """``4x2x2`` as a tuple. Raises :class:`UserError` for anything that is not a torus."""
    if not re.fullmatch(r"\d+(x\d+)*", text):
        raise UserError(f"--nodes must be sizes of dimensions such as 4 or 4x2x2, not {text!r}.")
    shape = tuple(map(int, text.split("x")))
    if len(shape) > DIMENSIONS:
        raise UserError(f"--nodes must have at most {DIMENSIONS} dimensions, not {len(shape)}.")
    if not all(shape) or prod(shape) > MAX_RANKS:
        raise UserError(f"--nodes must have 1 to {MAX_RANKS} ranks in total, not {prod(shape):,}.")
    return shape


@contextmanager
def at_work(name: str, config: AceConfig) -> Iterator[tuple["Library", NotifyCycles]]:
    """``with`` the library of a configuration, shown as ``name``, and ``notify(done, total, note)``."""
    from sim.ace.shared_library import build_library

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"building {name}", total=None, note="")

        def building(what: str, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total or None, note=what)

        def notify(done: int, total: int | None, note: str) -> None:
            progress.update(task, description=f"simulating {name}", completed=done, total=total, note=note)

        yield build_library(config, status=building), notify
