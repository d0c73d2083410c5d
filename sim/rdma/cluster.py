# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 units in a network: RTL with memory, registers and DMA traffic, and software stations at further ports.

::

    library = build_cluster(TINY)
    with Cluster(library, [Line(bytes_per_cycle=8)] * 3, units=2) as cluster:
        cluster.write_register(0, 0x10, 1)
        flow = cluster.flow(0, Flow(write=True, local=0, remote=remote_memory(1), size=4096, count=100, depth=4))
        cluster.run(100_000, until_done=True)
        result = cluster.result(0, flow)
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from amaranth.lib.wiring import Component

from hw.rdma.config import RdmaConfig
from sim.cpp.clocked import ClockedInputs
from sim.rdma.network import HEADERS, Line, Network, NetworkFailed, Switch, closed, load, network_arguments
from sim.rdma.pins import pins_header
from sim.verilator.build import Status
from sim.verilator.design import Design, component_of
from sim.verilator.program import Program, build_program

__all__ = ["Cluster", "Flow", "FlowResult", "Library", "Memory", "MemoryCounts", "Reason", "build_cluster"]

_HERE = Path(__file__).parent
_CPP = _HERE.parent / "cpp"
_SOURCES = (*(_HERE / f"{name}.h" for name in ("cluster", "unit", "dma_traffic", "memory_streams", "register_bus",
                                               "payload", "mac_port", "observer")), *HEADERS, _CPP / "axi_memory.h")
_SETTLE_LIMIT, _FRAME_LIMIT = 100_000, 1 << 15
_NEVER = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Options of a unit's memory: latencies and ``jitter`` in cycles, rates in beats per cycle (0 for any number).

    ``stall``: probability of a stall, per channel of the memory, of the DMA side and of other traffic, and cycle.
    ``out_of_order``: responses of different IDs may come in any order.
    """

    read_latency: int = 100
    write_latency: int = 100
    jitter: int = 0
    out_of_order: bool = False
    read_rate: float = 0.0
    write_rate: float = 0.0
    stall: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Operations of the DMA side: WRITEs or READs of one size between local memory and remote addresses.

    Parameters
    ----------
    write : bool
    local, remote : int
        Local address, and an address in the form of :func:`hw.rdma.config.remote_memory`.
    size : int
        Bytes of each operation.
    count : int
        Operations.
    stride, slots : int
        Operation ``n`` is ``n % slots * stride`` bytes behind both addresses; ``stride`` defaults to ``size``.
    depth : int
        Operations in flight.
    interval, start : int
        Cycles from one to the next at least, and from now to the first.
    first_id, ids : int
        IDs of its bursts, used in turn; flows of a unit must not share any.
    keep_latencies : bool
        Keep each operation's latency.
    """

    write: bool
    local: int
    remote: int
    size: int
    count: int
    stride: int | None = None
    slots: int = 1
    depth: int = 1
    interval: int = 0
    start: int = 0
    first_id: int = 0
    ids: int = 1
    keep_latencies: bool = False


@dataclass(frozen=True)
class FlowResult:
    """Progress of a flow: operations that have begun, that are done, and those of them that have failed.

    ``first``: cycle of the first burst; ``last``: of the end of the latest operation. Latencies in cycles.
    """

    begun: int
    done: int
    failed: int
    first: int
    last: int
    latency_sum: int
    latency_least: int
    latency_most: int

    @property
    def latency(self) -> float:
        """Mean latency in cycles."""
        return self.latency_sum / self.done if self.done else 0.0


@dataclass(frozen=True)
class MemoryCounts:
    """Accesses to a unit's memory since the start."""

    read_bursts: int
    read_beats: int
    write_bursts: int
    write_beats: int
    write_bytes: int


class Reason(IntEnum):
    """Why a run has ended."""

    LIMIT = 0
    DONE = 1
    INTERRUPT = 2


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("read_latency", "write_latency", "jitter", "out_of_order")]
    _fields_ += [(name, ctypes.c_double) for name in ("read_rate", "write_rate", "stall")]


class _Flow(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("write", "first_id", "ids", "depth", "keep_latencies")]
    _fields_ += [(name, ctypes.c_uint64) for name in ("local", "remote", "size", "stride", "slots", "count", "interval",
                                                      "start")]


_Handle, _Number, _Address, _Count, _Text = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64,
                                             ctypes.c_char_p)
_Numbers, _Result = ctypes.POINTER(ctypes.c_uint64), ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cluster_create": (_Handle, _Handle, _Handle, _Number, ctypes.POINTER(_Memory)),
    "cluster_destroy": (None, _Handle),
    "cluster_network": (_Handle, _Handle),
    "cluster_cycle": (_Count, _Handle),
    "cluster_observe": (_Result, _Handle, _Handle),
    "cluster_map": (_Result, _Handle, _Number, _Address, _Count, _Number),
    "cluster_store": (_Result, _Handle, _Number, _Address, _Text, _Count),
    "cluster_load": (_Result, _Handle, _Number, _Address, _Handle, _Count),
    "cluster_fail_burst": (_Result, _Handle, _Number, _Number, _Count),
    "cluster_access": (_Result, _Handle, _Number, _Number, _Number, _Number),
    "cluster_take_value": (ctypes.c_int64, _Handle, _Number),
    "cluster_settle": (_Result, _Handle, _Count),
    "cluster_send_other": (_Result, _Handle, _Number, _Text, _Count),
    "cluster_receive_other": (ctypes.c_int64, _Handle, _Number, _Handle, _Count),
    "cluster_flow": (_Result, _Handle, _Number, ctypes.POINTER(_Flow)),
    "cluster_extend": (_Result, _Handle, _Number, _Number, _Count),
    "cluster_flow_result": (_Result, _Handle, _Number, _Number, _Numbers),
    "cluster_latencies": (ctypes.c_int64, _Handle, _Number, _Number, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint32))),
    "cluster_interrupted": (_Count, _Handle, _Number),
    "cluster_run": (_Result, _Handle, _Count, _Number, _Number),
    "cluster_memory_counts": (_Result, _Handle, _Number, _Numbers),
}


@dataclass(frozen=True)
class Library:
    """A built cluster of one kind of unit."""

    program: Program
    config: RdmaConfig


def build_cluster(config: RdmaConfig, *, component: Component | Design | None = None, checked: bool = False,
                  status: Status | None = None) -> Library:
    """Build a cluster of ``RdmaUnit(config)`` unless that was done before.

    Parameters
    ----------
    config : RdmaConfig
    component : :class:`amaranth.lib.wiring.Component` or :class:`~sim.verilator.design.Design`
        A unit with the same ports instead.
    checked : bool
        With the assertions of the design, which end the run; slower.
    status : callable or None
        Receives ``(what, done, total)`` during the build.
    """
    if component is None:
        # Imported here: a stub does not need it.
        component = Design(import_module("hw.rdma.unit").RdmaUnit, config)
    clocked = Design(ClockedInputs, component) if isinstance(component, Design) else ClockedInputs(component)
    made = build_program(clocked, name="rdma_cluster_checked" if checked else "rdma_cluster",
                         main=_HERE / "cluster.cpp", sources=_SOURCES,
                         generated={"pins.h": pins_header(component_of(component))},
                         includes=(_HERE, _CPP), checked=checked, shared=True, status=status)
    return Library(made, config)


class Cluster(Network):
    """Units at the ports 0 to ``units - 1`` of a network, and software stations at the others.

    Parameters
    ----------
    library : Library
        From :func:`build_cluster`.
    lines : sequence of Line
        The segment of each port, 2 to 8.
    units : int or None
        Units; default: one at each port.
    memories : sequence of Memory
        Of each unit; one for all if it has one element.
    switch : Switch
    seed : int
        Of faults and stalls.
    """

    def __init__(self, library: Library, lines: Sequence[Line], *, units: int | None = None,
                 memories: Sequence[Memory] = (Memory(),), switch: Switch | None = None, seed: int = 1) -> None:
        self.units = len(lines) if units is None else units
        if not 1 <= self.units <= len(lines):
            raise NetworkFailed(f"A cluster with {len(lines)} ports has 1 to {len(lines)} units, not {self.units}.")
        if len(memories) not in (1, self.units):
            raise NetworkFailed(f"{self.units} units have 1 or {self.units} memories, not {len(memories)}.")
        self.config = library.config
        self._ids = 1 << library.config.id_width
        self._path = library.program.path
        functions = load(self._path, _FUNCTIONS)
        given = (_Memory * self.units)(*(_Memory(*astuple(memories[unit % len(memories)]))
                                         for unit in range(self.units)))
        self._handle = functions["cluster_create"](*network_arguments(lines, switch or Switch(), seed), self.units,
                                                   given)
        super().__init__(functions, functions["cluster_network"](self._handle),
                         lambda: int(self._call["cluster_cycle"](self._handle)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._call["cluster_destroy"](self._handle)
        self._call = closed()

    def _do(self, name: str, *arguments: object) -> Any:
        function: Callable[..., Any] = self._call[f"cluster_{name}"]
        return function(self._handle, *arguments)

    @property
    def cycle(self) -> int:
        """The present cycle."""
        return self._cycle()

    def observe(self, observer: object) -> None:
        """Call the functions of ``observer``, a pointer to the ``Observer`` of another library, from now on."""
        self._do("observe", observer)

    @property
    def handle(self) -> object:
        """The cluster's handle, for functions of its library that another library calls."""
        return self._handle

    @property
    def network(self) -> object:
        """The same of its network."""
        return self._network

    def function(self, name: str) -> object:
        """Pointer to a C function of the library, for another one."""
        return ctypes.cast(ctypes.CDLL(str(self._path))[name], _Handle)

    def map(self, unit: int, address: int, count: int, fill: int = 0) -> None:
        """Make memory of ``unit`` where there is none."""
        self._do("map", unit, address, count, fill)

    def store(self, unit: int, address: int, data: bytes) -> None:
        """Write memory, and make it where there is none."""
        self._do("store", unit, address, data, len(data))

    def load(self, unit: int, address: int, count: int) -> bytes:
        """Read memory."""
        buffer = ctypes.create_string_buffer(max(1, count))
        self._do("load", unit, address, buffer, count)
        return buffer.raw[:count]

    def fail_burst(self, unit: int, number: int, *, write: bool) -> None:
        """Let the ``number``-th burst from now at the memory end with an error."""
        self._do("fail_burst", unit, write, number)

    def write_register(self, unit: int, offset: int, value: int) -> None:
        """Write a register; returns after its response."""
        self._do("access", unit, offset, value, 1)
        self._settle()

    def read_register(self, unit: int, offset: int) -> int:
        """Read a register."""
        self._do("access", unit, offset, 0, 0)
        self._settle()
        return int(self._do("take_value", unit))

    def write_registers(self, unit: int, values: Sequence[tuple[int, int]]) -> None:
        """Write pairs of offset and value in order; returns after the last response."""
        for offset, value in values:
            self._do("access", unit, offset, value, 1)
        self._settle()

    def _settle(self) -> None:
        if not self._do("settle", _SETTLE_LIMIT):
            raise NetworkFailed(f"A register access had no response for {_SETTLE_LIMIT} cycles.")

    def send_other(self, unit: int, frame: bytes) -> None:
        """Send a frame by the unit's ``other_tx``."""
        self._do("send_other", unit, frame, len(frame))

    def receive_other(self, unit: int) -> Iterator[bytes]:
        """Frames from the unit's ``other_rx``."""
        while count := self._do("receive_other", unit, self._buffer, _FRAME_LIMIT):
            yield self._buffer.raw[:count]

    def flow(self, unit: int, flow: Flow) -> int:
        """Begin a flow, and return its number among those of the unit."""
        stride = flow.size if flow.stride is None else flow.stride
        if not 1 <= flow.size <= 1 << 30 or flow.slots < 1 or flow.depth < 1 or flow.ids < 1:
            raise NetworkFailed(f"A flow has operations of 1 to {1 << 30} bytes, and at least 1 slot, ID and operation "
                                f"in flight, not {flow}.")
        if flow.first_id + flow.ids > self._ids:
            raise NetworkFailed(f"IDs are from 0 to {self._ids - 1}, and the flow uses some up to "
                                f"{flow.first_id + flow.ids - 1}.")
        given = _Flow(flow.write, flow.first_id, flow.ids, flow.depth, flow.keep_latencies, flow.local, flow.remote,
                      flow.size, stride, flow.slots, flow.count, flow.interval, flow.start)
        return int(self._do("flow", unit, ctypes.byref(given)))

    def extend(self, unit: int, flow: int, count: int) -> None:
        """Let a flow begin ``count`` operations from now on, whatever its count was; 0 ends it."""
        self._do("extend", unit, flow, count)

    def result(self, unit: int, flow: int) -> FlowResult:
        """Progress of a flow."""
        numbers = (ctypes.c_uint64 * len(fields(FlowResult)))()
        self._do("flow_result", unit, flow, numbers)
        return FlowResult(*numbers)

    def latencies(self, unit: int, flow: int) -> npt.NDArray[np.uint32]:
        """Cycles of each operation of a flow that keeps them, in the order of their ends."""
        cycles = ctypes.POINTER(ctypes.c_uint32)()
        count = self._do("latencies", unit, flow, ctypes.byref(cycles))
        return np.ctypeslib.as_array(cycles, (count,)).copy() if count else np.empty(0, np.uint32)

    def interrupted(self, unit: int) -> int | None:
        """Cycle in which the unit's ``irq``, still high, has risen."""
        cycle = int(self._do("interrupted", unit))
        return None if cycle == _NEVER else cycle

    def run(self, cycles: int, *, until_done: bool = False, until_interrupt: bool = False) -> Reason:
        """Run for a number of cycles, or until all flows of all units have ended, or until an ``irq`` is high.

        Raises :class:`NetworkFailed` if a unit broke a rule: of its memory, its IDs, or of ``tkeep``.
        """
        return Reason(self._do("run", cycles, until_done, until_interrupt))

    def memory_counts(self, unit: int) -> MemoryCounts:
        """Accesses to a unit's memory."""
        numbers = (ctypes.c_uint64 * len(fields(MemoryCounts)))()
        self._do("memory_counts", unit, numbers)
        return MemoryCounts(*numbers)
