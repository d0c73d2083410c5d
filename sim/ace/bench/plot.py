# SPDX-License-Identifier: Apache-2.0
"""The benchmark's plots.

``draw`` writes FILE (what is busy; small all-reduces) and, of a result with a sweep, FILE-sweep, and with losses,
FILE-loss.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "names"]

_MARKERS = "os^Dv"

_Measured = Mapping[str, Any]
"""Result of ``dmace bench ace``."""


def names(path: str | Path, *, swept: bool, lost: bool = False) -> list[Path]:
    """Files that :func:`draw` writes."""
    path = Path(path)
    return [path, *(path.with_name(f"{path.stem}-{name}{path.suffix}")
                    for name, there in (("sweep", swept), ("loss", lost)) if there)]


def draw(result: _Measured, path: str | Path) -> list[Path]:
    """Write the plots of a result of ``dmace bench ace`` as PNG, and return their paths."""
    import matplotlib

    matplotlib.use("Agg")
    made = names(path, swept="sweep" in result, lost="loss" in result)
    drawings: list[Callable[[_Measured], Figure]] = [
        _one, *([_sweep] if "sweep" in result else []), *([_loss] if "loss" in result else [])]
    for drawing, name in zip(drawings, made, strict=True):
        figure = drawing(result)
        figure.savefig(name, dpi=150, metadata={"Software": None})
        figure.clear()
    return made


def _nodes(shape: Sequence[int]) -> str:
    return f"ring of {shape[0]}" if len(shape) == 1 else "x".join(map(str, shape))


def _one(result: _Measured) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = Figure(figsize=(14, 4), layout="constrained")
    busy, time, small = figure.subplots(1, 3, width_ratios=(1, 1.1, 1.2))
    bars = [(f"links of dimension {dimension}", share) for dimension, share in enumerate(result["busy"]["links"])]
    bars += [(name.replace("_", " "), result["busy"][name])
             for name in ("receive", "transmit", "memory_read", "memory_write")]
    drawn = busy.barh(range(len(bars)), [share for _, share in bars], color=["C0"] * (len(bars) - 4) + ["0.6"] * 4)
    busy.bar_label(drawn, [f"{share:.2f}" for _, share in bars], fontsize=8, padding=2)
    busy.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=8)
    busy.invert_yaxis()
    busy.set_xlim(0, 1.15)
    busy.set_xlabel("share of cycles in which it is busy")
    busy.set_title(f"all-reduce of {result['bytes'] // 1024} KiB on {_nodes(result['nodes'])}:\n"
                   f"{result['bound_share']:.2f} of the bound", fontsize=9)

    for dimension, shares in enumerate(result["links_over_time"]):
        edges = np.linspace(0, result["cycles"] / 1000, len(shares) + 1)
        time.stairs(shares, edges, color=f"C{dimension}", label=f"dimension {dimension}")
    time.set_ylim(0, 1.05)
    time.set_xlabel("thousand cycles")
    time.set_title("share of time in which links carry data", fontsize=9)
    time.legend(fontsize=8)

    by_shape: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in result["latency"]:
        by_shape.setdefault(tuple(row["nodes"]), []).append(row)
    for index, (shape, rows) in enumerate(by_shape.items()):
        small.plot([row["bytes"] for row in rows], [row["cycles"] for row in rows], "o-", color=f"C{index}",
                   markersize=4, label=f"{_nodes(shape)}, {rows[0]['hops']} hops")
        small.axhline(rows[0]["bound_cycles"], color=f"C{index}", linestyle=":", linewidth=1)
    sizes = sorted({row["bytes"] for row in result["latency"]})
    small.set_xscale("log", base=2)
    small.xaxis.set_major_locator(FixedLocator(sizes))
    small.xaxis.set_minor_locator(NullLocator())
    small.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    small.set_ylim(bottom=0)
    small.set_xlabel("bytes of each rank")
    small.set_ylabel("cycles")
    small.set_title("small all-reduces (dotted: the latency of their hops alone)", fontsize=9)
    small.legend(fontsize=8)
    return _finish(figure, (busy, time, small), result)


def _sweep(result: _Measured) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    shapes = list(dict.fromkeys(tuple(row["nodes"]) for row in result["sweep"]))
    figure = Figure(figsize=(1.6 + 4.2 * len(shapes), 4), layout="constrained")
    axes = figure.subplots(1, len(shapes), sharey=True, squeeze=False)[0]
    for axis, shape in zip(axes, shapes, strict=True):
        rows = [row for row in result["sweep"] if tuple(row["nodes"]) == shape]
        for index, fsms in enumerate(sorted({row["fsms"] for row in rows})):
            points = sorted((row["sram_bytes"] / 1024, row["bound_share"]) for row in rows if row["fsms"] == fsms)
            axis.plot(*zip(*points, strict=True), f"{_MARKERS[index % len(_MARKERS)]}-", markersize=9 - 1.2 * index,
                      alpha=0.8, label=f"{fsms} FSMs" if fsms > 1 else "1 FSM")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(FixedLocator(sorted({row["sram_bytes"] / 1024 for row in rows})))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:g}"))
        axis.set_ylim(0, 1.05)
        axis.set_xlabel("KiB of SRAM")
        axis.set_title(_nodes(shape), fontsize=9)
    axes[0].set_ylabel("share of the bound")
    axes[-1].legend(fontsize=8, loc="lower right")
    return _finish(figure, axes, result)


def _loss(result: _Measured) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    rows = result["loss"]
    # Without loss is at the left end.
    places = [row["loss"] or min(other["loss"] for other in rows if other["loss"]) / 3 for row in rows]
    axis.plot(places, [row["bound_share"] for row in rows], "o-")
    axis.set_xscale("log")
    axis.set_ylim(0, 1.05)
    axis.set_xlabel("share of packets lost (leftmost: none)")
    axis.set_ylabel("share of the bound")
    axis.set_title(f"all-reduce of {result['bytes'] // 1024} KiB on {_nodes(result['nodes'])}", fontsize=9)
    return _finish(figure, (axis,), result)


def _finish(figure: "Figure", axes: "Iterable[Axes]", result: _Measured) -> "Figure":
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    figure.suptitle(f"ACE {result['config']}, {result['data_width']} bit; links of {result['link_rate']:g} beats per "
                    f"cycle and latency {result['link_latency']}", fontsize=10)
    return figure
