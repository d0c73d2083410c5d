# SPDX-License-Identifier: Apache-2.0
"""A queue of a machine's DMA engine with credits: words beyond its depth wait here."""

from collections import deque
from collections.abc import Iterable

from dmace.runtime.errors import DmaceError, RequestFailed
from hw.common.sizes import COUNT_WIDTH
from hw.dma_engine.words import NativeWord, RequestFlag, Status

from .future import Future, Tasks
from .machine import Machine

__all__ = ["RequestQueue"]


class RequestQueue:
    """Requests of one queue, numbered from 1 on; they complete in this order.

    Every word has the flag SC, so that completions return credits; the engine coalesces SC words.

    Parameters
    ----------
    machine : Machine
    number : int
        Of the queue, which no other object uses.
    tasks : Tasks
        Polls of its futures post waiting words.
    """

    def __init__(self, machine: Machine, number: int, tasks: Tasks) -> None:
        if not 0 <= number < machine.queues:
            raise DmaceError(f"A queue of machine {machine.number} must be from 0 to {machine.queues - 1}, "
                             f"not {number!r}.")
        self.machine, self.number = machine, number
        self._base = machine.completed(number).count
        self.submitted = self.posted = self.completed = 0
        self._status = Status.OK
        self._waiting: deque[NativeWord] = deque()
        self._tasks = tasks
        tasks.add_poller(self._post_waiting)

    def submit(self, words: Iterable[NativeWord]) -> Future[None]:
        """Post words in order, as soon as there are credits. The future is done when the last has completed, and at
        once if there is none."""
        first = self.submitted + 1
        for word in words:
            self._waiting.append(word._replace(flags=word.flags | RequestFlag.SC))
            self.submitted += 1
        last = self.submitted
        self.poll()
        return Future(self.machine, lambda: self._result(first, last), self._tasks)

    def poll(self) -> None:
        """Read SC, and post waiting words."""
        word = self.machine.completed(self.number)
        self.completed += (word.count - self._base - self.completed) % (1 << COUNT_WIDTH)
        self._status = Status(word.status)
        credits = self.machine.queue_depth - (self.posted - self.completed)
        words = [self._waiting.popleft() for _ in range(min(credits, len(self._waiting)))]
        if words and self._status is Status.OK:
            self.posted += len(words)
            self.machine.post(self.number, *words)

    def _post_waiting(self) -> None:
        if self._waiting:
            self.poll()

    def _result(self, first: int, last: int) -> tuple[None] | None:
        self.poll()
        if self.completed >= last:
            return (None,)
        if self._status is Status.OK:
            return None
        failed, name = self.completed + 1, self._status.name
        where = f"queue {self.number} of machine {self.machine.number}"
        if first <= failed:
            raise RequestFailed(f"Request {failed} of {where} failed with {name}.", self._status, failed)
        raise RequestFailed(f"Request {first} of {where} is not complete: request {failed} failed with {name}.",
                            self._status, first)
