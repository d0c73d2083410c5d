# SPDX-License-Identifier: Apache-2.0
"""Compile the programs of this folder, run them on a GPU and simulated cards, and check how each one ends.

::

    python examples/gpu/check.py -o build/gpu              with a GPU
    python examples/gpu/check.py -o build/gpu --threads    with threads of the CPU in its place
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hw.errors import UserError
from sim.vfio.harness import build_transport

__all__ = ["Run", "main", "runs"]

_LIMIT = 300
"""Seconds of a run."""


@dataclass(frozen=True)
class Run:
    """A program with its arguments, and whether it must find an error that it is made to cause."""

    program: Path
    arguments: tuple[str, ...]
    wrong: bool = False


def runs(post: Path, fused: Path, measure: Path, card: str, *, small: bool) -> list[Run]:
    """The runs, of simulated cards ``card``; small ones for threads of the CPU."""
    pair = tuple(f"{card},cluster=fused,shape=2,rank={rank}" for rank in (0, 1))
    counts = ("--threads", "64") if small else ("--threads", "4096")
    many = ("--workgroups", "4") if small else ("--workgroups", "512", "--slices", "32", "--parts", "16",
                                                "--iterations", "200")
    return [
        Run(post, (card, *counts, "--queues", "4")),
        Run(post, (card, "--threads", "64", "--queues", "4", "--split", "1"), wrong=True),
        Run(fused, many),
        Run(fused, ("--workgroups", "4", "--generation", "65530", "--iterations", "60")),
        Run(fused, ("--workgroups", "4", "--early", "1"), wrong=True),
        Run(fused, (*pair, "--workgroups", "4" if small else "16")),
        Run(fused, (*pair, "--workgroups", "4", "--generation", "65530", "--iterations", "20")),
        Run(measure, ("--rounds", "20000" if small else "1000000")),
    ]


def _compiled(folder: Path, threads: bool) -> tuple[Path, Path, Path]:
    build = Path(__file__).parent / "build.py"
    done = subprocess.run([sys.executable, build, "-o", folder, *(["--threads"] if threads else [])],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(done.stderr.strip())
    first, second, third = ("threads", "fused_threads", "measure_threads") if threads else ("post", "fused", "measure")
    return folder / first, folder / second, folder / third


def _as_expected(run: Run) -> bool:
    print(f"\n$ {' '.join((str(run.program), *run.arguments))}", flush=True)
    try:
        status = subprocess.run([run.program, *run.arguments], check=False, timeout=_LIMIT).returncode
    except subprocess.TimeoutExpired:
        print(f"The program did not end within {_LIMIT} s.")
        return False
    right = status == (1 if run.wrong else 0)
    if not right:
        print(f"Its status must be {1 if run.wrong else 0}, not {status}.")
    return right


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile and run as the command line says; returns the exit status: 0 if each program ended as it must."""
    parser = argparse.ArgumentParser(description="Run the programs of this folder on a GPU and simulated cards.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the programs")
    parser.add_argument("--threads", action="store_true", help="threads of the CPU, which need no GPU")
    chosen = parser.parse_args(arguments)
    try:
        programs = _compiled(chosen.output, chosen.threads)
        card = f"sim:{build_transport('tiny').path}"
        failed = [run for run in runs(*programs, card, small=chosen.threads) if not _as_expected(run)]
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{len(failed)} runs did not end as they must.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
