# SPDX-License-Identifier: Apache-2.0
"""The copies of ``dmace soak``: copies of random length between random bytes, one at a time and back to back.

Under the fast harness, with addresses that use all 64 bits; every byte is checked, and those around it.
"""

from dataclasses import dataclass
from typing import Any

from hw.dma_engine.config import DmaConfig
from sim.cpp import Flow, Harness, Target

__all__ = ["Soak", "runs"]

_SHIFTS = 4096
"""Sources and destinations begin anywhere in a page."""


@dataclass(frozen=True)
class Soak:
    """One run of the harness."""

    name: str
    flow: Flow
    target: Target
    options: dict[str, Any]

    def run(self, harness: Harness, seed: int) -> dict[str, Any]:
        """Its row of the result. Raises :class:`sim.cpp.HarnessFailed` where anything is wrong."""
        result = harness.run([self.flow], [self.target], seed=seed, limit=200_000_000, timeout=3600, **self.options)
        checked = result["checked"]
        return {"run": self.name, "seed": seed, "requests": checked["requests"], "bytes": checked["bytes"],
                "wrong_bytes": checked["wrong_bytes"], "cycles": result["cycles"], "seconds": result["seconds"]}


def runs(config: DmaConfig, single: int, together: int, *, small: int | None = None) -> tuple[Soak, ...]:
    """Runs with ``single`` requests one at a time, and ``together`` back to back, but ``small`` in the run of small
    ones, if given."""
    quick, slow = Target(read_latency=20, write_latency=20), Target(read_latency=100, write_latency=100)
    # Some queue's words are more than can wait; a thread posts as many as it knows to fit.
    queues = min(config.queues, config.regions // 2)
    depth, share = config.queue_depth, -(-together // queues)
    anywhere = {"size_from": 1, "random_shift": _SHIFTS}
    return (
        Soak("one at a time", Flow(size=1100, requests=single, **anywhere), quick, {}),
        Soak("back to back", Flow(size=9000, depth=depth, requests=together, **anywhere), slow, {}),
        Soak("small ones back to back", Flow(size=3 * config.beat_bytes, depth=depth,
                                             requests=together if small is None else small, **anywhere), quick, {}),
        Soak("all queues, disorder, stalls",
             Flow(count=queues, size=9000, depth=depth, burst=2, requests=share, **anywhere), slow,
             {"out_of_order": True, "jitter": 80, "stall": 0.2}),
    )
