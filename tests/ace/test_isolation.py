# SPDX-License-Identifier: Apache-2.0
"""A communicator without progress ends, and those that it blocks do not."""

import numpy as np
import pytest

from dmace.drivers.ace import Share
from hw.ace.config import TINY
from hw.ace.layouts import HeaderLayout, PhaseLayout
from hw.ace.programs.schedule import assemble
from hw.ace.words import HEADER_FIELDS, PHASE_FIELDS, Collective, Status
from hw.common.words import field_positions
from sim.ace.cluster import Cluster, CollectiveFailed
from sim.ace.communicators import Communicator
from sim.ace.endpoints import Link

pytestmark = pytest.mark.rtl

C = Collective
TWO = [Communicator((0,), Share(0, 2, 0, 4)), Communicator((0,), Share(2, 2, 4, 4))]
CYCLES = 4000
RANKS = 3


def _all_reduce(cluster, number, count, **options):
    return cluster.submit(C.ALL_REDUCE, [np.full(count, rank + 1, np.int32) for rank in range(RANKS)],
                          communicator=number, queue=number, **options)


def _check(outcome):
    assert all((output == 6).all() for output in outcome.outputs)


def _watch(cluster, cycles=CYCLES):
    cluster.do(*(driver.set_watchdog(cycles) for driver in cluster.drivers))


def _with(layout, fields, word, name, value):
    """A word of a program with another value in one field."""
    assert sum(width for _, width in fields) == layout.size
    lsb, width = field_positions(fields)[name]
    return word & ~((1 << width) - 1 << lsb) | value << lsb


@pytest.mark.parametrize(("number", "layout", "fields", "name", "value"), [
    # 255 runs of up to 255 moves hold fill or drain; sends and pieces without bytes would hold a port.
    pytest.param(0, HeaderLayout, HEADER_FIELDS, "fills", 255, id="fills"),
    pytest.param(0, HeaderLayout, HEADER_FIELDS, "drains", 130, id="drains"),
    pytest.param(0, HeaderLayout, HEADER_FIELDS, "piece", 0, id="piece"),
    pytest.param(1, PhaseLayout, PHASE_FIELDS, "span", 0, id="span"),
    pytest.param(1, PhaseLayout, PHASE_FIELDS, "receives", 4095, id="receives"),
])
@pytest.mark.parametrize("rank", [0, 1])
def test_corrupt_program(number, layout, fields, name, value, rank):
    """The communicator whose program is corrupt on one rank ends with TIMEOUT on all; the healthy one beside it
    continues, as do later collectives."""
    with Cluster(TINY, (RANKS,), communicators=TWO, link=Link(latency=20)) as cluster:
        _watch(cluster)
        made = assemble(TINY, (RANKS,), (0,), (rank,))
        address = begin = made.directory[C.ALL_REDUCE].plus
        if number:          # the first phase
            header = HeaderLayout.from_bits(made.words[begin])
            address = begin + 1 + header.fills + header.drains

        async def corrupt(driver):
            word = _with(layout, fields, made.words[address], name, value)
            await driver.write("PROGRAM_WORD_LO", value=word & 0xFFFF_FFFF)
            await driver.write("PROGRAM_WORD_HI", value=word >> 32)
            await driver.write("PROGRAM_COMMIT", address=address)

        cluster.do(corrupt(cluster.drivers[rank]))
        guilty, healthy = (_all_reduce(cluster, number, 3000) for number in range(2))
        begin = cluster.cycle
        outcome, = cluster.wait(healthy, limit=100_000)
        _check(outcome)
        with pytest.raises(CollectiveFailed) as caught:
            cluster.wait(guilty, limit=100_000)
        assert caught.value.statuses == [Status.TIMEOUT] * RANKS
        assert cluster.cycle - begin < 3 * CYCLES
        # The remaining moves of its job are not executed: it is no longer in progress.
        cluster.run(1000)
        _check(cluster.wait(_all_reduce(cluster, 1, 3000))[0])


def test_starved_by_a_higher_class():
    """For much longer than the watchdog's time, nothing of the lower one is cut, sent or drained."""
    communicators = [Communicator((0,), Share(0, 2, 0, 4), 0), Communicator((0,), Share(2, 2, 4, 4), 3)]
    with Cluster(TINY, (RANKS,), communicators=communicators, link=Link(latency=20, bytes_per_cycle=1)) as cluster:
        _watch(cluster, 1500)
        higher = [_all_reduce(cluster, 1, 12_000) for _ in range(2)]
        lower = _all_reduce(cluster, 0, 3000, delay=3000)
        *before, outcome = cluster.wait(*higher, lower)
        for one in (*before, outcome):
            _check(one)
        assert outcome.cycles > 50_000


@pytest.mark.parametrize("priority", [0, 1], ids=["of a higher class", "of the same class"])
def test_dead_peer_beside_a_busy_communicator(priority):
    """A missing rank is detected soon after the time limit, whatever others of its class, or of a lower one, do."""
    communicators = [Communicator((0,), Share(0, 2, 0, 4), 1), Communicator((0,), Share(2, 2, 4, 4), priority)]
    with Cluster(TINY, (RANKS,), communicators=communicators, link=Link(latency=20)) as cluster:
        _watch(cluster)
        busy = [_all_reduce(cluster, 1, 20_000) for _ in range(2)]
        waiting = _all_reduce(cluster, 0, 20_000, delay=[0, 1_000_000, 0])
        begin = cluster.cycle
        with pytest.raises(CollectiveFailed) as caught:
            # Rank 1 receives the report, and has nothing to end.
            cluster.wait(waiting, limit=8 * CYCLES)
        assert caught.value.statuses == [Status.TIMEOUT, None, Status.TIMEOUT]
        # The wait ends when the third does not end: check when the first received the report.
        cluster.clear_watches()
        ended = [cluster.do(driver.fault(0))[0] for driver in cluster.drivers]
        assert {fault.status for fault in ended} == {Status.TIMEOUT}
        assert cluster.cycle - begin < 9 * CYCLES
        for outcome in cluster.wait(*busy):
            _check(outcome)
            assert outcome.cycles > 8 * CYCLES
