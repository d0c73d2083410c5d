# SPDX-License-Identifier: Apache-2.0
"""Experts, tensor-parallel layers and DLRM, fused and not, against times on paper; causes of the remaining time."""

import re

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import LinkConfig, Machine, MachineConfig, Npu
from sim.system.attribution import CAUSES, attribute
from sim.system.dlrm_step import Dlrm
from sim.system.fused import kind_of, run
from sim.system.fused_operations import dlrm, embedding, moe, tp_gemm
from sim.system.moe import Moe
from sim.system.slice_costs import SliceCosts
from sim.system.slices import Fused, Fusion, hops, offset_from
from sim.system.workgroups import Workgroups

RATE = 25e9
FREE = SliceCosts()


def machine(*shape, latency=0.0, **changes):
    return MachineConfig(shape=shape, endpoint="ideal", links=LinkConfig(bytes_per_s=RATE, latency_s=latency),
                         **{"header_bytes": 0, **changes})


def experts(seconds, size, loads=()):
    return Moe(name="test", arithmetic=seconds, memory_bytes=0, output_bytes=size, dispatch_bytes=size,
               collective=Collective.ALL_TO_ALL, loads=loads)


def reduce_scatter(seconds, size):
    return Fused(name="test", arithmetic=seconds, memory_bytes=0, output_bytes=size,
                 collective=Collective.REDUCE_SCATTER)


# -- Experts


def test_experts_that_are_not_fused():
    """Two ranks: half of the tokens over a link, computation, and half of the results back."""
    found = run(experts(1e-3, 25_000_000), machine(2), engine=FREE)
    one_way = 12_500_000 / RATE
    assert found.seconds == pytest.approx(1e-3 + 2 * one_way, rel=2e-3)
    assert found.computed == pytest.approx(1e-3 + one_way, rel=2e-3)
    assert found.compute_seconds == pytest.approx(1e-3) and found.link_seconds == pytest.approx(2 * one_way)


@pytest.mark.parametrize("seconds, size", [(4e-3, 25_000_000), (1e-3, 50_000_000), (2e-3, 50_000_000)])
@pytest.mark.parametrize("order", ["remote-first", "remote-last", "by-rank"])
def test_fused_experts_approach_the_longer_one(seconds, size, order):
    """Computation, or tokens and results on the same link; the difference is a few slices."""
    operation, longer = experts(seconds, size), max(seconds, size / RATE)
    times = [run(operation, machine(2), slices=slices, order=order, engine=FREE).seconds for slices in (4, 64)]
    assert longer <= times[1] <= 1.05 * longer and times[1] <= times[0]


def test_bytes_of_experts():
    """Every rank sends three quarters of its tokens, and of its results."""
    for slices in (None, 3):
        operation, config = experts(1e-6, 1_200_000), machine(4)
        simulated = Machine(config)
        fusion = Fusion(fused=slices is not None, slices=slices or 1, engine=FREE)
        made = kind_of(operation)(operation, simulated, fusion)
        made.start()
        simulated.run()
        assert sum(link["payload_bytes"] for link in simulated.statistics()["links"]) == (
            2 * 300_000 * (1 + 2 + 1))                    # by the number of links that they cross


def test_uneven_experts():
    """The second expert has three quarters of the tokens: 1.5 times the mean of computation, and of what the first
    rank sends to it and gets from it. Its own link carries half a mean, and the results."""
    operation = experts(1e-3, 25_000_000, loads=(0.5, 1.5))
    alone = run(operation, machine(2), engine=FREE)
    assert alone.seconds == pytest.approx(1.5e-3 + 2 * 1.5 * 12_500_000 / RATE, rel=2e-3)
    assert alone.compute_seconds == pytest.approx(1.5e-3)
    assert alone.link_seconds == pytest.approx(2 * 12_500_000 / RATE)
    fused = run(operation, machine(2), slices=64, engine=FREE)
    assert 1.5e-3 <= fused.seconds < 1.05 * 1.5e-3


def test_an_expert_without_tokens():
    for slices in (None, 4):
        found = run(experts(1e-3, 25_000_000, loads=(0.0, 2.0)), machine(2), slices=slices, engine=FREE)
        assert found.compute_seconds == pytest.approx(2e-3) and found.seconds >= 2e-3


def test_results_return_to_the_ranks_of_their_tokens():
    """One expert, which computes for a millisecond for each rank in turn."""
    operation = experts(1e-3, 4000, loads=(4.0, 0.0, 0.0, 0.0))
    simulated = Machine(machine(4, fold=False))
    made = kind_of(operation)(operation, simulated, Fusion(order="by-rank", engine=FREE))
    made.start()
    simulated.run()
    assert made.done == pytest.approx({0: 4e-3, 1: 2e-3, 2: 3e-3, 3: 4e-3}, rel=1e-3)


def test_loads_of_equal_experts_change_nothing():
    equal, given = experts(1e-3, 10_000_000), experts(1e-3, 10_000_000, loads=(1.0,) * 4)
    for slices in (None, 4):
        assert run(given, machine(4), slices=slices) == run(equal, machine(4), slices=slices)


@pytest.mark.parametrize("values, sentence", [
    ({"loads": (1.0, 1.0)}, r"There must be a load for each of 4 experts, not 2\."),
    ({"loads": (0.5, 1.0)}, r"Loads of experts must be 0 or more, with a mean of 1, not \(0\.5, 1\.0\)\."),
])
def test_wrong_loads(values, sentence):
    with pytest.raises(UserError) as caught:
        run(experts(1e-3, 1000, **values), machine(4))
    assert re.fullmatch(sentence, str(caught.value))


# -- Tensor-parallel layers


def test_reduce_scatter_of_slices():
    """Eight ranks on a ring, of which each link direction carries 7/16 of the result."""
    size, seconds = 40_000_000, 1e-3
    link = 7 / 8 * size / (2 * RATE)
    alone = run(reduce_scatter(seconds, size), machine(8), engine=FREE)
    assert alone.seconds == pytest.approx(seconds + link, rel=0.02)
    assert alone.link_seconds == pytest.approx(link, rel=1e-3)
    for compute in (1e-4, 7e-4, 3e-3):
        fused = run(reduce_scatter(compute, size), machine(8), slices=32, engine=FREE).seconds
        assert max(compute, link) <= fused <= 1.06 * max(compute, link) + compute / 32


def test_work_of_the_layers():
    npu = Npu()
    one = tp_gemm(npu, 4, tokens=10, width=8, hidden=20, element=2)
    assert one.arithmetic == 2 * 10 * 8 * 5 / npu.flops and one.output_bytes == 10 * 8 * 2
    assert one.memory_bytes == 2 * (10 * (8 + 5) + 8 * 5)
    two = moe(npu, 3, tokens=10, width=8, hidden=20, experts=2, imbalance=0.5, element=2)
    assert two.arithmetic == 2 * 2 * 20 * 8 * 20 / npu.flops and two.dispatch_bytes == two.output_bytes == 20 * 8 * 2
    assert two.memory_bytes == 2 * (2 * 20 * (8 + 20) + 2 * 8 * 20)
    assert two.loads == (0.5, 1.0, 1.5) and moe(npu, 3).loads == ()
    step = dlrm(npu, 4, batch=5, tables=2, layers=7, hidden=9, bottom=3)
    table = embedding(npu, 4, batch=20, tables=2)
    assert (step.memory_bytes, step.output_bytes) == (table.memory_bytes, table.output_bytes)
    assert step.gradient_bytes == 9 * 10 * 4 and step.update_bytes == 3 * table.memory_bytes
    assert step.passes[2] == (2 * 5 * 81 / npu.flops, 4 * (45 + 81 + 45))


# -- DLRM


def step(**changes):
    """Embeddings of 1 ms, vectors that a link of two ranks carries for 1 ms, and layers of 0.1 ms in each pass."""
    return Dlrm(**{"name": "test", "arithmetic": 1e-3, "memory_bytes": 0, "output_bytes": round(2e-3 * RATE),
                   "collective": Collective.ALL_TO_ALL, "layers": 10, "bottom": 0, "training": False,
                   "passes": ((1e-4, 0),) * 3, "gradient_bytes": 250, "update_bytes": 0, **changes})


def test_inference():
    alone = run(step(), machine(2), engine=FREE)
    assert alone.phases == pytest.approx({"embedding": 1e-3, "exchange": 2e-3, "forward": 3e-3}, rel=2e-3)
    assert alone.seconds == alone.phases["forward"] and alone.compute_seconds == pytest.approx(2e-3)
    fused = run(step(), machine(2), slices=64, order="remote-last", engine=FREE)
    assert fused.phases["exchange"] == pytest.approx(1.5e-3, rel=0.02)
    assert fused.seconds == pytest.approx(2.5e-3, rel=0.02)
    first = run(step(), machine(2), slices=64, engine=FREE)
    assert first.phases["exchange"] == pytest.approx(1e-3, rel=0.03)


def test_bottom_layers_hide_a_part_of_the_exchange():
    for bottom in (4, 10):
        found = run(step(bottom=bottom), machine(2), engine=FREE)
        assert found.phases["exchange"] == pytest.approx(2e-3, rel=2e-3)
        assert found.seconds == pytest.approx(2e-3 + (10 - bottom) * 1e-4, rel=2e-3)


def test_training_step():
    """Backward: 10 layers of 0.2 ms, the exchange beside the bottom ones, the update, and short reductions."""
    config = machine(2, npu=Npu(memory_bytes_per_s=1e12, memory_latency_s=0))
    operation = step(training=True, bottom=3, update_bytes=5 * 10**8)
    found = run(operation, config, engine=FREE)
    forward = 2e-3 + 7e-4
    assert found.phases["forward"] == pytest.approx(forward, rel=2e-3)
    assert found.phases["backward"] == pytest.approx(forward + 14e-4, rel=2e-3)
    assert found.phases["update"] == pytest.approx(forward + 14e-4 + 1e-3 + 5e-4, rel=2e-3)
    assert found.seconds == found.phases["update"]
    late = run(step(training=True, gradient_bytes=2_500_000), config, engine=FREE)
    link = 10 * 2_500_000 / (2 * RATE) + 2e-3
    assert late.seconds == late.phases["reduction"] >= link and late.link_seconds == pytest.approx(link, rel=1e-3)


def test_update_waits_for_bottom_layers_and_exchange():
    config = machine(2, npu=Npu(memory_bytes_per_s=1e12, memory_latency_s=0))
    found = run(step(training=True, bottom=10, update_bytes=5 * 10**8), config, engine=FREE)
    assert found.phases["update"] == pytest.approx(2e-3 + 2e-3 + 5e-4, rel=2e-3)


def test_dlrm_by_rank_is_refused():
    with pytest.raises(UserError, match=r"^DLRM is simulated with slices in the order remote-first or remote-last, not "
                       r"by-rank\.$"):
        run(step(), machine(2), slices=2, order="by-rank")
    with pytest.raises(UserError, match=r"^operation\.bottom must be at most operation\.layers, 43, not 44\.$"):
        dlrm(Npu(), 2, bottom=44)
    with pytest.raises(UserError, match=r"^operation\.imbalance must be from 0 to 1, not 2\.$"):
        moe(Npu(), 2, imbalance=2)


# -- Causes


def test_causes_add_up_and_are_those_of_paper():
    """Remote last, and an exchange that is shorter than the computation: the last slice is exposed, and latencies."""
    operation = Fused(name="test", arithmetic=2e-3, memory_bytes=0, output_bytes=25_000_000,
                      collective=Collective.ALL_TO_ALL)
    costs = SliceCosts(post_s=3e-6, complete_s=4e-6)
    fusion = Fusion(slices=4, order="remote-last", engine=costs, per_slice=1e-5)
    found = attribute(operation, machine(2, latency=5e-6, header_bytes=16), fusion)
    assert list(found.shares) == list(CAUSES)
    assert sum(found.shares.values()) == pytest.approx(found.seconds - found.bound)
    assert found.compute == pytest.approx(2e-3) and found.communication == pytest.approx(
        12_500_000 / RATE, rel=1e-4)
    last = 12_500_000 / 4 / RATE
    assert found.shares["start"] == pytest.approx(12e-6, rel=1e-3)
    assert found.shares["per slice"] == pytest.approx(8 * 1e-5 + last / 16, rel=1e-3)
    assert found.shares["last slice"] == pytest.approx(last * 15 / 16, rel=5e-3)
    assert found.shares["remainder"] == pytest.approx(last / 16, rel=0.05) and found.shares["occupancy"] == 0


def test_causes_of_occupancy_and_of_one_at_a_time():
    operation = Fused(name="test", arithmetic=2e-3, memory_bytes=0, output_bytes=25_000_000,
                      collective=Collective.ALL_TO_ALL)
    groups = Workgroups(resident=8, tasks=112, lost=0.125)
    found = attribute(operation, machine(2), Fusion(slices=2, engine=FREE, workgroups=groups))
    assert found.shares["occupancy"] == pytest.approx(2e-3 / 7)
    costs = SliceCosts(serial=True, post_s=1e-5, complete_s=1e-5)
    found = attribute(operation, machine(2), Fusion(slices=256, order="remote-last", engine=costs))
    assert found.shares["per slice"] > 256 * 2e-5 - 1.2e-3
    assert found.seconds == pytest.approx(found.bound + sum(found.shares.values()))


def test_nothing_remains_where_all_is_hidden():
    operation = Fused(name="test", arithmetic=2e-3, memory_bytes=0, output_bytes=2_500_000,
                      collective=Collective.ALL_TO_ALL)
    found = attribute(operation, machine(4), Fusion(slices=4, engine=FREE))
    assert found.seconds == pytest.approx(found.bound)
    assert list(found.shares.values()) == pytest.approx([0.0] * 5, abs=1e-9)


# -- Routes of slices


def test_offsets_and_hops():
    simulated = Machine(machine(4, 3))
    for rank in range(12):
        for offset in range(12):
            there = offset_from(simulated, rank, offset)
            assert divmod(there, 3) == ((rank // 3 + offset // 3) % 4, (rank % 3 + offset % 3) % 3)
            assert offset_from(simulated, there, offset, -1) == rank
    assert hops((4, 3), (0, 0)) == []
    assert hops((4, 3), (2, 1)) == [(0, 1), (0, 1), (1, 1)]
    assert hops((4, 3), (3, 2)) == [(0, -1), (1, -1)]
    assert hops((5,), (3,)) == [(0, -1), (0, -1)]


@pytest.mark.parametrize("relay", [False, True])
def test_relayed_slices_cross_the_same_links(relay):
    operation = Fused(name="test", arithmetic=1e-6, memory_bytes=0, output_bytes=12_000,
                      collective=Collective.ALL_TO_ALL)
    simulated = Machine(machine(4, 3))
    made = kind_of(operation)(operation, simulated, Fusion(engine=FREE, relay=relay))
    made.start()
    simulated.run()
    sent = [link["payload_bytes"] for link in simulated.statistics()["links"]]
    # Hops from rank 0, by port: 0, 1, 2 up or 1 down of four ranks, three times; 1 up or 1 down of three, four times.
    assert sent == [3 * 3 * 1000, 3 * 1 * 1000, 4 * 1000, 4 * 1000]
