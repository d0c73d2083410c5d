# SPDX-License-Identifier: Apache-2.0
"""A row of the table of ``dmace bench pcie``: measured throughput beside its bound, whichever path has measured it."""

from typing import Any

from hw.pcie.config import PcieConfig
from sim.pcie.bound import CLOCK_NS, copy_bound

__all__ = ["throughput_row"]


def throughput_row(adapter: PcieConfig, *, queues: int, size: int, requests: float, cycles: float, rq_busy: float,
                   link_bytes: float, max_payload: int, max_read: int, round_trip: float) -> dict[str, Any]:
    """The row of ``requests`` copies of ``size`` bytes in ``cycles``; for the others see :func:`.bound.copy_bound`."""
    bound = copy_bound(size, data_width=adapter.data_width, link_bytes=link_bytes, max_payload=max_payload,
                       max_read=min(max_read, adapter.read_bytes), tags=adapter.tags, latency=round_trip)
    return {
        "queues": queues, "bytes": size, "requests": requests, "cycles": cycles,
        "cycles_per_request": cycles / requests, "bound": bound.cycles, "limit": bound.limit,
        "share": bound.cycles * requests / cycles, "rq_busy": rq_busy,
        "gigabytes_per_second": requests * size / cycles / CLOCK_NS}
