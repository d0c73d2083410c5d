# SPDX-License-Identifier: Apache-2.0
"""Workgroups of a persistent kernel, against times on paper."""

import re

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import LinkConfig, Machine, MachineConfig, Npu
from sim.system.compute import Compute
from sim.system.fused import run
from sim.system.slices import Fused
from sim.system.workgroups import PersistentKernel, Task, Workgroups


def machine(**changes):
    return Machine(MachineConfig(shape=(2,), endpoint="ideal", links=LinkConfig(bytes_per_s=25e9, latency_s=0),
                                 **changes))


def kernel(slots, tasks):
    """Kernel that is not started, and its log of ``(slice or "all", us)``."""
    simulated, log = machine(), []
    simulated.computes[0] = Compute(simulated, 0, slots)

    def note(what):
        log.append((what, round(simulated.now * 1e6, 6)))

    return simulated, PersistentKernel(simulated, 0, tasks, note, lambda: note("all")), log


def tasks(*seconds, of=1, needs=None):
    return [Task(seconds=one * 1e-6, slice=number // of, need=(needs or {}).get(number))
            for number, one in enumerate(seconds)]


def test_slots_take_tasks_in_order():
    """Two slots, each half of the processor: tasks of 1, 4, 1, 2 us alone take 2, 8, 2, 4 us."""
    simulated, made, log = kernel(2, tasks(1, 4, 1, 2))
    made.start()
    simulated.run()
    assert log == [(0, 2), (2, 4), (1, 8), (3, 8), ("all", 8)]
    assert simulated.computes[0].busy == 8e6


def test_a_slice_is_complete_with_its_last_task():
    simulated, made, log = kernel(2, tasks(1, 3, 1, 1, of=2))
    made.start()
    simulated.run()
    assert log == [(0, 6), (1, 6), ("all", 6)] or log == [(1, 6), (0, 6), ("all", 6)]


def test_idle_slots_help_no_other():
    """One task on four slots has a quarter of the processor."""
    simulated, made, log = kernel(4, tasks(1))
    made.start()
    simulated.run()
    assert log == [(0, 4), ("all", 4)] and simulated.computes[0].busy == 1e6


def test_a_task_waits_in_its_slot():
    simulated, made, log = kernel(1, tasks(1, 1, 1, needs={1: "data"}))
    made.start()
    simulated.at(10e-6, lambda: made.arrive("data"))
    simulated.run()
    assert log == [(0, 1), (1, 11), (2, 12), ("all", 12)]
    simulated, made, log = kernel(1, tasks(1, 1, needs={1: "data"}))
    made.arrive("data")
    made.start()
    simulated.run()
    assert log == [(0, 1), (1, 2), ("all", 2)]


def test_no_tasks():
    simulated, made, log = kernel(2, [])
    made.start()
    simulated.run()
    assert log == [("all", 0)]


def test_slots_share_what_communication_leaves():
    """Demand: the endpoint takes half of the memory's bandwidth while a collective is in progress."""
    config = {"npu": Npu(memory_bytes_per_s=200e9), "sharing": "demand"}
    simulated = Machine(MachineConfig(shape=(2,), endpoint="compopt", links=LinkConfig(bytes_per_s=1e9, latency_s=0),
                                      **config))
    alone = Machine(MachineConfig(shape=(2,), endpoint="ideal", links=LinkConfig(bytes_per_s=1e9, latency_s=0),
                                  **config))
    ends = []
    for one in (simulated, alone):
        one.computes[0] = Compute(one, 0, 4)
        one.issue(Collective.ALL_REDUCE, 10_000_000)
        for _ in range(4):
            one.compute(0, memory_bytes=20_000, done=ends.append)
        one.run()
    assert ends[4:] == [pytest.approx(4 * 20_000 / 200e9)] * 4
    assert ends[:4] == [pytest.approx(4 * 20_000 / 72e9)] * 4


def exchange(seconds):
    return Fused(name="test", arithmetic=seconds, memory_bytes=0, output_bytes=8, collective=Collective.ALL_TO_ALL)


def computed(slices, workgroups, **options):
    config = MachineConfig(shape=(2,), endpoint="ideal", links=LinkConfig(bytes_per_s=25e9, latency_s=0))
    return run(exchange(1e-3), config, slices=slices, workgroups=workgroups, **options).computed


@pytest.mark.parametrize("resident, tasks", [(1, 1), (4, 1), (8, 16), (5, 3)])
def test_waves_of_tasks(resident, tasks):
    """The last wave may be incomplete: ``ceil(tasks / slots)`` waves of ``slots / tasks`` of the time."""
    total = 2 * 4 * tasks
    waves = -(-total // resident)
    assert computed(4, Workgroups(resident=resident, tasks=total)) == computed(4, Workgroups(
        resident=resident, tasks=total - 7))
    assert computed(4, Workgroups(resident=resident, tasks=total)) == pytest.approx(1e-3 * waves * resident / total)


def test_occupancy_of_a_fused_kernel():
    """7 of 8 workgroups are resident; the whole time is 8/7 as long, or less where fewer workgroups are enough."""
    groups = Workgroups(resident=8, tasks=56, lost=0.125)
    assert (groups.slots(True), groups.slots(False)) == (7, 8)
    assert computed(4, groups) == pytest.approx(1e-3 * 8 / 7)
    assert computed(None, Workgroups(resident=8, tasks=64, lost=0.125)) == pytest.approx(1e-3)
    assert computed(4, Workgroups(resident=8, tasks=56, lost=0.125, saturation=0.5)) == pytest.approx(1e-3)
    assert computed(4, Workgroups(resident=8, tasks=56, lost=0.125, saturation=0.9375)) == pytest.approx(1e-3 * 7.5 / 7)
    assert computed(4, Workgroups(lost=0.2)) == pytest.approx(1e-3 / 0.8)
    assert Workgroups(resident=2, lost=0.9).slots(True) == 1


def test_tasks_of_a_slice():
    assert [Workgroups(resident=8).of_slice(slices) for slices in (1, 4, 8, 100)] == [8, 2, 1, 1]
    assert [Workgroups(resident=8, tasks=20).of_slice(slices) for slices in (0, 1, 3, 20)] == [1, 20, 7, 1]


def test_each_slice_costs_one_workgroup():
    """8 slices on 4 slots: two of them on each."""
    assert computed(4, Workgroups(resident=4, tasks=16), per_slice=1e-5) == pytest.approx(1e-3 + 2 * 2e-5, rel=0.02)
    assert computed(4, Workgroups(resident=4, tasks=1), per_slice=1e-5) == pytest.approx(1e-3 + 2e-5)


@pytest.mark.parametrize("values, sentence", [
    ({"resident": 0}, r"resident of workgroups must be an integer from 1 to 65,536, not 0\."),
    ({"tasks": True}, r"tasks of workgroups must be an integer from 1 to 65,536, not True\."),
    ({"lost": 1}, r"lost of workgroups must be at least 0 and less than 1, not 1\."),
    ({"saturation": 0.0}, r"saturation of workgroups must be more than 0 and at most 1, not 0\.0\."),
])
def test_wrong_values(values, sentence):
    with pytest.raises(UserError) as caught:
        Workgroups(**values)
    assert re.fullmatch(sentence, str(caught.value))
