# SPDX-License-Identifier: Apache-2.0
"""Buffers in a rank's memory."""

import os
import random
import threading

import pytest

from dmace.cluster_client.memory import RankMemory
from dmace.runtime.errors import DmaceError
from hw.common.sizes import PAGE_BYTES

PAGES = 16


def memory(check=lambda: None):
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, PAGES * PAGE_BYTES)
    return RankMemory(descriptor, PAGES * PAGE_BYTES, check)


def test_buffers_do_not_overlap(request):
    rng, one, used = random.Random(request.config.getoption("--seed")), memory(), {}
    for _ in range(1000):
        free = PAGES - sum(used.values())
        pages = rng.randint(1, 3)
        if free < PAGES // 2:
            at = rng.choice(list(used))
            del used[at]
            one.release(at)
        else:
            try:
                at = one.allocate(pages * PAGE_BYTES - rng.randrange(PAGE_BYTES), 0)
            except DmaceError:
                continue    # fragmented
            assert at % PAGE_BYTES == 0
            used[at] = pages
        taken = [start + page * PAGE_BYTES for start, length in used.items() for page in range(length)]
        assert len(set(taken)) == len(taken) and all(page < PAGES * PAGE_BYTES for page in taken)
    for at in used:
        one.release(at)
    assert one.allocate(PAGES * PAGE_BYTES, 0) == 0


def test_too_long():
    sentence = r"^A buffer of 65,537 bytes does not fit the rank's memory of 65,536 bytes\.$"
    with pytest.raises(DmaceError, match=sentence):
        memory().allocate(PAGES * PAGE_BYTES + 1, 1)


def test_waits_for_a_release():
    one = memory()
    at = one.allocate(PAGES * PAGE_BYTES, 1)
    threading.Timer(0.1, one.release, (at,)).start()
    assert one.allocate(1, 60) == 0
    with pytest.raises(DmaceError, match=r"^A buffer of 65,000 bytes was not free within 0.01 s"):
        one.allocate(65_000, 0.01)


def test_does_not_wait_without_hope():
    def check():
        raise DmaceError("The process has ended.")

    one = memory(check)
    one.allocate(1, 1)
    with pytest.raises(DmaceError, match=r"^The process has ended\.$"):
        one.allocate(PAGES * PAGE_BYTES, 60)
