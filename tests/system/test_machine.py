# SPDX-License-Identifier: Apache-2.0
"""Machines: one rank that represents all, concurrent collectives, invalid requests."""

import re

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import ENDPOINTS, Machine, MachineConfig

C = Collective


def ends(config, *issues):
    """Picoseconds at which each of ``(when, collective, size, dimensions)`` ends, and the statistics."""
    machine, found = Machine(config), {}
    for number, (when, collective, size, dimensions) in enumerate(issues):
        def issue(number=number, collective=collective, size=size, dimensions=dimensions):
            machine.issue(collective, size, dimensions=dimensions,
                          done=lambda _: found.update({number: machine.kernel.now}))
        machine.at(when, issue)
    machine.run()
    return found, machine.statistics()


MIXED = ((0, C.ALL_REDUCE, 100_000, None), (1e-6, C.ALL_TO_ALL, 2_000, None), (2e-6, C.REDUCE_SCATTER, 9_000, (1,)),
         (2e-6, C.ALL_GATHER, 7_777, (2, 0)), (3e-6, C.ALL_REDUCE, 30_000, (2,)), (9e-6, C.BARRIER, 0, None))


@pytest.mark.parametrize("order", ["fifo", "lifo", "priority"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_one_rank_represents_all(endpoint, order):
    config = MachineConfig(shape=(3, 2, 2), endpoint=endpoint, order=order, chunk_bytes=8192)
    folded, one = ends(config, *MIXED)
    unfolded, all_of_them = ends(config.with_(fold=False), *MIXED)
    assert folded == unfolded and len(folded) == len(MIXED)
    links = {link["port"]: link for link in one["links"]}
    for link in all_of_them["links"]:
        assert link | {"rank": 0} == links[link["port"]]


def test_one_rank_represents_all_packet_by_packet():
    config = MachineConfig(shape=(3, 2), turns="message", whole_packets=True, chunk_bytes=8192)
    mixed = [(when, collective, size // 4, None) for when, collective, size, _ in MIXED]
    assert ends(config, *mixed)[0] == ends(config.with_(fold=False), *mixed)[0]


def test_ports_arbitrate_as_in_the_hardware():
    """A later collective of a higher priority starts its chunks first. At the accelerator's ports it waits for chunks
    that have started; a conventional endpoint, and all with ``turns="age"``, send it first there, too."""
    issues = ((0, C.ALL_REDUCE, 4 << 20, None), (5e-6, C.ALL_REDUCE, 64 << 10, None))
    later = {}
    for endpoint in ("ace", "commopt"):
        for turns in (None, "message", "age"):
            config = MachineConfig(shape=(4, 4), endpoint=endpoint, order="lifo", memory_pool="separate")
            config = config if turns is None else config.with_(turns=turns)
            later[endpoint, turns] = ends(config, *issues)[0][1]
    assert later["ace", None] == later["ace", "message"] > later["ace", "age"]
    assert later["commopt", None] == later["commopt", "age"]


def test_asymmetric_operations_need_all_ranks():
    with pytest.raises(UserError, match=re.escape(
            "BROADCAST on some ranks, with delays or with a root needs a machine with fold=False.")):
        Machine(MachineConfig(shape=(4,))).issue(C.BROADCAST, 100)


def test_a_delayed_rank_delays_all():
    times = {}
    for late in (0, 1e-3):
        machine = Machine(MachineConfig(shape=(4, 2), fold=False))
        machine.issue(C.ALL_REDUCE, 1 << 20, delays={5: late}, done=lambda time, late=late: times.update({late: time}))
        machine.run()
    assert times[1e-3] >= 1e-3 + times[0] / 2


def test_wrong_requests_are_sentences():
    machine = Machine(MachineConfig(shape=(4, 2), fold=False))
    for request, sentence in (
            (lambda: machine.issue("SUM", 1), "A collective must be one of ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, "
             "ALL_TO_ALL, BROADCAST, REDUCE, BARRIER, not 'SUM'."),
            (lambda: machine.issue(C.ALL_REDUCE, -1), "A collective must have 0 bytes or more, not -1."),
            (lambda: machine.issue(C.ALL_REDUCE, 8, dimensions=(0, 0)), "Dimensions of a collective must be different "
             "ones of 0, 1, not (0, 0)."),
            (lambda: machine.issue(C.ALL_REDUCE, 8, dimensions=(0,), ranks=[0]),
             "Rank 0 cannot take part without rank 2, which is of its group."),
            (lambda: machine.put(0, 8, 1), "There are ranks 0 to 7, not 8."),
            (lambda: MachineConfig(shape=(2, 2, 2, 2)), "A machine must have one to 3 dimensions of 1 rank or more, "
             "not the shape (2, 2, 2, 2)."),
            (lambda: MachineConfig(shape=(4,), endpoint="gpu"), "The endpoint must be one of noovl, commopt, compopt, "
             "ace, ideal, base, wide, ultra, not 'gpu'.")):
        with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
            request()
