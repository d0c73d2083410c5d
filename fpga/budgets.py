# SPDX-License-Identifier: Apache-2.0
"""The limits in ``budgets.toml``: what a change may not go beyond."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from .area import Area, Depth

__all__ = ["area_excess", "clock_budget"]


@cache
def _budgets() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8"))


def area_excess(design: str, preset: str, family: str, area: Area, depth: Depth | None = None) -> list[str] | None:
    """A sentence for each figure of an area, and of a depth if given, that is over its budget; None if there is no
    budget."""
    limits = _budgets().get(design, {}).get(preset, {}).get(family)
    if limits is None:
        return None
    taken: dict[str, float] = {"lut": area.lut, "lut_with_ram": area.lut + area.lut_ram, "flip_flop": area.flip_flop,
             "block_ram": area.block_ram}
    if depth is not None:
        taken["levels"] = depth.levels
    return [f"{design} {preset} takes {taken[kind]:,} {kind} on {family}, beyond its budget of {limit:,}."
            for kind, limit in limits.items() if kind in taken and taken[kind] > limit]


def clock_budget(target: str, design: str) -> float | None:
    """MHz that a board must reach; None without a requirement."""
    budget: float | None = _budgets()["board"].get(target, {}).get(design)
    return budget
