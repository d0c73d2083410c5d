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
        Seconds; ``end`` is None until it is over everywhere.
    ends : dict
        Rank -> seconds, for the ranks where it is over. A folded machine has rank 0 only.
    """

    tag: str
    begin: float
    end: float | None = None
    ends: dict[int, float] = field(default_factory=dict)
