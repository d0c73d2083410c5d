# SPDX-License-Identifier: Apache-2.0
"""Test double of machines with DMA engines: the guarantees of docs/dma_engine.md, and otherwise random order.

No RTL, no clock cycles. Requests are checked by the engine's golden model. Time is a sequence of events: a segment is
read, a segment is written, an SC word is stored. With ``delays`` each event happens at a random time, so that data of
one queue moves in any order, also within a request; requests of a queue complete in order, and a SIGNAL or FENCE waits
for all earlier ones.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError, RequestTimeout
from hw.common.words import CompletionWord
from hw.dma_engine.config import TINY
from hw.dma_engine.model.checks import Checks
from hw.dma_engine.model.regions import Region
from hw.dma_engine.words import NativeWord, Opcode, RequestFlag, Status
from hw.rdma.config import remote_memory

__all__ = ["DoubleMachine", "FunctionalMachines"]

_IDLE_POLLS = 100
"""Polls without an event until a wait times out."""

_MOST_EVENTS = 12
"""Events between two polls."""


@dataclass
class _Request:
    word: NativeWord
    status: Status = Status.OK
    segments: int = 0
    started: bool = False


@dataclass
class _Queue:
    """Requests that have not completed, and the words that the queue has to publish and has published."""

    requests: deque[_Request] = field(default_factory=deque)
    count: int = 0
    failed: int = 0
    status: Status = Status.OK
    publishing: bool = False
    published: CompletionWord = field(default_factory=lambda: CompletionWord(0, 0, 0))

    @property
    def held(self) -> bool:
        return self.status is not Status.OK


class DoubleMachine:
    """A machine of :class:`FunctionalMachines`; see :class:`dmace.remote.machine.Machine`."""

    cycle = None

    def __init__(self, cluster: "FunctionalMachines", number: int, peers: tuple[int, ...], pool_bytes: int,
                 addressable: bool) -> None:
        self._cluster, self.number, self.peers, self.pool_bytes = cluster, number, peers, pool_bytes
        self.bytes = np.zeros(pool_bytes, np.uint8)
        self.memory = self.bytes if addressable else None
        self.queues, self.queue_depth = cluster.config.queues, cluster.config.queue_depth
        self.checks = Checks(cluster.config)
        self.state = [_Queue() for _ in range(self.queues)]
        for queue in self.checks.queues:
            queue.sc = 0
        #: Every request that was posted, with its queue.
        self.posted: list[tuple[int, NativeWord]] = []

    def read_memory(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        self._check(offset, count)
        return self.bytes[offset:offset + count].copy()

    def write_memory(self, offset: int, data: bytes | npt.NDArray[Any]) -> None:
        array = np.frombuffer(data, np.uint8) if isinstance(data, bytes) \
            else np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._check(offset, array.nbytes)
        self.bytes[offset:offset + array.nbytes] = array

    def _check(self, offset: int, count: int) -> None:
        if offset < 0 or offset + count > self.pool_bytes:
            raise DmaceError(f"The bytes {offset} to {offset + count} are not within the pool of {self.pool_bytes:,}.")

    def post(self, queue: int, *words: NativeWord) -> None:
        for word in words:
            self.posted.append((queue, NativeWord.unpack(word.pack())))
            self._cluster.accept(self, queue, self.posted[-1][1])

    def completed(self, queue: int) -> CompletionWord:
        return self.state[queue].published

    def run(self, condition: Callable[[], bool]) -> None:
        self._cluster.run(condition)


class FunctionalMachines:
    """Machines that all reach each other.

    Parameters
    ----------
    count : int
    pool_bytes : int
        Registered memory of each.
    seed : int
        Random seed.
    delays : bool
        Move data, and publish completions, at random times; else at once, in the order of the posts.
    addressable : bool
        Give the machines' pools as arrays.
    queues, queue_depth : int
        Sizes of each DMA engine.
    segment : int
        Bytes that are moved at a time.
    """

    def __init__(self, count: int, pool_bytes: int = 1 << 20, *, seed: int = 1, delays: bool = True,
                 addressable: bool = True, queues: int = 4, queue_depth: int = 8, segment: int = 256) -> None:
        self.config = replace(TINY, queues=queues, queue_depth=queue_depth, entries=2 * queues * TINY.window)
        self._random, self._delays, self._segment = random.Random(seed), delays, segment
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._time, self._number = 0.0, 0
        self.machines = [DoubleMachine(self, number, tuple(other for other in range(count) if other != number),
                                       pool_bytes, addressable) for number in range(count)]
        for machine in self.machines:
            regions = [0, *map(remote_memory, range(len(machine.peers)))]
            machine.checks.regions = {number: Region(base=base, length=pool_bytes)
                                      for number, base in enumerate(regions)}

    @property
    def pending(self) -> int:
        """Events that have not happened."""
        return len(self._events)

    def run(self, condition: Callable[[], bool]) -> None:
        """Let events happen until the condition is true."""
        idle = 0
        while not condition():
            if self._events:
                idle = 0
                for _ in range(min(len(self._events), self._random.randint(1, _MOST_EVENTS))):
                    self.step()
            elif (idle := idle + 1) > _IDLE_POLLS:
                raise RequestTimeout("Nothing is in flight on any machine, but the result of a wait has not arrived.")

    def step(self) -> None:
        """The next event."""
        self._time, _, event = heapq.heappop(self._events)
        event()

    def fail(self, machine: int, region: int, status: Status) -> None:
        """Let requests of a machine to a region fail with that status from now on."""
        checks = self.machines[machine].checks
        original = checks.check

        def check(queue: int, word: NativeWord | None) -> Status:
            if word is not None and region in ((word.dst_region,) if word.opcode == Opcode.SIGNAL
                                               else (word.src_region, word.dst_region)):
                return status
            return original(queue, word)

        checks.check = check    # type: ignore[method-assign]  # injects faults

    # Requests

    def accept(self, machine: DoubleMachine, number: int, word: NativeWord) -> None:
        """A word that was stored to a queue's page."""
        queue = machine.state[number]
        if len(queue.requests) >= machine.queue_depth:
            queue.failed, queue.status = queue.failed + 1, Status.OVERFLOW
            self._publish(queue)
        else:
            queue.requests.append(_Request(word, machine.checks.check(number, word)))
            self._advance(machine, queue)
        while self._events and not self._delays:
            self.step()

    def _advance(self, machine: DoubleMachine, queue: _Queue) -> None:
        """Start requests that may start, and complete those at the head that are done."""
        while queue.requests and not queue.held:
            for position, request in enumerate(queue.requests):
                waits = request.word.opcode == Opcode.SIGNAL or request.word.flags & RequestFlag.FENCE
                if not request.started and not (waits and position):
                    self._start(machine, queue, request)
                if request.word.flags & RequestFlag.FENCE and position:
                    break
            head = queue.requests[0]
            if head.segments:
                return
            if head.status is not Status.OK:
                queue.failed, queue.status = queue.failed + 1, head.status
                self._publish(queue)
                return
            queue.requests.popleft()
            queue.count += 1
            if head.word.flags & RequestFlag.SC:
                self._publish(queue)

    def _start(self, machine: DoubleMachine, queue: _Queue, request: _Request) -> None:
        request.started = True
        if request.status is not Status.OK:
            return
        word = request.word
        target = self._memory(machine, word.dst_region)
        if word.opcode == Opcode.SIGNAL:
            value = word.src_region << 36 | word.src_offset
            data = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
            request.segments = 1
            self._later(lambda: self._store(machine, queue, request, target, word.dst_offset, data))
            return
        source = self._memory(machine, word.src_region)
        firsts = range(0, word.length, self._segment)
        request.segments = len(firsts)
        for first in firsts:
            self._later(self._load(machine, queue, request, source, target, first))

    def _load(self, machine: DoubleMachine, queue: _Queue, request: _Request, source: npt.NDArray[np.uint8],
              target: npt.NDArray[np.uint8], first: int) -> Callable[[], None]:
        word = request.word
        length = min(self._segment, word.length - first)

        def load() -> None:
            data = source[word.src_offset + first:word.src_offset + first + length].copy()
            self._later(lambda: self._store(machine, queue, request, target, word.dst_offset + first, data))

        return load

    def _store(self, machine: DoubleMachine, queue: _Queue, request: _Request, target: npt.NDArray[np.uint8],
               offset: int, data: npt.NDArray[np.uint8]) -> None:
        target[offset:offset + len(data)] = data
        request.segments -= 1
        if not request.segments:
            self._advance(machine, queue)

    def _memory(self, machine: DoubleMachine, region: int) -> npt.NDArray[np.uint8]:
        return (machine if region == 0 else self.machines[machine.peers[region - 1]]).bytes

    def _publish(self, queue: _Queue) -> None:
        """Store SC later, with the contents that it has then."""
        def publish() -> None:
            queue.publishing = False
            queue.published = CompletionWord(queue.count, queue.failed, queue.status)

        if not queue.publishing:
            queue.publishing = True
            self._later(publish)

    def _later(self, event: Callable[[], None]) -> None:
        """Let an event happen: now, or after a delay that is now and then very long."""
        delay = self._random.random() * (20 if self._random.random() < 0.1 else 1) if self._delays else 0.0
        self._number += 1
        heapq.heappush(self._events, (self._time + delay, self._number, event))
