# SPDX-License-Identifier: Apache-2.0
"""Fused operations on endpoints in RTL: all bytes with every method, overlap, order of all-reduces, and what fails."""

from dataclasses import replace

import pytest

from hw.errors import UserError
from sim.ace.endpoints import Link, Memory
from sim.ace.shared_library import ClusterFailed
from sim.fused.bench import Bench
from sim.fused.exchange import Exchange
from sim.fused.operations import Sizes, make
from sim.fused.reduction import SlicedReduction
from sim.fused.run import run
from sim.fused.setup import Method, Setup, Thread
from sim.fused.transport import Transport

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SETUP = Setup(link=Link(latency=10), memory=Memory(read_latency=20, write_latency=20), compute=60, wait_period=1,
              workgroups=2, thread=Thread(period=5, latency=0, gap=1))


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize(("name", "element", "ranks", "slices"), [
    ("embedding", "int32", 2, 5), ("embedding", "fp32", 4, 3), ("gemm", "int32", 3, 2), ("gemm", "fp32", 4, 4)])
def test_all_to_all(name, element, ranks, slices, method, seed):
    """Each run checks all bytes; slices of 200 bytes are not aligned to packets."""
    sizes = Sizes(ranks=ranks, slices=slices, tasks=5, slice_bytes=200, element=element)
    operation = make(name, sizes, seed=seed)
    receipts = "signal" if element == "fp32" else "counter"
    made = run(operation, replace(SETUP, receipts=receipts, seed=seed), method, limit=100_000)
    assert all(len(seen) == (0 if method == Method.COMPUTE else slices * (ranks - 1)) for seen in made.seen)
    assert made.cycles >= made.computed


@pytest.mark.parametrize("method", [method for method in Method if method != Method.LAST])
@pytest.mark.parametrize(("element", "ranks"), [("int32", 2), ("fp32", 4)])
def test_all_reduce(element, ranks, method, seed):
    operation = make("gemv", Sizes(ranks=ranks, slices=4, tasks=3, slice_bytes=504, element=element), seed=seed)
    run(operation, replace(SETUP, seed=seed), method, limit=100_000)


@pytest.mark.parametrize("method", [Method.LAST, Method.POLLED, Method.UNFUSED])
def test_more_slices_than_credits(method):
    """Slices that are posted in any order never leave the queue full of requests without a completion word."""
    operation = make("embedding", Sizes(ranks=2, slices=48, tasks=2, slice_bytes=512))
    run(operation, replace(SETUP, receipts="signal", workgroups=8, compute=10), method, limit=100_000)


def test_memories_and_links_that_stall(seed):
    setup = replace(SETUP, link=Link(latency=5, bytes_per_cycle=5, stall=0.1), seed=seed,
                    memory=Memory(read_latency=20, write_latency=30, jitter=15, out_of_order=True, stall=0.1))
    for name in ("embedding", "gemv"):
        operation = make(name, Sizes(ranks=4, slices=4, tasks=3, slice_bytes=504), seed=seed)
        run(operation, setup, Method.TRIGGERS, limit=200_000)


def test_communication_is_hidden_behind_computation():
    """With computation as long as communication, fusion saves nearly half; more slices save more."""
    bench = Bench(name="embedding", ranks=2, target_bytes=16384, tasks=64, setup=SETUP).balanced(1.0, 16)
    rows = list(bench.sweep([1, 16], [Method.TRIGGERS, Method.UNFUSED], lambda _: None))
    for row in rows:
        assert row["bound"] <= row["triggers"] < row["unfused"]
    assert rows[1]["triggers"] < rows[0]["triggers"]
    assert rows[1]["unfused"] >= rows[1]["compute"] + rows[1]["communication"] - 200
    orders = {row["order"]: row for row in bench.orders(16, lambda _: None)}
    assert orders["remote-first"]["cycles"] < orders["remote-last"]["cycles"]
    assert orders["by-rank"]["skew"] > orders["remote-first"]["skew"]


def test_causes_and_path():
    bench = Bench(name="embedding", ranks=2, target_bytes=4096, tasks=16, setup=replace(SETUP, wait_period=64))
    bench = bench.balanced(1.0, 4)
    whole, *causes = bench.causes(4, lambda _: None)
    assert whole["excess"] == whole["fused"] - max(whole["compute"], whole["communication"]) > 0
    assert whole["first"] > bench.setup.compute and whole["tail"] >= 0
    assert [cause["cause"] for cause in causes] == ["first slice", "latencies", "poll of flags", "ticks"]
    for cause in causes:
        assert cause["cycles"] == whole["excess"] - cause["excess"]
    assert causes[-1]["remaining"] < whole["excess"]
    first, whole = (run(bench.operation(4), replace(bench.setup, first_compute=compute), Method.COMPUTE).cycles
                    for compute in (0, None))
    assert first == whole
    near, far = (bench.with_(memory=Memory(read_latency=latency, write_latency=20)).path(512, lambda _: None)
                 for latency in (20, 50))
    assert near["read"] == far["read"] and near["packet"] + 30 == far["packet"] < far["seen"]


def test_slices_of_an_all_reduce_keep_their_order(monkeypatch):
    """Ranks whose slices are complete in different orders post the same commands in the same order."""
    computed = Transport._tasks

    def unequal(self, rank, position, count, target, number):
        return [replace(task, compute=700 if position % 4 == rank else 10)
                for task in computed(self, rank, position, count, target, number)]

    monkeypatch.setattr(Transport, "_tasks", unequal)
    operation = make("gemv", Sizes(ranks=4, slices=8, tasks=2, slice_bytes=256))
    for method in (Method.TRIGGERS, Method.POLLED):
        run(operation, replace(SETUP, workgroups=16), method, limit=100_000)


@pytest.mark.parametrize("method", [Method.TRIGGERS, Method.LAST, Method.POLLED])
def test_no_slice_leaves_before_its_last_part(method):
    """Parts are complete 1,000 cycles after each other."""
    setup = replace(SETUP, workgroups=1, compute=1000)
    for name in ("embedding", "gemv")[:2 if method != Method.LAST else 1]:
        operation = make(name, Sizes(ranks=2, slices=2, tasks=3, slice_bytes=192))
        run(operation, setup, method, limit=100_000)


def test_a_wrong_slice_is_named(monkeypatch):
    operation = make("embedding", Sizes(ranks=2, slices=3, tasks=2, slice_bytes=64))
    operation.parts[1, 0, 2, 1, 5] ^= 1
    with pytest.raises(ClusterFailed, match=r"^Slice 2 of rank 1 is wrong at rank 0\.$"):
        run(operation, SETUP, Method.TRIGGERS)
    operation = make("gemv", Sizes(ranks=2, slices=3, tasks=2, slice_bytes=64))
    operation.parts[1, 0, 1, 0, 0] ^= 1
    with pytest.raises(ClusterFailed, match=r"^Slice 1 of the sum is wrong at rank 0\.$"):
        run(operation, SETUP, Method.TRIGGERS)


def test_refused_ticks_and_missing_slices_are_reported(monkeypatch):
    operation = make("embedding", Sizes(ranks=2, slices=2, tasks=2, slice_bytes=64))
    tick = Exchange.tick
    monkeypatch.setattr(Exchange, "tick", lambda self, rank, target, number, value: tick(
        self, rank, target, number, value + rank))
    with pytest.raises(ClusterFailed, match=r"^Block 0 of rank 1 refused a store or firing of counter \d+: IDLE\.$"):
        run(operation, SETUP, Method.TRIGGERS, limit=20_000)
    monkeypatch.setattr(Exchange, "tick", lambda self, rank, target, number, value: None if number else tick(
        self, rank, target, number, value))
    with pytest.raises(ClusterFailed, match=r"^The operation has not ended within 5,000 cycles\.\n"
                       r"  rank 0 waits for 1 of 2 slices\n  rank 1 waits for 1 of 2 slices\n"):
        run(operation, SETUP, Method.TRIGGERS, limit=5000)


def test_last_workgroups_do_not_post_collectives():
    operation = make("gemv", Sizes(ranks=2, slices=2, tasks=2, slice_bytes=64))
    with pytest.raises(UserError, match=r"^Workgroups that post themselves cannot keep the order of an all-reduce's "
                       r"slices on all ranks\.$"):
        run(operation, SETUP, Method.LAST)
    assert SlicedReduction.in_order and not Exchange.in_order
