# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the collectives accelerator.

================  ==================================================================================================
operating_points  the same all-reduce over links of several latencies
throughput        a large all-reduce: traffic of the memory, cycles beside the bound, what each resource was used
latency           small all-reduces on rings of 2, 4 and 8 ranks: what a hop costs besides the link's latency
timeline          what each dimension's links are busy with over time
sweep             throughput over FSMs and slots
loss              throughput over the share of packets that are lost
urgent            a small all-reduce beside a large one, of equal and of higher priority
================  ==================================================================================================
"""


from . import latency, loss, operating_points, sweep, throughput, urgent
from .runner import Bench

__all__ = ["Bench", "latency", "loss", "operating_points", "sweep", "throughput", "urgent"]
