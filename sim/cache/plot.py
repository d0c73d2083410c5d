# SPDX-License-Identifier: Apache-2.0
"""The plot of ``dmace caches``: cycles under each policy, and kernels beside copies of a DMA engine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .policies import COMBINED, REGIONS, STATIC

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

Row = dict[str, Any]

_COLORS = {"uncached": "0.75", "cache-r": "C0", "cache-rw": "C1", "combined": "C2", "regions": "C3"}


def draw(result: Row, path: str | Path) -> None:
    """Write the plot of a result of ``dmace caches`` as PNG, with a second panel if it has copies."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    panels = 2 if "dma" in result else 1
    figure = Figure(figsize=(max(6.0, 0.6 * len(result["kernels"]) + 1.5), 3.2 * panels), layout="constrained")
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    _policies(axes[0], result)
    if panels == 2:
        _copies(axes[1], result["dma"])
    for axis in axes:
        axis.axhline(1, color="black", linewidth=0.8)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _bars(axis: "Axes", names: list[str], series: list[tuple[str, list[float], str]], most: float) -> None:
    """Groups of bars; those above ``most`` are cut there and labelled."""
    width = 0.8 / len(series)
    for number, (label, values, color) in enumerate(series):
        at = [index + (number - (len(series) - 1) / 2) * width for index in range(len(names))]
        axis.bar(at, values, width, label=label, color=color)
        for position, value in zip(at, values, strict=True):
            if value > most:
                axis.text(position, most, f"{value:.1f}", ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axis.set_ylim(0.8, most)
    axis.legend(fontsize=7, ncols=len(series), loc="lower center", bbox_to_anchor=(0.5, 1.06), frameon=False)


def _policies(axis: "Axes", result: Row) -> None:
    shown = [policy for policy in (*STATIC, COMBINED, REGIONS) if policy in result["kernels"][0]["ratios"]]
    _bars(axis, [row["kernel"] for row in result["kernels"]],
          [(policy, [row["ratios"][policy] for row in result["kernels"]], _COLORS[policy]) for policy in shown], 2.4)
    axis.set_ylabel("cycles over those of\nthe best static policy", fontsize=8)


def _copies(axis: "Axes", dma: Row) -> None:
    rows = [row for row in dma["rows"] if row["slowdown"]]
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    series = []
    for number, rate in enumerate(dict.fromkeys(row["rate"] for row in rows)):
        for allocate in (False, True):
            values = [row["slowdown"] for row in rows if (row["rate"], row["allocate"]) == (rate, allocate)]
            wanted = f"{rate:g} bytes per cycle" if rate else "no limit"
            series.append((f"{'allocate' if allocate else 'no-allocate'}, {wanted}", values,
                           ("C0", "C3", "C9", "C1")[(2 * number + allocate) % 4]))
    _bars(axis, kernels, series, 2.4)
    axis.set_ylabel(f"cycles beside copies of\n{dma['config']} over those alone", fontsize=8)
