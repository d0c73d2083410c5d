# SPDX-License-Identifier: Apache-2.0
"""Requests of every bin, by all three paths: each length with each alignment, and each status.

This is the cocotb side; :func:`tests.coverage.runs.run` and a test use it. Random requests would need thousands to have
all.
"""

import json
import os
from collections.abc import Callable, Coroutine
from itertools import product
from typing import Any, NamedTuple

import cocotb

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import TINY
from hw.dma_engine.descriptors import Descriptor, RingLocation
from hw.dma_engine.words import ArkWord, Command, NativeWord, Opcode, RequestFlag, Status
from sim.dma.ark import ARRAY_BYTES
from sim.dma.rings import DescriptorRing
from sim.dma.testbench import DmaTestbench

__all__ = ["requests"]

ARK, RING, DOORBELL = range(3)
"""The path of each queue."""

DOMAIN, OTHER = 3, 4
SIZES = (1, 5, 200, 1000, 5000)
"""A length of each class (:data:`tests.coverage.bins.LENGTHS`)."""

SOURCE, DESTINATION, FOREIGN, UNMAPPED = range(4)
READ_SLVERR, READ_DECERR, WRITE_SLVERR, WRITE_DECERR, ABSENT = range(4, 9)
"""Regions."""

CONNECTION, FOREIGN_CONNECTION = 0, 1
SOURCE_BYTES, DESTINATION_BYTES = 4 * PAGE_BYTES, 2 * PAGE_BYTES
MEMORY, ARRAYS, WORDS, DESCRIPTORS = 0x40_0000_0000, 0x50_0000_0000, 0x60_0000_0000, 0x70_0000_0000
WATCHDOG = 1000


class _One(NamedTuple):
    """A request, which begins at the start of its regions unless offsets are given."""

    source: int = SOURCE
    destination: int = DESTINATION
    length: int = 200
    offsets: tuple[int, int] = (0, 0)
    malformed: bool = False
    connection: int = CONNECTION


_ANY = _One()

FAILING = {
    Status.MALFORMED: _One(malformed=True),
    Status.ZERO_LENGTH: _One(length=0),
    Status.CONNECTION: _One(connection=FOREIGN_CONNECTION),
    Status.SRC_REGION: _One(source=ABSENT),
    Status.SRC_DOMAIN: _One(source=FOREIGN),
    Status.SRC_RIGHTS: _One(source=DESTINATION),
    Status.SRC_BOUNDS: _One(length=SOURCE_BYTES + 1),
    Status.READ_SLVERR: _One(source=READ_SLVERR),
    Status.READ_DECERR: _One(source=READ_DECERR),
    Status.SRC_PAGE: _One(source=UNMAPPED),
    Status.DST_REGION: _One(destination=ABSENT),
    Status.DST_DOMAIN: _One(destination=FOREIGN),
    Status.DST_RIGHTS: _One(destination=SOURCE),
    Status.DST_BOUNDS: _One(length=DESTINATION_BYTES + 1),
    Status.WRITE_SLVERR: _One(destination=WRITE_SLVERR),
    Status.WRITE_DECERR: _One(destination=WRITE_DECERR),
    Status.DST_PAGE: _One(destination=UNMAPPED),
}
"""Status -> a request that ends with it."""


class _Bench(DmaTestbench):
    """A queue for each path."""

    async def prepare(self) -> None:
        """Lay out the memory, and start the queues."""
        await self.start()
        for number in range(ABSENT):
            base = MEMORY + (number << 24)
            self.fill(base - PAGE_BYTES, self.rng.randbytes(SOURCE_BYTES + 2 * PAGE_BYTES))
            await self.define_region(
                number, base=base, length=DESTINATION_BYTES if number == DESTINATION else SOURCE_BYTES,
                domain=OTHER if number == FOREIGN else DOMAIN, readable=number != DESTINATION,
                writable=number != SOURCE, paged=number == UNMAPPED)
        for number, response in ((READ_SLVERR, {"read": "SLVERR"}), (READ_DECERR, {"read": "DECERR"}),
                                 (WRITE_SLVERR, {"write": "SLVERR"}), (WRITE_DECERR, {"write": "DECERR"})):
            self.fail_page(MEMORY + (number << 24), **response)
        self.fill(ARRAYS, bytes(2 * PAGE_BYTES))
        self.fill(WORDS, bytes(PAGE_BYTES))
        for connection, domain in ((CONNECTION, DOMAIN), (FOREIGN_CONNECTION, OTHER)):
            await self.define_connection(connection, base=0, rc=ARRAYS + PAGE_BYTES, domain=domain)
        location = RingLocation(base=DESCRIPTORS, size=4)
        await self.configure_queue(ARK, domain=DOMAIN, sc=ARRAYS, ark=0)
        await self.configure_queue(RING, domain=DOMAIN, sc=WORDS, ring=location)
        await self.configure_queue(DOORBELL, domain=DOMAIN, sc=WORDS + 8)
        self.descriptors = DescriptorRing(self, RING, location)
        for queue in (ARK, RING, DOORBELL):
            await self.command(queue, Command.START)

    async def send(self, queue: int, one: _One = _ANY) -> None:
        """Post a request by the path of a queue."""
        if queue == ARK:
            # The flags of the requests before are cleared, as a GPU does.
            for array in (ARRAYS, ARRAYS + PAGE_BYTES):
                self.fill(array, bytes(ARRAY_BYTES))
            word = ArkWord.send(src=one.source, dst=one.destination, connection=one.connection, length=one.length)
            await self.store(queue, word._replace(reserved=int(one.malformed)).to_bytes(), size=3)
            return
        native = NativeWord.copy(src=(one.source, one.offsets[0]), dst=(one.destination, one.offsets[1]),
                                 length=one.length, flags=RequestFlag.SC)
        native = native._replace(opcode=max(Opcode) + 1) if one.malformed else native
        if queue == RING:
            await self.descriptors.post(Descriptor.copies(native))
        else:
            await self.post(queue, native)

    async def quiet(self, queue: int) -> None:
        """Wait until all that was posted has ended, and is reported."""
        await self.settle(queue)
        await self.wait_log()

    async def clear(self, queue: int) -> None:
        """Leave the error state; one more request succeeds."""
        await self.command(queue, Command.CLEAR)
        await self.send(queue)
        await self.quiet(queue)


async def _overflow(bench: _Bench, queue: int) -> None:
    await bench.command(queue, Command.PAUSE)
    for _ in range(bench.config.queue_depth + 3):
        await bench.send(queue)
    await bench.quiet(queue)
    await bench.command(queue, Command.RESET)
    await bench.quiet(queue)
    await bench.command(queue, Command.START)


async def _disabled(bench: _Bench, queue: int) -> None:
    await bench.command(queue, Command.RESET)
    await bench.quiet(queue)
    await bench.send(queue)
    await bench.quiet(queue)
    await bench.command(queue, Command.CLEAR)
    bench.descriptors.restart()
    await bench.command(queue, Command.START)


async def _time_out(bench: _Bench, queue: int) -> None:
    bench.withhold(MEMORY)
    await bench.driver.set_watchdog(WATCHDOG)
    await bench.send(queue)
    bench.model.time_out(queue)
    await bench.quiet(queue)
    await bench.driver.set_watchdog(0)
    bench.release(MEMORY)


async def _completion_error(bench: _Bench, queue: int) -> None:
    page = ARRAYS if queue == ARK else WORDS
    bench.fail_page(page, write="SLVERR")
    await bench.send(queue)
    await bench.quiet(queue)
    bench.repair_page(page)


async def _ring_range(bench: _Bench, queue: int) -> None:
    await bench.ring(queue, bench.descriptors.tail + bench.descriptors.location.entries + 1)
    await bench.quiet(queue)


async def _ring_fetch(bench: _Bench, queue: int) -> None:
    bench.fail_page(DESCRIPTORS, read="SLVERR")
    await bench.send(queue)
    await bench.quiet(queue)
    bench.repair_page(DESCRIPTORS)


PROVOKED: dict[Status, tuple[tuple[int, ...], Callable[[_Bench, int], Coroutine[Any, Any, None]]]] = {
    Status.OVERFLOW: ((ARK, DOORBELL), _overflow),
    Status.DISABLED: ((ARK, RING, DOORBELL), _disabled),
    Status.TIMEOUT: ((ARK, RING, DOORBELL), _time_out),
    Status.COMPLETION_ERROR: ((ARK, RING, DOORBELL), _completion_error),
    Status.RING_RANGE: ((RING,), _ring_range),
    Status.RING_FETCH: ((RING,), _ring_fetch),
}
"""Status that no request has by itself -> the queues that can have it, and how."""


@cocotb.test()
async def requests(dut: Any) -> None:
    """Everything, with the seed, the stalls and the latency of ``$DMACE_RUN``."""
    options = json.loads(os.environ["DMACE_RUN"])
    bench = _Bench(dut, TINY, seed=options["seed"], stalls=options["stalls"], latency=options["latency"])
    await bench.prepare()
    for queue in (ARK, RING, DOORBELL):
        for length, *offsets in product(SIZES, (0, 3), (0, 5)):
            if queue != ARK or not any(offsets):
                await bench.send(queue, _One(length=length, offsets=(offsets[0], offsets[1])))
                await bench.quiet(queue)
        for status, one in FAILING.items():
            if status is not Status.CONNECTION or queue == ARK:
                await bench.send(queue, one)
                await bench.quiet(queue)
                assert bench.model.queues[queue].status is status
                await bench.clear(queue)
        for status, (queues, provoke) in PROVOKED.items():
            if queue in queues:
                errors = bench.errors[status.name]
                await provoke(bench, queue)
                assert bench.errors[status.name] > errors
                await bench.clear(queue)
    await bench.finish()
    bench.assert_equal()
