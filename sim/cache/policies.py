# SPDX-License-Identifier: Apache-2.0
"""Cache policies by name: three static ones, three improvements of the last on top of each other, and regions."""

from dataclasses import dataclass, field

__all__ = ["COMBINED", "POLICIES", "REGIONS", "STATIC", "Policy"]


@dataclass(frozen=True)
class Policy:
    """A policy; ``options`` of the model's programs, and a summary."""

    summary: str
    options: dict[str, int] = field(default_factory=dict)


_CACHED = {"loads": 1, "stores": 1}

POLICIES = {
    "uncached": Policy("loads and stores bypass the L2", {"loads": 0, "stores": 0}),
    "cache-r": Policy("loads are cached, stores bypass", {"loads": 1, "stores": 0}),
    "cache-rw": Policy("loads and stores are cached", _CACHED),
    "bypass": Policy("cache-rw with allocation bypass", {**_CACHED, "allocation_bypass": 1}),
    "rinse": Policy("bypass with rinsing", {**_CACHED, "allocation_bypass": 1, "rinse": 1}),
    "combined": Policy("rinse with bypass by PC", {**_CACHED, "allocation_bypass": 1, "rinse": 1, "predict": 1}),
    "regions": Policy("the attributes of each array's region decide", {"regions": 1}),
}
"""Name -> policy, in the order of tables."""

STATIC = ("uncached", "cache-r", "cache-rw")
COMBINED, REGIONS = "combined", "regions"
