# SPDX-License-Identifier: Apache-2.0
"""Plot of a transformer's last iteration: a row for each stage of its pipeline."""

from collections.abc import Iterable

from sim.system.graph import Kind
from sim.system.training import Run, Span

from .plots import COLOURS, axes_of, last_iteration, legend, svg

__all__ = ["merged", "timeline"]

FINENESS = 4000
"""Intervals of a row that are nearer than this part of the iteration are drawn as one."""

RECOMPUTED = "#ccbb44"
SENDS, URGENT, OTHERS = "#000000", "#ee6677", "#aa3377"


def merged(spans: Iterable[Span], origin: float, gap: float) -> list[tuple[float, float]]:
    """``(begin, duration)`` in microseconds from ``origin`` of what the spans cover, without gaps of ``gap`` seconds or
    less."""
    made: list[list[float]] = []
    for span in sorted(spans, key=lambda span: span.begin):
        if made and span.begin - made[-1][1] <= gap:
            made[-1][1] = max(made[-1][1], span.end)
        else:
            made.append([span.begin, span.end])
    return [((begin - origin) * 1e6, (end - begin) * 1e6) for begin, end in made]


def timeline(run: Run) -> str:
    """For each stage: computation by pass and, below it, sends, collectives that hold computation, and others."""
    origin, spans = last_iteration(run)
    gap = (max(span.end for span in spans) - origin) / FINENESS
    ranks = run.graph.ranks or (None,)
    figure, axes = axes_of(1.0 + 0.55 * len(ranks))
    colours = {**COLOURS, "recompute": RECOMPUTED}
    for row, rank in enumerate(ranks):
        mine = [span for span in spans if span.node.rank == rank]
        for part, colour in colours.items():
            computed = [span for span in mine if span.node.kind == Kind.COMPUTE and span.node.part == part]
            axes.broken_barh(merged(computed, origin, gap), (-row - 0.45, 0.45), linewidth=0, color=colour)
        collectives = [span for span in mine if span.node.kind == Kind.COLLECTIVE]
        below = {SENDS: [span for span in mine if span.node.kind == Kind.SEND],
                 URGENT: [span for span in collectives if span.node.priority],
                 OTHERS: [span for span in collectives if not span.node.priority]}
        for number, (colour, some) in enumerate(below.items()):
            axes.broken_barh(merged(some, origin, gap), (-row - 0.57 - 0.12 * number, 0.1), linewidth=0, color=colour)
    labels = {"forward": colours["forward"], "input grad": colours["input_grad"], "weight grad": colours["weight_grad"],
              "recompute": RECOMPUTED, "update": colours["update"], "sends": SENDS,
              "collectives that hold computation": URGENT, "gradients": OTHERS}
    for label, colour in labels.items():
        axes.bar(0, 0, color=colour, label=label)
    axes.set_yticks([-row - 0.4 for row in range(len(ranks))], [f"stage {row}" for row in range(len(ranks))])
    end = max(span.end for span in spans) - origin
    unit, factor = ("s", 1e-6) if end >= 0.5 else ("ms", 1e-3) if end >= 5e-4 else ("us", 1.0)
    axes.xaxis.set_major_formatter(lambda place, _: f"{place * factor:g}")
    axes.set_xlabel(unit)
    legend(axes, 4)
    return svg(figure)
