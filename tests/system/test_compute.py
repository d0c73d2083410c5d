# SPDX-License-Identifier: Apache-2.0
"""Computing beside communication, against the times on paper."""

import pytest

from hw.errors import UserError
from sim.system import ENDPOINTS, Machine, MachineConfig
from sim.system.compute import seconds_beside
from sim.system.settings import apply

SHAPE = (4, 2)


def ends(config, jobs, *, collectives=()):
    """When each of ``(begin, seconds, bytes)`` has ended, and each of the collectives of ``(begin, bytes)``."""
    machine, done, through = Machine(config), {}, {}
    for number, (begin, seconds, memory) in enumerate(jobs):
        machine.at(begin, lambda number=number, seconds=seconds, memory=memory: machine.compute(
            seconds, memory_bytes=memory, done=lambda time: done.__setitem__(number, time)))
    for number, (begin, size) in enumerate(collectives):
        machine.at(begin, lambda number=number, size=size: machine.issue(
            "ALL_REDUCE", size, done=lambda time: through.__setitem__(number, time)))
    machine.run()
    assert machine.statistics()["compute_seconds"] <= max(done.values())
    return [done[number] for number in range(len(jobs))], [through[number] for number in range(len(collectives))]


@pytest.mark.parametrize("endpoint, slower, left", [
    ("commopt", 80 / 74, 450e9), ("compopt", 80 / 78, 772e9), ("ace", 1, 772e9),
    ("ideal", 1, 900e9)])
def test_the_slower_of_cores_and_memory(endpoint, slower, left):
    config = MachineConfig(shape=SHAPE, endpoint=endpoint)
    assert seconds_beside(config, 1.0, 0) == pytest.approx(slower)
    assert seconds_beside(config, 1.0, 9e12) == pytest.approx(9e12 / left)


def test_one_after_the_other():
    config = MachineConfig(shape=SHAPE, endpoint="ideal")
    assert ends(config, [(0, 1e-3, 0), (0.5e-3, 2e-3, 0), (5e-3, 1e-3, 0)])[0] == pytest.approx([1e-3, 3e-3, 6e-3])


def test_reserved_is_taken_without_communication():
    config = MachineConfig(shape=SHAPE, endpoint="commopt")
    assert ends(config, [(0, 74e-6, 0)])[0] == pytest.approx([80e-6])


def test_on_demand_only_while_there_is_communication():
    config = MachineConfig(shape=SHAPE, endpoint="commopt", sharing="demand")
    assert ends(config, [(0, 74e-6, 0)])[0] == pytest.approx([74e-6])
    begin = 10e-6
    (end,), (through,) = ends(config, [(0, 74e-6, 0)], collectives=[(begin, 1 << 20)])
    assert begin < through < 74e-6
    # 74 of 80 cores meanwhile.
    assert end == pytest.approx(74e-6 + (through - begin) * 6 / 80, abs=2e-12)


def test_on_demand_memory_that_is_taken_in_the_middle_of_several():
    config = MachineConfig(shape=SHAPE, endpoint="ace", sharing="demand")
    jobs = [(0, 0, 9e6), (0, 0, 18e6)]
    assert ends(config, jobs)[0] == pytest.approx([10e-6, 30e-6])
    found, (first, second) = ends(config, jobs, collectives=[(2e-6, 1 << 10), (40e-6, 1 << 20)])
    assert first < 10e-6 and second > 40e-6
    late = (first - 2e-6) * 128 / 900
    assert found == pytest.approx([10e-6 + late, 30e-6 + late], abs=2e-12)


def test_folded_and_not_are_equal_on_demand():
    jobs, collectives = [(0, 30e-6, 20e6)] * 3, [(1e-6, 1 << 18), (9e-6, 1 << 16)]
    for endpoint in ("ace", "compopt"):
        config = MachineConfig(shape=SHAPE, endpoint=endpoint, sharing="demand")
        assert ends(config, jobs, collectives=collectives) == ends(config.with_(fold=False), jobs,
                                                                   collectives=collectives)


@pytest.mark.parametrize("name, value", [("endpoint.sms", 80), ("endpoint.memory_bytes_per_s", 900e9)])
def test_something_must_be_left(name, value):
    with pytest.raises(UserError, match=r"^The endpoint compopt must leave some of 80 cores and of 9e\+11 bytes/s of "
                                        r"memory bandwidth to compute, not take \d+ and .*\.$"):
        apply(MachineConfig(shape=SHAPE, endpoint="compopt"), {name: value})
    assert ENDPOINTS["noovl"].sms == 80 and MachineConfig(shape=SHAPE, endpoint="noovl")


def test_kinds_of_sharing():
    with pytest.raises(UserError, match=r"^sharing must be one of reserved, demand, not 'fair'\.$"):
        MachineConfig(shape=SHAPE, sharing="fair")
