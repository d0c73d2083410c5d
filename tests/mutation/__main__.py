# SPDX-License-Identifier: Apache-2.0
"""``make mutants``: see :mod:`tests.mutation`."""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

from hw.errors import UserError
from sim.verilator.toolchain import build_root
from tests.mutation import designs, pool
from tests.mutation.by_block import BLOCKS, block_test, finds
from tests.mutation.equivalence import is_equivalent
from tests.mutation.explained import explanation
from tests.mutation.fast_set import FAST_SETS
from tests.mutation.operators import Mutant
from tests.mutation.report import Result, markdown, score
from tests.mutation.runner import BrokenSet, Original, Verdict, run_mutant

__all__ = ["known", "main", "run", "sample"]

SEED = 1
LEAST_SHARE = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if 95 % of the mutants that are not equivalent were killed, 1 if not, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Run the fast set against mutants of "
                                     "the `tiny` engines, and write build/mutants/report.md.")
    parser.add_argument("--engine", choices=sorted(designs.ENGINES), action="append",
                        help="only this engine (default: both)")
    parser.add_argument("--mutants", type=int, metavar="N", help="number of mutants of each engine (default: all)")
    parser.add_argument("--number", type=int, action="append", metavar="N", help="only the mutant of this number")
    parser.add_argument("--seed", type=int, default=SEED, metavar="S",
                        help=f"chooses the mutants if --mutants leaves some out (default: {SEED})")
    parser.add_argument("--unknown", action="store_true", help="choose among mutants that neither a test of a block "
                        "finds nor whose survival is explained")
    parser.add_argument("--resume", action="store_true",
                        help="keep the results of an earlier call that has not ended")
    parser.add_argument("--blocks", action="store_true", help="run the tests of blocks that find further mutants")
    parser.add_argument("--renew", action="store_true", help="replace the mutants of lines that have changed by others "
                        "that the seed chooses, and run nothing")
    parser.add_argument("--list", action="store_true", help="print the runs and the mutants, and run nothing")
    args = parser.parse_args(arguments)
    try:
        return _main(args)
    except (UserError, BrokenSet) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _main(args: argparse.Namespace) -> int:
    engines = list(dict.fromkeys(args.engine or designs.ENGINES))
    if args.mutants is not None and args.mutants < 1:
        raise UserError(f"--mutants must be at least 1, not {args.mutants}.")
    if args.number and len(engines) != 1:
        raise UserError("--number needs --engine, as each engine has its own numbers.")
    for number in args.number or ():
        if number not in (numbers := [row.number for row in pool.read(engines[0])]):
            raise UserError(f"--number must be one of the {len(numbers)} that --list prints for this engine, "
                            f"not {number}.")
    if args.blocks:
        return _blocks()
    if args.renew:
        for engine in engines:
            pool.write(engine, pool.renewed(pool.read(engine), designs.candidates_of(engine), seed=args.seed))
        return 0
    if args.list:
        for engine in engines:
            print(f"Runs of the {designs.ENGINES[engine]}:")
            print("".join(f"  {test.name}\n" for test in FAST_SETS[engine]), end="")
            for number, mutant in designs.mutants_of_engine(engine).items():
                print(f"  {number:4} {mutant.source} {mutant.operator}: {mutant.change}")
        return 0
    results: list[Result] = []
    kept = _Kept(build_root() / "mutants" / "results.json", resume=args.resume)
    for engine in engines:
        _check_pool(engine, args.number or ())
        numbers = args.number or sample(engine, args.mutants, args.seed, without_known=args.unknown)
        for result in run(engine, numbers, kept):
            results.append(result)
            _show(result)
    report = build_root() / "mutants" / "report.md"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(markdown(results, title=f"Mutants, seed {args.seed}"), encoding="utf-8")
    found = score(results)
    print(f"{found.all} mutants, {found.equivalent} equivalent, {found.killed} killed, {found.explained} explained, "
          f"{found.survived} survived: {100 * found.share:.1f} % killed. Report: {report}")
    return 0 if found.share >= LEAST_SHARE else 1


def _blocks() -> int:
    """Run the tests of blocks; returns 1 if one finds nothing."""
    missed = 0
    for entry in BLOCKS:
        found = finds(entry)
        missed += not found
        print(f"{'found' if found else 'NOT FOUND':10} {entry.file}: {entry.code}: {entry.change}  {entry.test}",
        flush=True)
    return int(missed > 0)


def _check_pool(engine: str, numbers: Sequence[int]) -> None:
    """Say how many of the listed mutants do not exist any more. Raises UserError if one of ``numbers`` is of these."""
    gone = [row for row in pool.read(engine) if row.number not in designs.mutants_of_engine(engine)]
    if gone:
        print(f"{len(gone)} of the listed mutants of the {designs.ENGINES[engine]} are of lines that have changed; "
              "--renew replaces them.", flush=True)
    for row in gone:
        if row.number in numbers:
            raise UserError(f"Mutant {row.number} does not exist any more: `{row.code}` of {row.file} has changed.")


def known(mutant: Mutant) -> bool:
    """Whether a test of its block finds it, or its survival is explained."""
    return block_test(mutant) is not None or explanation(mutant) is not None


def sample(engine: str, wanted: int | None, seed: int, *, without_known: bool = False) -> list[int]:
    """Numbers of mutants, of all or of those that are not :func:`known`: as many as wanted, by the seed, or all."""
    numbers = list(designs.mutants_of_engine(engine))
    if without_known:
        mutants = designs.mutants_of_engine(engine)
        numbers = [number for number in numbers if not known(mutants[number])]
    if wanted is None or wanted >= len(numbers):
        return numbers
    return sorted(random.Random(f"{engine} {seed}").sample(numbers, wanted))


class _Kept:
    """Results in a file, so that a call that was interrupted can be resumed."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.rows: dict[str, dict] = {}
        if resume and path.is_file():
            self.rows = json.loads(path.read_text(encoding="utf-8"))

    def find(self, key: str) -> tuple[Verdict, bool] | None:
        row = self.rows.get(key)
        return None if row is None else (Verdict(**row["verdict"]), row["equivalent"])

    def keep(self, key: str, verdict: Verdict, equivalent: bool) -> None:
        self.rows[key] = {"verdict": asdict(verdict), "equivalent": equivalent}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.rows, indent=1), encoding="utf-8")


def run(engine: str, numbers: Sequence[int], kept: _Kept | None = None) -> Iterator[Result]:
    """Build the simulators of an engine and yield the result of each mutant.

    Parameters
    ----------
    engine : str
        ``dma`` or ``ace``.
    numbers : sequence of int
        Of its mutants.
    """
    ready = designs.prepare(engine)
    design, name, below = designs.design_of(engine)
    text = designs.netlist_of(design, name=name)
    tests = FAST_SETS[engine]
    original = Original(ready)
    for number in numbers:
        mutant = ready.mutants[number]
        key = f"{engine} {mutant.source} {mutant.key}"
        if kept and (before := kept.find(key)):
            yield Result(engine, mutant, *before)
            continue
        verdict = run_mutant(ready, number, [test for test in tests if test.fits(mutant)], original)
        equivalent = not verdict.killed and not known(mutant) and is_equivalent(text, mutant, below=below)
        if kept:
            kept.keep(key, verdict, equivalent)
        yield Result(engine, mutant, verdict, equivalent)


def _show(result: Result) -> None:
    verdict = result.verdict
    how = f"{verdict.test}: {verdict.reason[:90]}" if verdict.killed else ""
    print(f"{result.engine} {verdict.number:4} {result.state:10} {verdict.seconds:6.1f} s  {result.mutant.source} "
          f"{result.mutant.operator}: {result.mutant.change}  {how}", flush=True)


if __name__ == "__main__":
    signal(SIGPIPE, SIG_DFL)        # a reader of --list may end before
    sys.exit(main())
