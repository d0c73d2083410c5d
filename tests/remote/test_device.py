# SPDX-License-Identifier: Apache-2.0
"""Remote memory: transfers of any length, flags, and the sentences of errors."""

import re

import numpy as np
import pytest

from dmace.remote.device import RemoteDevice, RemoteMemory
from dmace.remote.future import wait_all
from dmace.remote.local import LocalDevice
from dmace.remote.pool import Pool
from dmace.remote.words import PIECE_BYTES, copies
from dmace.runtime.errors import DmaceError, RequestFailed
from hw.common.words import CompletionWord
from hw.dma_engine.words import Status
from sim.remote.double import FunctionalMachines

from .pairs import Pair


def test_reads_and_writes_in_flight(seed):
    rng = np.random.default_rng(seed)
    pair = Pair(seed=seed, piece=1000)
    futures, checks = [], []
    for _ in range(40):
        data = rng.integers(0, 256, int(rng.integers(1, 5000)), np.uint8)
        here, there = pair.here.allocate(len(data), 1), pair.forth.allocate(len(data), 1)
        if rng.random() < 0.5:
            here.store(data)
            futures.append(pair.forth.write(here, there))
            checks.append((pair.there.machine, there.offset, data))
        else:
            pair.there.machine.write_memory(there.offset, data)
            futures.append(pair.forth.read(there, here))
            checks.append((pair.here.machine, here.offset, data))
    assert not all(future.ended for future in futures)
    wait_all(futures)
    for machine, offset, data in checks:
        assert np.array_equal(machine.read_memory(offset, len(data)), data)


def test_long_transfers_are_several_words():
    words = copies((0, 5), (1, 1 << 35), 3 * PIECE_BYTES + 1)
    assert [word.length for word in words] == [PIECE_BYTES] * 3 + [1]
    assert [word.src_offset - 5 for word in words] == [word.dst_offset - (1 << 35) for word in words] \
        == [0, PIECE_BYTES, 2 * PIECE_BYTES, 3 * PIECE_BYTES]
    assert all(word.pack() for word in words) and not copies((0, 0), (1, 0), 0)


def test_no_more_words_than_the_queue_holds():
    pair = Pair(queues=[1], queue_depth=4, piece=10)
    pair.forth.write(pair.here.allocate(1000), pair.forth.allocate(1000))
    assert len(pair.here.machine.posted) == 4
    pair.settle()
    pair.cluster.run(lambda: pair.tasks.poll() or len(pair.here.machine.posted) == 100)
    assert pair.here.machine.completed(1).status is Status.OK


def test_counts_wrap():
    """SC counts modulo 2 ** 32, and a queue may have completed requests before."""
    pair = FunctionalMachines(2)
    machine = pair.machines[0]
    machine.state[1].count = (1 << 32) - 3
    machine.state[1].published = CompletionWord((1 << 32) - 3, 0, 0)
    original = machine.completed
    machine.completed = lambda queue: original(queue)._replace(count=original(queue).count % (1 << 32))
    device = LocalDevice(machine, [0, 1])
    remote = RemoteDevice(device, 1, Pool(1 << 20))
    for _ in range(8):
        remote.write(device.allocate(64), remote.allocate(64)).wait()


def test_later_requests_of_a_failed_queue():
    pair = Pair(queues=[1])
    pair.cluster.fail(0, 1, Status.WRITE_SLVERR)
    first, second = (pair.forth.write(pair.here.allocate(8), pair.forth.allocate(8)) for _ in range(2))
    with pytest.raises(RequestFailed, match=r"^Request 1 of queue 1 of machine 0 failed with WRITE_SLVERR\.$"):
        first.wait()
    sentence = "Request 2 of queue 1 of machine 0 is not complete: request 1 failed with WRITE_SLVERR."
    with pytest.raises(RequestFailed, match=f"^{re.escape(sentence)}$"):
        second.wait()
    with pytest.raises(RequestFailed):
        wait_all([second, first])


def test_a_result_before_the_end():
    pair = Pair()
    future = pair.forth.write(pair.here.allocate(8), pair.forth.allocate(8))
    with pytest.raises(RuntimeError, match=r"^The future is not done, so it has no result$"):
        future.result()


def test_local_memory():
    pair = Pair()
    memory = pair.here.allocate(100)
    memory.store(np.arange(25, dtype=np.float32))
    assert memory.view().base is not None
    memory[4:8].view()[:] = np.float32(7).tobytes()[0], *np.float32(7).tobytes()[1:]
    assert memory.load().view(np.float32)[:3].tolist() == [0, 7, 2]
    target = pair.here.allocate(100)
    pair.here.copy(memory, target).wait()
    assert np.array_equal(target.load(), memory.load())
    pair.here.free(memory)
    assert Pair(addressable=False).here.allocate(4).view() is None


@pytest.mark.parametrize("call, sentence", [
    (lambda pair: RemoteDevice(pair.here, 3, Pool(8)),
     "Machine 0 has no queue pair to machine 3; its peers are 1."),
    (lambda pair: RemoteDevice(pair.here, 1, Pool(8), 1 << 28),
     "A piece must have from 1 to 268435455 bytes, not 268435456."),
    (lambda pair: pair.forth.write(pair.here.allocate(8), pair.forth.allocate(9)),
     "A transfer must have the same length at both ends, not 8 bytes here and 9 remote."),
    (lambda pair: pair.forth.read(RemoteMemory(0, 0, 8), pair.here.allocate(8)),
     "Memory of machine 0 is not reached through a device of machine 1."),
    (lambda pair: pair.forth.write(pair.there.allocate(8), pair.forth.allocate(8)),
     "Local memory of a transfer must be of machine 0, not 1."),
    (lambda pair: pair.forth.signal(pair.forth.allocate(9), 1),
     "A flag must have 8 bytes at a multiple of 8, not 9 at 0."),
    (lambda pair: pair.forth.signal(RemoteMemory(1, 4, 8), 1),
     "A flag must have 8 bytes at a multiple of 8, not 8 at 4."),
    (lambda pair: pair.forth.signal(pair.forth.allocate(8), 1 << 44),
     "The value of a flag must be from 0 to 2 ** 44 - 1, not 17592186044416."),
    (lambda pair: pair.forth.free(RemoteMemory(0, 0, 8)),
     "Memory of machine 0 is not freed through a device of machine 1."),
    (lambda pair: pair.here.free(pair.there.allocate(8)), "Memory of machine 1 cannot be freed by machine 0."),
    (lambda pair: pair.here.allocate(8)[4:9], "The bytes 4:9 are not within a span of 8."),
    (lambda pair: pair.here.allocate(8)[6:5], "The bytes 6:5 are not within a span of 8."),
    (lambda pair: pair.here.allocate(8).store(bytes(9)), "9 bytes do not fit into 8 bytes of registered memory."),
    (lambda pair: pair.here.copy(pair.here.allocate(8), pair.here.allocate(9)),
     "A copy of 8 bytes needs as many at its destination, not 9."),
    (lambda pair: LocalDevice(pair.here.machine, []), "A device needs one queue or several different ones, not []."),
    (lambda pair: LocalDevice(pair.here.machine, [4]), "A queue of machine 0 must be from 0 to 3, not 4."),
    (lambda pair: LocalDevice(pair.here.machine, pool=Pool(1 << 20, 1)),
     "A pool that ends at 1,048,577 is not within the 1,048,576 bytes of registered memory."),
])
def test_errors_are_sentences(call, sentence):
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        call(Pair())


def test_the_newest_of_several_releases_is_stored(seed):
    """While a signal is in flight, later values of its flag are not signalled one by one; other flags do not wait."""
    pair = Pair(seed=seed)
    flags = [pair.forth.allocate(8) for _ in range(2)]
    for value in range(1, 51):
        for flag in flags:
            pair.forth.notify(flag, value)
    pair.settle()
    for flag in flags:
        assert int.from_bytes(pair.there.machine.read_memory(flag.offset, 8).tobytes(), "little") == 50
    assert len(pair.here.machine.posted) == 4
    pair.forth.notify(flags[0], 51)
    pair.settle()
    assert int.from_bytes(pair.there.machine.read_memory(flags[0].offset, 8).tobytes(), "little") == 51


@pytest.mark.parametrize("count, controls", [(1, {0}), (2, {0}), (4, {0}), (8, {0, 1}), (16, {0, 1, 2, 3})])
def test_queues_of_releases_and_of_transfers(count, controls):
    device = LocalDevice(FunctionalMachines(2, queues=count if count > 1 else 2).machines[0], range(count))
    assert {device.next_control().number for _ in range(40)} == controls
    assert {device.next_queue().number for _ in range(40)} == (set(range(count)) - controls or {0})
