# SPDX-License-Identifier: Apache-2.0
"""A picture of a short trace: a line per segment, a colour per stage."""

from pathlib import Path

from sim.dma.lifecycles import STAGES, Lifecycles

__all__ = ["MOST_SEGMENTS", "draw"]

MOST_SEGMENTS = 80
"""Segments that are drawn, from the first on."""

COLOURS = {"check, reserve": "#bab0ac", "read": "#4e79a7", "wait": "#edc948", "write": "#59a14f", "retire": "#b07aa1"}
QUEUE_COLOURS = ("#222222", "#d62728", "#17becf", "#8c564b")


def draw(lifecycles: Lifecycles, path: str | Path) -> None:
    """Write the picture of a :class:`sim.dma.lifecycles.Lifecycles` as PNG."""
    # Imported here: it takes a second.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    segments = lifecycles.segments[:MOST_SEGMENTS]
    begin = min((span.begin for span in lifecycles.requests), default=0)
    figure = Figure(figsize=(10, 2.2 + 0.13 * len(segments)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes, levels = figure.subplots(2, sharex=True, height_ratios=(max(1, len(segments)), 8))
    end = 0
    for row, segment in enumerate(segments):
        for stage, start, stop in lifecycles.stages(segment):
            axes.barh(row, stop - start, left=start - begin, height=0.8, color=COLOURS[stage])
            end = max(end, stop)
        axes.plot(segment.at["scheduled"] - begin - 4, row, "o", markersize=3,
                  color=QUEUE_COLOURS[segment.queue % len(QUEUE_COLOURS)])
    for span in lifecycles.words:
        if span.begin <= end:
            axes.axvline(span.begin - begin, color="#999999", linewidth=0.6, linestyle=":", zorder=0)
    axes.set_ylim(len(segments), -1)
    axes.set_ylabel("segment, in order of scheduling")
    queues = sorted({segment.queue for segment in segments})
    axes.legend(handles=[
        *(Patch(color=COLOURS[stage], label=stage) for stage, *_ in STAGES),
        Line2D([], [], color="#999999", linestyle=":", label="completion word"),
        *(Line2D([], [], marker="o", linestyle="", markersize=4, color=QUEUE_COLOURS[queue % len(QUEUE_COLOURS)],
                 label=f"queue {queue}") for queue in queues[:len(QUEUE_COLOURS)]),
    ], loc="upper right", fontsize=8)
    cycles = [cycle - begin for cycle, *_ in lifecycles.levels]
    for place, label in ((1, "segments in flight"), (2, "buffer beats reserved")):
        levels.step(cycles, [level[place] for level in lifecycles.levels], where="post", label=label)
    levels.set_xlim(-8, end - begin + 8)
    levels.set_xlabel("cycles from the first doorbell")
    levels.legend(loc="upper right", fontsize=8)
    figure.savefig(Path(path), metadata={"Software": None})
