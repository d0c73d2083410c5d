# SPDX-License-Identifier: Apache-2.0
"""The sending side of a block: registered memory that producing operations write, and a sender for each destination."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .future import Future, Turns, completion
from .local import Local, LocalDevice
from .mechanism import Sender
from .plan import Block
from .tensor import Shape, Tensor

__all__ = ["Outgoing"]


class Outgoing:
    """A block on its source machine.

    A block whose shapes are known has its memory permanently; else memory is allocated in each step, and freed before
    the tensor is produced again: the source's operations may use it until the end of the step.

    Parameters
    ----------
    device : LocalDevice
        The source.
    block : Block
    senders : sequence of Sender
        One for each destination.

    Attributes
    ----------
    sent_bytes : int
        To all destinations, in the step in progress.
    """

    def __init__(self, device: LocalDevice, block: Block, senders: Sequence[Sender]) -> None:
        self.block, self._device, self._senders = block, device, senders
        self._shape = block.payload.known
        self._whole = None if self._shape is None else device.allocate(max(1, block.payload.count(self._shape)))
        self._sends: list[Future[None]] = []
        self._missing: set[str] = set()
        self.sent_bytes = 0

    def begin(self) -> None:
        """Begin a step."""
        self._missing = {tensor.name for tensor in self.block.tensors}
        self.sent_bytes = 0

    def free(self) -> Turns[None]:
        """Wait until the memory is no longer needed by the previous step."""
        for send in self._sends:
            yield from completion(send)
        self._sends = []
        if self._whole is not None and self.block.payload.known is None:
            self._device.free(self._whole)
            self._whole = self._shape = None

    def allocate(self, tensor: Tensor, shape: Shape) -> npt.NDArray[Any] | None:
        """The tensor's part of registered memory as an array to write, or None if this process cannot address it."""
        view = self._part(tensor, shape).view()
        return None if view is None else tensor.view(view, shape)

    def store(self, tensor: Tensor, array: npt.NDArray[Any]) -> int:
        """Copy a tensor into registered memory unless it is there; returns the number of copied bytes."""
        view = self.allocate(tensor, array.shape)
        if view is None:
            self._part(tensor, array.shape).store(np.ascontiguousarray(array.transpose(tensor.order)))
        elif array.nbytes == 0 or array.__array_interface__["data"] == view.__array_interface__["data"]:
            return 0
        else:
            view[...] = array
        return array.nbytes

    def _part(self, tensor: Tensor, shape: Shape) -> Local:
        count = tensor.count(shape)
        if self._whole is None:
            self._whole, self._shape = self._device.allocate(max(1, count)), shape
        offset = self.block.offsets[self.block.tensors.index(tensor)]
        return self._whole[offset:offset + count]

    def complete(self, name: str) -> None:
        """Note that a tensor is in memory; the last one of the block starts the transfers."""
        self._missing.discard(name)
        if self._missing:
            return
        memory, shape = self._whole, self._shape
        assert memory is not None and shape is not None
        payload = memory[:self.block.payload.count(shape)]
        self._sends = [sender.send(payload, shape) for sender in self._senders]
        self.sent_bytes = payload.length * len(self._senders)

    def close(self) -> None:
        """Free all memory, when no send is in progress."""
        for sender in self._senders:
            sender.close()
        if self._whole is not None:
            self._device.free(self._whole)
