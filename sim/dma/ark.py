# SPDX-License-Identifier: Apache-2.0
"""ARK's GPU side in cocotb: the protocol of its threads, and a look at every flag that the engine sets."""

from typing import TYPE_CHECKING

from hw.dma_engine.config import SID_WIDTH
from hw.dma_engine.model.state import Request
from hw.dma_engine.words import ARK_FLAG_BYTES, ArkWord
from sim.memory import Writes

if TYPE_CHECKING:
    from sim.dma.testbench import DmaTestbench

__all__ = ["ARRAY_BYTES", "ArkThread", "FlagWatch"]

ARRAY_BYTES = ARK_FLAG_BYTES << SID_WIDTH
"""Bytes of an SC or an RC array."""


class ArkThread:
    """A thread of ARK's GPU code that uses one queue: at most one request per source segment at a time.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Its memory, through the backdoor, and its doorbells.
    queue : int
        In ARK mode.
    sc, rc : int
        Address of the own SC array, and of the own RC array.
    """

    def __init__(self, bench: "DmaTestbench", queue: int, sc: int, rc: int) -> None:
        self.bench, self.queue, self.sc, self.rc = bench, queue, sc, rc
        # Software starts with SC set and RC clear.
        bench.fill(sc, (1).to_bytes(ARK_FLAG_BYTES, "little") * (1 << SID_WIDTH))
        bench.fill(rc, bytes(ARRAY_BYTES))

    async def send(self, *, src: int, dst: int, connection: int, length: int, upper: bool = False) -> None:
        """Wait until the source segment is free, and send it."""
        await self._take(self.sc + ARK_FLAG_BYTES * src)
        word = ArkWord.send(src=src, dst=dst, connection=connection, length=length)
        await self.bench.store(self.queue, word.to_bytes(), offset=8 * upper, size=3)

    async def sent(self, src: int) -> None:
        """Wait until a source segment has been sent, and leave it free."""
        await self._wait(self.sc + ARK_FLAG_BYTES * src)

    async def receive(self, dst: int) -> None:
        """Wait until a segment has been received."""
        await self._take(self.rc + ARK_FLAG_BYTES * dst)

    async def _wait(self, address: int, timeout: int = 20_000) -> None:
        start = self.bench.cycle
        while not int.from_bytes(self.bench.memory.read(address, ARK_FLAG_BYTES), "little"):
            assert self.bench.cycle - start < timeout, f"the flag at {address:#x} was not set"
            await self.bench.wait(4)

    async def _take(self, address: int) -> None:
        await self._wait(address)
        self.bench.fill(address, bytes(ARK_FLAG_BYTES))


class FlagWatch:
    """Every flag is set once, in order, to 1, and when all bytes of its request are there.

    Parameters
    ----------
    bench : :class:`DmaTestbench`

    Attributes
    ----------
    lossy : bool
        Writes to memory may be lost now: flags in between may be missing, and bytes, too.
    """

    def __init__(self, bench: "DmaTestbench") -> None:
        self.bench, self.lossy = bench, False
        self._arrays: set[int] = set()
        # Queue -> flags that were set since RESET.
        self._seen: dict[int, int] = {}
        # Queue -> flags that may still be set from before it.
        self._stale: dict[int, list[tuple[int, Request]]] = {}

    def watch(self, address: int) -> None:
        """Look at an array from now on."""
        self._arrays.add(address)

    def discard(self, queue: int) -> None:
        """Restart after RESET; must be called before the model receives the RESET."""
        self._stale[queue] = self._expected(queue)
        self._seen[queue] = 0

    def _expected(self, queue: int) -> list[tuple[int, Request]]:
        """``(address, request)`` of the flags that come next, as far as the model knows."""
        q = self.bench.model.queues[queue]
        waiting = q.waiting if q.frozen else ()
        flags = [*q.flagged, *((address, request) for request in waiting for address in request.flags)]
        return flags[self._seen.get(queue, 0):]

    def missing(self, queue: int) -> str | None:
        """Which flag has not been set, or None."""
        q = self.bench.model.queues[queue]
        left = q.flagged[self._seen.get(queue, 0):]
        return f"the flag at {left[0][0]:#x} is not set" if left else None

    def take(self, writes: Writes) -> None:
        """Check those writes that are to arrays."""
        for address, data in writes:
            if not any(array <= address < array + ARRAY_BYTES for array in self._arrays):
                continue
            if bytes(data) != (1).to_bytes(ARK_FLAG_BYTES, "little"):
                self.bench.mismatch(f"{bytes(data).hex()} was written to the flag at {address:#x}.")
            elif not any(self._take(queue, address) for queue, q in enumerate(self.bench.model.queues)
                         if q.ark is not None):
                self.bench.mismatch(f"the flag at {address:#x} was set, and none of the next to be set is there.")

    def _take(self, queue: int, address: int) -> bool:
        expected, stale = self._expected(queue), self._stale.get(queue, [])
        if (found := self._position(expected, address)) is not None:
            self._seen[queue] = self._seen.get(queue, 0) + found + 1
            if not self.lossy:
                self.bench.check_moved(queue, expected[found][1].number + 1, f"the flag at {address:#x} was set")
            return True
        if (found := self._position(stale, address)) is not None:
            del stale[:found + 1]
            return True
        return False

    def _position(self, flags: list[tuple[int, Request]], address: int) -> int | None:
        """Position of an address among the flags that may be set next."""
        return next((number for number, (place, _) in enumerate(flags if self.lossy else flags[:1])
                     if place == address), None)
