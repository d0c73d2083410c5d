# SPDX-License-Identifier: Apache-2.0
"""Each mechanism carries tensors of many steps unchanged, whatever the order in which data and completions arrive."""

import re

import numpy as np
import pytest

from dmace.remote.future import wait_all
from dmace.remote.pool import PoolExhausted
from dmace.remote.tensor import Tensor
from dmace.runtime.errors import DmaceError, RequestFailed, RequestTimeout
from hw.dma_engine.words import Status

from .pairs import MECHANISMS, Pair, random_array

KNOWN, VARYING = Tensor("x", (37, 50), "int32"), Tensor("x", (None, 50), "int32")


def _tensor(name):
    return KNOWN if name == "static" else VARYING


@pytest.mark.parametrize("options", [
    {"delays": False}, {}, {"addressable": False}, {"queues": [2]}, {"piece": 100}, {"segment": 64, "queue_depth": 4},
], ids=str)
@pytest.mark.parametrize("name", MECHANISMS)
def test_many_steps(name, options, seed):
    for case in range(4):
        rng = np.random.default_rng([seed, case])
        pair = Pair(seed=seed + case, **options)
        tensor = _tensor(name)
        sender, receiver = pair.connect(name, tensor, **({"fragment": 1024, "slots": 3} if name == "rpc" else {}))
        sends = []
        for _ in range(8):
            value = random_array(rng, tensor)
            memory = pair.stored(value)
            sends.append((sender.send(memory, value.shape), memory))
            arrival = receiver.receive().wait()
            assert arrival.shape == value.shape
            for _ in range(rng.integers(0, 30)):                # in use until it is released
                pair.tasks.poll()
                if pair.cluster.pending:
                    pair.cluster.step()
            found = tensor.view(arrival.memory.load(), arrival.shape)
            assert np.array_equal(found, value)
            receiver.release()
        wait_all(future for future, _ in sends)
        pair.settle()
        for _, memory in sends:
            pair.here.free(memory)
        sender.close()
        receiver.close()
        assert not pair.here.pool.spans and not pair.there.pool.spans


@pytest.mark.parametrize("name", MECHANISMS)
def test_memory_of_a_send_that_is_done_may_be_reused(name, seed):
    for case in range(6):
        rng = np.random.default_rng([seed, case])
        pair, tensor = Pair(seed=seed + case), _tensor(name)
        sender, receiver = pair.connect(name, tensor)
        for _ in range(4):
            value = random_array(rng, tensor)
            memory = pair.stored(value)
            sent, received = sender.send(memory, value.shape), receiver.receive()
            while not (sent.done() and received.done()):
                if sent.ended:
                    memory.store(bytes(memory.length))
                pair.cluster.step()
            assert np.array_equal(tensor.view(received.result().memory.load(), value.shape), value)
            receiver.release()


@pytest.mark.parametrize("name", MECHANISMS)
def test_sends_ahead_of_the_receiver_change_nothing_that_it_uses(name, seed):
    """A sender that is steps ahead waits until the receiver has consumed as much as it needs."""
    rng = np.random.default_rng(seed)
    pair, tensor = Pair(seed=seed), _tensor(name)
    sender, receiver = pair.connect(name, tensor)
    values = [random_array(rng, tensor) for _ in range(6)]
    sends = [sender.send(pair.stored(value), value.shape) for value in values]
    for value in values:
        arrival = receiver.receive().wait()
        while pair.cluster.pending:
            pair.cluster.step()
            pair.tasks.poll()
        assert np.array_equal(tensor.view(arrival.memory.load(), arrival.shape), value)
        receiver.release()
    wait_all(sends)


def test_a_flag_is_after_all_data(seed):
    """At every moment: if the flag has its new value, so have all bytes."""
    for case in range(30):
        pair = Pair(seed=seed + case, segment=64)
        data = np.random.default_rng(case).integers(1, 256, 4000, np.uint8)
        target, flag = pair.forth.allocate(4000), pair.forth.allocate(8)
        future = pair.forth.write_with_flag(pair.stored(data), target, flag, 7)
        machine = pair.there.machine
        while not future.done():
            if int.from_bytes(machine.read_memory(flag.offset, 8).tobytes(), "little") == 7:
                assert np.array_equal(machine.read_memory(target.offset, 4000), data)
            pair.cluster.step()


def test_a_flag_in_the_data_is_not_safe(seed):
    """The last byte of one write may be there before others: the reason for a flag of its own."""
    early = 0
    for case in range(30):
        pair = Pair(seed=seed + case, segment=64)
        data = np.ones(4000, np.uint8)
        target = pair.forth.allocate(4000)
        future = pair.forth.write(pair.stored(data), target)
        machine = pair.there.machine
        while not future.done():
            found = machine.read_memory(target.offset, 4000)
            early += int(found[-1] == 1 and not found.all())
            pair.cluster.step()
    assert early


@pytest.mark.parametrize("name", MECHANISMS)
def test_failures_are_exceptions(name):
    pair, tensor = Pair(), _tensor(name)
    sender, _ = pair.connect(name, tensor)
    pair.cluster.fail(0, 1, Status.WRITE_SLVERR)
    value = np.zeros((37, 50), np.int32)
    with pytest.raises(RequestFailed, match=r"^Request 1 of queue \d of machine 0 failed with WRITE_SLVERR\.$"
                       ) as found:
        sender.send(pair.stored(value), value.shape).wait()
    assert found.value.result is Status.WRITE_SLVERR


@pytest.mark.parametrize("name", ["dynamic", "rpc"])
def test_failures_of_the_receiver_are_exceptions(name):
    pair = Pair()
    sender, receiver = pair.connect(name, VARYING)
    pair.cluster.fail(1, 0, Status.READ_DECERR)
    value = np.zeros((3, 50), np.int32)
    sender.send(pair.stored(value), value.shape)
    with pytest.raises(RequestFailed, match=r"^Request 1 of queue \d of machine 1 failed with READ_DECERR\.$"):
        receiver.receive().wait()


def test_failures_of_copies_into_the_message_buffer_are_exceptions():
    pair = Pair()
    sender, _ = pair.connect("rpc", VARYING)
    pair.cluster.fail(0, 0, Status.READ_DECERR)
    value = np.zeros((3, 50), np.int32)
    with pytest.raises(RequestFailed, match=r"^Request 1 of queue \d of machine 0 failed with READ_DECERR\.$"):
        sender.send(pair.stored(value), value.shape).wait()


def test_failed_signals_are_reported():
    """The signal that releases a buffer has no future of its own; a later poll raises its error."""
    pair = Pair()
    sender, receiver = pair.connect("static", KNOWN)
    value = np.zeros(KNOWN.shape, np.int32)
    sender.send(pair.stored(value), value.shape)
    receiver.receive().wait()
    pair.cluster.fail(1, 1, Status.WRITE_DECERR)
    receiver.release()
    with pytest.raises(RequestFailed, match=r"^Request 1 of queue 0 of machine 1 failed with WRITE_DECERR\.$"):
        receiver.receive().wait()


def test_the_cause_of_a_time_out_is_reported():
    pair = Pair()
    sender, receiver = pair.connect("static", KNOWN)
    pair.cluster.fail(0, 1, Status.WRITE_SLVERR)
    value = np.zeros(KNOWN.shape, np.int32)
    sender.send(pair.stored(value), value.shape)
    with pytest.raises(RequestFailed, match="failed with WRITE_SLVERR"):
        receiver.receive().wait()
    _, receiver = Pair().connect("static", KNOWN)
    with pytest.raises(RequestTimeout, match="^Nothing is in flight on any machine, but the result of a wait has not "
                                             r"arrived\.$"):
        receiver.receive().wait()


@pytest.mark.parametrize("name", ["dynamic", "rpc"])
def test_a_receive_without_memory_may_be_repeated(name):
    pair = Pair(pool_bytes=1 << 16)
    sender, receiver = pair.connect(name, VARYING)
    value = np.arange(1000, dtype=np.int32).reshape(20, 50)
    sent = sender.send(pair.stored(value), value.shape)
    occupied = pair.there.allocate(pair.there.pool.longest - 2048)
    with pytest.raises(PoolExhausted):
        receiver.receive().wait()
    pair.there.free(occupied)
    arrival = receiver.receive().wait()
    assert np.array_equal(VARYING.view(arrival.memory.load(), arrival.shape), value)
    sent.wait()


@pytest.mark.parametrize("call, sentence", [
    (lambda pair: pair.connect("static", VARYING),
     "Tensor 'x' has a shape that is not known before the step, so it has no static placement."),
    (lambda pair: pair.connect("static", KNOWN)[0].send(pair.here.allocate(8), (37, 51)),
     "Tensor 'x' must have the shape (37, 50), not (37, 51)."),
    (lambda pair: pair.connect("static", KNOWN)[0].send(pair.here.allocate(8), (37, 50)),
     "Tensor 'x' of shape (37, 50) has 7,400 bytes, not the 8 of its memory."),
    (lambda pair: pair.connect("dynamic", VARYING)[0].send(pair.here.allocate(8), (1, 50)),
     "Tensor 'x' of shape (1, 50) has 200 bytes, not the 8 of its memory."),
    (lambda pair: pair.connect("rpc", VARYING)[0].send(pair.here.allocate(8), (1, 5)),
     "Tensor 'x' must have the shape (any, 50), not (1, 5)."),
    (lambda pair: pair.connect("rpc", VARYING, fragment=0),
     "A ring must have 1 to 65536 slots of 1 to 134217728 bytes, not 8 of 0."),
    (lambda pair: pair.connect("static", KNOWN)[1].release(),
     "Tensor 'x' has not been received, so it cannot be released."),
    (lambda pair: [one.receive() for one in pair.connect("static", KNOWN)[1:] * 2],
     "Tensor 'x' must be released before it is received again."),
])
def test_errors_are_sentences(call, sentence):
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        call(Pair())
