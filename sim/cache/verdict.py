# SPDX-License-Identifier: Apache-2.0
"""Conclusions from the rows of a measurement: the best static policy of each kernel, and ratios to it."""

from collections.abc import Sequence
from typing import Any

from .policies import POLICIES, STATIC

__all__ = ["GROUPS", "group", "ratios", "summary"]

Row = dict[str, Any]

GROUPS = ("memory-insensitive", "reuse-sensitive", "throughput-sensitive")
_SENSITIVE, _COMPUTE = 0.1, 0.7


def group(rows: Sequence[Row]) -> str:
    """Group of the kernel of these rows, by the static policies.

    Reuse-sensitive if a policy that caches takes at least 10 % less time than ``uncached``; else memory-insensitive if
    arithmetic occupies at least 70 % of the fastest run, otherwise throughput-sensitive.
    """
    cycles = {row["policy"]: row["cycles"] for row in rows}
    if min(cycles["cache-r"], cycles["cache-rw"]) <= (1 - _SENSITIVE) * cycles["uncached"]:
        return "reuse-sensitive"
    best = min((row for row in rows if row["policy"] in STATIC), key=lambda row: row["cycles"])
    return GROUPS[0] if best["arithmetic_share"] >= _COMPUTE else GROUPS[2]


def ratios(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Kernel -> policy -> cycles over those of the kernel's best static policy; all static policies must be there."""
    kernels: dict[str, dict[str, float]] = {}
    for row in rows:
        kernels.setdefault(row["kernel"], {})[row["policy"]] = row["cycles"]
    for cycles in kernels.values():
        best = min(cycles[policy] for policy in STATIC)
        for policy in cycles:
            cycles[policy] /= best
    return kernels


def summary(rows: Sequence[Row]) -> Row:
    """Per kernel its group, best static policy and ratios; per policy the geometric mean and the largest ratio."""
    by_kernel = ratios(rows)
    kernels = [{"kernel": kernel, "group": group([row for row in rows if row["kernel"] == kernel]),
                "best": min((relative[policy], policy) for policy in STATIC)[1], "ratios": relative}
               for kernel, relative in by_kernel.items()]
    policies = []
    for policy in POLICIES:
        values = [relative[policy] for relative in by_kernel.values() if policy in relative]
        if values:
            product = 1.0
            for value in values:
                product *= value
            policies.append({"policy": policy, "mean": product ** (1 / len(values)), "worst": max(values),
                             "wins": sum(value <= 1 for value in values)})
    return {"kernels": kernels, "policies": policies}
