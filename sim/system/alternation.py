# SPDX-License-Identifier: Apache-2.0
"""A rank whose endpoint does not overlap: it computes or communicates, each with all resources, one at a time."""

from collections.abc import Callable

from .kernel import Kernel

__all__ = ["Alternation"]

_Begin = Callable[[], object]


class Alternation:
    """Admits computations and collectives of a rank, so that they never coincide.

    While there is something to compute, collectives wait. When the processor is idle, all that wait begin together;
    the next computation waits until the last of them has ended. This is the only place where ``overlap`` of an endpoint
    decides about time.

    Parameters
    ----------
    kernel : Kernel
    key : int
        Key of its decisions, which must be the last of a time.
    """

    def __init__(self, kernel: Kernel, key: int) -> None:
        self._kernel, self._key = kernel, key
        self._computations: list[_Begin] = []
        self._collectives: list[_Begin] = []
        self._computing, self._communicating = 0, False

    def compute(self, begin: _Begin) -> None:
        """Call ``begin()`` when no collective is in progress; :meth:`computed` must follow."""
        self._computations.append(begin)
        self._kernel.decide(self._key, self._choose)

    def computed(self) -> None:
        """A computation has ended."""
        self._computing -= 1
        self._kernel.decide(self._key, self._choose)

    def communicate(self, begin: _Begin) -> None:
        """Call ``begin()`` when the processor is idle."""
        self._collectives.append(begin)
        self._kernel.decide(self._key, self._choose)

    def communicating(self, whether: bool) -> None:
        """Note whether a collective is in progress on the rank."""
        self._communicating = whether
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        if self._communicating:
            return
        while self._computations:
            self._computing += 1
            self._computations.pop(0)()
        if not self._computing:
            waiting, self._collectives = self._collectives, []
            for begin in waiting:
                begin()
