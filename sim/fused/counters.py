# SPDX-License-Identifier: Apache-2.0
"""Trigger counters of an endpoint, allotted to the slices of an operation."""

from typing import NamedTuple

from hw.endpoint.config import EndpointConfig
from hw.errors import UserError
from hw.triggers.config import COUNTERS_PER_BLOCK

__all__ = ["Counter", "Counters"]


class Counter(NamedTuple):
    """A counter of a block."""

    block: int
    number: int


class Counters:
    """Counters that are still free."""

    def __init__(self, config: EndpointConfig) -> None:
        self._blocks = config.trigger_blocks
        self._used = [0] * config.trigger_blocks

    def consecutive(self, count: int, what: str) -> list[Counter]:
        """Counters with consecutive numbers in one block."""
        for block, used in enumerate(self._used):
            if used + count <= COUNTERS_PER_BLOCK:
                self._used[block] += count
                return [Counter(block, used + number) for number in range(count)]
        raise UserError(f"{what} need {count} counters of one block, and no block of the endpoint's {self._blocks} "
                        "has as many left.")

    def any(self, count: int, what: str) -> list[Counter]:
        """Counters of any blocks."""
        free = sum(COUNTERS_PER_BLOCK - used for used in self._used)
        if count > free:
            raise UserError(f"{what} need {count} counters, and the endpoint's {self._blocks} blocks have {free} left.")
        found: list[Counter] = []
        for block, used in enumerate(self._used):
            taken = min(count - len(found), COUNTERS_PER_BLOCK - used)
            found += [Counter(block, used + number) for number in range(taken)]
            self._used[block] += taken
        return found
