# SPDX-License-Identifier: Apache-2.0
"""The HTML page and the summary of a coverage run."""

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.coverage.bins import Cross, Tally
from tests.coverage.dat import Point

__all__ = ["File", "Share", "files_of", "page", "summary"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Share:
    """Covered ones of all."""

    covered: int
    all: int

    def __str__(self) -> str:
        return f"{100 * self.covered / self.all:.1f} %" if self.all else "-"

    def __add__(self, other: "Share") -> "Share":
        return Share(self.covered + other.covered, self.all + other.all)


@dataclass
class File:
    """Coverage of a source file: by line, the counts of its statements, branches and toggles."""

    path: str
    statements: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    branches: dict[int, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    toggles: dict[int, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))

    def shares(self) -> tuple[Share, Share, Share]:
        """Shares of lines, covered if all statements were executed, of branches, and of toggles of each bit."""
        lines = Share(sum(all(counts) for counts in self.statements.values()), len(self.statements))
        found = [lines]
        for kind in (self.branches, self.toggles):
            counts = [count for points in kind.values() for _, count in points]
            found.append(Share(sum(map(bool, counts)), len(counts)))
        return found[0], found[1], found[2]

    def gaps(self, number: int) -> list[str]:
        """Branches and toggles of a line that did not occur, in words."""
        never = [what for what, count in self.branches.get(number, ()) if not count]
        found = [f"branch {what} never taken ({never.count(what)} of it)" for what in sorted(set(never))]
        bits = defaultdict(list)
        for what, count in self.toggles.get(number, ()):
            if not count:
                name, _, direction = what.rpartition(":")
                bits[name].append(direction)
        if bits:
            names = sorted(bits)
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            found.append(f"never toggled in both directions: {shown}")
        return found


def files_of(counts: Mapping[Point, int], lines: Mapping[int, str], *, prefixes: Sequence[str] = ("hw/",)) -> \
        dict[str, File]:
    """Coverage by source file.

    Parameters
    ----------
    counts : dict
        Point -> count.
    lines : dict
        Line of Verilog -> ``FILE:LINE``, of :func:`tests.coverage.branches.line_map`.
    prefixes : sequence of str
        Files that count.
    """
    files: dict[str, File] = {}

    def place(number: int) -> tuple[File, int] | None:
        path, _, line = lines.get(number, "").rpartition(":")
        if not path.startswith(tuple(prefixes)):
            return None
        return files.setdefault(path, File(path)), int(line)

    for point, count in counts.items():
        if point.kind == "toggle":
            if found := place(point.line):
                found[0].toggles[found[1]].append((point.what, count))
            continue
        if point.is_branch:
            # The way past a statement without an else has no line of its own.
            at = point.lines[0] if point.lines else point.line
            if found := place(at):
                found[0].branches[found[1]].append((point.what if point.lines else "past it", count))
        for number in point.lines:
            if found := place(number):
                found[0].statements[found[1]].append(count)
    return dict(sorted(files.items()))


_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: #1a1a1a;
       background: #fff; }
table { border-collapse: collapse; margin: 1em 0; } td, th { padding: .2em .7em; border-bottom: 1px solid #ddd;
       text-align: right; } td:first-child, th:first-child { text-align: left; } th { border-bottom: 2px solid #888; }
pre { margin: 0; font: 12px/1.4 ui-monospace, monospace; overflow-x: auto; } pre div { white-space: pre; }
.yes { background: #e2f4e2; } .no { background: #fbdcdc; } .part { background: #fdf1cf; }
.gap { color: #9a3412; } .none { background: #fbdcdc; } .never { color: #999; } summary { cursor: pointer;
       padding: .15em 0; } .bar { display: inline-block; width: 7em; height: .7em; background: #fbdcdc; }
.bar i { display: block; height: 100%; background: #58a55c; } .number { color: #888; }
"""


def _bar(share: Share) -> str:
    if not share.all:
        return "-"
    return (f'<span class="bar"><i style="width:{100 * share.covered / share.all:.0f}%"></i></span> {share} '
            f'<span class="number">({share.covered:,} of {share.all:,})</span>')


def page(engines: Mapping[str, Mapping[str, File]], tally: Tally, crosses: Sequence[Cross], *, title: str,
         runs: Mapping[str, Sequence[str]]) -> str:
    """A page of HTML without any other file.

    Parameters
    ----------
    engines : dict
        Title of an engine -> its files.
    runs : dict
        Title of an engine -> names of its runs.
    """
    parts = [f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
             f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>",
             "<table><tr><th>engine<th>lines<th>branches<th>toggles</tr>"]
    for name, files in engines.items():
        shares = [sum((file.shares()[kind] for file in files.values()), Share(0, 0)) for kind in range(3)]
        parts.append(f"<tr><td>{html.escape(name)}{''.join(f'<td>{_bar(share)}' for share in shares)}</tr>")
    parts.append("</table><p>A line is covered if all statements that it became in the Verilog were executed; a branch "
                 "if it was taken; a toggle is one direction of one bit of a signal. Equal modules count as one.</p>")
    for name, files in engines.items():
        parts.append(f"<h2>{html.escape(name)}</h2><p>Runs: {html.escape(', '.join(runs[name]))}.</p>"
                     "<table><tr><th>file<th>lines<th>branches<th>toggles</tr>")
        for path, file in files.items():
            cells = "".join(f"<td>{_bar(share)}" for share in file.shares())
            parts.append(f'<tr><td><a href="#{_anchor(name, path)}">{html.escape(path)}</a>{cells}</tr>')
        parts.append("</table>")
    parts.append("<h2>Functional coverage</h2>")
    for cross in crosses:
        parts.append(_cross(cross, tally))
    for name, files in engines.items():
        parts.append(f"<h2>Sources of the {html.escape(name)}</h2>")
        parts += [_source(name, file) for file in files.values()]
    return "\n".join(parts) + "</html>\n"


def _anchor(engine: str, path: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in f"{engine}-{path}")


def _cross(cross: Cross, tally: Tally) -> str:
    from itertools import product

    counts = tally.counts[cross.name]
    parts = [f"<h3>{html.escape(cross.name)}</h3><table><tr><th>"]
    columns = list(product(*cross.columns))
    parts += [f"<th>{html.escape(', '.join(column))}" for column in columns]
    for row in product(*cross.rows):
        parts.append(f"<tr><td>{html.escape(', '.join(row))}")
        for column in columns:
            one = (*row, *column)
            kind = "never" if cross.impossible(one) else "" if counts[one] else "none"
            shown = f"{counts[one]:,}" if counts[one] or not cross.impossible(one) else "n/a"
            parts.append(f'<td class="{kind}" title="{html.escape(cross.impossible(one))}">{shown}')
    return "".join(parts) + "</table>"


def _source(engine: str, file: File) -> str:
    text = (ROOT / file.path).read_text(encoding="utf-8").splitlines()
    lines = [f'<details id="{_anchor(engine, file.path)}"><summary>{html.escape(file.path)}: lines '
             f"{file.shares()[0]}, branches {file.shares()[1]}, toggles {file.shares()[2]}</summary><pre>"]
    for number, code in enumerate(text, 1):
        counts = [*file.statements.get(number, ()), *(count for _, count in file.branches.get(number, ()))]
        gaps = file.gaps(number)
        kind = ("no" if not any(counts) else "yes" if all(counts) else "part") if counts else ""
        note = f'  <span class="gap"># {html.escape("; ".join(gaps))}</span>' if gaps else ""
        lines.append(f'<div class="{kind}"><span class="number">{number:4}</span> {html.escape(code)}{note}</div>')
    return "".join(lines) + "</pre></details>"


def summary(engines: Mapping[str, Mapping[str, File]], tally: Tally, crosses: Sequence[Cross]) -> str:
    """The shares as Markdown tables."""
    lines = ["| engine | lines | branches | toggles |", "|---|---:|---:|---:|"]
    for name, files in engines.items():
        shares = [sum((file.shares()[kind] for file in files.values()), Share(0, 0)) for kind in range(3)]
        lines.append(f"| {name} | " + " | ".join(f"{share} of {share.all:,}" for share in shares) + " |")
    lines += ["", "| functional coverage | bins | empty |", "|---|---:|---:|"]
    for cross in crosses:
        possible = sum(not cross.impossible(one) for one in cross.bins())
        lines.append(f"| {cross.name} | {possible} | {len(tally.empty(cross))} |")
    return "\n".join(lines) + "\n"
