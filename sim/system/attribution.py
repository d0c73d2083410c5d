# SPDX-License-Identifier: Apache-2.0
"""Causes of the time that a fused operation takes beyond the longer of its computation and its communication.

The operation runs again with one cause after the other removed, each in addition to the earlier ones. A cause's share
is the time saved by its removal; so the shares, with the remainder, add up to the whole difference. They depend on the
order of removal where causes hide each other: a latency that a later slice hides costs nothing.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from .configuration import MachineConfig
from .fused import simulate
from .slices import MOST_SLICES, Fused, Fusion

__all__ = ["CAUSES", "FINER", "Attribution", "attribute"]

CAUSES = {
    "occupancy": "fewer resident workgroups",
    "per slice": "cycles, headers, acknowledgements and requests of each slice",
    "start": "latencies of requests, links, memory and notification",
    "last slice": "slices that cannot overlap: the first computed, the last sent",
    "remainder": "order of slices, contention on links, and a part of the last slice",
}
"""In the order of removal; the remainder is left when all are removed."""

FINER = 16
"""Slices that replace one to remove the last slice; the remainder contains what these still cost."""


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """
    Parameters
    ----------
    seconds : float
        Of the fused run.
    compute, communication : float
        Seconds of the busiest processor, and of the busiest link without headers, when all causes are removed.
    shares : dict
        Cause -> seconds, in the order of :data:`CAUSES`; a removal that makes a run longer is negative.
    """

    seconds: float
    compute: float
    communication: float
    shares: dict[str, float]

    @property
    def bound(self) -> float:
        """The longer of computation and communication."""
        return max(self.compute, self.communication)


def attribute(operation: Fused, config: MachineConfig, fusion: Fusion) -> Attribution:
    """:class:`Attribution` of a fused run: five runs."""
    runs = [simulate(operation, config, fusion)]
    fusion = replace(fusion, workgroups=replace(fusion.workgroups, lost=0.0))
    runs.append(simulate(operation, config, fusion))
    fusion = replace(fusion, per_slice=0.0, engine=fusion.costs.without_occupancy())
    config = config.with_(header_bytes=0)
    runs.append(simulate(operation, config, fusion))
    fusion = replace(fusion, engine=fusion.costs.without_latency())
    config = config.with_(links=tuple(replace(link, latency_s=0.0, spine_latency_s=0.0)
                                      for link in config.dimension_links), npu=replace(config.npu, memory_latency_s=0))
    runs.append(simulate(operation, config, fusion))
    runs.append(simulate(operation, config, replace(fusion, slices=min(MOST_SLICES, FINER * fusion.slices))))
    last = runs[-1]
    bound = max(last.compute_seconds, last.link_seconds)
    shares = [before.seconds - after.seconds for before, after in pairwise(runs)]
    return Attribution(seconds=runs[0].seconds, compute=last.compute_seconds, communication=last.link_seconds,
                       shares=dict(zip(CAUSES, [*shares, last.seconds - bound], strict=True)))
