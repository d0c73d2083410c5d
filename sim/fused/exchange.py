# SPDX-License-Identifier: Apache-2.0
"""All-to-all by puts on a ring of 2 to 4 endpoints.

Neighbours are reached by one put. The slices for the opposite rank of four go half each way, through a buffer at a
neighbour: the bytes that arrive there count, and the counter's firing posts the second put (a chain of triggers).
Without counters, a thread of the neighbour polls a flag instead.

A slice is received when its flag is 1. A counter of the receiver posts a copy of 8 bytes that sets it, which unlike a
signal does not wait for those before it; or the sender posts a signal behind the put.
"""

from collections.abc import Sequence

import numpy as np

from dmace.drivers.endpoint import EndpointDriver
from hw.common.sizes import PAGE_BYTES
from hw.common.words import field_positions
from hw.dma_engine.words import NATIVE_FIELDS, NativeWord, RequestFlag
from hw.endpoint.config import EndpointConfig, remote_address
from sim.ace.kernels import Credit, Rule, Store, Wait
from sim.ace.shared_library import ClusterFailed

from .counters import Counter, Counters
from .operations import Sizes
from .setup import Method, sequence
from .transport import MASK_BYTES, MASKS, Transport

__all__ = ["OUTPUT", "Exchange"]

OUTPUT = 0x1000_0000
"""Address of the slices for other ranks."""

_RESULT, _FORWARD, _FLAGS = 0x2000_0000, 0x3000_0000, 0x4000_0000
_SPANS = {"result": 0, "forward": 1, "flags": 2}
# Regions; the neighbour's are those upwards, the next ones downwards.
_OWN, _AT_RESULT, _AT_FORWARD, _AT_FLAGS, _FORWARDED, _OWN_FLAGS = 0, 1, 3, 5, 7, 8
# Queues; puts downwards use the next one.
_PUT, _FORWARDING, _FLAGGING = 0, 2, 3
_FLAGS_LSB: int = field_positions(NATIVE_FIELDS)["flags"][0]
_BEFORE = 0xA5


class Exchange(Transport):
    """An all-to-all. Targets are given by their distance up the ring, see :func:`sequence`."""

    @staticmethod
    def allot(config: EndpointConfig, sizes: Sizes, *, received: bool = True,
              ticked: bool = True) -> tuple[list[Counter], list[Counter], list[Counter]]:
        """Counters of slices to be received, forwarded and sent. Raises UserError where there are too few."""
        counters, remote = Counters(config), (sizes.ranks - 1) * sizes.slices
        forwards = 2 * -(-sizes.slices // 2) if sizes.ranks == 4 else 0
        return (counters.consecutive(remote, "Slices to be received") if received else [],
                counters.consecutive(forwards, "Slices to be forwarded"),
                counters.any(remote, "Slices to be sent") if ticked else [])

    def prepare(self) -> None:
        sizes = self.sizes
        self.ranks, self.slices = sizes.ranks, sizes.slices
        self.pitch = max(64, 1 << (sizes.slice_bytes - 1).bit_length())
        self.half = -(-self.slices // 2) if self.ranks == 4 else 0
        self.signals = self.setup.receipts == "signal"
        self.hardware = self.ticked or not self.signals
        for rank in range(self.ranks):
            self._fill(rank)
        if self.method == Method.COMPUTE:
            return
        self._define()
        if self.hardware:
            self._count()

    def _fill(self, rank: int) -> None:
        memory = np.full(self.ranks * self.slices * self.pitch, _BEFORE, np.uint8)
        for base in (OUTPUT, _RESULT, _FORWARD):
            self.cluster.write_memory(rank, base, memory)
        self.cluster.write_memory(rank, _FLAGS, bytes(PAGE_BYTES) + (1).to_bytes(PAGE_BYTES, "little"))
        self.cluster.write_memory(rank, MASKS, bytes(MASK_BYTES))
        if self.method == Method.COMMUNICATION:
            for distance, number in sequence(self.order, rank, self.ranks, self.slices):
                self.cluster.write_memory(rank, self.address(rank, (rank + distance) % self.ranks, number),
                                          self.operation.parts[rank, (rank + distance) % self.ranks, number].ravel())

    def _define(self) -> None:
        length = self.ranks * self.slices * self.pitch
        spans = {"result": (_RESULT, length), "forward": (_FORWARD, length), "flags": (_FLAGS, 2 * PAGE_BYTES)}
        remote = {"result": _AT_RESULT, "forward": _AT_FORWARD, "flags": _AT_FLAGS}
        # On a ring of two, both ports lead to the same neighbour, and one link is used.
        directions = range(1 if self.ranks == 2 else 2)
        for endpoint in self.cluster.endpoints:
            for region, (base, size) in {_OWN: (OUTPUT, length), _FORWARDED: (_FORWARD, length),
                                         _OWN_FLAGS: (_FLAGS, 2 * PAGE_BYTES)}.items():
                self.cluster.do(endpoint.dma.define_region(region, base=base, length=size))
            for name, (base, size) in spans.items():
                self.cluster.do(endpoint.define_export(_SPANS[name], base=base, length=size, ports=[0, 1]))
                for direction in directions:
                    self.cluster.do(endpoint.dma.define_region(
                        remote[name] + direction, base=remote_address(direction, _SPANS[name]), length=size,
                        readable=False))
        for rank in range(self.ranks):
            for queue in range(_FLAGGING + 1):
                self.cluster.start_queue(rank, queue)

    def _count(self) -> None:
        """Allot and arm the counters: equal ones on all ranks."""
        received, forwards, ticks = self.allot(self.cluster.whole, self.sizes, received=not self.signals,
                                               ticked=self.ticked)
        self._ticks = {(distance, number): ticks[(distance - 1) * self.slices + number]
                       for distance in range(1, self.ranks) for number in range(self.slices)} if ticks else {}
        self.assign_blocks()
        for rank, endpoint in enumerate(self.cluster.endpoints):
            for (distance, number), counter in self._ticks.items():
                queue, words = self._words(distance, number)
                self.arm(rank, counter, words, threshold=self.sizes.tasks, page=queue)
            shift = self.pitch.bit_length() - 1
            for index, counter in enumerate(received):
                self.arm(rank, counter, [NativeWord.copy(src=(_OWN_FLAGS, PAGE_BYTES), dst=(_OWN_FLAGS, 8 * index),
                                                         length=8, flags=0)],
                         threshold=self.sizes.slice_bytes, page=_FLAGGING)
            self._count_span(endpoint, "result", _RESULT, received, shift)
            for number in range(self.slices if forwards else 0):
                self.arm(rank, forwards[self._forward_index(number)], self._second_words(number),
                         threshold=self.sizes.slice_bytes, page=_FORWARDING)
            self._count_span(endpoint, "forward", _FORWARD, forwards, shift)

    def _count_span(self, endpoint: EndpointDriver, name: str, base: int, counters: Sequence[Counter],
                    shift: int) -> None:
        if counters:
            self.cluster.do(endpoint.define_export(
                _SPANS[name], base=base, length=len(counters) * self.pitch, ports=[0, 1],
                counts=(counters[0].block, counters[0].number, shift)))

    # Where slices are, and how they travel

    def _arrival(self, distance: int, number: int) -> int:
        """Index of a slice in the receive buffer of the rank at this distance; the rank's own slices are last."""
        return (self.ranks - distance - 1) * self.slices + number

    def _forward_index(self, number: int) -> int:
        return number % 2 * self.half + number // 2

    def _direction(self, distance: int, number: int) -> int:
        if distance == 1:
            return 0
        return 1 if distance == self.ranks - 1 else number % 2

    # Words

    def _words(self, distance: int, number: int) -> tuple[int, list[NativeWord]]:
        """Queue and words that send a slice."""
        direction, forwarded = self._direction(distance, number), distance not in (1, self.ranks - 1)
        if forwarded:
            region, index = _AT_FORWARD, self._forward_index(number)
        else:
            region, index = _AT_RESULT, self._arrival(distance, number)
        flag = self.ranks * self.slices + index if forwarded else index
        signal = not self.hardware if forwarded else self.signals
        source = ((distance - 1) * self.slices + number) * self.pitch
        copy = NativeWord.copy(src=(_OWN, source), dst=(region + direction, index * self.pitch),
                               length=self.sizes.slice_bytes, flags=0)
        if not signal:
            return _PUT + direction, [copy]
        return _PUT + direction, [copy, NativeWord.signal(dst=(_AT_FLAGS + direction, 8 * flag), value=1)]

    def _second_words(self, number: int) -> list[NativeWord]:
        """Words of the neighbour that forwards a slice."""
        direction, index = number % 2, self._arrival(2, number)
        copy = NativeWord.copy(src=(_FORWARDED, self._forward_index(number) * self.pitch),
                               dst=(_AT_RESULT + direction, index * self.pitch), length=self.sizes.slice_bytes,
                               flags=0)
        if not self.signals:
            return [copy]
        return [copy, NativeWord.signal(dst=(_AT_FLAGS + direction, 8 * index), value=1)]

    # Methods of Transport

    def plan(self, rank: int) -> list[tuple[int, int]]:
        return [((rank + distance) % self.ranks, number)
                for distance, number in sequence(self.order, rank, self.ranks, self.slices)]

    def address(self, rank: int, target: int, number: int) -> int:
        distance = (target - rank) % self.ranks
        if not distance:
            return _RESULT + self._arrival(0, number) * self.pitch
        return OUTPUT + ((distance - 1) * self.slices + number) * self.pitch

    def posts(self, rank: int, target: int, number: int) -> list[Store]:
        distance = (target - rank) % self.ranks
        if not distance:
            return []
        queue, words = self._words(distance, number)
        return [Store(queue * PAGE_BYTES, word.to_bytes()) for word in words]

    def tick(self, rank: int, target: int, number: int, value: int) -> Store | None:
        distance = (target - rank) % self.ranks
        return self.tick_store(self._ticks[distance, number], value=value) if distance else None

    def other_rules(self, rank: int) -> list[Rule]:
        if not self.half or self.hardware:
            return []
        return [Rule(posts=[Store(_FORWARDING * PAGE_BYTES, word.to_bytes())
                            for word in self._second_words(number)],
                     address=_FLAGS + 8 * (self.ranks * self.slices + self._forward_index(number)), bits=1)
                for number in range(self.slices)]

    def credits(self) -> list[Credit]:
        depth, flag = self.cluster.whole.dma.queue_depth, RequestFlag.SC << _FLAGS_LSB
        return [Credit(queue, depth, self.cluster.word_address(queue), depth // 2, flag)
                for queue in (_PUT, _PUT + 1, _FORWARDING)]

    def waits(self, rank: int) -> list[Wait]:
        return [Wait(_FLAGS + 8 * self._arrival(distance, number), period=self.setup.wait_period)
                for distance in range(1, self.ranks) for number in range(self.slices)]

    def check(self) -> None:
        size = self.sizes.slice_bytes
        for rank in range(self.ranks):
            found = self.cluster.read_memory(rank, _RESULT, self.ranks * self.slices * self.pitch)
            found = found.reshape(self.ranks, self.slices, self.pitch)
            for distance in range(self.ranks):
                source = (rank - distance) % self.ranks
                received = found[self.ranks - distance - 1]
                wanted = np.full_like(received, _BEFORE)
                if self.method != Method.COMPUTE or not distance:
                    wanted[:, :size] = self.operation.reference[rank, source]
                if not np.array_equal(received, wanted):
                    number = int(np.argmax((received != wanted).any(axis=1)))
                    raise ClusterFailed(f"Slice {number} of rank {source} is wrong at rank {rank}.")
