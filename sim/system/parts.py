# SPDX-License-Identifier: Apache-2.0
"""Processors of a machine, and the ranges of values."""

from dataclasses import dataclass, fields

from hw.errors import UserError

__all__ = ["GB", "Npu", "check"]

GB = 1e9

RANGES = {
    "bytes_per_s": (1.0, 1e18), "memory_bytes_per_s": (1.0, 1e18), "bus_bytes_per_s": (1.0, 1e18), "flops": (1.0, 1e24),
    "clock_hz": (1e3, 1e12), "latency_s": (0.0, 1e3), "memory_latency_s": (0.0, 1e3), "sms": (0, 1 << 20),
    "sm_bytes": (1, 1 << 20), "sram_bytes": (1, 1 << 60), "fsms": (1, 1 << 30), "receive_bytes": (1, 1 << 30),
    "port_bytes": (1, 1 << 30), "per_dimension": (1, 1 << 30), "chunk_bytes": (64, 1 << 60), "chunks": (1, 1 << 20),
    "most_chunks": (8, 1 << 20),
    "message_bytes": (64, 1 << 60), "packet_bytes": (1, 1 << 60), "header_bytes": (0, 1 << 20),
    "beat_bytes": (1, 1 << 20), "receive_buffer_bytes": (1, 1 << 60), "replay_bytes": (1, 1 << 60),
    "leaf_ranks": (1, 1 << 20), "oversubscription": (1.0, 1e6), "spine_latency_s": (0.0, 1e3), "load": (0.0, 1.0),
    "jobs": (1, 1 << 20),
    "period_s": (0.0, 1e3), "rank": (0, 1 << 20), "compute": (1.0, 1e6), "link": (1.0, 1e6), "jitter": (0.0, 1e3),
    "seed": (0, 1 << 60), "launch_s": (0.0, 1.0), "sync_s": (0.0, 1.0)}
"""Least and greatest value by name; integers where both are."""


def check(owner: str, config: object, *names: str) -> None:
    """Raise :class:`UserError` unless the values of these names are in their :data:`RANGES`, or None."""
    for name in names:
        value, (low, high) = getattr(config, name), RANGES[name]
        if value is None:
            continue
        kinds = (int,) if isinstance(low, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            what = "an integer" if isinstance(low, int) else "a number"
            raise UserError(f"{name} of {owner} must be {what} from {low:g} to {high:g}, not {value!r}.")


@dataclass(frozen=True, kw_only=True)
class Npu:
    """The processor that computes. Defaults are recalled from the ACE paper and not checked against it: inputs.

    Parameters
    ----------
    memory_bytes_per_s : float
        Bandwidth of its memory, for bytes read and bytes written together.
    bus_bytes_per_s : float
        Bandwidth between memory and communication in each direction.
    sms : int
        Number of cores.
    clock_hz : float
    sm_bytes : int
        Bytes that a core can move per cycle.
    flops : float
        Peak rate of all cores, for rooflines.
    memory_latency_s : float
        Time from a read to its first data, and from the last data of a write to its response.
    """

    memory_bytes_per_s: float = 900 * GB
    bus_bytes_per_s: float = 500 * GB
    sms: int = 80
    clock_hz: float = 1.245e9
    sm_bytes: int = 64
    flops: float = 120e12
    memory_latency_s: float = 400e-9

    def __post_init__(self) -> None:
        check("the processor", self, *(one.name for one in fields(self)))
        if not self.sms:
            raise UserError("sms of the processor must be 1 or more, not 0.")
