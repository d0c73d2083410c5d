# SPDX-License-Identifier: Apache-2.0
"""The plot of ``dmace bench rdma``: payload rates beside their bound, and goodput over loss."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

Row = dict[str, Any]


def draw(result: Row, path: str | Path) -> None:
    """Write the plot of a result of ``dmace bench rdma`` as PNG, with a second panel if it has goodput."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    panels = 2 if result["goodput"] else 1
    figure = Figure(figsize=(4.8 * panels, 3.6), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _rates(axes[0], result)
    if panels == 2:
        _goodput(axes[1], result)
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _rates(axis: "Axes", result: Row) -> None:
    for color, write in (("C0", True), ("C1", False)):
        rows = [row for row in result["rates"] if row["write"] is write]
        sizes, name = [row["bytes"] for row in rows], "WRITE" if write else "READ"
        axis.plot(sizes, [row["bytes_per_cycle"] for row in rows], color=color, marker="o", markersize=4, label=name)
        axis.plot(sizes, [row["bytes"] / row["bound"] for row in rows], color=color, linestyle="--", linewidth=1,
                  label=f"{name}, bound")
    axis.set_xscale("log", base=2)
    axis.set_xlabel("bytes per message", fontsize=8)
    axis.set_ylabel("payload bytes per cycle", fontsize=8)
    axis.set_title(f"one queue pair, {result['data_width']} bit, line of {result['line_rate']:g} B per cycle",
                   fontsize=8)


def _goodput(axis: "Axes", result: Row) -> None:
    rows = [row for row in result["goodput"] if row["loss"]]
    for color, selective in (("C3", False), ("C2", True)):
        mine = [row for row in rows if row["selective"] is selective]
        axis.plot([row["loss"] for row in mine], [row["bytes_per_cycle"] for row in mine], color=color, marker="o",
                  markersize=4, label="selective repeat" if selective else "go-back-N")
    ideal = [row for row in rows if not row["selective"]]
    axis.plot([row["loss"] for row in ideal], [row["ideal"] for row in ideal], color="black", linestyle="--",
              linewidth=1, label="ideal")
    axis.set_xscale("log")
    axis.set_xlabel("loss of frames", fontsize=8)
    axis.set_title("goodput over loss, payload bytes per cycle", fontsize=8)
