# SPDX-License-Identifier: Apache-2.0
"""Plots of training predictions, as SVG texts."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.system.configuration import ENDPOINTS
from sim.system.graph import Kind
from sim.system.training import Run, Span

__all__ = ["axes_of", "curves", "iterations", "last_iteration", "layers", "legend", "links", "over_ranks", "saved_time",
           "svg", "timeline"]

COLOURS = {"forward": "#4477aa", "input_grad": "#66ccee", "weight_grad": "#228833", "backward": "#66ccee",
           "update": "#bbbbbb"}
MOST_LANES, MOST_LAYERS = 24, 20

_Rows = Sequence[Mapping[str, Any]]
"""As :func:`sim.system.experiment.row` makes them."""


def svg(figure: Figure) -> str:
    """The figure, to be put into HTML: text stays text, and the same figure gives the same bytes."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dmace"}):
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = out.getvalue()
    return text[text.index("<svg"):]


def axes_of(height: float, width: float = 9.0) -> tuple[Figure, Axes]:
    """A figure of this size in inches, without the lines at the top and at the right."""
    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def legend(axes: Axes, columns: int) -> None:
    """Above the plot, where no data are."""
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, fontsize="small")


def iterations(rows: _Rows) -> str:
    """Bars: compute alone, what it is slowed by, and exposed communication of each endpoint."""
    figure, axes = axes_of(0.6 + 0.45 * len(rows))
    names = [row["endpoint"] for row in rows]
    left = [0.0] * len(rows)
    parts = {"compute, alone": [row["compute_alone_seconds"] for row in rows],
             "slower compute": [row["compute_seconds"] - row["compute_alone_seconds"] for row in rows],
             "exposed communication": [row["exposed_seconds"] for row in rows]}
    for (label, seconds), colour in zip(parts.items(), ("#4477aa", "#ccbb44", "#ee6677"), strict=True):
        values = [value / row["steps"] * 1e6 for value, row in zip(seconds, rows, strict=True)]
        axes.barh(names, values, left=left, label=label, color=colour)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("us of an iteration")
    legend(axes, 3)
    return svg(figure)


def links(rows: _Rows) -> str:
    """Bars: utilisation of each dimension's links."""
    figure, axes = axes_of(2.4)
    dimensions = sorted(int(name.rpartition("_")[2]) for name in rows[0] if name.startswith("link_utilisation_"))
    width = 0.8 / max(1, len(rows))
    for number, row in enumerate(rows):
        places = [dimension + (number - (len(rows) - 1) / 2) * width for dimension in dimensions]
        axes.bar(places, [row[f"link_utilisation_{dimension}"] * 100 for dimension in dimensions], width,
                 label=row["endpoint"])
    axes.set_xticks(dimensions, [f"dimension {dimension}" for dimension in dimensions])
    axes.set_ylabel("busy, %")
    legend(axes, len(rows))
    return svg(figure)


def last_iteration(run: Run) -> tuple[float, list[Span]]:
    """Begin of the last iteration, and its spans with the rest of earlier iterations' collectives."""
    last = max(node.step for node in run.graph.nodes)
    origin = min(span.begin for span in run.spans if span.node.step == last)
    return origin, [span if span.begin >= origin else replace(span, begin=origin) for span in run.spans
                    if span.node.step == last or (span.node.kind == Kind.COLLECTIVE and span.end > origin)]


def timeline(run: Run) -> str:
    """The last iteration: compute by pass, and below it collectives, those in flight together below each other; also
    those of earlier iterations that are still in progress. Of ranks that differ, the first."""
    rank = next(iter(run.graph.ranks), None)
    origin, spans = last_iteration(run)
    spans = [span for span in spans if span.node.rank == rank]
    lanes: list[tuple[int, Span]] = []
    ends: list[float] = []
    for span in sorted((span for span in spans if span.node.kind in (Kind.COLLECTIVE, Kind.SEND)),
                       key=lambda span: span.begin):
        lane = next((number for number, end in enumerate(ends) if end <= span.begin), len(ends))
        if lane == len(ends):
            ends.append(0.0)
        ends[lane] = span.end
        if lane < MOST_LANES:
            lanes.append((lane, span))
    shown = min(len(ends), MOST_LANES)
    figure, axes = axes_of(0.9 + 0.14 * shown)
    for span in spans:
        if span.node.kind == Kind.COMPUTE:
            axes.broken_barh([((span.begin - origin) * 1e6, span.seconds * 1e6)], (0.0, 1.6), linewidth=0,
                             color=COLOURS.get(span.node.part, "#aa3377"))
    for lane, span in lanes:
        axes.broken_barh([((span.begin - origin) * 1e6, span.seconds * 1e6)], (-lane - 1.2, 0.8), linewidth=0,
                         color="#ee6677" if span.node.priority else "#aa3377")
    used = {span.node.part for span in spans if span.node.kind == Kind.COMPUTE}
    for part in (part for part in COLOURS if part in used):
        axes.bar(0, 0, color=COLOURS[part], label=part.replace("_", " "))
    axes.bar(0, 0, color="#aa3377", label="collectives" if rank is None else "collectives and messages")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(("us" if rank is None else f"us, rank {rank}") +
                    (f"; {len(ends)} collectives in flight, {shown} shown" if len(ends) > shown else ""))
    legend(axes, 4)
    return svg(figure)


def layers(runs: Mapping[str, Run]) -> str:
    """Bars: exposed communication by layer, the worst layers of all runs by name."""
    times = {name: {one.layer: one.exposed for one in run.layers()} for name, run in runs.items()}
    worst: dict[str, float] = {}
    for mine in times.values():
        for layer, seconds in mine.items():
            worst[layer] = max(worst.get(layer, 0.0), seconds)
    chosen = sorted((layer for layer in worst if worst[layer] > 0), key=lambda layer: -worst[layer])[:MOST_LAYERS]
    figure, axes = axes_of(1.0 + 0.22 * len(chosen))
    height = 0.8 / len(times)
    for number, (name, mine) in enumerate(times.items()):
        axes.barh([place + (number - (len(times) - 1) / 2) * height for place in range(len(chosen))],
                  [mine.get(layer, 0.0) * 1e6 for layer in chosen], height, label=name)
    axes.set_yticks(range(len(chosen)), chosen, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("us exposed in an iteration")
    legend(axes, len(times))
    return svg(figure)


def curves(rows: _Rows, x: str, y: str, by: Sequence[str], *, xlabel: str | None = None, ylabel: str | None = None,
           log: bool = False) -> str:
    """Lines of ``y`` over ``x``, one for each combination of values of the columns ``by``."""
    figure, axes = axes_of(3.4, 7.0)
    groups: dict[tuple[str, ...], list[tuple[Any, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row.get(name)) for name in by), []).append((row[x], row[y]))
    for name, points in groups.items():
        points.sort(key=lambda point: (isinstance(point[0], str), point[0]))
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=", ".join(name))
    if log:
        axes.set_xscale("log", base=2)
    axes.set_xlabel(xlabel or x)
    axes.set_ylabel(ylabel or y)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if len(groups) > 1:
        legend(axes, 3)
    return svg(figure)


def over_ranks(rows: _Rows, varied: Sequence[str]) -> Figure | None:
    """Figure: iteration time over Ideal's, against the number of ranks; a line for each endpoint, a panel for each
    combination of the other values. None where there is no Ideal, or one number of ranks only."""
    panels = [name for name in varied if name not in ("endpoint", "nodes") and name.partition(".")[0] not in ENDPOINTS]
    ideal = {tuple(one.get(name) for name in (*panels, "nodes")): one["step_seconds"] for one in rows
             if one["endpoint"] == "ideal"}
    lines: dict[tuple[Any, ...], dict[str, list[tuple[int, float]]]] = {}
    for one in rows:
        key = tuple(one.get(name) for name in panels)
        own = [f"{one[name]} {name.partition('.')[2]}" for name in varied
               if name.partition(".")[0] in ENDPOINTS and name in one]
        if (*key, one["nodes"]) in ideal:
            label = " ".join((one["endpoint"], *own))
            lines.setdefault(key, {}).setdefault(label, []).append(
                (one["ranks"], one["step_seconds"] / ideal[*key, one["nodes"]]))
    ranks = sorted({point[0] for panel in lines.values() for line in panel.values() for point in line})
    if len(ranks) < 2:
        return None
    columns = min(len(lines), 5)
    figure = Figure(figsize=(2.6 * columns + 0.8, 2.6 * -(-len(lines) // columns) + 0.6), layout="constrained")
    grid = figure.subplots(-(-len(lines) // columns), columns, squeeze=False, sharex=True).ravel()
    for axes, (key, panel) in zip(grid, lines.items(), strict=False):
        for number, (label, points) in enumerate(sorted(panel.items())):
            axes.plot(*zip(*sorted(points), strict=True), marker="os^Dv*"[number % 6], markersize=4, label=label)
        axes.set_title(", ".join(map(str, key)), fontsize="small")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ranks, ranks)
        axes.grid(alpha=0.3)
    for axes in grid[len(lines):]:
        axes.set_visible(False)
    figure.supxlabel("ranks", fontsize="medium")
    figure.supylabel("iteration over Ideal's", fontsize="medium")
    handles = {label: handle for axes in grid for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=6, frameon=False, fontsize="small")
    return figure


def saved_time(result: Mapping[str, Any]) -> Figure:
    """Figure: time that fusion saves over the number of slices, for each order, in percent of the unfused time; with
    the limit by computation and links, and the papers' values. ``result``: of ``dmace fused --json``."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in result["rows"]:
        lines.setdefault(row["order"], []).append((row["slices"], row["gain"] * 100))
    for number, (order, points) in enumerate(lines.items()):
        axes.plot(*zip(*sorted(points), strict=True), marker="os^"[number % 3], markersize=7 - 2 * number,
                  linewidth=3 - number, label=order or "fused")
    axes.axhline(result["bound_gain"] * 100, color="black", linewidth=1,
                 label="limit: the longer of computation and the busiest link")
    for number, (what, share) in enumerate(result["paper"].items()):
        style = ("dashed", "dotted", "dashdot", (0, (1, 4)))[number % 4]
        axes.axhline(share * 100, color="grey", linewidth=1, linestyle=style, label=f"{result['paper_source']}: {what}")
    slices = sorted({row["slices"] for row in result["rows"]})
    axes.set_xscale("log", base=2)
    axes.set_xticks(slices, slices)
    axes.minorticks_off()
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xlabel("slices")
    axes.set_ylabel("time saved, %")
    axes.grid(alpha=0.3)
    figure.suptitle(f"{result['operation']} on {result['nodes']} ranks, {result['engine']} requests", fontsize="medium")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure
