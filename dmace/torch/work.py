# SPDX-License-Identifier: Apache-2.0
"""``Work`` of collectives: a future that the client's thread completes."""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Work
from torch.futures import Future

from dmace.runtime.errors import DmaceError

__all__ = ["CollectiveWork", "adopted", "completed", "joined"]


class CollectiveWork(Work):
    """Collectives in progress.

    Parameters
    ----------
    outputs : list of tensor
        The value of the future.
    finish : callable
        Receives no argument, once, when :meth:`end` is called without an error; it fills the outputs.

    Attributes
    ----------
    source : int
        Rank in the group from which a receive has received; -1 for anything else.
    """

    def __init__(self, outputs: list[Any], finish: Callable[[], None]) -> None:
        super().__init__()
        self._outputs, self._finish = outputs, finish
        self._ended = threading.Event()
        # Callbacks of the future have returned, too: one of them ends the profiler's range, and a profiler that is
        # stopped meanwhile crashes.
        self._notified = threading.Event()
        self._ends_in: int | None = None
        self._failure: BaseException | None = None
        self._begun: Any = Future()
        # Only a callback that raises gives a future of C++ its error, which DistributedDataParallel sees.
        self._future = self._begun.then(self._checked)
        self._callbacks: list[Callable[[CollectiveWork], None]] = []
        self.source = -1
        self._lock = threading.Lock()

    def end(self, failure: BaseException | None) -> None:
        """The collective has ended."""
        if failure is None:
            try:
                self._finish()
            except Exception as error:
                failure = error
        with self._lock:
            self._failure, self._ends_in = failure, threading.get_ident()
            self._ended.set()
        self._begun.set_result(None)
        self._notified.set()
        for callback in self._callbacks:
            callback(self)

    def _checked(self, begun: Any) -> list[Any]:
        if self._failure is not None:
            raise RuntimeError(str(self._failure))
        return self._outputs

    def then(self, callback: Callable[["CollectiveWork"], None]) -> None:
        """Call it at the end, or at once if that has been."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    @property
    def failure(self) -> BaseException | None:
        return self._failure

    # Called by torch

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when the outputs are filled; raises the error of a failed collective."""
        seconds = timeout.total_seconds() if timeout else 0.0
        if not self._ended.wait(seconds or None):
            raise DmaceError(f"The collective has not completed within {seconds:g} s.")
        if self._ends_in != threading.get_ident():      # else a callback waits
            self._notified.wait()
        if self._failure is not None:
            raise self._failure
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._failure is None

    def _source_rank(self) -> int:
        return self.source

    def get_future(self) -> Any:
        return self._future

    def result(self) -> list[Any]:
        self.wait()
        return self._outputs


def completed(outputs: list[Any]) -> CollectiveWork:
    """Work that has ended with success."""
    work = CollectiveWork(outputs, lambda: None)
    work.end(None)
    return work


def adopted(work: Any, outputs: Sequence[Any] = (), finish: Callable[[], None] = lambda: None) -> CollectiveWork:
    """A work of another backend; outputs and ``finish`` as those of :class:`CollectiveWork`."""
    one = CollectiveWork(list(outputs), finish)

    def ended(future: Any) -> None:
        try:
            future.value()
        except Exception as error:
            one.end(error)
        else:
            one.end(None)

    work.get_future().add_done_callback(ended)
    return one


def joined(parts: Sequence[Any], outputs: list[Any]) -> Any:
    """One work of several: it ends with the last of them, and fails with the first that has failed."""
    if not parts:
        return completed(outputs)
    if len(parts) == 1:
        return parts[0]
    one = CollectiveWork(outputs, lambda: None)
    works = [part if isinstance(part, CollectiveWork) else adopted(part) for part in parts]
    remaining, lock = [len(works)], threading.Lock()

    def ended(work: CollectiveWork) -> None:
        with lock:
            remaining[0] -= 1
            last = not remaining[0]
        if last:
            one.end(next((work.failure for work in works if work.failure is not None), None))

    for work in works:
        work.then(ended)
    return one
