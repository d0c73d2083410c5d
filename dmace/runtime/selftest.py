# SPDX-License-Identifier: Apache-2.0
"""A test of an open device, in less than a minute on a simulator: each check moves data and compares every byte."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hw.dma_engine.words import NativeWord, RequestFlag, Status

from .device import Device
from .errors import DmaceError, RequestFailed

__all__ = ["CHECKS", "Outcome", "run"]

_LENGTH = 1 << 16
_GUARD = 0xA5


class Outcome(NamedTuple):
    """Result of a check: a sentence where it failed, otherwise empty."""

    name: str
    problem: str


class _Wrong(Exception):
    """A check has found something wrong."""


def _need(condition: object, sentence: str) -> None:
    if not condition:
        raise _Wrong(sentence)


def _copies(device: Device, rng: random.Random) -> None:
    source, target = device.allocate(_LENGTH), device.allocate(_LENGTH)
    data = np.frombuffer(rng.randbytes(_LENGTH), np.uint8)
    source.array()[:] = data
    with device.queue() as queue:
        for length in (1, 3, 64, 511, 512, 4096, 10_001, *(rng.randrange(1, 3000) for _ in range(12))):
            start, to = rng.randrange(_LENGTH - length), rng.randrange(1, _LENGTH - length - 1)
            target.array()[:] = _GUARD
            queue.copy(target[to:], source[start:start + length]).wait(60)
            expected = np.full(_LENGTH, _GUARD, np.uint8)
            expected[to:to + length] = data[start:start + length]
            wrong = np.flatnonzero(target.array() != expected)
            _need(not len(wrong), f"A copy of {length} bytes from {start} to {to} has {len(wrong)} wrong bytes, the "
                                  f"first at {wrong[:1]}.")
    source.close()
    target.close()


def _rows(device: Device, rng: random.Random) -> None:
    source, target = device.allocate(_LENGTH), device.allocate(_LENGTH)
    source.write(rng.randbytes(_LENGTH))
    for ring, pair in ((0, False), (4, False), (4, True)) if device.info.extended_queues else ((0, False),):
        target.array()[:] = _GUARD
        with device.queue(ring=ring, pair=pair) as queue:
            queue.copy_2d(target, source, rows=20, length=77, to_stride=100, source_stride=300).wait(60)
        found = target.array()[:2000].reshape(20, 100)
        expected = source.array()[:6000].reshape(20, 300)[:, :77]
        _need((found[:, :77] == expected).all() and (found[:, 77:] == _GUARD).all(),
              f"A copy of 20 rows is wrong {'with a descriptor ring' if ring else 'row by row'}.")
    source.close()
    target.close()


def _signals(device: Device, rng: random.Random) -> None:
    with device.allocate(4096) as memory, device.queue() as queue:
        value = rng.getrandbits(44)
        queue.copy(memory[2048:], memory[:1024])
        queue.signal(memory[64:72], value).wait(60)
        found = memory.array(np.uint64)[8]
        _need(found == value, f"A signal of {value:#x} has stored {found:#x}.")


def _queues(device: Device, rng: random.Random) -> None:
    with device.allocate(_LENGTH) as source, device.allocate(_LENGTH) as target:
        source.write(rng.randbytes(_LENGTH))
        queues = [device.queue() for _ in range(min(device.info.queues, 8))]
        span = _LENGTH // len(queues)
        requests = [queue.copy(target[at:], source[at:at + 300])
                    for step in range(0, span - 300, 300) for number, queue in enumerate(queues)
                    for at in [number * span + step]]
        for request in requests:
            request.wait(60)
        count = len(range(0, span - 300, 300)) * 300
        for number, queue in enumerate(queues):
            at = slice(number * span, number * span + count)
            _need((source.array()[at] == target.array()[at]).all(), f"Queue {queue.number} has copied wrong bytes.")
            _need(queue.statistics().requests == count // 300, f"Queue {queue.number} has lost a request.")
            queue.close()


def _interrupts(device: Device, rng: random.Random) -> None:
    async def copies() -> None:
        for at in range(0, 2000, 100):
            await queue.copy(target[at:], source[at:at + 100])

    with device.allocate(2000) as source, device.allocate(2000) as target, device.queue(interrupt=True) as queue:
        source.write(rng.randbytes(2000))
        asyncio.run(asyncio.wait_for(copies(), 60))
        _need((source.array() == target.array()).all(), "Copies with interrupts have wrong bytes.")


def _refused(device: Device, status: Status, post: Callable[[], object], why: str) -> None:
    try:
        post()
    except RequestFailed as failure:
        _need(failure.result == status, f"A request {why} has failed with {failure.result.name}, not {status.name}.")
        return
    raise _Wrong(f"A request {why} was not refused.")


def _protection(device: Device, rng: random.Random) -> None:
    ours, theirs = device.allocate(4096), device.allocate(4096, domain=1)
    fixed, secret = device.allocate(4096, writable=False), device.allocate(4096, readable=False)
    theirs.write(before := rng.randbytes(4096))
    flags = RequestFlag.SC | RequestFlag.RC
    with device.queue() as queue:
        _refused(device, Status.SRC_DOMAIN, queue.copy(ours, theirs[:64]).wait, "from another domain")
        _refused(device, Status.DST_DOMAIN, queue.copy(theirs, ours[:64]).wait, "to another domain")
        _refused(device, Status.DST_RIGHTS, queue.copy(fixed, ours[:64]).wait, "to memory that is not writable")
        _refused(device, Status.SRC_RIGHTS, queue.copy(ours, secret[:64]).wait, "from memory that is not readable")
        for source, target, status in ((4033, 0, Status.SRC_BOUNDS), (0, 4033, Status.DST_BOUNDS)):
            word = NativeWord.copy(src=(ours.region, source), dst=(ours.region, target), length=64, flags=int(flags))
            _refused(device, status, queue.post(word).wait, "beyond the end of its memory")
        queue.copy(ours, fixed[:64]).wait(60)
        _need(theirs.read() == before, "Memory of another domain has changed.")
    for memory in (ours, theirs, fixed, secret):
        memory.close()


def _release(device: Device, rng: random.Random) -> None:
    """Memory that was released is out of reach, while requests are in flight, too."""
    with device.allocate(_LENGTH) as source, device.queue() as queue:
        target = device.allocate(_LENGTH)
        region = target.region
        kept = target.array()
        for at in range(0, 4096, 1024):
            queue.copy(target[at:], source[at:at + 1024])
        target.close()
        kept[:] = _GUARD
        word = NativeWord.copy(src=(source.region, 0), dst=(region, 0), length=64,
                               flags=int(RequestFlag.SC | RequestFlag.RC))
        _refused(device, Status.DST_REGION, queue.post(word).wait, "to memory that was released")
        _need((kept == _GUARD).all(), "Memory has changed after its release.")


CHECKS: dict[str, Callable[[Device, random.Random], None]] = {
    "copies of any length and alignment": _copies,
    "rows, with and without a descriptor ring": _rows,
    "signals": _signals,
    "all queues at once": _queues,
    "interrupts": _interrupts,
    "protection": _protection,
    "released memory": _release,
}
"""Name -> check, which returns, or raises an exception with a sentence."""


def run(device: Device, seed: int) -> Iterator[Outcome]:
    """Run all checks, the outcome of each as it ends."""
    for name, check in CHECKS.items():
        try:
            check(device, random.Random(seed))
        except (_Wrong, DmaceError, TimeoutError) as problem:
            yield Outcome(name, str(problem) or "It has timed out.")
        else:
            yield Outcome(name, "")
