# SPDX-License-Identifier: Apache-2.0
"""Work that another thread ends."""

import threading
import time

import pytest

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = pytest.mark.long


def ends_elsewhere(work):
    thread = threading.Thread(target=work.end, args=(None,))
    thread.start()
    return thread


def test_wait_returns_after_the_callbacks():
    """A profiler that is stopped after the wait has no range of the work that still ends in another thread."""
    from dmace.torch.work import CollectiveWork

    work, seen = CollectiveWork([], lambda: None), []

    def callback(_):
        time.sleep(0.2)
        seen.append(work.is_completed())

    work.get_future().add_done_callback(callback)
    thread = ends_elsewhere(work)
    assert work.wait() and seen == [True]
    thread.join()


def test_a_callback_may_wait():
    from dmace.torch.work import CollectiveWork

    work, seen = CollectiveWork([3], lambda: None), []
    work.get_future().add_done_callback(lambda _: seen.append(work.result()))
    ends_elsewhere(work).join(timeout=10)
    assert work.wait() and seen == [[3]]
