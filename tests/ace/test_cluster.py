# SPDX-License-Identifier: Apache-2.0
"""Collectives on a small cluster against the golden model; reports of errors."""

from functools import cache
from math import prod

import ml_dtypes
import numpy as np
import pytest

from dmace.drivers.ace import Share
from hw.ace.collectives import Collective, those
from hw.ace.config import TINY
from hw.ace.model import collective as model
from hw.ace.model.numerics import numpy_type
from hw.ace.numerics.formats import DType, Reduction, growth
from hw.ace.words import Status
from hw.errors import UserError
from sim.ace.cluster import Cluster, CollectiveFailed
from sim.ace.communicators import Communicator
from sim.ace.endpoints import Link, Memory
from sim.ace.recovery import recover
from sim.ace.shared_library import ClusterFailed, build_library

pytestmark = pytest.mark.rtl

C = Collective


@cache
def library():
    return build_library(TINY)


def _cluster(shape, **options):
    return Cluster(TINY, shape, library=library(), **options)


def _inputs(rng, collective, ranks, group, count, dtype):
    """Each rank's elements: random bits."""
    length = collective.info.sent(count, group)
    bits = np.dtype(f"u{numpy_type(dtype).itemsize}")
    return [rng.integers(0, 1 << 8 * bits.itemsize, length, np.uint64).astype(bits) for _ in range(ranks)]


def _compare(cluster, collective, rng, *, count, dtype, communicator=0, root=None, op=Reduction.SUM, widen=False,
             ordered=False, **options):
    """Run a collective with random inputs and compare every rank's output."""
    shape = cluster.communicator_shape(communicator)
    inputs = _inputs(rng, collective, cluster.size, prod(shape), count, dtype)
    outcome = cluster.collective(collective, inputs, dtype=dtype, count=count, op=op, root=root, widen=widen,
                                 ordered=ordered, communicator=communicator, limit=200_000, **options)
    if not collective.info.moves_data:
        return outcome
    for group in cluster.groups(communicator):
        expected = model.results(collective, shape, [inputs[rank] for rank in group], dtype=dtype, count=count, op=op,
                                 root=root, widen=widen, ordered=ordered, one_shot=cluster.one_shot)
        for rank, wanted in zip(group, expected, strict=True):
            found = outcome.outputs[rank]
            assert found is None if wanted is None else np.array_equal(found, wanted), f"rank {rank}"
    return outcome


def _root(rng, collective, shape):
    return tuple(int(rng.integers(size)) for size in shape) if collective.info.rooted else None


@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (2, 3), (2, 2, 2)], ids=lambda shape: "x".join(map(str, shape)))
def test_every_collective(shape, seed):
    rng = np.random.default_rng(seed)
    with _cluster(shape, link=Link(latency=5), seed=seed) as cluster:
        for collective in Collective:
            for dtype in rng.permutation(list(DType))[:2]:
                dtype = DType(dtype)
                in_place = collective.info.in_place and bool(rng.integers(2))
                _compare(cluster, collective, rng, count=int(rng.integers(1, 700)), dtype=dtype, in_place=in_place,
                         root=_root(rng, collective, shape), op=Reduction(rng.choice(Reduction)),
                         widen=growth(dtype) > 0 and bool(rng.integers(2)),
                         src_skew=rng.integers(0, 70, cluster.size), dst_skew=rng.integers(0, 70, cluster.size),
                         delay=rng.integers(0, 300, cluster.size))


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 3), (5,)], ids=lambda shape: "x".join(map(str, shape)))
def test_rank_order(shape, seed):
    rng = np.random.default_rng(seed)
    with _cluster(shape, link=Link(latency=5), seed=seed) as cluster:
        for collective in those(lambda info: info.reduces):
            for dtype in (DType.FP32, DType.BF16, DType.INT8):
                _compare(cluster, collective, rng, count=int(rng.integers(1, 2500)), dtype=dtype, ordered=True,
                         root=_root(rng, collective, shape), op=Reduction(rng.choice(Reduction)),
                         in_place=bool(rng.integers(2)), widen=dtype == DType.BF16 and bool(rng.integers(2)),
                         src_skew=rng.integers(0, 70, cluster.size), delay=rng.integers(0, 300, cluster.size))


@pytest.mark.parametrize("shape", [(2,), (5,), (2, 3), (2, 2, 2)], ids=lambda shape: "x".join(map(str, shape)))
def test_one_shot(shape, seed):
    """All-reduces of all lengths up to several chunks, and one that is too long by an element."""
    rng = np.random.default_rng(seed)
    with _cluster(shape, link=Link(latency=5), seed=seed, one_shot=8000) as cluster:
        for count in (0, 1, 15, 17, int(rng.integers(2, 500)), 2000, 2001):
            for dtype in (DType.FP32, DType.BF16, DType(rng.choice(list(DType)))):
                _compare(cluster, C.ALL_REDUCE, rng, count=count, dtype=dtype, op=Reduction(rng.choice(Reduction)),
                         in_place=bool(rng.integers(2)), widen=growth(dtype) > 0 and bool(rng.integers(2)),
                         src_skew=rng.integers(0, 70, cluster.size), dst_skew=rng.integers(0, 70, cluster.size),
                         delay=rng.integers(0, 300, cluster.size))


def test_one_shot_is_read_and_written_once():
    """Each rank sends what it has on both links of its ring, and forwards one part; memory has each byte once."""
    with _cluster((4,), one_shot=1024) as cluster:
        outcome = cluster.collective(C.ALL_REDUCE, [np.ones(256, np.float32)] * 4)
        for memory in outcome.statistics["memories"]:
            assert memory["read_beats"] * TINY.beat_bytes == 1024 and memory["write_bytes"] == 1024 + 8
        up, down = ([link["payload_bytes"] for link in outcome.statistics["links"] if link["port"] == port]
                    for port in (0, 1))
        assert set(up) == {2048} and set(down) == {1024}


def test_arrays_come_back_as_they_are():
    with _cluster((3,)) as cluster:
        for dtype in (np.float32, ml_dtypes.bfloat16, np.int8):
            outcome = cluster.collective(C.ALL_REDUCE, [np.full(50, rank + 1, dtype) for rank in range(3)])
            assert all(output.dtype == dtype and (output == 6).all() for output in outcome.outputs)


def test_stalls_everywhere(seed):
    rng = np.random.default_rng(seed)
    link = Link(latency=9, bytes_per_cycle=6, stall=0.2)
    memory = Memory(read_latency=40, write_latency=60, stall=0.2, jitter=30, out_of_order=True)
    with _cluster((2, 3), link=link, memory=memory, seed=seed) as cluster:
        for collective in Collective:
            _compare(cluster, collective, rng, count=500, dtype=DType.FP32, root=_root(rng, collective, (2, 3)))


def test_each_byte_is_read_and_written_once():
    with _cluster((4,)) as cluster:
        outcome = cluster.collective(C.ALL_REDUCE, [np.ones(4096, np.float32)] * 4)
        for memory in outcome.statistics["memories"]:
            # And the completion word.
            assert memory["read_beats"] * TINY.beat_bytes == 4096 * 4
            assert memory["write_bytes"] == 4096 * 4 + 8
        # Each rank sends 3 of 4 shards in each of two rounds, half of them in each direction.
        assert {link["payload_bytes"] for link in outcome.statistics["links"]} == {4096 * 4 * 3 // 4}


def test_communicators_work_at_the_same_time(seed):
    rng = np.random.default_rng(seed)
    communicators = [Communicator((0, 1), Share(0, 2, 0, 4)), Communicator((1,), Share(2, 2, 4, 4))]
    with _cluster((2, 3), communicators=communicators) as cluster:
        assert cluster.groups(0) == [[0, 1, 2, 3, 4, 5]] and cluster.groups(1) == [[0, 1, 2], [3, 4, 5]]
        _compare(cluster, C.ALL_REDUCE, rng, count=300, dtype=DType.INT32, communicator=1)
        inputs = [np.full(2000, rank + 1, np.int32) for rank in range(6)]
        whole, rows = cluster.wait(cluster.submit(C.ALL_REDUCE, inputs),
                                   cluster.submit(C.ALL_REDUCE, inputs, communicator=1, queue=1))
        alone = cluster.collective(C.ALL_REDUCE, inputs)
    assert all((output == 21).all() for output in whole.outputs)
    assert [set(output) for output in rows.outputs] == [{6}] * 3 + [{15}] * 3
    assert max(whole.cycles, rows.cycles) < 2 * alone.cycles


def test_same_seed_same_cycles(seed):
    def outcome(**options):
        with _cluster((2, 2), link=Link(latency=11, stall=0.1), memory=Memory(jitter=20), **options) as cluster:
            made = cluster.collective(C.ALL_TO_ALL, [np.arange(800, dtype=np.int32)] * 4)
            return made.ended, made.statistics

    assert outcome(seed=seed) == outcome(seed=seed) == outcome(seed=seed, threads=2) != outcome(seed=seed + 1)


@pytest.mark.parametrize(("write", "status"), [(False, Status.READ_ERROR), (True, Status.WRITE_ERROR)],
                         ids=["read", "write"])
def test_a_memory_error_is_reported(write, status):
    with _cluster((2,)) as cluster:
        (cluster.fail_write if write else cluster.fail_read)(1)
        with pytest.raises(CollectiveFailed, match=rf"^ALL_GATHER failed: .*{status.name} at rank 1") as caught:
            cluster.collective(C.ALL_GATHER, [np.ones(100, np.int8)] * 2, limit=20_000)
        assert caught.value.statuses[1] == status
        assert cluster.completion(1).failed == 1
        faults = recover(cluster)
        assert [str(fault) for fault in faults] == [
            f"{status.name} at rank 1 of communicator 0: chunk 0, phase 0, step 0"] * 2
        outcome = cluster.collective(C.ALL_GATHER, [np.full(100, rank + 1, np.int8) for rank in range(2)])
        assert all((output.reshape(2, 100) == [[1], [2]]).all() for output in outcome.outputs)


def test_a_completion_word_that_cannot_be_written_is_reported():
    with _cluster((2,)) as cluster:
        cluster.fail_write(1)
        with pytest.raises(CollectiveFailed) as caught:
            cluster.collective(C.BARRIER, limit=20_000)
        assert caught.value.statuses == [Status.OK, Status.COMPLETION_ERROR]
        cluster.clear()
        cluster.run(1000)
        cluster.collective(C.BARRIER)


@pytest.mark.parametrize(("one_shot", "waits"), [(0, "data"), (100, "a GRANT")])
def test_waiting_endpoints_are_reported(one_shot, waits):
    with _cluster((3,), one_shot=one_shot) as cluster:
        with pytest.raises(ClusterFailed) as caught:
            cluster.collective(C.ALL_REDUCE, [np.ones(100, np.int8)] * 3, delay=[0, 1_000_000, 0], limit=3000)
        first, *lines = str(caught.value).splitlines()
        assert first == "ALL_REDUCE had not ended everywhere after 3,000 cycles."
        # Rank 1 has granted nothing and sent nothing; rank 2 has sent, and goes both ways in a one-shot all-reduce.
        assert "  rank 0, FSM 0 waits for a GRANT from rank 1: communicator 0, chunk 0, phase 0, step 0; " \
               "1 receives done" in lines
        assert any(line.startswith(f"  rank 2, FSM 0 waits for {waits} from rank 1: ") for line in lines)
        assert "  rank 0, queue 0 has 0 commands waiting, 1 in progress" in lines
        assert not any(line.startswith("  rank 1") for line in lines)


@pytest.mark.parametrize("where", [-1, 400])
def test_bytes_beside_the_receive_buffer_are_checked(where):
    with _cluster((2,)) as cluster:
        pending = cluster.submit(C.ALL_REDUCE, [np.ones(100, np.int32)] * 2)
        address = pending.placements[1].dst.address + where
        cluster.write_memory(1, address, b"?")
        with pytest.raises(ClusterFailed, match=rf"^Memory of rank 1 changed at {address:#x}, which is no part of its "
                                                r"receive buffer\.$"):
            cluster.wait(pending)


@pytest.mark.parametrize(("collective", "inputs", "options", "sentence"), [
    (C.ALL_REDUCE, [np.ones(4, np.int8)], {}, "There must be an array for each of 2 ranks, not 1."),
    (C.ALL_REDUCE, [np.ones(4)] * 2, {}, "Arrays of float64 have no DType."),
    (C.ALL_REDUCE, [np.ones(4, np.int8)] * 2, {"dtype": DType.FP16},
     "Arrays must be of one type with elements as large as FP16, not int8."),
    (C.ALL_TO_ALL, [np.ones(5, np.int8)] * 2, {}, "A send buffer of ALL_TO_ALL must have 4 elements, not 5."),
    (C.REDUCE, [np.ones(4, np.int8)] * 2, {}, "REDUCE needs a root."),
    (C.ALL_REDUCE, [np.ones(4, np.int8)] * 2, {"root": 0}, "ALL_REDUCE has no root."),
    (C.ALL_TO_ALL, [np.ones(4, np.int8)] * 2, {"in_place": True}, "ALL_TO_ALL cannot be done in place."),
])
def test_wrong_options(collective, inputs, options, sentence):
    with _cluster((2,)) as cluster, pytest.raises(UserError) as caught:
        cluster.submit(collective, inputs, **options)
    assert str(caught.value) == sentence


def test_a_collective_without_program_is_reported():
    with _cluster((2, 2, 2), communicators=[Communicator((0, 1, 2), Share(0, 4, 0, 8))]) as cluster:
        left_out, = cluster.left_out
        for collective in set(left_out) & set(Collective):
            with pytest.raises(UserError, match=rf"^Communicator 0 has no program for {collective.name}: "):
                cluster.submit(collective, [np.ones(8, np.int8)] * 8)
