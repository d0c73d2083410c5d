# SPDX-License-Identifier: Apache-2.0
"""The C++ harness: it detects errors, and its results are reproducible."""

import pytest

from hw.dma_engine.config import TINY
from sim.cpp import Flow, HarnessFailed, Target, build_harness
from tests.harness.fast import fast


@pytest.fixture
def harness():
    return fast(TINY)


def _without_time(result):
    return {name: value for name, value in result.items() if "second" not in name}


@pytest.mark.rtl
@pytest.mark.parametrize("memory", [
    {}, {"stall": 0.3}, {"out_of_order": True, "jitter": 60}, {"out_of_order": True, "jitter": 25, "stall": 0.1},
], ids=["plain", "stalls", "out of order", "both"])
@pytest.mark.parametrize("size", [1, 64, 200, 5000])
def test_copies_arrive(harness, memory, size, seed):
    flow = Flow(count=4, size=size, depth=6, burst=2, random_shift=TINY.beat_bytes, requests=40)
    result = harness.run([flow], [Target(read_latency=30, write_latency=20)], seed=seed, **memory)
    assert result["checked"] == {"requests": 160, "bytes": 160 * size, "wrong_bytes": 0}


@pytest.mark.long
@pytest.mark.rtl
def test_no_rule_of_a_bus_is_broken(seed):
    harness = build_harness(TINY, checked=True)
    flows = [Flow(count=2, size=300, depth=6, random_shift=TINY.beat_bytes, requests=60),
             Flow(first=2, count=2, size=24, depth=8, random_shift=TINY.beat_bytes, requests=200)]
    result = harness.run(flows, seed=seed, stall=0.2, out_of_order=True, jitter=40)
    assert result["checked"]["requests"] == 520


@pytest.mark.rtl
def test_a_wrong_bit_is_found(harness):
    with pytest.raises(HarnessFailed, match=r"^The engine is wrong under the fast harness: "
                                            r"1 bytes are wrong \(queue 0, request 1\)\.\n"):
        harness.run([Flow(requests=3, depth=3, size=128)], plant=20)


@pytest.mark.rtl
def test_refused_words_are_reported(harness):
    with pytest.raises(HarnessFailed, match=r"[SR]C of queue 0 reports status 3"):
        harness.run([Flow(depth=100, size=1024, requests=100)])


@pytest.mark.rtl
def test_requests_that_do_not_end_are_reported(harness):
    with pytest.raises(HarnessFailed, match="Not all requests completed within 50 cycles"):
        harness.run([Flow(requests=1)], limit=50)


@pytest.mark.rtl
@pytest.mark.parametrize(("flows", "sentence"), [
    ([Flow(count=9)], "A flow names a queue that there is not."),
    ([Flow(), Flow()], "Two flows use the same queue."),
    ([Flow(size=0)], "A flow needs a count, a size, a depth and a burst of at least 1."),
    ([Flow(destination=1)], "A flow names a target that there is not."),
    ([], "There is no flow."),
], ids=["queue", "twice", "size", "target", "none"])
def test_wrong_flows_are_reported(harness, flows, sentence):
    with pytest.raises(HarnessFailed) as caught:
        harness.run(flows)
    assert str(caught.value) == f"The fast harness stopped: {sentence}"


@pytest.mark.rtl
def test_same_seed_same_numbers(harness):
    options = {"window": 3000, "warmup": 500, "stall": 0.1, "jitter": 20, "out_of_order": True}
    flows = [Flow(count=4, size=100, depth=8, random_shift=TINY.beat_bytes)]
    first, again = (harness.run(flows, seed=5, **options) for _ in range(2))
    assert _without_time(first) == _without_time(again)
    assert _without_time(first) != _without_time(harness.run(flows, seed=6, **options))


@pytest.mark.rtl
def test_is_not_built_twice(harness):
    again = build_harness(TINY)
    assert again.program.reused and again.program.path == harness.program.path


@pytest.mark.rtl
@pytest.mark.parametrize(("read", "write"), [(20, 20), (20, 90), (90, 20)])
def test_latencies_are_those_of_the_memory(harness, read, write):
    """The engine's own latency does not depend on the memory's."""
    request, = harness.run([Flow(requests=1)], [Target(read_latency=read, write_latency=write)])["requests"]
    base, = harness.run([Flow(requests=1)], [Target(read_latency=10, write_latency=10)])["requests"]
    assert request["to_done"] - base["to_done"] == read + write - 20
    assert request["to_read"] == base["to_read"]


@pytest.mark.rtl
def test_a_slow_target_has_its_bandwidth(harness):
    slow = Target(read_latency=20, write_latency=20, read_rate=0.05, write_rate=0.05)
    result = harness.run([Flow(count=4, size=64, depth=8)], [slow], warmup=4000, window=40000)
    # Completion words go to the same target, but are few.
    assert result["window"]["payload_beats"] / 40000 == pytest.approx(0.048, abs=0.003)
