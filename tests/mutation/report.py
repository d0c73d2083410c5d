# SPDX-License-Identifier: Apache-2.0
"""Results of mutants as Markdown: the score, a row for each file, and the survivors by source line."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutation.by_block import block_test
from tests.mutation.explained import explanation, line_of
from tests.mutation.operators import Mutant
from tests.mutation.runner import Verdict

__all__ = ["Result", "Score", "markdown", "score"]


@dataclass(frozen=True)
class Result:
    """A mutant of an engine, its verdict, and whether it was proved equivalent."""

    engine: str
    mutant: Mutant
    verdict: Verdict
    equivalent: bool = False

    @property
    def state(self) -> str:
        """``killed``, ``equivalent``, ``explained`` or ``survived``."""
        if self.verdict.killed or block_test(self.mutant):
            return "killed"
        if self.equivalent:
            return "equivalent"
        entry = explanation(self.mutant)
        return "survived" if entry is None else "equivalent" if entry.reason == "equivalent" else "explained"


@dataclass(frozen=True)
class Score:
    """Numbers of mutants; ``share`` is that of the killed ones among those that are not equivalent, 1 for no mutant."""

    all: int
    killed: int
    equivalent: int
    explained: int
    survived: int

    @property
    def share(self) -> float:
        tested = self.all - self.equivalent
        return self.killed / tested if tested else 1.0


def score(results: Sequence[Result]) -> Score:
    """Count results."""
    states = [result.state for result in results]
    return Score(len(states), *(states.count(state) for state in ("killed", "equivalent", "explained", "survived")))


def _row(name: str, results: Sequence[Result]) -> str:
    count = score(results)
    return (f"| {name} | {count.all} | {count.equivalent} | {count.killed} | {count.explained} | {count.survived} "
            f"| {100 * count.share:.1f} % |")


_HEAD = ["| {} | mutants | equivalent | killed | explained | survived | killed of the others |",
         "|---|---:|---:|---:|---:|---:|---:|"]


def markdown(results: Sequence[Result], *, title: str) -> str:
    """The report.

    Parameters
    ----------
    results : sequence of Result
        In any order.
    title : str
        Its first line.
    """
    lines = [f"# {title}", ""]
    for column, groups in (
            ("engine", {result.engine for result in results}), ("operator", {r.mutant.operator for r in results}),
            ("file", {result.mutant.file for result in results})):
        lines += [_HEAD[0].format(column), _HEAD[1]]
        for name in sorted(groups):
            lines.append(_row(name, [result for result in results if name in (
                result.engine, result.mutant.operator, result.mutant.file)]))
        lines += [_row("all", results), ""]
    lines += ["## Runs that killed", "", "| run | mutants | seconds each |", "|---|---:|---:|"]
    runs: dict[str, list[float]] = {}
    for result in results:
        if result.state == "killed":
            name = result.verdict.test or "tests of blocks"
            runs.setdefault(f"{result.engine}: {name}", []).append(result.verdict.seconds)
    lines += [f"| {name} | {len(times)} | {sum(times) / len(times):.1f} |" for name, times in sorted(runs.items())]
    for state, heading in (("survived", "Survivors"), ("explained", "Explained survivors"),
                           ("equivalent", "Equivalent mutants"), ("killed", "Killed mutants")):
        lines += ["", f"## {heading}", ""]
        for result in sorted((r for r in results if r.state == state), key=lambda r: _place(r.mutant)):
            mutant, entry, block = result.mutant, explanation(result.mutant), block_test(result.mutant)
            note = {"killed": f" {block.test}" if block and not result.verdict.killed else
                    f" {result.verdict.test}: {_one_line(result.verdict.reason)}",
                    "equivalent": f" {entry.why}" if entry and not result.equivalent else " Proved.",
                    "explained": f" {entry.reason}: {entry.why}" if entry else ""}.get(state, "")
            lines.append(f"* {result.engine} {result.verdict.number}, `{mutant.source}` {mutant.operator}: "
                         f"{mutant.change} (`{line_of(mutant)}`).{note}")
    return "\n".join(lines) + "\n"


def _place(mutant: Mutant) -> tuple[str, int]:
    return mutant.file, int(mutant.source.rpartition(":")[2])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:160]
