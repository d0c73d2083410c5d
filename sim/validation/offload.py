"""What the accelerator saves: its network rate at a given memory bandwidth, and the bandwidth that a rate needs.

The rate is that of a large all-reduce alone, beside an endpoint that only the links hold up.
"""

from dataclasses import replace

from hw.ace.words import Collective
from sim.system.configuration import ENDPOINTS, MachineConfig, Npu
from sim.system.machine import Machine

__all__ = ["SHAPES", "memory_needed", "rows", "share_of_ideal"]

SHAPES = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4))
SIZE = 64 << 20
MEMORY = 128e9
NEEDED = 0.9
NPU = Npu(memory_bytes_per_s=1e14, bus_bytes_per_s=1e14, sms=10**6)
"""One in which nothing is the limit but what communication is given."""


def share_of_ideal(shape, kind, *, size=SIZE, **changes):
    """Network rate over that of the ideal endpoint."""
    return _seconds(shape, ENDPOINTS["ideal"], size, changes) / _seconds(shape, kind, size, changes)


def memory_needed(shape, kind, *, share=NEEDED, size=SIZE, **changes):
    """Bytes per second of memory with which an endpoint comes to a share of the ideal one's rate, or None."""
    ideal = _seconds(shape, ENDPOINTS["ideal"], size, changes)

    def enough(rate):
        return ideal / _seconds(shape, replace(kind, memory_bytes_per_s=rate), size, changes) >= share

    low, high = 2e10, 2e12
    if not enough(high):
        return None
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def rows(shapes=SHAPES, size=SIZE):
    """A row for each shape: shares of the ideal rate at 128 GB/s, and memory needed for 90 % of it, of both kinds; and
    the accelerator's share with lanes for twice as many bytes per cycle."""
    ace, compopt = ENDPOINTS["ace"], ENDPOINTS["compopt"]
    conventional = replace(compopt, sms=NPU.sms - 1)
    for shape in shapes:
        needs = [memory_needed(shape, kind, size=size // 2) for kind in (ace, conventional)]
        yield {"shape": "x".join(map(str, shape)), "bytes": size, "memory_bytes_per_s": MEMORY,
               "ace_share": share_of_ideal(shape, replace(ace, memory_bytes_per_s=MEMORY), size=size),
               "twice_lanes_share": share_of_ideal(shape, replace(
                   ace, memory_bytes_per_s=MEMORY, receive_bytes=2 * ace.receive_bytes), size=size),
               "compopt_share": share_of_ideal(shape, compopt, size=size),
               "ace_needs": needs[0], "conventional_needs": needs[1],
               "ratio": needs[1] / needs[0] if all(needs) else None}


def _seconds(shape, kind, size, changes):
    machine = Machine(MachineConfig(shape=shape, endpoint=kind, **{"npu": NPU} | changes))
    machine.issue(Collective.ALL_REDUCE, size)
    machine.run()
    return machine.now
