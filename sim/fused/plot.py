# SPDX-License-Identifier: Apache-2.0
"""Plot of a measurement: cycles of each method over the number of slices, with the bound."""

from pathlib import Path
from typing import Any

__all__ = ["draw"]

_STYLES = {"triggers": "o-", "last": "^-.", "polled": "s--", "unfused": "v:"}


def draw(result: dict[str, Any], path: str | Path) -> None:
    """Write the plot of a result of ``dmace bench fused`` as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter

    rows = result["rows"]
    slices = [row["slices"] for row in rows]
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for name, style in _STYLES.items():
        if name in rows[0]:
            axis.plot(slices, [row[name] for row in rows], style, label=name)
    for name, shown in (("compute", "computation alone"), ("communication", "communication alone")):
        axis.plot(slices, [row[name] for row in rows], linewidth=1, color="0.6" if name == "compute" else "0.3",
                  label=shown)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(slices))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("slices for each target" if result["operation"] != "gemv" else "slices")
    axis.set_ylabel("cycles")
    axis.set_title(f"{result['operation']}, {result['ranks']} endpoints {result['config']}", fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=150, metadata={"Software": None})
