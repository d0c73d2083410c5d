# SPDX-License-Identifier: Apache-2.0
"""Names and units of figures and settings, as people read them."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["label", "scaled", "shown"]

_NAMED: Mapping[str, tuple[str, float]] = {
    "step_seconds": ("iteration, us", 1e6), "exposed_step_seconds": ("exposed in an iteration, us", 1e6),
    "network_bytes_per_s": ("network rate of a rank, GB/s", 1e-9), "link_utilisation": ("links busy, %", 1e2),
    "best": ("best baseline", 1), "speedup": ("ACE over the best baseline", 1),
    "of_ideal": ("ACE, of Ideal's speed", 1), "network": ("network rate, over the best baseline's", 1),
    "network_same_memory": ("network rate, over CompOpt's", 1),
    "network_mean": ("network rate, mean over the baselines'", 1)}

_UNITS: Iterable[tuple[str, str, float]] = (
    ("bytes_per_s", "GB/s", 1e-9), ("latency_s", "ns", 1e9), ("clock_hz", "GHz", 1e-9), ("flops", "TFLOPS", 1e-12),
    ("_bytes", "KiB", 1 / 1024))
"""By the end of a setting's name."""


def _known(name: str) -> tuple[str, float]:
    if name in _NAMED:
        return _NAMED[name]
    return next(((f"{name}, {unit}", factor) for end, unit, factor in _UNITS if name.endswith(end)), (name, 1))


def label(name: str) -> str:
    """Name of a column of a row, with its unit."""
    return _known(name)[0]


def scaled(name: str, value: Any) -> Any:
    """A value of that column in that unit."""
    factor = _known(name)[1]
    if factor == 1 or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return value * factor


def shown(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The named columns of a row, by label and in their units."""
    return {label(name): scaled(name, row.get(name)) for name in names}
