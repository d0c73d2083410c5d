# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of a design lie on the FPGA: from nextpnr's placement to a picture."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .yosys_json import Module

__all__ = ["draw", "read_placement"]

_SHOWN = 14
"""Blocks with a colour of their own: the largest."""

_OTHER = "all else"


Placement = dict[str, list[list[int]]]
"""Block -> ``[x, y, cells]`` of each of its sites."""


def read_placement(path: str | Path, site: Callable[[str], tuple[int, int] | None]) -> Placement:
    """Sites of each block, from the JSON that nextpnr's ``--write`` makes; ``site`` is a flow's.

    Returns ``{block: [[x, y, cells], ...]}``. A block is a submodule of an engine, named with the engine's number where
    there are several, or another part of the board.
    """
    top: Module
    (top,) = json.loads(Path(path).read_text(encoding="utf-8"))["modules"].values()
    found: dict[str, Counter[tuple[int, int]]] = {}
    for name, cell in top["cells"].items():
        place = site(cell.get("attributes", {}).get("NEXTPNR_BEL", ""))
        if place:
            found.setdefault(_block(name), Counter())[place] += 1
    return {block: [[x, y, count] for (x, y), count in sorted(sites.items())] for block, sites in found.items()}


def _block(name: str) -> str:
    parts = re.sub(r"^core\.", "", name.replace("\\", "")).split(".")
    if re.fullmatch(r"engine\d+", parts[0]):
        # Some blocks have a number that synthesis gave them.
        return f"{parts[0]}.{re.sub(r'[$].*|_[0-9]+$', '', parts[1])}" if len(parts) > 2 else _OTHER
    return re.sub(r"\d+$", "", parts[0]) if len(parts) > 1 and re.fullmatch(r"[a-z]+\d*", parts[0]) else _OTHER


def draw(placement: Mapping[str, Sequence[Sequence[int]]], path: str | Path, *, title: str) -> None:
    """Write a picture of :func:`read_placement`'s result as PNG."""
    import matplotlib
    import numpy as np

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    sizes = {block: sum(count for *_, count in sites) for block, sites in placement.items()}
    blocks = sorted(sizes, key=lambda block: -sizes[block])
    single = len({block.partition(".")[0] for block in blocks if re.match(r"engine\d", block)}) == 1
    shown = [block for block in blocks if block != _OTHER][:_SHOWN]
    palette = [matplotlib.colormaps["tab20"](number)[:3] for number in range(20)]
    colours = {block: palette[number % len(palette)] for number, block in enumerate(shown)}
    # A pixel for each site, of the block that has most there.
    most: dict[tuple[int, int], tuple[int, str]] = {}
    for block, sites in placement.items():
        for x, y, count in sites:
            if count > most.get((x, y), (0, ""))[0]:
                most[x, y] = count, block
    picture = np.ones((max(y for _, y in most) + 1, max(x for x, _ in most) + 1, 3))
    for (x, y), (_, block) in most.items():
        picture[y, x] = colours.get(block, (0.8, 0.8, 0.8))
    figure = Figure(figsize=(9.5, 6.4), layout="constrained")
    axis = figure.subplots()
    axis.imshow(picture, interpolation="nearest")
    for block in shown:
        axis.scatter([], [], marker="s", color=colours[block],
                     label=f"{block.removeprefix('engine0.') if single else block} ({sizes[block]:,})")
    if rest := sum(sizes[block] for block in blocks if block not in shown):
        axis.scatter([], [], marker="s", color="0.8", label=f"{_OTHER} ({rest:,})")
    axis.set_xlabel("column")
    axis.set_ylabel("row")
    axis.set_title(title, loc="left", fontsize=11)
    axis.legend(title="block (cells)", loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8,
                frameon=False)
    figure.savefig(path, dpi=120, bbox_inches="tight", metadata={"Software": None})
