# SPDX-License-Identifier: Apache-2.0
"""Collectives of a cluster that have been posted, have completed, or have failed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective
from hw.ace.words import CommandWord, Status
from sim.ace.buffers import Placement
from sim.ace.endpoints import Statistics
from sim.ace.shared_library import ClusterFailed

__all__ = ["CollectiveFailed", "Outcome", "Pending", "since"]


class CollectiveFailed(ClusterFailed):
    """A collective ended with an error; ``statuses`` has each rank's :class:`Status`, None where it did not end."""

    def __init__(self, message: str, statuses: list[Status | None]) -> None:
        super().__init__(message)
        self.statuses = statuses


@dataclass(frozen=True)
class Outcome:
    """Result of a collective.

    Attributes
    ----------
    outputs : list
        Each rank's receive buffer as an array of the inputs' type, or None where nothing is written.
    ended : list of int
        Cycles from the posting of the commands until each rank could see that it had ended.
    statistics : dict
        As :meth:`Endpoints.statistics`, from the posting to the end of the wait.
    """

    outputs: list[npt.NDArray[Any] | None]
    ended: list[int]
    statistics: Statistics

    @property
    def cycles(self) -> int:
        return max(self.ended)


@dataclass(frozen=True)
class Pending:
    """A collective that has been posted."""

    collective: Collective
    queue: int
    number: int
    posted: int
    element: np.dtype[Any]
    placements: list[Placement]
    before: Statistics
    commands: list[CommandWord]


def since(before: Statistics, after: Statistics) -> Statistics:
    """Statistics of the time between; the numbers that identify a link are not subtracted."""
    def rows(old: list[dict[str, int]], new: list[dict[str, int]]) -> list[dict[str, int]]:
        return [{key: value if key in ("rank", "port", "to") else value - was[key] for key, value in now.items()}
                for was, now in zip(old, new, strict=True)]

    return {"cycle": after["cycle"] - before["cycle"], "memories": rows(before["memories"], after["memories"]),
            "links": rows(before["links"], after["links"])}
