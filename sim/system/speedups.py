# SPDX-License-Identifier: Apache-2.0
"""Endpoints against each other: rows of runs that differ in nothing else, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from .configuration import ENDPOINTS

__all__ = ["BASELINES", "speedups", "summary"]

BASELINES = ("noovl", "commopt", "compopt")
"""Endpoints without an accelerator, as the ACE paper has them."""


_Row = Mapping[str, Any]


def speedups(rows: Iterable[_Row], varied: Sequence[str]) -> list[dict[str, Any]]:
    """A dict for each row of ``ace`` that has a baseline beside it.

    Parameters
    ----------
    rows : list of dict
        As :func:`.experiment.row` makes them, with the values of ``varied``.
    varied : list of str
        Names in which rows differ; those of one endpoint (``ace.fsms``) distinguish its rows only.

    Returns
    -------
    list of dict
        The values of ``varied``; ``best``, the baseline with the shortest iteration; ``speedup`` over it;
        ``of_ideal``, the share of Ideal's speed, or None; ``network``, how much more payload a rank sends in a second
        of a collective than with the best baseline; ``network_same_memory``, than with ``compopt``; ``network_mean``,
        the geometric mean over all baselines.
    """
    common = [name for name in varied if name != "endpoint" and name.partition(".")[0] not in ENDPOINTS]
    groups: dict[tuple[Any, ...], list[_Row]] = {}
    for one in rows:
        groups.setdefault(tuple(one.get(name) for name in common), []).append(one)
    made: list[dict[str, Any]] = []
    for group in groups.values():
        best = min((one for one in group if one["endpoint"] in BASELINES), key=lambda one: one["step_seconds"],
                   default=None)
        if best is None:
            continue
        alone = {one["endpoint"]: one for one in group if one["endpoint"] in ("ideal", "compopt")}
        for one in group:
            if one["endpoint"] != "ace":
                continue
            made.append({name: one[name] for name in varied if name in one and name != "endpoint"} | {
                "best": best["endpoint"], "speedup": best["step_seconds"] / one["step_seconds"],
                "of_ideal": alone["ideal"]["step_seconds"] / one["step_seconds"] if "ideal" in alone else None,
                "network": _ratio(one, best), "network_same_memory": _ratio(one, alone.get("compopt")),
                "network_mean": _mean(_ratio(one, other) for other in group if other["endpoint"] in BASELINES)})
    return made


def _ratio(one: _Row, other: _Row | None) -> float | None:
    if other is None or not other["network_bytes_per_s"]:
        return None
    ratio: float = one["network_bytes_per_s"] / other["network_bytes_per_s"]
    return ratio


def _mean(ratios: Iterable[float | None]) -> float | None:
    found = [ratio for ratio in ratios if ratio]
    return geometric_mean(found) if found else None


def summary(rows: Iterable[_Row], by: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of :func:`speedups` put together by the values of some names: geometric means, and the greatest speed-up."""
    groups: dict[tuple[Any, ...], list[_Row]] = {}
    for one in rows:
        groups.setdefault(tuple(one.get(name) for name in by), []).append(one)
    made: list[dict[str, Any]] = []
    for values, group in groups.items():
        means: dict[str, float | None] = {}
        for name in ("speedup", "of_ideal", "network", "network_same_memory", "network_mean"):
            means[name] = _mean(one[name] for one in group)
        made.append({**dict(zip(by, values, strict=True)), "runs": len(group), **means,
                     "most": max(one["speedup"] for one in group)})
    return made
