# SPDX-License-Identifier: Apache-2.0
"""The plot of ``dmace bench remote``: cycles per tensor over its size, and training steps."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

Row = dict[str, Any]

_NAMES = {"static": "static placement", "dynamic": "dynamic allocation", "rpc": "messages with copies"}


def draw(result: Row, path: str | Path) -> None:
    """Write the plot of a result of ``dmace bench remote`` as PNG, with a third panel if it has training steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    panels = 3 if result["steps"] else 2
    figure = Figure(figsize=(4.2 * panels, 3.8), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _sizes(axes[0], result["latencies"], "one tensor at a time")
    _sizes(axes[1], result["rates"], "several tensors in flight")
    if panels == 3:
        _steps(axes[2], result["steps"])
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    lossy = f", loss {result['loss']:g}" if result["loss"] else ""
    figure.suptitle(f"two endpoints with RoCEv2, {result['data_width']} bit, line of {result['line_rate']:g} B per "
                    f"cycle{lossy}", fontsize=9)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _sizes(axis: "Axes", rows: list[Row], title: str) -> None:
    for number, (mechanism, name) in enumerate(_NAMES.items()):
        mine = [row for row in rows if row["mechanism"] == mechanism]
        sizes = [row["bytes"] for row in mine]
        axis.plot(sizes, [row["cycles"] for row in mine], color=f"C{number}", marker="o", markersize=4, label=name)
        axis.plot(sizes, [row["bound"] for row in mine], color=f"C{number}", linestyle="--", linewidth=1)
    axis.plot([], [], color="gray", linestyle="--", linewidth=1, label="their bounds")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xlabel("bytes of the tensor", fontsize=8)
    axis.set_ylabel("cycles per tensor", fontsize=8)
    axis.set_title(title, fontsize=8)
    axis.legend(fontsize=7)


def _steps(axis: "Axes", rows: list[Row]) -> None:
    lengths = list(dict.fromkeys(row["rows"] for row in rows))
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in rows))
    width = 0.8 / len(mechanisms)
    for number, mechanism in enumerate(mechanisms):
        mine = {row["rows"]: row["cycles"] for row in rows if row["mechanism"] == mechanism}
        bars = axis.bar([position + (number - (len(mechanisms) - 1) / 2) * width for position in range(len(lengths))],
                        [mine[length] for length in lengths], width, color=f"C{list(_NAMES).index(mechanism)}",
                        label=_NAMES[mechanism])
        axis.bar_label(bars, fmt="{:,.0f}", fontsize=6)
    axis.set_xticks(range(len(lengths)), [str(length) for length in lengths])
    axis.set_xlabel("rows of a batch", fontsize=8)
    axis.set_ylabel("cycles per step", fontsize=8)
    axis.set_title("training step, 64-32-32-10 perceptron on two machines", fontsize=8)
    axis.margins(y=0.15)
