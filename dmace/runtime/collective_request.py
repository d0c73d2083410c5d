# SPDX-License-Identifier: Apache-2.0
"""A collective that one rank has posted."""

import asyncio
import errno
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from dmace.drivers.ace_states import Fault
from hw.ace.words import Collective, Status

from .errors import CollectiveFailed, RequestTimeout
from .memory import Memory

if TYPE_CHECKING:
    from .communicator import Communicator

__all__ = ["CollectiveRequest"]

_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 2e-3
"""Seconds between polls."""


class CollectiveRequest:
    """``wait()`` it, or ``await`` it.

    Attributes
    ----------
    collective : Collective
    number : int
        Among the rank's collectives on this communicator, from 1 on; they complete in order.
    """

    def __init__(self, communicator: "Communicator", collective: Collective, number: int,
                 memories: tuple[Memory, ...]) -> None:
        self.communicator, self.collective, self.number, self.memories = communicator, collective, number, memories
        self._status: Status | None = None
        self._fault: Fault | None = None

    def end(self, status: Status, fault: Fault | None) -> None:
        """Its result, from the communicator."""
        self._fault, self._status = fault, status
        self.memories = ()

    def done(self) -> bool:
        """Whether it has completed, with whatever result."""
        if self._status is None:
            self.communicator.poll()
        return self._status is not None

    def wait(self, timeout: float | None = None) -> None:
        """Return when it has completed on this rank with success.

        Parameters
        ----------
        timeout : float or None
            Seconds.

        Raises
        ------
        CollectiveFailed
            With the status.
        RequestTimeout
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while not self.done():
            if deadline is not None and time.monotonic() >= deadline:
                raise RequestTimeout(f"{self._name()} has not completed within {timeout} s.", errno.ETIMEDOUT)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._check()

    def __await__(self) -> Generator[object, None, None]:
        return self._completed().__await__()

    async def _completed(self) -> None:
        pause = _FIRST_PAUSE
        while not self.done():
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._check()

    def _name(self) -> str:
        return f"Collective {self.number} of rank {self.communicator.rank}, {self.collective.name},"

    def _check(self) -> None:
        if self._status:
            raise CollectiveFailed(f"{self._name()} has failed with {self._status.name}"
                                   f"{f', caused at rank {self._fault.rank}' if self._fault else ''}.",
                                   self._status, self.number, self._fault)
