# SPDX-License-Identifier: Apache-2.0
"""The simulator configured as a fused operation in RTL, in clock cycles, to be compared with it.

::

    case = FusedCase(operation="embedding", slices=4, slice_bytes=1024, compute_cycles=600)
    predicted_cycles(case)
"""

from dataclasses import dataclass, replace

from hw.ace.config import WIRE_HEADER_BYTES
from hw.ace.words import Collective
from hw.endpoint.config import TINY, EndpointConfig
from hw.errors import UserError

from .configuration import EndpointKind, LinkConfig, MachineConfig, Npu
from .direct import DirectAllReduce
from .fused import simulate
from .slice_costs import SliceCosts, trigger_costs
from .slices import AllToAll, Fused, Fusion
from .workgroups import Workgroups

__all__ = ["CLOCK_HZ", "FusedCase", "predicted_cycles"]

CLOCK_HZ = 1e9
"""Nominal: all times of a case are in cycles."""

_COLLECTIVES = {"embedding": Collective.ALL_TO_ALL, "gemm": Collective.ALL_TO_ALL, "gemv": Collective.ALL_REDUCE}


@dataclass(frozen=True, kw_only=True)
class FusedCase:
    """A run of a fused operation on a ring of endpoints in RTL. Times are in cycles.

    Parameters
    ----------
    operation : str
        ``embedding`` and ``gemm``: an all-to-all. ``gemv``: an all-reduce in two phases, as in arXiv 2305.06942: each
        rank puts slices of its partial sums to the rank that owns them, which adds them and puts the sums to all.
    ranks : int
        Endpoints on the ring, 2 or more.
    slices : int
        Slices of the part for each target; a rank computes ``ranks`` times as many, its own included.
    slice_bytes : int
    workgroups : int
        Workgroup slots of a rank, each of which executes one task at a time; tasks are taken in order.
    tasks : int
        Tasks of a slice: ticks until the counter posts its request.
    compute_cycles : int or tuple of int
        Cycles of a task in its slot, from when the slot takes it until its tick; or those of each task of a rank, in
        the order of execution: ``ranks * slices * tasks``. All ranks have the same.
    reduce_cycles : int
        ``gemv``: cycles of the task that adds the received slices to the rank's own.
    order : str
        ``remote-first`` or ``remote-last``: slices for other ranks, before or after the rank's own. Those for other
        ranks alternate: to the neighbour of the next higher number, the one after, and so on.
    fused : bool
        False: all requests are posted when the last task has ended.
    relay : bool
        A slice for a rank two or more links away is put to the neighbour's memory, and a counter there posts its next
        put; puts reach neighbours only. False: it crosses the endpoints between without a stop in memory.
    link_bytes_per_cycle : float
        Each direction of each link, headers included.
    link_latency : int
    memory_latency : int
        Of reads and of writes.
    write_cycles : int
        From the end of a task until its part is in memory; its tick follows. The run ends no earlier.
    flag_cycles : int
        Until the consumer sees a slice's flag, besides the flag's write: the read of a flag that is copied, and half of
        the period of the consumer's poll.
    packet_bytes, header_bytes : int
    beat_bytes : int
        Data width of memory port and links.
    """

    operation: str = "embedding"
    ranks: int = 4
    slices: int = 4
    slice_bytes: int = 1024
    workgroups: int = 1
    tasks: int = 1
    compute_cycles: int | tuple[int, ...] = 1000
    reduce_cycles: int = 0
    order: str = "remote-first"
    fused: bool = True
    relay: bool = True
    link_bytes_per_cycle: float = 8.0
    link_latency: int = 20
    memory_latency: int = 50
    write_cycles: int = 0
    flag_cycles: int = 0
    packet_bytes: int = 256
    header_bytes: int = WIRE_HEADER_BYTES
    beat_bytes: int = 8

    def __post_init__(self) -> None:
        if self.operation not in _COLLECTIVES:
            raise UserError(f"the operation of a case must be one of {', '.join(_COLLECTIVES)}, "
                            f"not {self.operation!r}.")
        if self.order not in ("remote-first", "remote-last"):
            raise UserError(f"the order of a case must be remote-first or remote-last, not {self.order!r}.")
        for name, low in (("ranks", 2), ("slices", 1), ("slice_bytes", 1), ("workgroups", 1), ("tasks", 1),
                          ("reduce_cycles", 0), ("link_latency", 0), ("memory_latency", 0), ("write_cycles", 0),
                          ("flag_cycles", 0), ("packet_bytes", 64),
                          ("header_bytes", 0), ("beat_bytes", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < low:
                raise UserError(f"{name} of a case must be an integer from {low}, not {value!r}.")
        if not 0 < self.link_bytes_per_cycle < float("inf"):
            raise UserError(f"link_bytes_per_cycle of a case must be more than 0, not {self.link_bytes_per_cycle!r}.")
        cycles = self.task_cycles
        if len(cycles) != self.total_tasks or any(not isinstance(one, int) or one < 0 for one in cycles):
            raise UserError(f"compute_cycles of a case must be an integer from 0, or one for each of "
                            f"{self.total_tasks:,} tasks, not {self.compute_cycles!r}.")

    @property
    def total_tasks(self) -> int:
        """Tasks of a rank."""
        return self.ranks * self.slices * self.tasks

    @property
    def task_cycles(self) -> tuple[int, ...]:
        """Cycles of each task of a rank, in the order of execution."""
        if isinstance(self.compute_cycles, tuple):
            return self.compute_cycles
        return (self.compute_cycles,) * self.total_tasks

    def machine(self) -> MachineConfig:
        """The ring, at :data:`CLOCK_HZ`. The memory moves a beat per cycle in each direction."""
        beat = self.beat_bytes * CLOCK_HZ
        return MachineConfig(
            shape=(self.ranks,), endpoint=EndpointKind(name="rtl", engine="sram"), message_bytes=self.packet_bytes,
            links=LinkConfig(bytes_per_s=self.link_bytes_per_cycle * CLOCK_HZ, latency_s=self.link_latency / CLOCK_HZ),
            packet_bytes=self.packet_bytes, header_bytes=self.header_bytes, beat_bytes=self.beat_bytes,
            clock_hz=CLOCK_HZ, whole_packets=True, memory_pool="separate", turns="age",
            npu=Npu(memory_latency_s=self.memory_latency / CLOCK_HZ, bus_bytes_per_s=beat))

    def work(self) -> Fused:
        """The computation of a rank."""
        return Fused(name=self.operation, arithmetic=0.0, memory_bytes=0,
                     output_bytes=self.ranks * self.slices * self.slice_bytes, collective=_COLLECTIVES[self.operation],
                     task_seconds=tuple(cycles / CLOCK_HZ for cycles in self.task_cycles),
                     reduce_seconds=self.reduce_cycles / CLOCK_HZ)

    def fusion(self, costs: SliceCosts) -> Fusion:
        """How it is sent."""
        return Fusion(fused=self.fused, slices=self.slices, order=self.order, engine=costs, relay=self.relay,
                      workgroups=Workgroups(resident=self.workgroups, tasks=self.total_tasks))


def predicted_cycles(case: FusedCase, costs: SliceCosts | EndpointConfig = TINY) -> float:
    """Cycles of a case in the simulator, from the start of the first tasks until the last flag is in memory and the
    last task has ended.

    Parameters
    ----------
    case : FusedCase
    costs : SliceCosts or EndpointConfig
        By default :func:`~.slice_costs.trigger_costs` of the preset ``tiny``.
    """
    if isinstance(costs, EndpointConfig):
        costs = trigger_costs(costs)
    costs = replace(costs, tick_cycles=costs.tick_cycles + case.write_cycles,
                    notify_cycles=costs.notify_cycles + case.flag_cycles)
    kind = DirectAllReduce if case.operation == "gemv" else AllToAll
    run = simulate(case.work(), case.machine(), case.fusion(costs), kind=kind)
    return max(run.seconds * CLOCK_HZ, run.computed * CLOCK_HZ + case.write_cycles)
