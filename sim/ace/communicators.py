# SPDX-License-Identifier: Apache-2.0
"""Communicators of a cluster, and its default communicators."""

from collections.abc import Sequence
from dataclasses import dataclass

from dmace.drivers.ace import Share
from hw.ace.config import AceConfig

__all__ = ["Communicator", "default_communicators"]


@dataclass(frozen=True)
class Communicator:
    """Ranks of all coordinates in these dimensions of the torus, its resources, and its priority, 0 to 3;
    there is one for each choice of the other coordinates."""

    dimensions: tuple[int, ...]
    share: Share
    priority: int = 0


def default_communicators(config: AceConfig, shape: Sequence[int]) -> list[Communicator]:
    """The whole torus with half of all FSMs and slots, and a communicator for each dimension as long as resources
    remain; of a single ring, one communicator with all of them."""
    rings = [dimension for dimension, size in enumerate(shape) if size > 1]
    rings = rings[:min(config.fsms // 2, config.communicators - 1)] if len(rings) > 1 else []
    whole = tuple(range(len(shape)))
    if not rings:
        return [Communicator(whole, Share(0, config.fsms, 0, config.slots))]
    fsms, slots = (1 << (half // len(rings)).bit_length() - 1 for half in (config.fsms // 2, config.slots // 2))
    made = [Communicator(whole, Share(0, config.fsms // 2, 0, config.slots // 2))]
    for number, dimension in enumerate(rings):
        made.append(Communicator((dimension,), Share(config.fsms // 2 + number * fsms, fsms,
                                                     config.slots // 2 + number * slots, slots)))
    return made
