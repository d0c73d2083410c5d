# SPDX-License-Identifier: Apache-2.0
"""Handles of requests to a machine: when each began and ended."""

from dataclasses import dataclass, field

__all__ = ["Handle"]


@dataclass
class Handle:
    """A collective, a computation or a put that was requested.

    Attributes
    ----------
    tag : str
        As given.
    begin, end : float
        Seconds; ``begin`` is the time of the request until the first rank admits it, later if that alternates between
        computation and communication; ``end`` is None until it is over everywhere.
    ends : dict
        Rank -> seconds, for the ranks where it is over. A folded machine has rank 0 only.
    """

    tag: str
    begin: float
    end: float | None = None
    ends: dict[int, float] = field(default_factory=dict)
    _admitted: bool = field(default=False, repr=False)

    def begins(self, time: float) -> None:
        """Note that a rank admits it."""
        if not self._admitted:
            self.begin, self._admitted = time, True
