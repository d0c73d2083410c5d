# SPDX-License-Identifier: Apache-2.0
"""The part of a machine with an endpoint that this package uses; simulated and real machines implement it."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError
from hw.common.sizes import OFFSET_WIDTH
from hw.common.words import CompletionWord
from hw.dma_engine.words import NativeWord

__all__ = ["MOST_POOL_BYTES", "OWN_REGION", "Machine", "region_of"]

OWN_REGION = 0
"""Region of a machine's DMA engine that contains the machine's own pool."""

MOST_POOL_BYTES = 1 << OFFSET_WIDTH
"""Longest pool: offsets in a native word are shorter."""


class Machine(Protocol):
    """A machine: registered memory, and queues of a DMA engine, each in NATIVE mode with an SC word.

    Region 0 of its DMA engine is its own pool; region 1 + n is the pool of ``peers[n]``, a remote memory that a queue
    pair reaches. All queues belong to the domain of these regions.

    Attributes
    ----------
    number : int
        Of the machine, distinct from those of its peers.
    peers : tuple of int
        Numbers of the machines that it reaches.
    pool_bytes : int
        Length of its registered memory, at most 2 ** 36.
    queues : int
        Number of its queues.
    queue_depth : int
        Words of a queue that may be posted and not complete.
    memory : array of uint8, or None
        The pool, if this process can address it.
    cycle : int or None
        Clock cycles of a simulated machine since its reset; None for a real one.
    """

    @property
    def number(self) -> int: ...

    @property
    def peers(self) -> tuple[int, ...]: ...

    @property
    def pool_bytes(self) -> int: ...

    @property
    def queues(self) -> int: ...

    @property
    def queue_depth(self) -> int: ...

    @property
    def memory(self) -> npt.NDArray[np.uint8] | None: ...

    @property
    def cycle(self) -> int | None: ...

    def read_memory(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        """A copy of ``count`` bytes of the pool."""

    def write_memory(self, offset: int, data: bytes | npt.NDArray[Any]) -> None:
        """Store bytes, or those of an array in C order, in the pool."""

    def post(self, queue: int, *words: NativeWord) -> None:
        """Store requests to a queue's doorbell, in order."""

    def completed(self, queue: int) -> CompletionWord:
        """The queue's SC word."""

    def run(self, condition: Callable[[], bool]) -> None:
        """Let time pass until ``condition()``, which is called repeatedly, is true.

        Raises
        ------
        RequestTimeout
            If it stays false for longer than the machine's time limit.
        """


def region_of(machine: Machine, peer: int) -> int:
    """Region of a machine's DMA engine with the pool of ``peer``, or with its own pool."""
    if peer == machine.number:
        return OWN_REGION
    if peer not in machine.peers:
        raise DmaceError(f"Machine {machine.number} has no queue pair to machine {peer}; its peers are "
                         f"{', '.join(map(str, machine.peers)) or 'none'}.")
    return 1 + machine.peers.index(peer)
