# SPDX-License-Identifier: Apache-2.0
"""Results that arrive later, and the work that polls do until then."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from dmace.runtime.errors import RequestTimeout

from .machine import Machine

__all__ = ["Future", "Tasks", "Turns", "completion", "wait_all"]

_Result = TypeVar("_Result")

Turns = Generator[None, None, _Result]
"""Work that is done poll by poll: it yields where it has to wait."""


class Future(Generic[_Result]):
    """A result that arrives later.

    Parameters
    ----------
    machine : Machine
        Lets time pass in :meth:`wait`.
    poll : callable
        Does whatever can be done now. Returns a tuple with the result, or None while there is none. An exception, for
        instance :class:`RequestFailed` with a request's status, ends the future.
    tasks : Tasks
        Polled with it.
    """

    def __init__(self, machine: Machine, poll: Callable[[], tuple[_Result] | None], tasks: "Tasks") -> None:
        self.machine, self._poll, self.tasks = machine, poll, tasks
        self._result: tuple[_Result] | None = None
        self.error: Exception | None = None
        self.requested = False

    @property
    def ended(self) -> bool:
        """Whether there is a result or an error, without a poll."""
        return self._result is not None or self.error is not None

    def advance(self) -> bool:
        """Poll only this future; whether it has ended."""
        if not self.ended:
            try:
                self._result = self._poll()
            except Exception as error:
                self.error = error
        return self.ended

    def done(self) -> bool:
        """Poll; whether there is a result or an error."""
        if not self.ended:
            self.tasks.poll(self)
        return self.ended

    def wait(self) -> _Result:
        """Let time pass until it is done, and return its result.

        Raises
        ------
        RequestFailed
            With the status of a request that failed.
        RequestTimeout
            If it is not done within the time limit of the machine.
        """
        if not self.done():
            self.tasks.run(self.machine, self.done)
        return self.result()

    def result(self) -> _Result:
        """The result of a future that is done; raises its error."""
        self.requested = True
        if self.error is not None:
            raise self.error
        if self._result is None:
            raise RuntimeError("The future is not done, so it has no result")
        return self._result[0]


class Tasks:
    """Work in progress, which every poll of one of its futures continues: each task is polled again and again, so that
    no thread blocks. Devices of machines that one process drives share one object."""

    def __init__(self) -> None:
        self._active: list[Future[Any]] = []
        self._unattended: list[Future[Any]] = []
        self._failed: list[Future[Any]] = []
        self._pollers: list[Callable[[], None]] = []
        self._polling = False

    def add_poller(self, poll: Callable[[], None]) -> None:
        """Call a function in each poll, before the tasks."""
        self._pollers.append(poll)

    def start(self, machine: Machine, turns: Turns[_Result]) -> Future[_Result]:
        """The result of work, which begins at once."""
        def poll() -> tuple[_Result] | None:
            try:
                next(turns)
            except StopIteration as ended:
                return (ended.value,)
            return None

        future = Future(machine, poll, self)
        self._active.append(future)
        with self._guard():
            future.advance()
        return future

    def check(self, future: Future[Any]) -> None:
        """Let a poll raise the error of a future that no caller waits for."""
        self._unattended.append(future)

    @property
    def idle(self) -> bool:
        """Whether no work is in progress, and every future of :meth:`check` is done."""
        return not self._active and not self._unattended

    @property
    def failure(self) -> Future[Any] | None:
        """Work that has failed and whose result was not requested."""
        return next((future for future in self._failed if not future.requested), None)

    @contextmanager
    def _guard(self) -> Iterator[bool]:
        """Whether no poll is in progress; polls inside continue no other work."""
        outer, self._polling = self._polling, True
        try:
            yield not outer
        finally:
            self._polling = outer

    def poll(self, future: Future[Any] | None = None) -> None:
        """Continue all work and a future; within a poll, only the future."""
        with self._guard() as outermost:
            if outermost:
                self._continue()
            if future is not None:
                future.advance()

    def _continue(self) -> None:
        for poll in self._pollers:
            poll()
        for future in tuple(self._active):
            future.advance()
        self._failed += [future for future in self._active if future.error is not None]
        self._active = [future for future in self._active if not future.ended]
        ended = [future for future in self._unattended if future.advance()]
        self._unattended = [future for future in self._unattended if not future.ended]
        for future in ended:
            future.result()

    def run(self, machine: Machine, condition: Callable[[], bool]) -> None:
        """Let time pass until the condition is true. Instead of a time-out, raises the error of a task that has failed
        and whose result was not requested: it may be the cause."""
        try:
            machine.run(condition)
        except RequestTimeout:
            if self.failure is not None:
                self.failure.result()
            raise


def completion(future: Future[_Result]) -> Turns[_Result]:
    """Wait for a future, as a part of other work."""
    while not future.advance():
        yield
    return future.result()


def wait_all(futures: Iterable[Future[Any]], *, others: bool = False) -> list[Any]:
    """Let time pass until all are done, and return their results. An error is raised as soon as one has it or, with
    ``others``, as soon as any work of their :class:`Tasks` has failed: the futures may wait for that."""
    waiting = list(futures)
    shared = list({id(future.tasks): future.tasks for future in waiting}.values())

    def done() -> bool:
        for tasks in shared:
            tasks.poll()
        found = [future.advance() for future in waiting]
        return all(found) or any(future.error is not None for future in waiting) or (
            others and any(tasks.failure is not None for tasks in shared))

    if waiting and not done():
        waiting[0].tasks.run(waiting[0].machine, done)
    failed = [future for future in waiting if future.error is not None]
    failed += [tasks.failure for tasks in shared if others and tasks.failure is not None]
    for future in failed:
        # Only the first error is raised; later waits must not report the others.
        future.requested = True
    if failed:
        failed[0].result()
    return [future.result() for future in waiting]
