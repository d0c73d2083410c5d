# SPDX-License-Identifier: Apache-2.0
"""Rank order: its programs in the machine, and its sums in the model and in RTL, for tensors fused and split in
different ways."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from hw.ace.config import TINY
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType
from hw.ace.programs.schedule import assemble, plan, role_of
from hw.ace.words import Collective, Ordered, SendWord
from hw.errors import UserError
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link
from sim.ace.shared_library import build_library
from tests.ace.programs.random_programs import check, count_for
from tests.ace.programs.test_schedule import LINES, _name

C = Collective


@pytest.mark.parametrize("collective", Ordered, ids=_name)
@pytest.mark.parametrize("shape", [*LINES, (8,), (16,)], ids=_name)
def test_programs(shape, collective, seed, soak):
    rng = np.random.default_rng([seed, *shape, collective])
    config = replace(TINY, chunk_bytes=1024)
    for _ in range(50 if soak else 4):
        dtype = DType(rng.choice([DType.FP32, DType.BF16]))
        widen = dtype == DType.BF16 and bool(rng.integers(2))
        check(rng, collective, shape, config, dtype=dtype, widen=widen, both=bool(rng.integers(2)),
              count=count_for(rng, collective, shape, dtype, 64))


@pytest.mark.parametrize("collective", Ordered, ids=_name)
def test_machine_finds_faults(collective, seed):
    """A rank that forwards sums before its own part is added."""
    def too_soon(words):
        found = [at for at, word in enumerate(words) if at > 2 and SendWord.unpack(word).need == 1
                 and SendWord.unpack(word).reduce]
        return tuple(SendWord.unpack(word)._replace(need=0).pack() if at in found else word
                     for at, word in enumerate(words))

    rng = np.random.default_rng(seed)
    with pytest.raises(AssertionError):
        for _ in range(40):
            check(rng, collective, (4,), TINY, dtype=DType.FP32, count=400, spoil=too_soon)


def test_what_is_sent():
    """Every byte once over each link and direction."""
    programs = [plan(Ordered.ALL_REDUCE, (5,), (1,), (rank,)) for rank in range(5)]
    assert [[len(phase.sends) for phase in one.phases] for one in programs] == [[1, 0], *[[1, 1]] * 3, [0, 1]]
    assert {phase.port for one in programs for phase in one.phases} == {2, 3}
    assert all(one.positions == 1 for one in programs)


def test_roles():
    assert [role_of(Ordered.REDUCE, rank, 2, 5, up=True) for rank in range(5)] == [2, 2, 0, 1, 1]


def test_torus_is_left_out():
    made = assemble(TINY, (4, 1, 2), (0, 1, 2), (0, 0, 0))
    assert {made.left_out[collective] for collective in Ordered} == {
        "Rank order needs a line of links from rank to rank, but a communicator of 4x1x2 ranks has more than one "
        "dimension"}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_model_adds_from_rank_0_on(dtype, seed):
    rng = np.random.default_rng(seed)
    kind = DType.FP32 if dtype == np.float32 else DType.FP16
    values = rng.standard_normal((7, 210)).astype(dtype)
    want = values[0].copy()
    for one in values[1:]:
        want = (want + one).astype(dtype)
    inputs = list(values.view(np.dtype(f"u{values.itemsize}")))
    what = {"dtype": kind, "ordered": True}
    for got in results(C.ALL_REDUCE, (7,), inputs, count=210, **what):
        assert np.array_equal(got.view(dtype), want)
    got = results(C.REDUCE_SCATTER, (7,), inputs, count=30, **what)
    assert np.array_equal(np.concatenate(got).view(dtype), want)
    got = results(C.REDUCE, (7,), inputs, count=210, root=(3,), **what)
    assert [one is None for one in got] == [True] * 3 + [False] + [True] * 3
    assert np.array_equal(got[3].view(dtype), want)


def _gradients(rng, ranks, dtype):
    """Seven layers' gradients of each rank, of awkward sizes."""
    values = np.ldexp(rng.standard_normal((ranks, 4111)), rng.integers(-6, 6, (ranks, 4111))).astype(np.float32)
    bits = values.view(np.uint32) if dtype == DType.FP32 else (values.view(np.uint32) >> 16).astype(np.uint16)
    return np.split(bits, [1, 130, 131, 1000, 2222, 4000], axis=1)


@cache
def _library():
    return build_library(TINY)


@pytest.mark.rtl
@pytest.mark.parametrize("dtype", [DType.FP32, DType.BF16])
def test_fused_split_and_moved(dtype, seed):
    """Seven tensors, reduced separately, fused in one buffer, and that buffer split elsewhere: the same bits."""
    rng = np.random.default_rng([seed, int(dtype)])
    with Cluster(TINY, (5,), library=_library(), link=Link(latency=9)) as cluster:
        layers = _gradients(rng, cluster.size, dtype)
        fused = np.concatenate(layers, axis=1)

        def reduced(tensors, **options):
            """Rank 0's results, concatenated; two collectives at a time."""
            found = []
            for first in range(0, len(tensors), 2):
                found += cluster.wait(*(cluster.submit(C.ALL_REDUCE, list(one), dtype=dtype, **options)
                                        for one in tensors[first:first + 2]))
            for outcome in found:
                assert all(np.array_equal(outcome.outputs[0], other) for other in outcome.outputs)
            return np.concatenate([outcome.outputs[0] for outcome in found])

        cuts = sorted(map(int, rng.choice(np.arange(1, 4111), 6, replace=False)))
        elsewhere = [fused[:, start:end] for start, end in pairwise([0, *cuts, 4111])]
        whole = reduced([fused], ordered=True)
        assert np.array_equal(whole, results(C.ALL_REDUCE, (5,), list(fused), dtype=dtype, count=4111, ordered=True)[0])
        for tensors in (layers, elsewhere):
            skews = [int(one) for one in rng.integers(0, 60, cluster.size)]
            assert np.array_equal(reduced(tensors, ordered=True, src_skew=skews, dst_skew=skews[::-1]), whole)
        # Without rank order, the order of additions depends on the index in the buffer.
        assert (reduced(layers) != reduced([fused])).any()


@pytest.mark.rtl
def test_collectives_without_rank_order_are_reported():
    with Cluster(TINY, (2, 2), library=_library()) as cluster:
        inputs = [np.ones(4, np.float32)] * 4
        with pytest.raises(UserError, match=r"^Communicator 0 has no program for ALL_REDUCE in rank order: Rank"):
            cluster.submit(C.ALL_REDUCE, inputs, ordered=True)
        with pytest.raises(UserError, match=r"^ALL_GATHER combines nothing, so it has no rank order\.$"):
            cluster.submit(C.ALL_GATHER, inputs, ordered=True)
