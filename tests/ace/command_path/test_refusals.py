# SPDX-License-Identifier: Apache-2.0
"""Commands that are refused, each with its status, and those just within the bounds."""

from dataclasses import replace

import pytest

from hw.ace.numerics.formats import DType, Reduction
from hw.ace.words import Collective, Status
from tests.ace.command_path.front_end import CONFIG, LENGTH, RANKS, SC, STOPPED, WORDS, Host, make_command


def refuse(cases, config=CONFIG):
    """For each ``(change, status)``, a good command, one with the change, and a good one.

    The changed one completes with ``status`` and holds its queue until that is cleared.
    """
    host, good = Host(1, config=config), make_command(Collective.ALL_REDUCE, count=100)
    begun, held = [], []                # number of jobs when each case begins, and when its queue is held

    def done():
        words = len(host.words)
        if words == 4 * len(held) + 2:
            held.append(len(host.jobs))
            host.clears.append(0)
        if words == 4 * len(begun):
            begun.append(len(host.jobs))
            if len(begun) > len(cases):
                return True
            change, _ = cases[len(begun) - 1]
            host.stores.extend((0, command.pack(), 0xFFFF) for command in (good, good._replace(**change), good))
        return False

    host.done = done
    host.run(limit=6_000 * len(cases))
    words = [word for _, word in host.words]
    for number, (change, status) in enumerate(cases):
        first = 3 * number
        assert words[4 * number:4 * number + 4] == [
            (first + 1, number, 0), (first + 1, number + 1, status), (first + 2, number + 1, 0),
            (first + 3, number + 1, 0)], change
        assert held[number] - begun[number] == begun[number + 1] - held[number] > 0, change


REFUSALS = [
    ({"collective": 0}, Status.MALFORMED), ({"collective": 9}, Status.MALFORMED), ({"dtype": 3}, Status.MALFORMED),
    ({"op": 6}, Status.MALFORMED), ({"widen": 1}, Status.MALFORMED),
    ({"collective": 5, "root": 7}, Status.MALFORMED), ({"collective": 3, "flags": 5}, Status.MALFORMED),
    ({"flags": 5}, Status.COMMUNICATOR), ({"flags": 9}, Status.MALFORMED),
    ({"collective": 4, "flags": 9, "root": 4, "count": 10}, Status.MALFORMED),
    ({"collective": 4, "flags": 9, "root": 3, "count": 10}, Status.MALFORMED),
    ({"collective": 3, "flags": 9, "root": 3, "count": 10}, Status.MALFORMED),
    ({"collective": 4, "flags": 9, "root": 1, "count": 10}, Status.SRC_BOUNDS),
    ({"collective": 2, "flags": 9, "root": 1, "count": 10}, Status.SRC_BOUNDS),
    ({"collective": 4, "flags": 9, "root": 2, "count": 10}, Status.DST_BOUNDS),
    ({"collective": 3, "flags": 9, "root": 2, "count": 10}, Status.DST_BOUNDS),
    ({"communicator": 1}, Status.COMMUNICATOR), ({"communicator": 9}, Status.COMMUNICATOR),
    ({"src_region": 0}, Status.SRC_REGION), ({"src_region": 200}, Status.SRC_REGION),
    # Beyond the table; their lower bits are numbers of existing regions.
    ({"src_region": CONFIG.regions + 1}, Status.SRC_REGION), ({"dst_region": CONFIG.regions + 2}, Status.DST_REGION),
    ({"src_region": 129}, Status.SRC_REGION),
    ({"src_region": 3}, Status.SRC_DOMAIN), ({"src_offset": LENGTH // 4 - 99}, Status.SRC_BOUNDS),
    ({"dst_region": 4}, Status.DST_REGION), ({"dst_region": 3}, Status.DST_DOMAIN),
    ({"dst_region": 1}, Status.DST_RIGHTS), ({"dst_offset": LENGTH // 4 - 99}, Status.DST_BOUNDS),
    ({"collective": 3, "count": LENGTH // 4 // RANKS + 1}, Status.DST_BOUNDS),
    ({"collective": 2, "count": LENGTH // 4 // RANKS + 1}, Status.SRC_BOUNDS),
]


def test_refusals():
    """A bad command completes with its status; its queue is held until it is cleared, and then resumes."""
    refuse(REFUSALS)


OPTIONAL = {
    "prod": {"op": Reduction.PROD}, "avg": {"op": Reduction.AVG}, "fp8": {"dtype": DType.E5M2},
    "widen": {"dtype": DType.BF16, "widen": 1}, "varying": {"collective": 4, "flags": 9, "root": 1, "count": 10}}


@pytest.mark.parametrize("names", [
    list(OPTIONAL), *(pytest.param([name], marks=pytest.mark.long) for name in OPTIONAL)], ids=" ".join)
def test_what_may_be_left_out(names):
    refuse([(OPTIONAL[name], Status.MALFORMED) for name in names],
           replace(CONFIG, **dict.fromkeys(names, False)))


def test_extents_within_bounds():
    """For buffers of one part, only the first row matters; with a count of 0, the displacement is ignored."""
    host = Host(3)
    commands = [
        # Their last parts end with their regions.
        make_command(Collective.ALL_TO_ALL, count=10, flags=9, root=0, src=(1, WORDS - 60), dst=(2, WORDS - 60)),
        make_command(Collective.ALL_GATHER, count=10, flags=9, root=1),
        make_command(Collective.REDUCE_SCATTER, count=10, flags=9, root=2),
    ]
    host.stores.extend((0, command.pack(), 0xFFFF) for command in commands)
    host.done = lambda: len(host.words) == 3
    host.run()
    assert [word for _, word in host.words] == [(number + 1, 0, 0) for number in range(3)]
    assert [(job["varying"], job["row"], job["size"]) for job in host.jobs] == [(1, row, 2) for row in (0, 16, 32)]


@pytest.mark.parametrize("ranks, root, status", [
    (16, CONFIG.extent_rows // 16 - 1, Status.OK), (17, CONFIG.extent_rows // 16 - 1, Status.MALFORMED),
    (1, CONFIG.extent_rows // 16, Status.MALFORMED)])
def test_last_rows_of_extents(ranks, root, status):
    """A communicator's rows may extend to the end of the table, but not beyond."""
    host = Host(6, ranks=ranks)
    host.stores.append((0, make_command(Collective.ALL_GATHER, count=11, flags=9, root=root).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (int(not status), int(bool(status)), status))]


def test_last_byte_is_within_bounds():
    host = Host(2)
    host.stores.append((0, make_command(Collective.BROADCAST, count=100, root=5, src=(1, LENGTH // 4 - 100),
                                         dst=(2, LENGTH // 4 - 100)).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (1, 0, 0))]


@pytest.mark.parametrize("strb", [0x00FF, 0x7FFF], ids=hex)
def test_halves_are_malformed(strb):
    host = Host(3)
    host.stores.append((1, make_command(Collective.ALL_REDUCE, count=1).pack(), strb))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[1], (0, 1, Status.MALFORMED))] and not host.jobs


def test_stopped_communicators_take_no_commands():
    host = Host(9)
    host.stopped = 0
    host.stores.append((1, make_command(Collective.ALL_REDUCE, count=100).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[1], (0, 1, STOPPED))] and not host.jobs
