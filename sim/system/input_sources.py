# SPDX-License-Identifier: Apache-2.0
"""Source of each input of a machine, to be printed beside its value. docs/training.md has the details."""

from collections.abc import Mapping
from dataclasses import fields
from fnmatch import fnmatchcase

from .endpoint_kinds import BUILT
from .workloads.transformer import Model

__all__ = ["source_of"]

_SOURCES = (
    ("endpoint.launch_s", "0: no cost assumed; 2 us to 10 us with sync_s"),
    ("endpoint.sync_s", "0: no cost assumed; see launch_s"),
    ("endpoint.receive_bytes", "RTL"), ("endpoint.pipes", "RTL"), ("endpoint.port_bytes", "RTL"),
    ("endpoint.switched", "choice"),
    ("endpoint.*", "ACE paper, recalled"),
    ("links.*.bytes_per_s", "ACE paper, recalled"), ("links.*.latency_s", "ACE paper, recalled"),
    ("links.*", "choice"),
    ("npu.memory_latency_s", "assumption"), ("npu.*", "ACE paper, recalled"),
    ("chunk_bytes", "ACE paper, recalled"), ("message_bytes", "ACE paper, recalled"),
    ("packet_bytes", "ACE paper, recalled"), ("clock_hz", "ACE paper, recalled"),
    ("header_bytes", "RTL"), ("beat_bytes", "RTL"), ("calibration.*", "RTL"),
    ("sharing", "ACE paper, recalled"),
    ("processor.efficiency", "assumption"),
)
"""Patterns of names, the first of which counts, and where the default is from; the others are choices."""

_OF_PRESET = ("endpoint.*", "chunk_bytes", "message_bytes", "packet_bytes", "header_bytes", "beat_bytes")

_OF_A_MODEL = {f"workload.{one.name}" for one in fields(Model)}


def source_of(name: str, endpoint: str, settings: Mapping[str, object]) -> str:
    """
    Parameters
    ----------
    name : str
        As :func:`.settings.flatten` has it.
    endpoint : str
    settings : dict
        Those that were set by name.
    """
    if name in settings:
        return "--set"
    if name.startswith("links.") and "network" in settings:
        return f"network={settings['network']}"
    if name in _OF_A_MODEL:
        return "the model"
    found = next((source for pattern, source in _SOURCES if fnmatchcase(name, pattern)), "choice")
    if endpoint in BUILT and any(fnmatchcase(name, pattern) for pattern in _OF_PRESET) and found not in (
            "choice",) and not found.startswith("0:"):
        return f"RTL, preset {endpoint}"
    return found
