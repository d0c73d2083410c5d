# SPDX-License-Identifier: Apache-2.0
"""The mutants of an engine that are examined: ``pools/dma.tsv`` and ``pools/ace.tsv``.

They were chosen at random (:func:`tests.mutation.schemata.choose`), and are listed so that they and their numbers stay
the same while other lines of the hardware change. A row has, between tabs, the number, the file, the path of the
module, the operator, the change, the position among mutants equal in all of these, and the text of the source line.

A row of a line that has changed names no mutant any more; :func:`renewed` replaces it by another one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.mutation.explained import line_of
from tests.mutation.operators import Mutant
from tests.mutation.schemata import choose

__all__ = ["Row", "found_rows", "read", "renewed", "write"]

FOLDER = Path(__file__).parent / "pools"


@dataclass(frozen=True)
class Row:
    number: int
    file: str
    module: str
    operator: str
    change: str
    ordinal: int
    code: str


def read(engine: str) -> list[Row]:
    """The rows of an engine, by number."""
    lines = (FOLDER / f"{engine}.tsv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines]
    return [Row(int(number), file, module, operator, change, int(ordinal), code)
            for number, file, module, operator, change, ordinal, code in cells]


def write(engine: str, rows: Iterable[Row]) -> None:
    text = "".join("\t".join(map(str, astuple(row))) + "\n" for row in rows)
    (FOLDER / f"{engine}.tsv").write_text(text, encoding="utf-8")


def found_rows(rows: Sequence[Row], candidates: Iterable[Mutant]) -> dict[int, Mutant]:
    """Number -> mutant, of the rows that name one of the candidates."""
    numbers = {astuple(row)[1:]: row.number for row in rows}
    found = {numbers[key]: mutant for key, mutant in _keys(candidates) if key in numbers}
    return dict(sorted(found.items()))


def renewed(rows: Sequence[Row], candidates: Sequence[Mutant], *, seed: int) -> list[Row]:
    """The rows that name a mutant, and new ones, with numbers of their own, in place of the others.

    Parameters
    ----------
    candidates : sequence of Mutant
        All, in the order of the netlist; new rows name those of source lines and operators without a row.
    seed : int
        Chooses among them.
    """
    found = found_rows(rows, candidates)
    kept = [row for row in rows if row.number in found]
    taken = {(mutant.source, mutant.operator) for mutant in found.values()}
    keys = {id(mutant): key for key, mutant in _keys(candidates)}
    others = [mutant for mutant in choose(candidates, seed=seed) if (mutant.source, mutant.operator) not in taken]
    following = max((row.number for row in rows), default=0) + 1
    added = [Row(number, *keys[id(mutant)])
             for number, mutant in enumerate(others[:len(rows) - len(kept)], following)]
    return kept + added


def _keys(candidates: Iterable[Mutant]) -> Iterator[tuple[tuple, Mutant]]:
    """The cells of a row after its number, and the mutant."""
    seen: Counter[tuple[str, ...]] = Counter()
    for mutant in candidates:
        key = mutant.file, mutant.module, mutant.operator, mutant.change, line_of(mutant)
        yield (*key[:4], seen[key], key[4]), mutant
        seen[key] += 1
