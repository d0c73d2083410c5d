# SPDX-License-Identifier: Apache-2.0
"""The host's jobs on a board: copies, the self-test, the benchmark, and collectives."""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from dmace.drivers.ace import AceDriver, Share
from dmace.drivers.dma import DmaDriver
from dmace.drivers.endpoint import EndpointDriver
from hw.ace.config import AceConfig
from hw.ace.model.numerics import element_type
from hw.ace.numerics.formats import Reduction
from hw.ace.words import Collective, CommandFlag, CommandWord
from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import DESCRIPTOR_BYTES, DmaConfig
from hw.dma_engine.descriptors import Descriptor, RingLocation
from hw.dma_engine.words import NativeWord, RequestFlag, Status
from hw.endpoint.config import EndpointConfig, remote_address

from .host import Board, BoardError, EngineBus, wait
from .protocol import Space

__all__ = ["Accelerators", "Engine", "Row", "bench", "selftest"]

_Number = TypeVar("_Number", np.int32, np.float32)

TIMEOUT = 200
"""Polls of a completion word before a request counts as lost."""

_RING, _PUTS = 1, 2
"""Queues of the DMA engine; 0 is for single copies."""


class Engine:
    """The DMA engine of a board with region 0 over all memory, and queue 0 with its words at the memory's end.

    Parameters
    ----------
    board : :class:`Board`
    """

    def __init__(self, board: Board) -> None:
        self.board, self.bus, config = board, EngineBus(board, Space.REGISTERS, 0), board.config.engine_config
        self.endpoint: EndpointDriver | None = None
        if isinstance(config, EndpointConfig):
            self.endpoint = EndpointDriver(self.bus, config)
            self.driver = self.endpoint.dma
        elif isinstance(config, DmaConfig):
            self.driver = DmaDriver(self.bus, config)
        else:
            raise BoardError(f"The board's design is {board.config.design}, which has no DMA engine.")
        wait((self.endpoint or self.driver).check_identity())
        self.words = board.config.memory - PAGE_BYTES
        wait(self.driver.define_region(0, base=0, length=board.config.memory))
        self._posted: dict[int, int] = {}
        self._start(0)

    def _start(self, queue: int, *, rc_base: int = 0, **options: Any) -> None:
        wait(self.driver.reset(queue))
        while wait(self.driver.state(queue)).resetting:
            pass
        words = self.words + 16 * queue
        self.board.write_memory(0, words, bytes(16))
        wait(self.driver.configure_queue(queue, sc=words, rc=rc_base + words + 8, **options))
        wait(self.driver.start(queue))
        self.bus.flush()
        self._posted[queue] = 0

    def copy(self, src: int, dst: int, length: int) -> Status:
        """Copy within the memory; returns the :class:`Status`."""
        return self._post(0, NativeWord.copy(src=(0, src), dst=(0, dst), length=length))

    def put(self, src: int, dst: int, length: int) -> Status:
        """Copy to the neighbour's memory, over the links, with the completion word there too; the only endpoint is its
        own neighbour. Returns the :class:`Status`."""
        if _PUTS not in self._posted:
            if self.endpoint is None:
                raise BoardError(f"The board's design is {self.board.config.design}, which has no puts.")
            wait(self.endpoint.define_export(0, base=0, length=self.board.config.memory, ports=(1,)))
            wait(self.driver.define_region(1, base=remote_address(0, 0), length=self.board.config.memory))
            self._start(_PUTS, rc_base=remote_address(0, 0))
        return self._post(_PUTS, NativeWord.copy(src=(0, src), dst=(1, dst), length=length))

    def _post(self, queue: int, word: NativeWord) -> Status:
        wait(self.bus.store(PAGE_BYTES * queue, word.to_bytes()))
        self._posted[queue] += 1
        return self._result(queue, self._posted[queue])

    def _result(self, queue: int, count: int) -> Status:
        for _ in range(TIMEOUT):
            found = CompletionWord.unpack(
                int.from_bytes(self.board.read_memory(0, self.words + 16 * queue + 8, 8), "little"))
            if found.status:
                return Status(found.status)
            if found.count == count:
                return Status.OK
        raise BoardError(f"Request {count} of queue {queue} has not ended.")

    def recover(self) -> None:
        """Let queue 0 resume after an error."""
        wait(self.driver.clear(0))
        while wait(self.driver.pop_log()):
            pass
        wait(self.driver.acknowledge(error=True))
        self.bus.flush()

    def ring(self, words: Sequence[NativeWord]) -> int:
        """Have a queue copy by these native words, at most 3 * 64, from a ring; returns the cycles it took."""
        size = 6
        descriptors = [Descriptor.copies(*words[n:n + 3]) for n in range(0, len(words), 3)]
        base = self.words - max(PAGE_BYTES, DESCRIPTOR_BYTES << size)
        self.board.write_memory(0, base, b"".join(one.to_bytes() for one in descriptors))
        self._start(_RING, ring=RingLocation(base=base, size=size))
        wait(self.bus.store(PAGE_BYTES * _RING, len(descriptors).to_bytes(8, "little")))
        status = self._result(_RING, len(words))
        if status != Status.OK:
            raise BoardError(f"A copy of the ring ended with {status.name}.")
        return self.board.stopwatch()


class Accelerators:
    """The collectives accelerators of a board, set up as one communicator.

    Parameters
    ----------
    board : :class:`Board`
    collectives : sequence of Collective
        Which are wanted; each takes a while to load.
    """

    def __init__(self, board: Board, *, collectives: Sequence[Collective] = (Collective.ALL_REDUCE,)) -> None:
        self.board, config = board, board.config.engine_config
        self.ranks = board.config.endpoints
        self.words = board.config.memory - PAGE_BYTES // 2
        self.posted = 0
        buses = [EngineBus(board, Space.REGISTERS, rank) for rank in range(self.ranks)]
        if isinstance(config, EndpointConfig):
            self.drivers = [EndpointDriver(bus, config).ace for bus in buses]
        elif isinstance(config, AceConfig):
            self.drivers = [AceDriver(bus, config) for bus in buses]
        else:
            raise BoardError(f"The board's design is {board.config.design}, which has no collectives accelerators.")
        for rank, (bus, driver) in enumerate(zip(buses, self.drivers, strict=True)):
            wait(driver.check_identity())
            wait(driver.define_region(0, base=0, length=board.config.memory))
            board.write_memory(rank, self.words, bytes(8))
            wait(driver.configure_queue(0, sc=self.words))
            wait(driver.define_communicator(0, shape=(self.ranks,), coordinates=(rank,), collectives=collectives,
                                            share=Share(0, driver.config.fsms, 0, driver.config.slots)))
            bus.flush()

    def all_reduce(self, inputs: Sequence[npt.NDArray[_Number]]) -> tuple[list[npt.NDArray[_Number]], int]:
        """Sum of arrays, one for each rank; returns each rank's array and the cycles it took."""
        if (dtype := element_type(inputs[0].dtype)) is None:
            raise BoardError(f"The accelerator has no element type for arrays of {inputs[0].dtype}.")
        count, size = len(inputs[0]), inputs[0].nbytes
        target = -(-size // PAGE_BYTES) * PAGE_BYTES
        for rank, array in enumerate(inputs):
            self.board.write_memory(rank, 0, array.tobytes())
        word = CommandWord(Collective.ALL_REDUCE, CommandFlag.SC, 0, dtype, Reduction.SUM, 0, 0, 0, 0, 0,
                           target // dtype.info.bytes, count)
        for driver in self.drivers:
            wait(driver.post(0, word))
        self.posted += 1
        for rank in range(self.ranks):
            self._result(rank)
        cycles = self.board.stopwatch()
        return [np.frombuffer(self.board.read_memory(rank, target, size), inputs[0].dtype)
                for rank in range(self.ranks)], cycles

    def _result(self, rank: int) -> None:
        for _ in range(TIMEOUT):
            found = CompletionWord.unpack(int.from_bytes(self.board.read_memory(rank, self.words, 8), "little"))
            if found.status:
                raise BoardError(f"The collective ended with status {found.status:#x} on rank {rank}.")
            if found.count == self.posted:
                return
        raise BoardError(f"The collective has not ended on rank {rank}.")


def selftest(board: Board, *, seed: int = 1, copies: int = 8, elements: int = 512,
             report: Callable[[str], object] = lambda sentence: None) -> list[str]:
    """Test the engines of the board; returns a list of sentences, one for each fault.

    Parameters
    ----------
    copies : int
        Copies by a DMA engine, of random lengths between random bytes.
    elements : int
        Elements of each rank's array, which the accelerators sum.
    report : callable
        Receives a sentence about each step.
    """
    rng = random.Random(seed)
    wrong: list[str] = []
    for endpoint in range(board.config.endpoints):
        data = rng.randbytes(64)
        offset = rng.randrange(0, 1024)
        board.write_memory(endpoint, offset, data)
        if board.read_memory(endpoint, offset, len(data)) != data:
            wrong.append(f"Memory {endpoint} does not hold what was written to it.")
    report("The host reads what it wrote to memory.")
    if wrong or board.config.design == "probe":
        return wrong
    if board.config.design in ("dma", "endpoint"):
        engine = Engine(board)
        wrong += _selftest_dma(engine, rng, copies, report)
        if engine.endpoint and not wrong:
            wrong += _selftest_puts(engine, rng, copies, report)
    if board.config.design in ("ace", "endpoint") and not wrong:
        wrong += _selftest_ace(board, rng, elements, report)
    return wrong


def _selftest_dma(engine: Engine, rng: random.Random, copies: int, report: Callable[[str], object]) -> list[str]:
    board, span = engine.board, 1024
    source = rng.randbytes(span)
    board.write_memory(0, 0, source)
    if wrong := _copies(engine.copy, "Copy", board, source, rng, copies):
        return wrong
    report(f"{copies} copies at random addresses arrived, and nothing beside them changed.")
    status = engine.copy(board.config.memory - 4, 0, 8)
    if status != Status.SRC_BOUNDS:
        wrong.append(f"A copy from beyond the region ended with {status.name}, not with SRC_BOUNDS.")
    if board.read_memory(0, 0, 8) != source[:8]:
        wrong.append("A copy that was refused has written.")
    engine.recover()
    report("A copy from beyond its region is refused.")
    return wrong


def _selftest_puts(engine: Engine, rng: random.Random, puts: int, report: Callable[[str], object]) -> list[str]:
    source = engine.board.read_memory(0, 0, 1024)
    wrong = _copies(engine.put, "Put", engine.board, source, rng, puts)
    if not wrong:
        report(f"{puts} puts over the links arrived, and nothing beside them changed.")
    return wrong


def _copies(copy: Callable[[int, int, int], Status], name: str, board: Board, source: bytes, rng: random.Random,
            copies: int) -> list[str]:
    """Copy random parts of ``source``, which is at address 0, to addresses behind it; a sentence for each mismatch."""
    wrong: list[str] = []
    span = len(source)
    for number in range(copies):
        length = (1, 8, span // 2)[number] if number < 3 else rng.randrange(1, span // 2)
        src, dst = rng.randrange(span - length + 1), span + rng.randrange(span - length + 1)
        blank = rng.randbytes(length + 16)
        board.write_memory(0, dst - 8, blank)
        status = copy(src, dst, length)
        what = f"{name} {number} of {length} bytes from {src:#x} to {dst:#x}"
        if status != Status.OK:
            return [*wrong, f"{what} ended with {status.name}."]
        expected = blank[:8] + source[src:src + length] + blank[-8:]
        if (got := board.read_memory(0, dst - 8, len(expected))) != expected:
            bad = next(n for n, (a, b) in enumerate(zip(expected, got, strict=True)) if a != b) - 8
            wrong.append(f"{what} is wrong from byte {bad} on.")
    return wrong


def _selftest_ace(board: Board, rng: random.Random, elements: int, report: Callable[[str], object]) -> list[str]:
    numbers = np.random.default_rng(rng.randrange(1 << 32))
    inputs = [numbers.integers(-1 << 20, 1 << 20, elements, dtype=np.int32) for _ in range(board.config.endpoints)]
    results, cycles = Accelerators(board).all_reduce(inputs)
    expected = np.sum(inputs, axis=0, dtype=np.int32)
    wrong = [f"The sum on rank {rank} is wrong from element {np.flatnonzero(result != expected)[0]} on."
             for rank, result in enumerate(results) if not np.array_equal(result, expected)]
    if not wrong:
        report(f"An all-reduce of {elements} INT32 over {len(inputs)} rank{'s' * (len(inputs) > 1)} is right on each "
             f"({cycles:,} cycles).")
    return wrong


class Row(TypedDict):
    """Measured copies of one size."""

    bytes: int
    requests: int
    cycles: int
    bytes_per_cycle: float
    mb_per_s: float


def bench(board: Board, *, sizes: Sequence[int] = (16, 64, 256, 1024), requests: int = 48) -> list[Row]:
    """Copies of each size from a descriptor ring, aligned."""
    engine = Engine(board)
    half = (engine.words - 2 * PAGE_BYTES) // 2
    rows: list[Row] = []
    for size in sizes:
        positions = max(1, min(requests, half // size))
        words = [NativeWord.copy(src=(0, n % positions * size), dst=(0, half + n % positions * size), length=size,
                                 flags=RequestFlag.RC) for n in range(requests)]
        cycles = engine.ring(words)
        rows.append({"bytes": size, "requests": requests, "cycles": cycles,
                     "bytes_per_cycle": round(size * requests / cycles, 3),
                     "mb_per_s": round(size * requests / cycles * board.config.clock_hz / 1e6, 1)})
    return rows
