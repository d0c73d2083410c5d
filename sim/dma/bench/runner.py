# SPDX-License-Identifier: Apache-2.0
"""The engine under the C++ harness, for all groups of cases.

The memory responds L cycles after AR and L cycles after the last W beat, never stalls and has unlimited bandwidth, as
do the peers in ``peers.py``. Every run checks every byte.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sim.cpp import Flow, Harness, Target

__all__ = ["UNALIGNED", "Bench", "Case", "Row"]

Row = dict[str, Any]
"""Measurements by name, as they become JSON."""

Case = tuple[str, str, Callable[[], Row]]
"""Name of a list of rows, text of the progress display, and the function that measures the row."""

#: Bytes beyond alignment of source and destination.
UNALIGNED = (3, 17)


class Bench:
    """Runs flows on one engine.

    Parameters
    ----------
    harness : :class:`sim.cpp.Harness`
        Around the engine.
    queues : int
        Queues that are posted to, where a measurement does not say otherwise.
    seed : int
        Random seed.
    shifts : (int, int)
        Bytes by which source and destination miss alignment.

    Attributes
    ----------
    cycles, seconds
        Simulated so far, and how long that took.
    """

    def __init__(self, harness: Harness, *, queues: int, seed: int = 1, shifts: tuple[int, int] = (0, 0)) -> None:
        self.harness, self.config, self.queues, self.seed = harness, harness.config, queues, seed
        self.shifts = tuple(shift % self.config.beat_bytes for shift in shifts)
        self.cycles, self.seconds = 0, 0.0

    def run(self, flows: Sequence[Flow], latency: int, **options: Any) -> Row:
        """Measurements with a memory of this latency."""
        return self.run_on(flows, [Target(read_latency=latency, write_latency=latency)], **options)

    def run_on(self, flows: Sequence[Flow], targets: Sequence[Target], **options: Any) -> Row:
        """Measurements with these memories."""
        result = self.harness.run(flows, targets, seed=self.seed, **options)
        self.cycles += result["cycles"]
        self.seconds += result["seconds"]
        return result

    def flow(self, size: int, **options: Any) -> Flow:
        return Flow(size=size, source_shift=self.shifts[0], destination_shift=self.shifts[1], **options)

    def full(self, size: int, latency: int, count: int) -> Flow:
        """Requests enough that no queue runs empty, neither in the engine nor in flight."""
        config = self.config
        window = min(config.default_limit, max(config.window, config.entries // count))
        waiting = 2 if size >= 8192 else min(config.queue_depth, 32)
        in_flight = 2 + -(-window * config.segment_bytes // size)
        unseen = -(-(6 * latency + 2000) * config.beat_bytes // size)
        depth = waiting + min(8 * window, in_flight + unseen)
        return self.flow(size, count=count, waiting=waiting, depth=depth)

    def steady(self, latency: int) -> int:
        """Cycles until full queues reach a steady state."""
        return 6 * latency + 3000

    def beats(self, size: int) -> int:
        """W beats of a request."""
        return -(-(self.shifts[1] + size) // self.config.beat_bytes)

    def share(self, window: Row) -> float:
        """Payload's share of W."""
        return float(round(window["payload_bytes"] / window["cycles"] / self.config.beat_bytes, 4))

    def rate(self, window: Row, size: int) -> float:
        """Requests per cycle."""
        return float(round(window["payload_bytes"] / size / window["cycles"], 5))
