"""Computing on a rank beside communication that has cores and memory bandwidth for itself."""

from .kernel import picoseconds

__all__ = ["Compute", "seconds_beside"]


def seconds_beside(config, seconds_alone, memory_bytes):
    """Seconds that a computation takes beside the endpoint's share of cores and memory.

    Its arithmetic is slower by the cores that are taken; its memory accesses by the bandwidth. The slower one counts.
    An endpoint without overlap takes nothing while others compute.
    """
    kind, npu = config.endpoint, config.npu
    if not kind.overlap:
        return max(seconds_alone, memory_bytes / npu.memory_bytes_per_s)
    left = npu.memory_bytes_per_s - (kind.memory_bytes_per_s or 0)
    return max(seconds_alone * npu.sms / (npu.sms - kind.sms), memory_bytes / left)


class Compute:
    """One computation after the other.

    Attributes
    ----------
    busy : int
        Picoseconds.
    """

    def __init__(self, machine, endpoint):
        self._machine, self._rank = machine, endpoint.rank
        self._free = self.busy = 0

    def run(self, seconds, memory_bytes, ended):
        kernel = self._machine.kernel
        ticks = picoseconds(seconds_beside(self._machine.config, seconds, memory_bytes))
        self.busy += ticks
        self._free = max(self._free, kernel.now) + ticks
        kernel.at(self._free, ended, self._rank)
