# SPDX-License-Identifier: Apache-2.0
"""Endpoints on a torus as Python sees them: memory, registers, time.

::

    with Endpoints(TINY, (4, 2), link=Link(latency=50), seed=1) as endpoints:
        driver = AceDriver(endpoints.bus(3), TINY)
        endpoints.do(driver.check_identity())
        endpoints.run(1000)
"""

import ctypes
import json
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import IntEnum
from math import prod
from typing import Any, Self, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from dmace.drivers.ace import AceBus
from hw.ace.config import DIMENSIONS, MAX_RANKS, AceConfig
from hw.errors import UserError
from sim.ace import log as logs
from sim.ace.faults import Faults
from sim.ace.kernels import Kernel, Times, packed
from sim.ace.shared_library import ClusterFailed, Library, LinkParameters, MemoryParameters, Parameters, build_library

__all__ = ["Endpoints", "Link", "Memory", "Reason", "Statistics"]

_Result = TypeVar("_Result")

_NEVER = (1 << 64) - 1


class Statistics(TypedDict):
    """Counts of each memory, by rank, and of each link, by rank and port at which it begins."""

    cycle: int
    memories: list[dict[str, int]]
    links: list[dict[str, int]]


class Reason(IntEnum):
    """Why a run ended."""

    LIMIT = 0
    DONE = 1
    INTERRUPT = 2


@dataclass(frozen=True, kw_only=True)
class Link:
    """Both directions of the links of a dimension.

    Parameters
    ----------
    latency : int
        Cycles from the end of a beat at the sender to its arrival, at least 1. The longer, the faster the simulation.
    bytes_per_cycle : float
        Of payload and headers together; 0 for a beat per cycle, however many bytes it has.
    stall : float
        Probability that each end of the link stalls in a cycle.
    """

    latency: int = 20
    bytes_per_cycle: float = 0
    stall: float = 0


@dataclass(frozen=True, kw_only=True)
class Memory:
    """An endpoint's memory.

    Parameters
    ----------
    read_latency, write_latency : int
        Cycles from AR to the first R beat that it can give, and from the last W beat to B.
    read_rate, write_rate : float
        Beats per cycle; 0 for any number.
    jitter : int
        Most additional cycles of a burst.
    out_of_order : bool
        Responses of different IDs that are due may come in any order.
    stall : float
        Probability that a channel stalls in a cycle.
    """

    read_latency: int = 100
    write_latency: int = 100
    read_rate: float = 0
    write_rate: float = 0
    jitter: int = 0
    out_of_order: bool = False
    stall: float = 0


class Endpoints:
    """A cluster without software.

    Parameters
    ----------
    config : :class:`AceConfig`
        Sizes of each endpoint.
    shape : tuple of int
        Ranks along each dimension, 1 to 3 of them. Rank numbers count the last dimension fastest.
    link : :class:`Link`, or one for each dimension
    memory : :class:`Memory`, or one for each rank
    seed : int
        Random seed; equal seeds give equal cycles.
    threads : int
        Results do not depend on it. More than one helps with many endpoints and links of high latency.
    library : optional
        From :func:`sim.ace.shared_library.build_library`, by default that of the accelerator.
    status : callable or None
        Receives ``(what, done, total)`` as the library is built.
    """

    def __init__(self, config: AceConfig, shape: Sequence[int], *, link: Link | Sequence[Link] = Link(),
                 memory: Memory | Sequence[Memory] = Memory(), seed: int = 1, threads: int = 1,
                 library: Library | None = None, status: Callable[[str, int, int], None] | None = None) -> None:
        self._handle: Any = None
        self._shared: list[npt.NDArray[np.uint8]] = []
        self.config, self.shape = config, _shape(shape, config.ports // 2)
        links = [link] * len(self.shape) if isinstance(link, Link) else list(link)
        memories = [memory] * self.size if isinstance(memory, Memory) else list(memory)
        _check(self.shape, links, memories, threads)
        self.links = links
        self._library = library or build_library(config, status=status)
        ones = DIMENSIONS - len(self.shape)
        parameters = Parameters((*self.shape, *[1] * ones), tuple(LinkParameters(**asdict(one)) for one in links),
                                seed, threads)
        self._handle = self._library.create(
            parameters, (MemoryParameters * self.size)(*(MemoryParameters(**asdict(one)) for one in memories)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Free the cluster, which cannot be used afterwards."""
        if self._handle is not None:
            self._library.destroy(self._handle)
            self._handle = None
            self._shared.clear()

    # Ranks

    @property
    def size(self) -> int:
        return prod(self.shape)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Coordinates of a rank."""
        return tuple(int(place) for place in np.unravel_index(rank, self.shape))

    # Memory

    def write_memory(self, rank: int, address: int, data: bytes | npt.NDArray[Any]) -> None:
        """Store bytes or an array. Memory exists from then on, in pages of 64 KiB; the rest of a new one is 0."""
        array = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data)
        self._library.store(self._handle, rank, address, array.ctypes.data, array.nbytes)

    def read_memory(self, rank: int, address: int, count: int) -> npt.NDArray[np.uint8]:
        """``count`` bytes as an array."""
        data = np.empty(count, np.uint8)
        self._library.load(self._handle, rank, address, data.ctypes.data, count)
        return data

    def share_memory(self, rank: int, address: int, data: npt.NDArray[np.uint8]) -> None:
        """Let an array be the memory at an address, without a copy: the endpoint reads and writes its bytes. Address
        and length are multiples of 64 KiB."""
        self._library.share(self._handle, rank, address, data.ctypes.data, data.nbytes)
        self._shared.append(data)

    def fail_read(self, rank: int, number: int = 1) -> None:
        """Fail the ``number``-th read burst from now on with an error response."""
        self._library.fail_burst(self._handle, rank, 0, number)

    def fail_write(self, rank: int, number: int = 1) -> None:
        """As :meth:`fail_read`, for a write burst, which then stores nothing."""
        self._library.fail_burst(self._handle, rank, 1, number)

    # Links

    def set_faults(self, faults: Faults) -> None:
        """Set the :class:`sim.ace.faults.Faults` of all links; cycles of cuts count from now."""
        faults.check(self.shape)
        self._library.faults(self._handle, faults.loss, faults.corrupt, faults.dup, faults.delay, faults.delay_cycles,
                             faults.late, faults.reorder, faults.late_cycles, faults.reorder_cycles)
        for cut in faults.cuts:
            self._library.cut(self._handle, cut.rank, cut.port, self.cycle + cut.begin,
                              _NEVER if cut.end is None else self.cycle + cut.end)

    # Registers

    def bus(self, rank: int) -> AceBus:
        """The :class:`dmace.drivers.ace.AceBus` of an endpoint."""
        return _EndpointBus(self._library, self._handle, rank)

    def do(self, *coroutines: Coroutine[Any, Any, _Result]) -> list[_Result]:
        """Run coroutines that use buses, all at the same time, and return their results in a list."""
        results: list[Any] = [None] * len(coroutines)
        waiting = list(enumerate(coroutines))
        try:
            while waiting:
                still: list[tuple[int, Coroutine[Any, Any, _Result]]] = []
                for number, coroutine in waiting:
                    try:
                        coroutine.send(None)
                        still.append((number, coroutine))
                    except StopIteration as ended:
                        results[number] = ended.value
                waiting = still
                self._settle()
        finally:
            for coroutine in coroutines:
                coroutine.close()
        return results

    def _settle(self, limit: int = 1_000_000) -> None:
        if not self._library.settle(self._handle, limit):
            raise ClusterFailed(f"A register access had no response within {limit:,} cycles.")

    # Time

    @property
    def cycle(self) -> int:
        """Cycles since reset."""
        cycle: int = self._library.cycle(self._handle)
        return cycle

    def watch(self, rank: int, address: int, count: int, *, failed: int = 0) -> int:
        """Wait for a word of 8 bytes too: until its lower half is at least ``count``, modulo 2 ** 32, or one of the
        bits ``failed`` is set. Returns the number of the watch."""
        number: int = self._library.watch(self._handle, rank, address, count, failed)
        return number

    def watch_met(self, rank: int, number: int) -> int | None:
        """Cycle in which the endpoint's watch of that number was met, or None."""
        met: int = self._library.watch_met(self._handle, rank, number)
        return None if met == _NEVER else met

    def met(self, rank: int, number: int) -> int:
        """As :meth:`watch_met`, of a watch that has been met."""
        cycle = self.watch_met(rank, number)
        if cycle is None:
            raise ClusterFailed(f"Watch {number} of rank {rank} was not met.")
        return cycle

    def keep_bytes(self, rank: int, number: int, address: int, count: int) -> None:
        """Copy these bytes in the cycle in which a watch is met; call it before."""
        self._library.watch_bytes(self._handle, rank, number, address, count)

    def kept_bytes(self, rank: int, number: int, count: int) -> npt.NDArray[np.uint8]:
        """The bytes of :meth:`keep_bytes`, as an array; empty where the watch was not met."""
        data = np.zeros(count, np.uint8)
        return data[:self._library.watched_bytes(self._handle, rank, number, data.ctypes.data)]

    def clear_watches(self) -> None:
        self._library.clear_watches(self._handle)

    # Kernels

    def start_kernel(self, rank: int, kernel: Kernel | None) -> None:
        """Start a :class:`sim.ace.kernels.Kernel` beside an endpoint, instead of an earlier one; None: only end that.
        Until it is done, :meth:`run` does not end before its limit."""
        if kernel is None:
            self._library.kernel(self._handle, rank, None)
            return
        parameters, arrays = packed(kernel)
        self._library.kernel(self._handle, rank, ctypes.byref(parameters))
        del arrays

    def kernel_times(self, rank: int, which: Times) -> list[int | None]:
        """Cycles of a kernel's events, None where they have not happened."""
        found = ctypes.POINTER(ctypes.c_uint64)()
        count = self._library.kernel_times(self._handle, rank, which, ctypes.byref(found))
        return [None if time == _NEVER else time for time in found[:count]]

    def interrupted(self, rank: int) -> int | None:
        """Cycle in which ``irq`` rose; None while it is low."""
        cycle: int = self._library.interrupted(self._handle, rank)
        return None if cycle == _NEVER else cycle

    def run(self, cycles: int, *, until_interrupt: bool = False,
            progress: Callable[[int], object] | None = None) -> Reason:
        """Simulate ``cycles`` cycles or, if there are watches, until some cycles after all of them are met.

        Parameters
        ----------
        until_interrupt : bool
            End when the ``irq`` of an endpoint is high, too.
        progress : callable or None
            Receives the cycle, a few times a second.

        Returns
        -------
        :class:`Reason`
        """
        end = self.cycle + cycles
        # Python handles signals between slices.
        longest = max(64, 100_000 // self.size)
        while True:
            part = min(longest, end - self.cycle)
            reason = Reason(self._library.run(self._handle, part, int(until_interrupt)))
            if progress is not None:
                progress(self.cycle)
            if reason != Reason.LIMIT or self.cycle == end:
                return reason

    def statistics(self) -> Statistics:
        """Counts since reset."""
        counts: Statistics = json.loads(self._library.statistics(self._handle))
        return counts

    @contextmanager
    def log(self) -> Iterator[logs.Log]:
        """A :class:`sim.ace.log.Log` of the packets and bursts that begin inside; it is filled when that ends."""
        self._library.log(self._handle, 1)
        log = logs.Log(self.cycle)
        try:
            yield log
        finally:
            self._library.log(self._handle, 0)
            packets, bursts = (self._library.rows(name, self._handle, 6).tolist() for name in ("packets", "bursts"))
            log.packets = logs.packets(self.config, packets)
            log.bursts = [logs.Burst(rank, bool(write), *others) for rank, write, *others in bursts]


class _EndpointBus:
    def __init__(self, library: Library, handle: object, rank: int) -> None:
        self._library, self._at = library, (handle, rank)

    async def write(self, offset: int, value: int) -> None:
        self._library.write_register(*self._at, offset, value)

    async def read(self, offset: int) -> int:
        self._library.read_register(*self._at, offset)
        await _Responses()
        value: int = self._library.take_value(*self._at)
        return value

    async def store(self, address: int, data: bytes, *, delay: int = 0) -> None:
        """At most 16 bytes, within 16; not before ``delay`` cycles from now, and after all earlier stores."""
        self._library.doorbell(*self._at, delay, address, data, len(data))


class _Responses:
    def __await__(self) -> Generator[None, None, None]:
        yield


def _shape(sizes: Sequence[int], dimensions: int) -> tuple[int, ...]:
    shape = tuple(sizes)
    if not 1 <= len(shape) <= dimensions or not all(isinstance(size, int) and size >= 1 for size in shape) \
            or prod(shape) > MAX_RANKS:
        raise UserError(f"A torus must have 1 to {dimensions} dimensions and 1 to {MAX_RANKS} ranks, "
                        f"not a shape of {shape!r}.")
    return shape


def _check(shape: tuple[int, ...], links: Sequence[Link], memories: Sequence[Memory], threads: int) -> None:
    if len(links) != len(shape):
        raise UserError(f"A torus of {len(shape)} dimensions must have as many kinds of links, not {len(links)}.")
    if len(memories) != prod(shape):
        raise UserError(f"A torus of {prod(shape)} ranks must have as many memories, not {len(memories)}.")
    for link in links:
        if not 1 <= link.latency <= 100_000:
            raise UserError(f"The latency of a link must be from 1 to 100,000 cycles, not {link.latency}.")
        if link.bytes_per_cycle < 0:
            raise UserError(f"The bandwidth of a link must not be negative, but is {link.bytes_per_cycle}.")
    parts: list[Link | Memory] = [*links, *memories]
    for part in parts:
        if not 0 <= part.stall < 1:
            raise UserError(f"The probability of a stall must be at least 0 and less than 1, not {part.stall}.")
    if threads < 1:
        raise UserError(f"There must be at least one thread, not {threads}.")
