# SPDX-License-Identifier: Apache-2.0
"""Command queues: a command in progress, a full queue, and a completion word that is not written."""

from dataclasses import replace

import pytest

from hw.ace.words import Collective, Status
from tests.ace.command_path.front_end import CONFIG, SC, WORDS, Host, make_command


def test_a_command_in_the_decoder_is_in_progress():
    """From the cycle in which it leaves its queue, also while all its rows are read."""
    host, left = Host(8, config=replace(CONFIG, extent_rows=128), ranks=64), []
    stand = host._stand

    def watch(ctx, now):
        stand(ctx, now)
        left.append(host.left(ctx))

    host._stand = watch
    host.stores.append((0, make_command(Collective.ALL_GATHER, count=11, flags=9, root=4).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (1, 0, 0))]
    begins = left.index(True)
    assert begins < 10 and all(left[begins:begins + 250])


def test_overflow():
    """A word for a full queue is refused, as are those after it; accepted commands complete."""
    host = Host(5)
    good = make_command(Collective.ALL_REDUCE, count=2000).pack()
    host.stores.extend((0, good, 0xFFFF) for _ in range(20))
    cleared = []

    def done():
        if host.words and host.words[-1][1].status and not cleared:
            cleared.append(host.words[-1][1].count)
            host.clears.append(0)
        return cleared and len(host.words) == cleared[0] + 2

    host.done = done
    host.run()
    taken = cleared[0]
    assert CONFIG.queue_depth <= taken < 20
    assert [word for _, word in host.words[-2:]] == [(taken, 1, Status.OVERFLOW), (taken, 1, 0)]


def test_a_completion_word_that_is_not_written():
    """The error is reported when all earlier commands have completed, and the queue is held."""
    host = Host(10)
    good = make_command(Collective.ALL_REDUCE, count=100).pack()
    host.stores.append((0, good, 0xFFFF))
    steps = []

    def done():
        if len(host.words) == 1 and not steps:
            steps.append("unwritten")
            host.unwritten = True
        if len(host.words) == 2 and len(steps) == 1:
            steps.append("cleared")
            host.stores.append((0, good, 0xFFFF))
            host.clears.append(0)
        return len(host.words) == 4

    host.done = done
    host.run()
    assert [word for _, word in host.words] == [(1, 0, 0), (1, 1, Status.COMPLETION_ERROR), (1, 1, 0), (2, 1, 0)]


@pytest.mark.parametrize("change", [{}, {"communicator": CONFIG.communicators}],
                         ids=["another domain", "beyond the table"])
def test_a_command_for_a_foreign_communicator_does_not_wait(change):
    """It is refused while another tenant's collectives, which may wait for other ranks, use the communicator."""
    host = Host(7)
    host.domains[1] = 6
    long = make_command(Collective.ALL_REDUCE, count=WORDS - 5)
    host.stores.extend((0, long.pack(), 0xFFFF) for _ in range(2))
    host.stores.extend((1, long._replace(**change).pack(), 0xFFFF) for _ in range(2))
    cleared = []

    def done():
        if len(host.words) == 1 and not cleared:
            cleared.append(True)
            host.clears.append(1)
        return len(host.words) == 3

    host.done = done
    host.run()
    assert host.words == [(SC[1], word) for word in (
        (0, 1, Status.COMMUNICATOR), (1, 1, 0), (1, 2, Status.COMMUNICATOR))]
