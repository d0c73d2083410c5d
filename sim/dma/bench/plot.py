# SPDX-License-Identifier: Apache-2.0
"""The benchmark's plots: shares of the bus over the size of requests, and latencies.

``draw`` writes three: FILE (beside what other open engines reach), FILE-ablation and FILE-latency.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .ablation import VARIANTS
from .peers import PEER_ADDED, PEER_BEHIND, PEER_LATENCIES, PEER_SHARES, PEER_SIZES
from .runner import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "names"]

_MARKERS = "s^DvP*"
_STYLES = {"all": "o-", "every word": "s--", "one read": "^-.", "one at a time": "v:"}


def names(path: str | Path) -> list[Path]:
    """Files that :func:`draw` writes."""
    path = Path(path)
    return [path, *(path.with_name(f"{path.stem}-{what}{path.suffix}") for what in ("ablation", "latency"))]


def draw(result: Row, path: str | Path) -> list[Path]:
    """Write the plots of a result of :func:`sim.dma.bench.measure` as PNG, and return their paths."""
    import matplotlib

    matplotlib.use("Agg")
    for drawing, name in zip((_shares, _ablations, _latencies), names(path), strict=True):
        figure = drawing(result)
        figure.savefig(name, dpi=150, metadata={"Software": None})
        figure.clear()
    return names(path)


def _panels(result: Row, rows: Sequence[Row]) -> "tuple[Figure, list[tuple[Axes, int, list[Row]]]]":
    """A figure with a panel per latency, shares over bytes; ``(figure, [(axis, latency, rows)])``."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter

    latencies = list(dict.fromkeys(row["latency"] for row in rows))
    figure = Figure(figsize=(1.2 + 3.6 * len(latencies), 5.4), layout="constrained")
    axes = figure.subplots(1, len(latencies), sharey=True, squeeze=False)[0]
    ticks = [size for size in (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
             if size <= max(row["size"] for row in rows)]
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(FixedLocator(ticks))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _bytes(size)))
        axis.tick_params(axis="x", labelsize=8, rotation=45)
        axis.set_xlabel("bytes per request")
        axis.set_ylim(0, 1.05)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("payload's share of the write data bus")
    return figure, [(axis, latency, sorted((row for row in rows if row["latency"] == latency),
                                           key=lambda row: row["size"]))
                    for axis, latency in zip(axes, latencies, strict=True)]


def _finish(figure: "Figure", axes: "Sequence[Axes]", title: str) -> "Figure":
    """Title, and one legend for all panels below them."""
    labels: dict[Any, Any] = {}
    for axis in axes:
        labels |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.suptitle(title, fontsize=10)
    columns = 2 if len(axes) > 1 else 1
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def _shares(result: Row) -> "Figure":
    figure, panels = _panels(result, result["results"])
    for axis, latency, rows in panels:
        sizes = [row["size"] for row in rows]
        axis.plot(sizes, [row["bus_share"] for row in rows], "o-", color="black", linewidth=2,
                  label=f"{_engine(result)}, {result['queues']} queues kept full")
        for kind, style in (("extended", "-."), ("plain", "--")):
            alone = sorted((row["size"], row["bus_share"], row["window"]) for row in result["alone"]
                           if (row["latency"], row["queue"]) == (latency, kind))
            if alone:
                axis.plot([size for size, *_ in alone], [share for _, share, _ in alone], style, color="black",
                          linewidth=1, label=f"one {kind} queue alone, window of {alone[0][2]} segments")
        axis.plot(sizes, [row["closed_loop"]["bus_share"] for row in rows], ".:", color="black",
                  label="the same, threads wait for SC before they post more")
        if latency in PEER_LATENCIES:
            for (name, *shares), marker in zip(PEER_SHARES, _MARKERS, strict=True):
                axis.plot(PEER_SIZES, shares[PEER_LATENCIES.index(latency)], marker, alpha=0.8, markersize=5,
                          label=name)
        axis.set_title(f"memory latency {latency} cycles", fontsize=9)
    return _finish(figure, [axis for axis, *_ in panels],
                   f"Copies, {result['data_width']} bit{_shift(result)}, SC and RC on\n"
                   "(others: 512 bit, aligned, no completion words)")


def _ablations(result: Row) -> "Figure":
    figure, panels = _panels(result, result["ablations"])
    for axis, latency, rows in panels:
        for variant, meaning in VARIANTS.items():
            points = [(row["size"], row["bus_share"]) for row in rows if row["variant"] == variant]
            axis.plot(*zip(*points, strict=True), _STYLES[variant], markersize=4, label=meaning)
        axis.set_title(f"memory latency {latency} cycles", fontsize=9)
    return _finish(figure, [axis for axis, *_ in panels],
                   f"{_engine(result)}, {result['data_width']} bit{_shift(result)}:\n"
                   "with one part of the pipelining taken away")


def _latencies(result: Row) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

    figure = Figure(figsize=(10, 4.4), layout="constrained")
    load, alone, behind = figure.subplots(1, 3, width_ratios=(1.3, 0.9, 1.1))

    rows = result["load"]
    for index, latency in enumerate(dict.fromkeys(row["latency"] for row in rows)):
        points = [row for row in rows if row["latency"] == latency and row["to_seen"]]
        for part, style in (("p50", "o-"), ("p99", "^--")):
            load.plot([row["bus_share"] for row in points], [row["to_seen"][part] for row in points], style,
                      color=f"C{index}", markersize=4, label=f"L = {latency}, {part}")
    load.set_yscale("log")
    load.yaxis.set_major_locator(FixedLocator([100, 200, 500, 1000, 2000, 5000, 10_000, 20_000]))
    load.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    load.yaxis.set_minor_locator(NullLocator())
    load.set_xlabel("payload's share of the bus")
    load.set_ylabel("cycles from doorbell to SC seen")
    load.set_title(f"{rows[0]['size']} B requests at an even rate", fontsize=9)
    load.legend(fontsize=7)

    single = result["single"]
    steps = (("doorbell to first AR", single["doorbell_to_first_ar"], "C0"),
             ("to data done, beyond\nmemory and beats", single["overhead"], "C0"),
             ("data done to RC", single["done_to_rc"], "C2"), ("data done to SC", single["done_to_sc"], "C2"))
    _bars(alone, [(name, value, color) for name, value, color in steps]
          + [(f"{name}:\nbeyond memory", value, "0.65") for name, value in PEER_ADDED])
    alone.set_xlabel("cycles")
    alone.set_title("one 64 B request, idle engine", fontsize=9)

    latency = result["behind"][-1]["latency"]
    ours = [(f"dmace, behind {_bytes(row['large'])}", row["done"], "C0")
            for row in result["behind"] if row["latency"] == latency]
    theirs = [(name, by_latency[latency], "0.65") for name, by_latency in PEER_BEHIND if latency in by_latency]
    _bars(behind, ours + theirs)
    behind.axvline(2 * latency, color="black", linewidth=0.8, linestyle=":")
    behind.xaxis.set_major_locator(MaxNLocator(4))
    behind.set_xlabel(f"cycles to data done, L = {latency}\n(dotted: memory alone, 2L)")
    behind.set_title("64 B right behind a large request\n(others: behind 64 KiB)", fontsize=9)
    figure.suptitle(f"{_engine(result)}, {result['data_width']} bit{_shift(result)}; "
                    "memory latency L for reads and for writes", fontsize=10)
    for axis in (load, alone, behind):
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=7)
    return figure


def _bars(axis: "Axes", bars: Sequence[tuple[str, int, str]]) -> None:
    names, values, colors = zip(*bars, strict=True)
    drawn = axis.barh(range(len(bars)), values, color=colors)
    axis.bar_label(drawn, [f"{value:,}" for value in values], fontsize=7, padding=2)
    axis.set_yticks(range(len(bars)), names)
    axis.set_xlim(0, 1.3 * max(values))
    axis.invert_yaxis()


def _engine(result: Row) -> str:
    return f"dmace {result.get('config', '')}".rstrip()


def _shift(result: Row) -> str:
    return ", unaligned" if result["source_shift"] or result["destination_shift"] else ""


def _bytes(size: float) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"
