"""Blocks that pass typed streams on: queues, register slices, routing, arbitration, credits."""

from hw.stream.arbiter import RoundRobin
from hw.stream.credit import CreditCounter
from hw.stream.queue import Queue
from hw.stream.skid import Skid

__all__ = ["CreditCounter", "Queue", "RoundRobin", "Skid"]
