# SPDX-License-Identifier: Apache-2.0
"""``make coverage``: see :mod:`tests.coverage`."""

import argparse
import sys
from collections.abc import Sequence

from hw.errors import UserError
from sim.verilator.toolchain import build_root
from tests.coverage.bins import CROSSES, Tally
from tests.coverage.page import File, files_of, page, summary
from tests.coverage.runs import ENGINES, run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 if a run failed, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description="Line, branch, toggle and functional "
                                     "coverage of the `tiny` engines, as build/coverage/index.html.")
    parser.add_argument("--engine", choices=sorted(ENGINES), action="append", help="only this engine (default: both)")
    args = parser.parse_args(arguments)
    engines: dict[str, dict[str, File]] = {}
    runs: dict[str, list[str]] = {}
    tally = Tally()
    try:
        for engine in dict.fromkeys(args.engine or ENGINES):
            counts, lines, names = run(engine, tally, lambda step: print(step, flush=True))
            engines[ENGINES[engine]] = files_of(counts, lines)
            runs[ENGINES[engine]] = names
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    crosses = [cross for cross in CROSSES if ENGINES[cross.engine] in engines]
    folder = build_root() / "coverage"
    (folder / "index.html").write_text(page(engines, tally, crosses, title="Coverage of the tiny engines", runs=runs),
                                       encoding="utf-8")
    text = summary(engines, tally, crosses)
    (folder / "summary.md").write_text(text, encoding="utf-8")
    print(text, end="")
    for cross in crosses:
        for one in tally.empty(cross):
            print(f"empty: {cross.name}: {', '.join(one)}")
    print(f"Page: {folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
