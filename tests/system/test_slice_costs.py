# SPDX-License-Identifier: Apache-2.0
"""Puts with costs in cycles, against times on paper and the tables of docs/endpoint.md."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hw.endpoint.config import TINY, WIDE
from hw.errors import UserError
from sim.system import EndpointKind, LinkConfig, Machine, MachineConfig, Npu
from sim.system.slice_costs import DMA_ENGINES, SliceCosts, costs_of, trigger_costs

HZ = 1e9
TABLE = re.compile(r"^\| ([\d,]+) \| (0\.\d+) \| 0\.\d+ \| ([\d,]+)(?: \| [\d,]+){5} \|$", re.MULTILINE)
PLAIN = SliceCosts()


def machine(*shape, rate=8.0, latency=20, memory=50, fold=False, **changes):
    """Like the RTL of ``tiny``: 64 bits, a nominal clock of 1 GHz."""
    return Machine(MachineConfig(**{
        "shape": shape, "endpoint": EndpointKind(name="rtl", engine="sram"), "message_bytes": 256,
        "links": LinkConfig(bytes_per_s=rate * HZ, latency_s=latency / HZ), "beat_bytes": 8, "clock_hz": HZ,
        "whole_packets": True, "fold": fold,
        "npu": Npu(memory_latency_s=memory / HZ, bus_bytes_per_s=8 * HZ), **changes}))


def ideal(**changes):
    return machine(2, **{"endpoint": "ideal", "memory": 0, "latency": 0, "header_bytes": 0, **changes})


def put(simulated, size, costs, *, count=1, target=1):
    """Cycles until the last put is counted, and until its flag is there."""
    counted, seen = [], []
    for _ in range(count):
        simulated.put(0, target, size, engine=costs, counted=lambda: counted.append(simulated.now * HZ),
                      done=lambda time: seen.append(time * HZ))
    simulated.run()
    assert len(counted) == len(seen) == count
    return round(max(counted), 6), round(max(seen), 6)


def _measured():
    text = (Path(__file__).parents[2] / "docs" / "endpoint.md").read_text(encoding="utf-8")
    rows = [(int(size.replace(",", "")), float(share), int(there.replace(",", "")))
            for size, share, there in TABLE.findall(text)]
    assert len(rows) == 8
    return [row for row in rows if row[0] <= 65536]


@pytest.mark.parametrize("size, share, there", _measured())
def test_puts_of_the_rtl(size, share, there):
    """Single puts take exactly as long as in RTL; consecutive ones have the same share of the link within 1.5 %."""
    # The table's puts are posted by a doorbell.
    costs = replace(trigger_costs(TINY), tick_cycles=0)
    counted, seen = put(machine(2), size, costs)
    assert counted == there
    assert seen == counted + costs.notify_cycles + 50
    count = max(1, (1 << 18 if size >= 256 else 1 << 16) // size)
    assert count * size / put(machine(2), size, costs, count=count)[0] / 8 == pytest.approx(share, rel=0.015)


def test_each_cost_adds_its_cycles():
    base = put(ideal(), 256, PLAIN)
    assert base == (32, 32)
    for name in ("tick_cycles", "request_cycles"):
        assert put(ideal(), 256, replace(PLAIN, **{name: 100})) == (132, 132)
    for name in ("notify_cycles", "poll_cycles"):
        assert put(ideal(), 256, replace(PLAIN, **{name: 100})) == (32, 132)
    assert put(ideal(), 256, replace(PLAIN, beat_cycles=2)) == (32 + 2 * 32, 32 + 2 * 32)
    assert put(ideal(), 256, replace(PLAIN, post_s=1e-6, complete_s=2e-6)) == (1032, 3032)
    slow = machine(2, endpoint="ideal", memory=70, latency=0, header_bytes=0)
    assert put(slow, 256, replace(PLAIN, from_memory=True)) == (70 + 32 + 70, 70 + 32 + 70 + 70)


def test_occupancy_of_the_engine():
    """Ten requests: the link takes 32 cycles for each, the engine 50; or one after the other."""
    assert put(ideal(), 256, PLAIN, count=10)[1] == 320
    assert put(ideal(), 256, replace(PLAIN, interval_cycles=50), count=10)[1] == 9 * 50 + 32
    for segment in (None, 64):
        costs = replace(PLAIN, engine_cycles=50, segment_bytes=segment)
        assert put(ideal(), 256, costs, count=10)[1] == 10 * 50 + 32
    assert put(ideal(), 256, replace(PLAIN, serial=True, post_s=1e-7), count=10)[1] == 10 * 132


def test_segments_in_flight():
    """With a link that takes no time, 256 bytes are in flight for the acknowledgement's cycles."""
    costs = replace(PLAIN, segment_bytes=256, acknowledge_cycles=100)
    fast = {"rate": 1e9}
    assert put(ideal(**fast), 2560, costs)[0] < 1
    for limits in ({"in_flight": 1}, {"window": 1}):
        assert put(ideal(**fast), 2560, replace(costs, **limits))[0] == pytest.approx(9 * 100, abs=1)
    assert put(ideal(**fast), 2560, replace(costs, in_flight=2))[0] == pytest.approx(4 * 100, abs=1)
    # Eight segments of 64 bytes are two packets of a segment each.
    assert put(ideal(**fast), 64, replace(costs, in_flight=1), count=4)[0] == pytest.approx(3 * 100, abs=1)


def test_segments_retire_in_order():
    """A put over a link of 1,000 cycles, then local ones: the first of these completes at once, the others wait for the
    link's, and then are read together."""
    simulated, ends = ideal(latency=1000, rate=1e9), []
    costs = replace(PLAIN, segment_bytes=256, window=2, acknowledge_cycles=500)
    for target in (1, 0, 0, 0):
        simulated.put(0, target, 256, engine=costs, counted=lambda: ends.append(simulated.now * HZ))
    simulated.run()
    assert sorted(ends) == pytest.approx([0, 1000, 2500, 2500], abs=1)


def test_buffer():
    """256 bytes of the buffer are in use for a read of 100 cycles, 32 beats and 10 more."""
    costs = replace(PLAIN, segment_bytes=256, buffer_bytes=256, buffer_cycles=10, from_memory=True)
    assert put(ideal(rate=1e9, memory=100), 2560, costs)[0] == pytest.approx(9 * 110 + 2 * 100, abs=1)
    simulated = machine(2, rate=1e9, memory=100)
    assert put(simulated, 2560, costs)[0] == pytest.approx(9 * 142 + 7 + 132 + 20 + 32 + 100, abs=1)


def test_acknowledgements_take_the_other_direction_of_the_link():
    simulated = machine(2)
    put(simulated, 4096, trigger_costs(TINY))
    wire = {(link["rank"], link["port"]): (link["payload_bytes"], link["wire_bytes"])
            for link in simulated.statistics()["links"]}
    assert wire == {(0, 0): (4096, 4096 + 16 * 16), (1, 1): (0, 16 * 16), (0, 1): (0, 0), (1, 0): (0, 0)}


def test_queues_share_the_reads():
    """Two ports, of which one queue fills one after the other: the second link is idle until the first has its data.
    Two queues keep both busy."""
    def cycles(queues):
        simulated, ends = machine(4, rate=2.0, latency=100), []
        for target in (1, 3):
            simulated.put(0, target, 16384, engine=trigger_costs(TINY, queues=queues),
                          counted=lambda: ends.append(simulated.now * HZ))
        simulated.run()
        return max(ends)

    wire = 64 * 272 / 2
    assert wire < cycles(2) < 1.1 * wire + 500
    assert 1.7 * wire < cycles(1)


@pytest.mark.parametrize("costs", [trigger_costs(TINY), trigger_costs(TINY, queues=2), DMA_ENGINES["triggers"]])
def test_one_rank_represents_all(costs):
    """A folded machine, and every rank of a machine that is not: to the picosecond."""
    def ends(fold):
        simulated, found = machine(4, rate=2.0, fold=fold), []
        for rank in range(1 if fold else 4):
            for target in (1, 2, 3, 0, 1, 3):
                simulated.put(rank, (rank + target) % 4, 3000, engine=costs, done=lambda _: found.append(
                    simulated.kernel.now))
        simulated.run()
        return sorted(set(found)), len(found)

    (folded, count), (all_ranks, times) = ends(True), ends(False)
    assert folded == all_ranks and times == 4 * count == 24


def test_local_puts_cross_no_link():
    simulated = machine(2)
    counted, _ = put(simulated, 4096, trigger_costs(TINY), target=0)
    assert counted > 4096 / 8 + 100
    assert not any(link["wire_bytes"] for link in simulated.statistics()["links"])


def test_sizes_of_a_preset():
    costs = trigger_costs(WIDE)
    assert (costs.segment_bytes, costs.in_flight, costs.buffer_bytes) == (4096, 1024, 65536)
    assert DMA_ENGINES["triggers"] == costs and costs_of("triggers") is DMA_ENGINES["triggers"]
    assert costs_of(costs) is costs


def test_costs_without():
    costs = trigger_costs(TINY)
    free = costs.without_latency().without_occupancy()
    assert free == replace(PLAIN, acknowledge_cycles=free.acknowledge_cycles, queues=1, window=free.window,
                           in_flight=free.in_flight, buffer_bytes=free.buffer_bytes, port_packets=free.port_packets,
                           buffer_cycles=free.buffer_cycles, source=free.source)
    assert put(ideal(), 256, free) == put(ideal(), 256, PLAIN)
    assert DMA_ENGINES["software"].without_latency().post_s == DMA_ENGINES["software"].post_s
    assert DMA_ENGINES["software"].without_occupancy().without_latency().post_s == 0


@pytest.mark.parametrize("values, sentence", [
    ({"post_s": -1.0}, r"post_s of a slice must be 0 or more, not -1\.0\."),
    ({"tick_cycles": float("nan")}, r"tick_cycles of a slice must be 0 or more, not nan\."),
    ({"notify_cycles": "3"}, r"notify_cycles of a slice must be 0 or more, not '3'\."),
    ({"in_flight": 0}, r"in_flight of a slice must be an integer from 1, not 0\."),
    ({"queues": 1.5}, r"queues of a slice must be an integer from 1, not 1\.5\."),
    ({"segment_bytes": 512, "buffer_bytes": 256}, r"buffer_bytes of a slice must hold a segment of 512 bytes, "
     r"not 256\."),
])
def test_wrong_values(values, sentence):
    with pytest.raises(UserError) as caught:
        SliceCosts(**values)
    assert re.fullmatch(sentence, str(caught.value))
    with pytest.raises(UserError, match=r"^the engine must be one of cpu, software, hardware, triggers, not 'dpu'\.$"):
        costs_of("dpu")
