# SPDX-License-Identifier: Apache-2.0
"""The C++ model: counts of serial requests against an independent reference, hand cases and closed forms in cycles."""

import random
from dataclasses import replace
from functools import cache

import pytest

from sim.cache.config import CacheSizes, DramSizes, MachineConfig, Predictor, Units
from sim.cache.program import build_model
from sim.cache.run import ModelFailed, execute
from sim.cache.trace import Kernel
from tests.sim.cache.reference import Request, Serial

model = cache(build_model)

CACHED = {"loads": 1, "stores": 1}
POLICIES = [{"loads": 0, "stores": 0}, {"loads": 1, "stores": 0}, CACHED, {"loads": 0, "stores": 1},
            {**CACHED, "rinse": 1}, {**CACHED, "predict": 1},
            {**CACHED, "rinse": 1, "predict": 1, "allocation_bypass": 1}, {"regions": 1},
            {"regions": 1, "rinse": 1, "predict": 1}]


def small(**dram):
    """A machine in which a few lines suffice for every case."""
    return MachineConfig(cache=CacheSizes(sets=4, ways=2, banks=2, latency=5),
                         dram=DramSizes(channels=2, banks=4, row=512, interleave=128, high=96, low=64, **dram),
                         units=Units(units=1), predictor=Predictor(counter=2, reuse=1, sampled=4))


def run(kernel, machine, policy, tmp_path, **options):
    kernel.write(tmp_path / "trace")
    return execute(model(), tmp_path / "trace", machine.arguments(groups=kernel.groups, policy=policy), **options)


def trace(requests, *, serial=True):
    """A kernel of one work group, with two regions of the same bytes, of which one allocates."""
    kernel = Kernel("requests", groups=1)
    reused = kernel.array("reused", 1 << 17, "rw")
    streamed = replace(reused, name="streamed", reused="")
    with kernel.group():
        for request in requests:
            array = reused if request.allocate else streamed
            sector = 32 if request.mask != 0b11 else 64
            offset = request.number * 64 - array.base + (32 if request.mask == 0b10 else 0)
            (kernel.store if request.store else kernel.load)(array, offset, sector, str(request.pc))
            if serial:
                kernel.drain()
    return kernel


def requests_of(generator, count):
    """Random requests of few lines of the array of :func:`trace`; a PC belongs to a region and a kind."""
    made = []
    for _ in range(count):
        allocate, store = generator.random() < 0.6, generator.random() < 0.4
        number = (1 << 21) // 64 + generator.randrange(32) + 1024 * generator.randrange(2)
        made.append(Request(store, number, generator.choice((1, 2, 3, 3)), generator.randrange(3), allocate))
    return made


def pcs_of(requests):
    """The same with the numbers of PCs that the trace gives them."""
    known = {}
    return [Request(request.store, request.number, request.mask,
                    known.setdefault((request.allocate, request.store, request.pc), len(known)), request.allocate)
            for request in requests]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: ",".join(key for key, value in policy.items() if value))
def test_serial_requests_count_as_in_the_reference(policy, seed, tmp_path):
    generator = random.Random(seed)
    for _ in range(6):
        requests = requests_of(generator, 400)
        expected = Serial(small(), policy).run(pcs_of(requests))
        found = run(trace(requests), small(), {**policy, "flush": 0}, tmp_path)
        for name in ("loads", "load_hits", "load_fills", "load_bypasses", "stores", "store_hits", "store_allocations",
                     "store_bypasses", "evictions", "write_backs", "rinsed", "predicted_bypasses", "dram_reads",
                     "dram_writes", "dram_bytes_read", "dram_bytes_written", "row_hits", "row_misses", "row_conflicts"):
            assert found[name] == expected[name], name
        assert not found["load_merges"] + found["allocation_bypasses"] + found["blocked"] + found["flushed"]


def test_the_reference_sees_all_cases(seed):
    generator, seen = random.Random(seed), set()
    for policy in POLICIES:
        for _ in range(6):
            seen |= set(+Serial(small(), policy).run(pcs_of(requests_of(generator, 400))))
    assert seen >= {"load_hits", "load_fills", "load_bypasses", "store_hits", "store_allocations", "store_bypasses",
                    "evictions", "write_backs", "rinsed", "predicted_bypasses", "row_hits", "row_misses",
                    "row_conflicts"}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: ",".join(key for key, value in policy.items() if value))
def test_concurrent_requests_are_all_counted(policy, seed, tmp_path):
    generator = random.Random(seed)
    requests = requests_of(generator, 3000)
    kernel = Kernel("requests", groups=4)
    array = kernel.array("x", 1 << 17)
    arrays = [array, replace(array, name="reused", reused="rw")]
    for first in range(0, len(requests), 50):
        with kernel.group():
            for request in requests[first:first + 50]:
                array = arrays[request.allocate]
                (kernel.store if request.store else kernel.load)(array, request.number * 64 - array.base, 64)
    found = run(kernel, small(), policy, tmp_path)
    assert found["loads"] == sum(not request.store for request in requests)
    assert found["stores"] == sum(request.store for request in requests)
    assert found["loads"] == sum(found[f"load_{what}"] for what in ("hits", "merges", "fills", "bypasses"))
    assert found["stores"] == sum(found[f"store_{what}"] for what in ("hits", "allocations", "bypasses"))
    assert found["dram_reads"] == found["load_fills"] + found["load_bypasses"]
    assert found["dram_writes"] == found["write_backs"] + found["rinsed"] + found["flushed"] + found["store_bypasses"]
    assert found["dram_reads"] + found["dram_writes"] == sum(found[f"row_{what}"] for what in ("hits", "misses",
                                                                                               "conflicts"))
    assert found["dram_busy"] * 16 == found["dram_bytes_read"] + found["dram_bytes_written"]
    assert found["dram_busy"] <= 2 * found["cycles"]


def test_all_dirty_lines_are_written_back_at_the_end(tmp_path):
    kernel = Kernel("stores", groups=1)
    x = kernel.array("x", 1024)
    with kernel.group():
        kernel.store(x, 0, 7 * 64)
    found = run(kernel, small(), CACHED, tmp_path)
    assert (found["flushed"], found["dram_writes"], found["dram_bytes_written"]) == (7, 7, 7 * 64)
    assert found["cycles"] > found["executed"]


def loads(numbers, *, serial=False, bytes_each=64, groups=1):
    kernel = Kernel("loads", groups=groups)
    x = kernel.array("x", 1 << 20)
    with kernel.group():
        for number in numbers:
            kernel.load(x, number * 64, bytes_each)
            if serial:
                kernel.drain()
    return kernel


def one_way(**cache):
    return MachineConfig(cache=CacheSizes(**{"sets": 1, "ways": 1, "banks": 1, **cache}), units=Units(units=1))


def test_a_load_of_a_pending_line_merges(tmp_path):
    found = run(loads([3, 3, 3]), one_way(), CACHED, tmp_path)
    assert (found["load_fills"], found["load_merges"], found["dram_reads"]) == (1, 2, 1)


def test_a_set_of_pending_ways_blocks_or_bypasses(tmp_path):
    blocked = run(loads([0, 1]), one_way(), CACHED, tmp_path)
    bypassed = run(loads([0, 1]), one_way(), {**CACHED, "allocation_bypass": 1}, tmp_path)
    assert (blocked["load_fills"], blocked["evictions"], blocked["allocation_bypasses"]) == (2, 1, 0)
    assert (bypassed["load_fills"], bypassed["load_bypasses"], bypassed["allocation_bypasses"]) == (1, 1, 1)
    assert bypassed["blocked"] == 0 < blocked["blocked"]
    assert bypassed["evictions"] == 0
    assert bypassed["cycles"] < blocked["cycles"]


def test_a_store_to_a_set_of_pending_ways_bypasses_too(tmp_path):
    kernel = loads([0])
    x = kernel.arrays[0]
    with kernel.group():
        kernel.store(x, 64, 64)
    kernel.groups = 2
    blocked = run(kernel, one_way(), CACHED, tmp_path)
    bypassed = run(kernel, one_way(), {**CACHED, "allocation_bypass": 1}, tmp_path)
    assert (blocked["store_allocations"], blocked["write_backs"] + blocked["flushed"]) == (1, 1)
    assert (bypassed["store_bypasses"], bypassed["allocation_bypasses"], bypassed["flushed"]) == (1, 1, 0)
    assert blocked["blocked"] > 0


def test_misses_stall_without_an_mshr(tmp_path):
    few = run(loads(range(4)), one_way(ways=8, mshrs=1), CACHED, tmp_path)
    many = run(loads(range(4)), one_way(ways=8, mshrs=4), CACHED, tmp_path)
    assert many["mshr_stalls"] == 0 < few["mshr_stalls"]
    assert many["cycles"] < few["cycles"]


@pytest.mark.parametrize("policy", [{"loads": 0, "stores": 0}, CACHED, {**CACHED, "rinse": 1}],
                         ids=["bypass", "evict", "rinse"])
def test_a_full_write_queue_stalls_stores(policy, tmp_path):
    kernel = Kernel("stores", groups=1)
    x = kernel.array("x", 1 << 16)
    with kernel.group():
        kernel.store(x, 0, 1 << 14)
    machine = MachineConfig(cache=CacheSizes(sets=4, ways=4, banks=1), units=Units(units=1),
                            dram=DramSizes(channels=1, writes=4, high=2, low=1))
    found = run(kernel, machine, policy, tmp_path)
    assert found["write_stalls"] > 100
    assert found["dram_writes"] == 256
    # Four cycles for each line, beside the queue's entries and the L2's last lines.
    assert found["executed"] > 4 * (256 - 4 - 16)


@pytest.mark.parametrize("name", ["turnaround", "recovery"])
def test_times_between_reads_and_writes(name, tmp_path):
    kernel = Kernel("both", groups=1)
    x = kernel.array("x", 1 << 17)
    other = 16 * 64 + 64 if name == "recovery" else 1       # another row of the bank of line 0
    with kernel.group():
        kernel.load(x, 0, 64)
        kernel.drain()
        kernel.store(x, 0, 64)
        kernel.drain()
        kernel.load(x, other * 64, 64)
    times = {"cas": 5, "rcd": 1, "precharge": 1, "ras": 0, "turnaround": 0, "recovery": 0}
    machine = MachineConfig(dram=DramSizes(**{**times, name: 500}))
    executed = run(kernel, machine, {"loads": 0, "stores": 0}, tmp_path)["executed"]
    # The first load's data occupies the bus in cycles 4 to 7. The row is open for the store, which is queued in 39.
    data = 5 + 4
    assert executed == (8 + 500 + 4 + 500 if name == "turnaround" else 39 + data + 500 + 1 + 1) + data + 24


def test_outstanding_lines_of_a_unit_are_limited(tmp_path):
    machine = MachineConfig(units=Units(units=1, loads=1))
    single = run(loads([0, 1]), machine, CACHED, tmp_path)["executed"]
    both = run(loads([0, 1]), MachineConfig(units=Units(units=1)), CACHED, tmp_path)["executed"]
    serial = run(loads([0, 1], serial=True), MachineConfig(), CACHED, tmp_path)["executed"]
    assert both < single == serial


@pytest.mark.parametrize("case", range(4))
def test_cycles_of_single_loads(case, seed, tmp_path):
    generator = random.Random(f"{seed}.{case}")
    times = {name: generator.randint(1, 40) for name in ("cas", "rcd", "precharge")}
    latency, bus = generator.randint(1, 50), generator.choice((4, 8, 16, 32, 64))
    machine = MachineConfig(cache=CacheSizes(latency=latency), units=Units(units=1),
                            dram=DramSizes(ras=0, bus=bus, **times))
    data = times["cas"] + 64 // bus + latency
    # The request reaches its bank in the cycle after it is issued, and the DRAM's queue in the next one.
    closed, same_row = 3 + times["rcd"] + data, 2 + data
    conflict = 2 + times["precharge"] + times["rcd"] + data
    hit = 1 + latency
    row = 2048 * 2 // 64
    where, first = Serial(machine, CACHED).where, (1 << 21) // 64
    other_row = next(number for number in range(row, 4096, row) if where(first + number)[:2] == where(first)[:2])
    cycles = {tuple(numbers): run(loads(numbers, serial=True), machine, CACHED, tmp_path)["executed"]
              for numbers in ([0], [0, 1], [0, 0], [0, other_row])}
    assert cycles == {(0,): closed, (0, 1): closed + same_row, (0, 0): closed + hit, (0, other_row): closed + conflict}


def test_activations_wait_for_ras_and_recovery(tmp_path):
    base = {"cas": 1, "rcd": 1, "precharge": 1, "recovery": 0}
    machine = MachineConfig(cache=CacheSizes(latency=1), dram=DramSizes(ras=0, **base), units=Units(units=1))
    slow = MachineConfig(cache=CacheSizes(latency=1), dram=DramSizes(ras=100, **base), units=Units(units=1))
    numbers = [0, 16 * 64 + 64]         # two rows of the first bank
    where = Serial(machine, CACHED).where
    assert where((1 << 21) // 64 + numbers[1])[:2] == where((1 << 21) // 64)[:2]
    quick, late = (run(loads(numbers, serial=True), config, CACHED, tmp_path)["executed"]
                   for config in (machine, slow))
    # The first row is open from cycle 3; its precharge may begin 100 cycles later.
    assert late == 3 + 100 + 1 + 1 + 1 + 4 + 1 > quick


def test_a_stream_of_whole_rows_uses_the_bus(tmp_path):
    kernel = Kernel("stream", groups=4)
    x = kernel.array("x", 1 << 18)
    for first in range(0, 1 << 18, 1 << 12):
        with kernel.group():
            kernel.load(x, first, 1 << 12)
    found = run(kernel, MachineConfig(), {"loads": 0, "stores": 0}, tmp_path)
    assert found["dram_busy"] == (1 << 18) // 16
    assert found["dram_busy"] / 2 > 0.95 * found["executed"]


def test_phases_and_arithmetic_are_in_order(tmp_path):
    kernel = Kernel("phases", groups=2)
    for phase in range(3):
        for _ in range(4):
            with kernel.group(phase):
                kernel.compute(100)
    machine = MachineConfig(units=Units(units=2))
    found = run(kernel, machine, CACHED, tmp_path)
    assert found["arithmetic"] == 1200
    assert 3 * 200 <= found["executed"] <= 3 * 200 + 12
    with_one = run(kernel, MachineConfig(units=Units(units=1)), CACHED, tmp_path)
    assert 3 * 400 <= with_one["executed"] <= 3 * 400 + 12


def test_a_phase_waits_for_the_earlier_one(tmp_path):
    kernel = Kernel("phases", groups=2)
    for phase in range(2):
        with kernel.group(phase):
            kernel.compute(1000)
    assert run(kernel, MachineConfig(), CACHED, tmp_path)["executed"] >= 2000


def test_reads_and_writes_take_turns(tmp_path):
    kernel = Kernel("both", groups=2)
    x = kernel.array("x", 1 << 17)
    with kernel.group():
        kernel.load(x, 0, 1 << 16)
    with kernel.group():
        kernel.store(x, 1 << 16, 1 << 16)
    machine = MachineConfig(dram=DramSizes(channels=1, writes=32, high=24, low=8))
    found = run(kernel, machine, {"loads": 0, "stores": 0}, tmp_path)
    # At most 16 of 1,024 writes in turn, while reads are queued.
    assert found["turnarounds"] > 2 * 1024 / 16 * 0.8


def test_writes_start_at_the_high_mark(tmp_path):
    kernel = Kernel("both", groups=1)
    x = kernel.array("x", 1 << 17)
    with kernel.group():
        kernel.load(x, 0, 1 << 16)
    with kernel.group():                                    # on another unit
        kernel.store(x, 1 << 16, 30 * 64)
    turns = {high: run(kernel, MachineConfig(dram=DramSizes(channels=1, writes=64, high=high, low=8)),
                       {"loads": 0, "stores": 0}, tmp_path)["turnarounds"] for high in (24, 31)}
    # Above the mark: to writes, back at the low mark, and to the remaining writes after all reads.
    assert turns == {24: 3, 31: 1}


def test_a_request_does_not_starve_behind_an_open_row(tmp_path):
    kernel = Kernel("row", groups=1)
    x = kernel.array("x", 1 << 17)
    with kernel.group():
        for number in range(1000):
            kernel.load(x, number % 4 * 64, 64)
    with kernel.group():                                    # on another unit
        kernel.load(x, (16 * 64 + 64) * 64, 64)             # another row of that bank
        kernel.compute(6000)
    executed = [run(kernel, MachineConfig(dram=DramSizes(age=age)), {"loads": 0, "stores": 0}, tmp_path)["executed"]
                for age in (50, 1 << 20)]
    assert executed[0] < 6500 and executed[1] > 9500


def test_arithmetic_waits_for_loads_and_wait_for_stores(tmp_path):
    times = {}
    for what in ("load", "compute", "wait"):
        kernel = Kernel(what, groups=1)
        x = kernel.array("x", 64)
        with kernel.group():
            kernel.load(x, 0, 64)
            if what == "compute":
                kernel.compute(50)
            elif what == "wait":
                kernel.store(x, 0, 64)
                kernel.wait()
                kernel.compute(50)
        times[what] = run(kernel, MachineConfig(), {"loads": 1, "stores": 0}, tmp_path)["executed"]
    assert times["compute"] == times["load"] + 50
    assert times["wait"] >= times["load"] + 50


def test_wrong_traces_and_options_are_refused(tmp_path):
    file = tmp_path / "trace"
    with pytest.raises(ModelFailed, match=r"^The cache model stopped: The trace .*absent cannot be opened\.$"):
        execute(model(), tmp_path / "absent", [])
    file.write_bytes(b"\1\0\0\0\2\0\0\0")
    with pytest.raises(ModelFailed, match=r"^The cache model stopped: The trace .*trace is incomplete\.$"):
        execute(model(), file, [])
    loads([0]).write(file)
    with pytest.raises(ModelFailed, match=r"^The cache model stopped: There is no 'size'\.$"):
        execute(model(), file, ["--cache", "size=4"])
    with pytest.raises(ModelFailed, match=r"^The cache model stopped: The trace did not end within 20 cycles\.$"):
        execute(model(), file, [], limit=20)
    data = bytearray(file.read_bytes())
    data[8 + 8 + 12] = 99
    file.write_bytes(data)
    with pytest.raises(ModelFailed, match=r"^The cache model stopped: The trace .*trace has an unknown operation\.$"):
        execute(model(), file, [])
