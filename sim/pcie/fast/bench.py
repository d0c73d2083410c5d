# SPDX-License-Identifier: Apache-2.0
"""The measurements of ``dmace bench pcie`` by the fast path, in the form of :mod:`sim.pcie.bench`."""

from collections.abc import Sequence
from typing import Any

from sim.pcie.bench_rows import throughput_row
from sim.pcie.bound import CLOCK_NS
from sim.pcie.dma_card import preset_sizes
from sim.pcie.fast.harness import build_card
from sim.verilator.build import Status

__all__ = ["bench"]


def bench(config: str, *, sizes: Sequence[int], queues: Sequence[int], latency: int, max_payload: int, max_read: int,
          split: str, seed: int, window_us: int, status: Status | None = None) -> dict[str, Any]:
    """Measure the card of a preset; the times in ``latencies`` are in ns.

    Parameters
    ----------
    window_us : int
        Length of each measurement of throughput in us.
    status : callable or None
        Receives ``(what, done, total)`` during the build.
    """
    engine, adapter = preset_sizes(config)
    harness = build_card(engine, adapter, status=status)
    measured = harness.bench(sizes=sizes, queues=queues, latency_ns=latency, max_payload=max_payload,
                             max_read=max_read, split=split, seed=seed, window=round(window_us * 1000 / CLOCK_NS))
    latencies = [{name: value if name == "bytes" else value * CLOCK_NS for name, value in row.items()}
                 for row in measured["latencies"]]
    rows = [throughput_row(adapter, **row, link_bytes=harness.link_bytes, max_payload=max_payload, max_read=max_read,
                           round_trip=measured["latencies"][0]["memory"])
            for row in [{("size" if name == "bytes" else name): value for name, value in row.items()}
                        for row in measured["throughput"]]]
    return {
        "config": config, "seed": seed, "latency": latency, "max_payload": max_payload, "max_read": max_read,
        "split": split, "data_width": adapter.data_width, "link_bytes_per_cycle": harness.link_bytes, "path": "C++",
        "latencies": latencies, "throughput": rows, "seconds": measured["seconds"], "waves": None}
