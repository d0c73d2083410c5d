# SPDX-License-Identifier: Apache-2.0
"""Limits of chunks per dimension, as in ASTRA-sim's queues, and their order; its results are in test_validation."""

from dataclasses import replace

import pytest

from hw.errors import UserError
from sim.system import ENDPOINTS, LinkConfig, Machine, MachineConfig

IDEAL = ENDPOINTS["ideal"]


def ends(sizes, *, order="fifo", priorities=(0, 0, 0, 0), per_dimension=1, latency=0.0):
    """End of each all-reduce in microseconds. The first is issued immediately, the others a little later; a megabyte
    takes a microsecond."""
    config = MachineConfig(shape=(4,), endpoint=replace(IDEAL, per_dimension=per_dimension), order=order,
                           links=LinkConfig(bytes_per_s=1.5e12, latency_s=latency), header_bytes=0, both=False,
                           cut_through=False, chunk_bytes=1 << 40, message_bytes=1 << 40, packet_bytes=1 << 40)
    machine, done = Machine(config), {}
    for number, (size, priority) in enumerate(zip(sizes, priorities, strict=False)):
        machine.at(number and 1e-6, lambda number=number, size=size, priority=priority: machine.issue(
            "ALL_REDUCE", size * 10**6, priority=priority, done=lambda time: done.__setitem__(number, time * 1e6)))
    machine.run()
    return [done[number] for number in range(len(sizes))]


def test_one_after_the_other_waits_for_every_step():
    """There are six steps of a microsecond each."""
    assert ends([4, 8, 4], latency=1e-6) == pytest.approx([10, 24, 34])


def test_any_number_hides_latency():
    assert 16 < max(ends([4, 8, 4], latency=1e-6, per_dimension=None)) < 30


@pytest.mark.parametrize("order, expected", [
    ("fifo", [4, 12, 16, 24]), ("lifo", [4, 24, 16, 12]), ("priority", [4, 24, 8, 16]),
    ("priority-lifo", [4, 24, 8, 16])])
def test_order_of_requests(order, expected):
    """The first starts before the others are issued; of those, the third is the most urgent, then the fourth."""
    assert ends([4, 8, 4, 8], order=order, priorities=(0, 0, 2, 1)) == pytest.approx(expected)


def test_equal_priorities_go_by_time():
    assert ends([4, 8, 4], order="priority", priorities=(0, 1, 1)) == pytest.approx([4, 12, 16])
    assert ends([4, 8, 4], order="priority-lifo", priorities=(0, 1, 1)) == pytest.approx([4, 16, 8])


def test_only_folded():
    with pytest.raises(UserError, match=r"^per_dimension of an endpoint needs a machine with fold=True: ranks could"):
        MachineConfig(shape=(4,), endpoint=replace(IDEAL, per_dimension=1), fold=False)
