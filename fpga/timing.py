# SPDX-License-Identifier: Apache-2.0
"""Figures of nextpnr's report: clock frequency, area, and critical path, in names of the source."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["read_report", "summary"]

_NAMES = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "DP16KD": "block RAM", "TRELLIS_RAMW": "LUT-RAM writers",
          "MULT18X18D": "multipliers", "LUT4": "LUT4", "DFF": "FF", "BSRAM": "block RAM", "RAM16SDP4": "LUT-RAM",
          "ALU": "carries"}
# Suffixes that synthesis appends to a signal's name to name a cell.
_CELL = re.compile(r"[._](?:LUT[1-4]|PFUMX|L6MUX21|CCU2C|TRELLIS_FF|TRELLIS_DPR16X4|DP16KD|TRELLIS_COMB|"
                   r"DFF[A-Z]*|ALU|MUX2_LUT\d)(?:[_\d].*|$)")


def read_report(path: Path, *, wanted_hz: float) -> dict[str, Any]:
    """Figures of nextpnr's JSON: ``mhz``, ``wanted_mhz``, ``used`` and ``available`` by kind, ``critical`` as a list of
    ``(name, ns)``, and the ns that are ``logic`` and ``routing`` on this path."""
    found = json.loads(path.read_text(encoding="utf-8"))
    # The core's clock is the one with the least slack relative to its target frequency.
    clock, fmax = min(found["fmax"].items(), key=lambda item: item[1]["achieved"] / item[1]["constraint"])
    paths = [path_found["path"] for path_found in found["critical_paths"]
             if path_found["from"] == path_found["to"] == f"posedge {clock}"]
    steps = paths[0] if paths else []
    named: list[tuple[str, float]] = []
    spent = 0.0
    for step in steps:
        spent += step["delay"]
        name = source_name(step.get("net") or step["to"]["cell"])
        if named and named[-1][0] == name:
            named[-1] = (name, round(spent, 2))
        else:
            named.append((name, round(spent, 2)))
    levels = sum(step["type"] == "logic" for step in steps)
    routing = sum(step["delay"] for step in steps if step["type"] == "routing")
    return {
        "mhz": round(fmax["achieved"], 2), "wanted_mhz": round(wanted_hz / 1e6, 2),
        "met": fmax["achieved"] >= wanted_hz / 1e6,
        "used": {_NAMES[kind]: use["used"] for kind, use in found["utilization"].items() if kind in _NAMES},
        "available": {_NAMES[kind]: use["available"] for kind, use in found["utilization"].items() if kind in _NAMES},
        "critical": named, "levels": levels, "logic_ns": round(spent - routing, 2), "routing_ns": round(routing, 2),
    }


def source_name(name: str) -> str:
    """A net's or cell's name without what synthesis has added to it."""
    name = re.sub(r"^core\.", "", name.replace("\\", ""))
    shorter = _CELL.split(name, maxsplit=1)[0]
    return re.sub(r"\$\d+|\[\d+\]$", "", shorter) or name


def summary(report: Mapping[str, Any]) -> list[str]:
    """Lines for people: rate, parts, and the critical path."""
    lines = [f"{report['mhz']:.1f} MHz reached, {report['wanted_mhz']:.1f} MHz requested"]
    for kind, used in report["used"].items():
        available = report["available"][kind]
        lines.append(f"{kind}: {used:,} of {available:,} ({100 * used / available:.0f} %)")
    return lines
