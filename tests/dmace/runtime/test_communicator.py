# SPDX-License-Identifier: Apache-2.0
"""Collectives on clusters of simulated cards, compared with the golden model and with NumPy; and wrong arguments, which
need no simulator."""

import asyncio
import re
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dmace
from dmace.runtime.communicator import Communicator, dtype_of
from hw.ace.config import TINY
from hw.ace.model.collective import results
from hw.ace.model.numerics import numpy_type
from hw.ace.numerics.formats import DType, Reduction
from hw.ace.words import Collective, Status

LIMIT = 300
"""Seconds for a collective, on a machine that is busy."""

CASES = (
    (Collective.ALL_REDUCE, DType.INT32, Reduction.SUM, 1000, {}),
    (Collective.ALL_REDUCE, DType.FP32, Reduction.SUM, 777, {}),
    (Collective.ALL_REDUCE, DType.BF16, Reduction.AVG, 501, {"widen": True}),
    (Collective.REDUCE_SCATTER, DType.FP16, Reduction.SUM, 300, {}),
    (Collective.REDUCE_SCATTER, DType.INT8, Reduction.MAX, 129, {}),
    (Collective.ALL_GATHER, DType.INT32, Reduction.SUM, 200, {}),
    (Collective.ALL_TO_ALL, DType.INT32, Reduction.SUM, 70, {}),
    (Collective.BROADCAST, DType.FP32, Reduction.SUM, 400, {"root": 1}),
    (Collective.REDUCE, DType.FP32, Reduction.PROD, 333, {"root": 1}),
)


def _data(rng, dtype, count):
    """Random numbers of a type, without NaN."""
    if dtype in (DType.INT32, DType.INT8):
        info = np.iinfo(numpy_type(dtype))
        return rng.integers(info.min, info.max, count, numpy_type(dtype), endpoint=True)
    return rng.normal(size=count).astype(numpy_type(dtype))


def _bits(array):
    return array.view(np.dtype(f"u{array.itemsize}"))


def _call(rank, collective, send, receive, dtype, op, options):
    verb = getattr(rank, collective.name.lower())
    reducing = {"op": op.name.lower()} if collective.info.reduces else {}
    return verb(send, receive, dtype=dtype.name.lower(), **reducing, **options)


def _expected(collective, shape, inputs, dtype, op, count, options):
    root = tuple(int(one) for one in np.unravel_index(options.get("root", 0), shape))
    return results(collective, shape, [_bits(one) for one in inputs], dtype=dtype, count=count, op=op,
                   root=root if collective.info.rooted else None, widen=options.get("widen", False))


def _check(ranks, shape, rng, case, *, in_place):
    """One collective on all ranks; returns what waits for it and compares."""
    collective, dtype, op, count, options = case
    info, size, kind = collective.info, len(ranks), numpy_type(dtype)
    inputs = [_data(rng, dtype, info.sent(count, size)) for _ in ranks]
    opened, targets, requests = [], [], []
    for number, (rank, values) in enumerate(zip(ranks, inputs, strict=True)):
        sent, received = values.nbytes, info.received(count, size) * kind.itemsize
        if in_place:
            memory = rank.device.allocate(max(sent, received))
            starts = [one * kind.itemsize for one in info.in_place_offsets(count, number)]
            send, receive = memory[starts[0]:starts[0] + sent], memory[starts[1]:starts[1] + received]
            opened.append(memory)
        else:
            source, target = rank.device.allocate(sent), rank.device.allocate(received)
            send, receive = source[:], target[:]
            opened += [source, target]
        send.write(values)
        targets.append(receive)
        requests.append(_call(rank, collective, send, receive, dtype, op, options))

    def finish():
        for request in requests:
            request.wait(LIMIT)
        found = _expected(collective, shape, inputs, dtype, op, count, options)
        for number, (target, bits) in enumerate(zip(targets, found, strict=True)):
            if bits is not None:
                assert target.read() == bits.tobytes(), f"{collective.name} {dtype.name} rank {number}"
        for memory in opened:
            memory.close()
        return inputs, targets

    return finish


@pytest.fixture(scope="module", params=[(2,), (2, 2)], ids=["ring of 2", "2x2"])
def cluster(request):
    with dmace.open_cluster("sim:tiny", shape=request.param) as opened:
        yield SimpleNamespace(it=opened, shape=request.param, ranks=opened.communicators(),
                              others=opened.communicators(priority=1))


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
def test_collectives(cluster, in_place, seed):
    """All collectives have the golden model's bits."""
    rng = np.random.default_rng(seed)
    for case in CASES:
        if case[0].info.in_place or not in_place:
            _check(cluster.ranks, cluster.shape, rng, case, in_place=in_place)()
    for request in [rank.barrier() for rank in cluster.ranks]:
        request.wait(LIMIT)


@pytest.mark.rtl
@pytest.mark.long
def test_rank_order(cluster, seed):
    """A ring adds in rank order; a torus, which is no line, has no program for that."""
    rng = np.random.default_rng(seed)
    inputs = [_data(rng, DType.FP16, 100) for _ in cluster.ranks]
    with ExitStack() as stack:
        memories = [stack.enter_context(rank.device.allocate(200)) for rank in cluster.ranks]
        for memory, values in zip(memories, inputs, strict=True):
            memory.write(values)
        if len(cluster.shape) > 1:
            with pytest.raises(dmace.DmaceError, match=r"^This communicator has no program for ALL_REDUCE in rank "
                                                       r"order: .*[^.]\.$"):
                cluster.ranks[0].all_reduce(memories[0], dtype="fp16", ordered=True)
            return
        requests = [rank.all_reduce(memory, dtype="fp16", ordered=True)
                    for rank, memory in zip(cluster.ranks, memories, strict=True)]
        for request in requests:
            request.wait(LIMIT)
        found = results(Collective.ALL_REDUCE, cluster.shape, [_bits(one) for one in inputs], dtype=DType.FP16,
                        count=100, ordered=True)
        assert [memory.read() for memory in memories] == [bits.tobytes() for bits in found]


@pytest.mark.rtl
@pytest.mark.long
def test_integers(cluster, seed):
    """Integer sums are NumPy's, in an array's own memory, which begins anywhere."""
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        arrays = [rng.integers(-1000, 1000, 1001, np.int32)[1:] for _ in cluster.ranks]
        expected = np.sum(arrays, axis=0)
        memories = [stack.enter_context(rank.device.register(array))
                    for rank, array in zip(cluster.ranks, arrays, strict=True)]
        requests = [rank.all_reduce(memory, dtype=np.int32)
                    for rank, memory in zip(cluster.ranks, memories, strict=True)]
        for request in requests:
            request.wait(LIMIT)
        assert all((array == expected).all() for array in arrays)


@pytest.mark.rtl
@pytest.mark.long
def test_several_in_flight(cluster, seed):
    """Two communicators, each with several collectives in flight, while the DMA engines copy."""
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        copies = []
        for device in cluster.it.devices:
            queue = stack.enter_context(device.queue())
            source, target = (stack.enter_context(device.allocate(32768)) for _ in range(2))
            source.write(rng.bytes(32768))
            copies.append((source, target, [queue.copy(target[at:], source[at:at + 4096])
                                            for at in range(0, 32768, 4096)]))
        finishing = [_check(ranks, cluster.shape, rng, case, in_place=False)
                     for case in CASES[:3] for ranks in (cluster.ranks, cluster.others)]
        for finish in finishing:
            finish()
        for source, target, requests in copies:
            for request in requests:
                request.wait(LIMIT)
            assert source.read() == target.read()


@pytest.mark.rtl
@pytest.mark.long
def test_threads_and_await(cluster, seed):
    """A thread for each rank, each of which awaits its collectives."""
    rng = np.random.default_rng(seed)
    data = [rng.integers(-1000, 1000, 200, np.int32) for _ in cluster.ranks]
    outputs = [None] * len(data)

    def work(number, rank):
        async def main():
            with rank.device.allocate(800) as memory:
                for _ in range(3):
                    memory.write(data[number])
                    await rank.all_reduce(memory, dtype="int32", op="max")
                    outputs[number] = memory.read()

        asyncio.run(asyncio.wait_for(main(), LIMIT))

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(cluster.ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == [np.max(data, axis=0).astype(np.int32).tobytes()] * len(data)


@pytest.mark.rtl
@pytest.mark.long
def test_failure(cluster, seed):
    """A rank whose memory may not be written fails alone; its corrected command completes the collective."""
    with ExitStack() as stack:
        memories = [stack.enter_context(rank.device.allocate(400)) for rank in cluster.ranks]
        fixed = stack.enter_context(cluster.ranks[0].device.allocate(400, writable=False))
        for memory in memories:
            memory.write(np.full(100, 3, np.int32))
        wrong = cluster.ranks[0].all_reduce(fixed, dtype="int32")
        others = [rank.all_reduce(memory, dtype="int32")
                  for rank, memory in zip(cluster.ranks[1:], memories[1:], strict=True)]
        with pytest.raises(dmace.CollectiveFailed, match=r"^Collective \d+ of rank 0, ALL_REDUCE, has failed with "
                                                         r"DST_RIGHTS\.$") as failure:
            wrong.wait(LIMIT)
        assert failure.value.result == Status.DST_RIGHTS and failure.value.fault is None
        with pytest.raises(dmace.RequestTimeout, match=r"has not completed within 0\.1 s\.$"):
            others[0].wait(0.1)
        with pytest.raises(dmace.DmaceError, match=r"^The memory cannot be released while 1 collectives use it"):
            memories[1].close()
        cluster.ranks[0].all_reduce(memories[0], dtype="int32").wait(LIMIT)
        for request in others:
            request.wait(LIMIT)
        assert all((memory.array(np.int32) == 3 * len(memories)).all() for memory in memories)


@pytest.mark.rtl
@pytest.mark.long
def test_limits(cluster):
    """Resources of a cluster end with a sentence, and so does a full queue."""
    with pytest.raises(dmace.DmaceError, match=r"^All 2 queues for communicators are in use\.$"):
        cluster.it.communicators()
    with pytest.raises(dmace.DmaceError, match=r"^Dimensions of a communicator must be some of 0 to \d, each once, "
                                               r"not \(5,\)\.$"):
        cluster.it.communicators(dimensions=(5,))
    with pytest.raises(dmace.DmaceError, match=r"^The one_shot of a communicator must be from 0 to 1048575, not -1\.$"):
        cluster.it.communicators(one_shot=-1)
    first = [cluster.ranks[0].barrier() for _ in range(TINY.queue_depth)]
    with pytest.raises(dmace.DmaceError, match=r"^4 collectives are in progress at rank 0, as many as its queue holds; "
                                               r"wait for one of them\.$"):
        cluster.ranks[0].barrier()
    rest = [rank.barrier() for _ in first for rank in cluster.ranks[1:]]
    for request in (*first, *rest):
        request.wait(LIMIT)


@pytest.mark.rtl
@pytest.mark.long
def test_example_of_the_page():
    """The example in docs/host.md."""
    page = (Path(__file__).parents[3] / "docs" / "host.md").read_text(encoding="utf-8")
    example = re.search(r"## Communicators.*?```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example[1], "docs/host.md", "exec"), {})


# Without a simulator


class _Accelerator:
    """A test double with all that checks of arguments need."""

    config = TINY

    def __init__(self, device):
        self.device, self.pollers = device, []

    def word(self, queue):
        return 0


@pytest.fixture
def rank(device):
    """Rank 1 of 4, on the test double of a card."""
    return Communicator(_Accelerator(device), 0, 0, shape=(4,), rank=1, domain=0,
                        left_out={Collective.ALL_TO_ALL: "It is too long"})


@pytest.mark.parametrize("call, sentence", [
    (lambda rank, m, far, f: rank.all_reduce(m, dtype="int64"),
     "An element type of a collective must be one of fp32, fp16, bf16, e4m3, e5m2, e4m3_sat, e5m2_sat, int32, int8, "
     "not 'int64'."),
    (lambda rank, m, far, f: rank.all_reduce(m, dtype="fp32", op="xor"),
     "A reduction must be one of sum, min, max, avg, prod, not 'xor'."),
    (lambda rank, m, far, f: rank.all_reduce(m, dtype="fp32", widen=True),
     "Only floats of 16 and 8 bits can be widened, not FP32."),
    (lambda rank, m, far, f: rank.all_reduce(m[:402], dtype="fp32"),
     "The send buffer of ALL_REDUCE must have a multiple of 4 bytes, not 402."),
    (lambda rank, m, far, f: rank.all_reduce(m[:400], m[400:900], dtype="fp32"),
     "The receive buffer of ALL_REDUCE must have 400 bytes with a send buffer of 400 and 4 ranks, not 500."),
    (lambda rank, m, far, f: rank.reduce_scatter(m[:404], m[404:505], dtype="fp32"),
     "The send buffer of REDUCE_SCATTER must have a multiple of 16 bytes, 4 for each of 4 ranks, not 404."),
    (lambda rank, m, far, f: rank.broadcast(m, dtype="bf16", root=4), "The root must be a rank from 0 to 3, not 4."),
    (lambda rank, m, far, f: rank.all_to_all(m[:400], m[400:800], dtype="fp32"),
     "This communicator has no program for ALL_TO_ALL: It is too long."),
    (lambda rank, m, far, f: rank.all_reduce(far, dtype="fp32"),
     "The send buffer must be memory of the communicator's domain 0, not of domain 1."),
    (lambda rank, m, far, f: rank.all_reduce(m[2:402], dtype="fp32"),
     "The send buffer must begin at a multiple of 4 bytes, the size of FP32, not 2 behind one."),
    (lambda rank, m, far, f: rank.all_reduce(m[:400], m[200:600], dtype="fp32"),
     "The buffers of ALL_REDUCE may overlap only in place: the shorter one must be this rank's block of the other."),
    (lambda rank, m, far, f: rank.all_gather(m[:400], m[:1600], dtype="fp32"),
     "The buffers of ALL_GATHER may overlap only in place: the shorter one must be this rank's block of the other."),
    (lambda rank, m, far, f: rank.all_reduce(f, dtype="fp32"),
     "The send buffer must be memory of rank 1's device, NAME, not of NAME."),
])
def test_wrong_arguments(rank, device, fake_card, call, sentence):
    with dmace.open(fake_card) as other:
        memory, far, foreign = device.allocate(4096), device.allocate(4096, domain=1), other.allocate(4096)
        with pytest.raises(dmace.DmaceError) as raised:
            call(rank, memory, far, foreign)
        assert str(raised.value).replace(device.name, "NAME") == sentence


def test_types():
    assert dtype_of("bf16") is DType.BF16 and dtype_of(np.float16) is DType.FP16
    assert dtype_of(numpy_type(DType.BF16)) is DType.BF16 and dtype_of(DType.E4M3_SAT) is DType.E4M3_SAT
    assert dtype_of("int32") is DType.INT32 and dtype_of(np.dtype("int8")) is DType.INT8


def test_reserved_memory(device):
    """No request reaches memory that is reserved for other engines, nor does it take a region."""
    other = device.allocate(64)
    with device.queue() as queue, device.reserve(100) as memory:
        assert memory.address % 4096 == 0 and len(memory.array()) == 100
        with pytest.raises(dmace.DmaceError, match="must have a region"):
            queue.copy(memory[:64], other)
    with pytest.raises(dmace.DmaceError, match=r"^A store must have 4, 8 or 16 bytes at a multiple .* not 5 at 0\.$"):
        device.store(0, bytes(5))
