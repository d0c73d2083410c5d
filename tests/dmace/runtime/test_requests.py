# SPDX-License-Identifier: Apache-2.0
"""Requests of the runtime: waiting in each way, failures, threads, traces."""

import asyncio
import json
import threading

import numpy as np
import pytest

import dmace
from hw.dma_engine.words import NativeWord, Status

BOTH = 3


@pytest.fixture
def memory(device):
    made = device.allocate(65536)
    made.write(np.random.default_rng(1).bytes(32768))
    return made


@pytest.mark.parametrize("interrupt", [False, True], ids=["polled", "interrupts"])
def test_await(device, memory, interrupt):
    async def main():
        with device.queue(interrupt=interrupt) as queue, device.queue(interrupt=interrupt) as other:
            requests = [one.copy(memory[32768 + 256 * number:], memory[256 * number:256 * (number + 1)])
                        for number in range(60) for one in [(queue, other)[number % 2]]]
            await asyncio.gather(*requests)
            await requests[0]

    asyncio.run(asyncio.wait_for(main(), 30))
    assert memory.read()[:60 * 256] == memory.read()[32768:][:60 * 256]


def test_await_failure(device, memory):
    async def main():
        with device.queue(interrupt=True) as queue:
            bad = queue.post(NativeWord.copy(src=(99, 0), dst=(memory.region, 0), length=8, flags=BOTH))
            good = queue.copy(memory[:8], memory[8:16])
            with pytest.raises(dmace.RequestFailed) as failure:
                await bad
            assert failure.value.result == Status.SRC_REGION
            await good

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("skip_errors", [False, True])
def test_each_request_has_its_own_result(device, memory, skip_errors):
    with device.queue(skip_errors=skip_errors) as queue:
        requests = [queue.post(NativeWord.copy(src=(memory.region, 0), dst=(memory.region, 32768), length=length,
                                               flags=BOTH))
                    for length in (8, 0, 16, 1 << 20, 24)]
        results = []
        for request in requests:
            try:
                request.wait(10)
                results.append(Status.OK)
            except dmace.RequestFailed as failure:
                results.append(failure.result)
        assert results[:2] == [Status.OK, Status.ZERO_LENGTH] and results[3] != Status.OK
        if not skip_errors:
            assert results == [Status.OK, Status.ZERO_LENGTH, Status.OK, Status.SRC_BOUNDS, Status.OK]
        assert queue.statistics().failed == 2


def test_timeout(fake_card):
    with dmace.open(f"{fake_card},slow") as device, device.allocate(1 << 16) as memory, device.queue() as queue:
        requests = [queue.copy(memory[:8], memory[8:16]) for _ in range(8)]
        with pytest.raises(dmace.RequestTimeout, match=r"Request 8 of queue \d has not completed within 0 s\."):
            requests[-1].wait(0)
        with pytest.raises(TimeoutError):
            requests[-1].wait(1e-9)
        requests[-1].wait(10)


def test_threads(device, memory):
    """Threads post to one queue and wait for their own requests."""
    problems = []

    def work(thread):
        try:
            for step in range(50):
                at = thread * 4096 + step * 64
                queue.copy(memory[32768 + at:], memory[at:at + 64]).wait(30)
        except dmace.DmaceError as problem:
            problems.append(problem)

    with device.queue() as queue:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems and queue.statistics().requests == 400
    for thread in range(8):
        at = slice(thread * 4096, thread * 4096 + 3200)
        assert memory.read()[:32768][at] == memory.read()[32768:][at]


@pytest.mark.parametrize(("ring", "pair"), [(0, False), (4, False), (4, True)])
def test_rows(device, memory, ring, pair):
    with device.queue(ring=ring, pair=pair) as queue:
        queue.copy_2d(memory[32768:], memory[:32768], rows=10, length=33, to_stride=40, source_stride=100).wait(10)
        source, target = (np.frombuffer(half, np.uint8) for half in (memory.read()[:32768], memory.read()[32768:]))
        assert (target[:400].reshape(10, 40)[:, :33] == source[:1000].reshape(10, 100)[:, :33]).all()
        for rows, length, stride in ((0, 1, 1), (1, 0, 1), (2, 10, 32760), (2, 10, -1)):
            with pytest.raises(dmace.DmaceError, match="are not within a span of 32768 bytes"):
                queue.copy_2d(memory[32768:], memory[:32768], rows=rows, length=length, to_stride=stride,
                              source_stride=1)


def test_signals(device, memory):
    with device.queue() as queue:
        queue.signal(memory[8:], (1 << 44) - 1).wait(10)
        assert memory.array(np.uint64)[1] == (1 << 44) - 1
        for to, value in ((memory[8:15], 1), (memory[8:], 1 << 44), (memory[8:], -1)):
            with pytest.raises(dmace.DmaceError, match="A signal stores a value from 0 to"):
                queue.signal(to, value)
        with pytest.raises(dmace.DmaceError):
            queue.signal(memory[9:], 1)


def test_too_long(device, memory):
    with device.queue() as queue, pytest.raises(dmace.DmaceError, match="8 bytes do not fit into a span of 4"):
        queue.copy(memory[:4], memory[:8])


def test_trace(device, memory, tmp_path):
    with device.queue() as queue:
        queue.copy(memory[:8], memory[8:16]).wait(10)
        with device.tracing() as trace:
            queue.copy(memory[:8], memory[8:16]).wait(10)
            unseen = queue.copy(memory[:8], memory[8:24][:8])
        unseen.wait(10)
    (first, second) = trace.requests()
    assert (first.number, second.number) == (2, 3) and first.posted <= first.completed and second.completed is None
    trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["ph"] for event in events] == ["M", "b", "e", "b"]


def test_pairs(device):
    """Rings that would share prefetched descriptors are refused, until one of them is closed."""
    busy = r"^Each of the card's 4 extended queues is in use, or beside a ring with pair\.$"
    with device.queue(ring=3, pair=True) as first, device.queue(ring=3, pair=True) as second:
        assert (first.number, second.number) == (0, 2)
        with pytest.raises(dmace.DmaceError, match=busy):
            device.queue(ring=3)
        with device.queue(ring=0):
            pass
    with device.queue(ring=3) as first, device.queue(ring=3) as second:
        assert (first.number, second.number) == (0, 1)
    with pytest.raises(dmace.DmaceError, match=r"^Option pair must be 0 for a queue without a ring, not 1\.$"):
        device.queue(pair=True)


@pytest.mark.rtl
@pytest.mark.long
def test_pair_prefetches_twice_as_many(seed):
    """RTL: with a long latency, the prefetched descriptors set the rate of a ring."""
    data = np.random.default_rng(seed).bytes(6400)
    cycles: dict[bool, list[int]] = {False: [], True: []}
    with dmace.open("sim:tiny,latency=1000") as device:
        source, target = device.allocate(len(data)), device.allocate(len(data))
        source.write(data)
        for pair in (False, True, False, True):
            target.write(bytes(len(data)))
            with device.queue(ring=8, pair=pair) as queue:
                start = device.cycles()
                for at in range(0, len(data), 32):
                    last = queue.copy(target[at:at + 32], source[at:at + 32])
                last.wait(60)
                cycles[pair].append(device.cycles() - start)
                if not pair:
                    device.queue(ring=8).close()
            assert target.read() == data
    # 200 descriptors, 8 or 16 of them in a round trip of 1,000 cycles and more.
    assert all(25_000 < found < 35_000 for found in cycles[False]), cycles
    assert all(12_500 < found < 17_500 for found in cycles[True]), cycles
