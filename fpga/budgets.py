"""The limits in ``budgets.toml``: what a change may not go beyond."""

import tomllib
from functools import cache
from pathlib import Path

__all__ = ["area_excess", "clock_budget"]


@cache
def _budgets():
    return tomllib.loads(Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8"))


def area_excess(design, preset, family, area, depth=None):
    """Sentences about what an :class:`fpga.area.Area`, and a depth if given, take beyond their budget; None where there
    is no budget."""
    limits = _budgets().get(design, {}).get(preset, {}).get(family)
    if limits is None:
        return None
    taken = {"lut": area.lut, "lut_with_ram": area.lut + area.lut_ram, "flip_flop": area.flip_flop,
             "block_ram": area.block_ram}
    if depth is not None:
        taken["levels"] = depth.levels
    return [f"{design} {preset} takes {taken[kind]:,} {kind} on {family}, beyond its budget of {limit:,}."
            for kind, limit in limits.items() if kind in taken and taken[kind] > limit]


def clock_budget(target, design):
    """MHz that a board must reach, None where none is promised."""
    return _budgets()["board"].get(target, {}).get(design)
