# SPDX-License-Identifier: Apache-2.0
"""The receiving side of a block: its tensors as values, which operations use where they have arrived."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .conversion import Conversion
from .future import Future, Turns, completion
from .mechanism import Arrival, Receiver
from .plan import Block

__all__ = ["Incoming"]


class Incoming:
    """A block on one of its destinations.

    Parameters
    ----------
    block : Block
    receiver : Receiver
    conversion : Conversion
        Of the values.
    """

    def __init__(self, block: Block, receiver: Receiver, conversion: Conversion) -> None:
        self.block, self._receiver, self._conversion = block, receiver, conversion
        self._future: Future[Arrival] | None = None
        #: The block's memory, from its arrival to its release.
        self.memory: npt.NDArray[np.uint8] | None = None

    def begin(self) -> None:
        """Expect the block of the next step."""
        self._future = self._receiver.receive()

    def receive(self) -> Turns[dict[str, Any]]:
        """Wait until it has arrived; its tensors, name -> value."""
        assert self._future is not None
        arrival = yield from completion(self._future)
        self.memory = arrival.memory.load()
        values: dict[str, Any] = {}
        for tensor, offset in zip(self.block.tensors, self.block.offsets, strict=True):
            shape = tensor.known if tensor.known is not None else arrival.shape
            array = tensor.view(self.memory[offset:offset + tensor.count(shape)], shape)
            values[tensor.name] = array.item() if tensor.scalar else self._conversion.from_array(array)
        return values

    def release(self) -> None:
        """The sender may send the next one."""
        self.memory = None
        self._receiver.release()

    def close(self) -> None:
        self._receiver.close()
