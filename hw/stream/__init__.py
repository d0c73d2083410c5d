# SPDX-License-Identifier: Apache-2.0
"""Building blocks for typed streams: queues, register slices, routing, arbitration, credits."""

from hw.stream.arbiter import RoundRobin
from hw.stream.async_queue import AsyncQueue
from hw.stream.checker import StreamChecker
from hw.stream.commit_queue import CommitQueue
from hw.stream.credit import CreditCounter
from hw.stream.level_crossing import LevelCrossing
from hw.stream.onehot import index_of, selected
from hw.stream.pacer import Pacer
from hw.stream.pipe import pipe
from hw.stream.pulse_crossing import PulseCrossing
from hw.stream.queue import Queue
from hw.stream.replay_queue import ReplayQueue
from hw.stream.route import Demux, Fork, Join, Merge
from hw.stream.skid import Skid
from hw.stream.value_crossing import ValueCrossing

__all__ = [
    "AsyncQueue",
    "CommitQueue",
    "CreditCounter",
    "Demux",
    "Fork",
    "Join",
    "LevelCrossing",
    "Merge",
    "Pacer",
    "PulseCrossing",
    "Queue",
    "ReplayQueue",
    "RoundRobin",
    "Skid",
    "StreamChecker",
    "ValueCrossing",
    "index_of",
    "pipe",
    "selected",
]
