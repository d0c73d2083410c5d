# SPDX-License-Identifier: Apache-2.0
"""The interface of all mechanisms that carry a tensor from one machine to another, step by step."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from dmace.runtime.errors import DmaceError

from .device import RemoteDevice, RemoteMemory
from .future import Future
from .local import Local
from .tensor import Shape, Tensor

__all__ = ["Arrival", "Connect", "Receiver", "Sender", "Use", "check_payload", "exported"]

class Arrival(NamedTuple):
    """A tensor that has arrived: its memory and its shape."""

    memory: Local
    shape: Shape


class Sender(Protocol):
    """One tensor's sender."""

    def send(self, memory: Local, shape: Shape) -> Future[None]:
        """Send the tensor in ``memory``, which may be reused when the future is done. Sends of one sender are in
        order; a later one waits until the receiver has consumed as much as it needs."""

    def close(self) -> None:
        """Free the sender's own memory, when no send is in progress."""


class Receiver(Protocol):
    """One tensor's receiver."""

    def receive(self) -> Future[Arrival]:
        """The next tensor, which is valid until :meth:`release`."""

    def release(self) -> None:
        """End the use of the tensor that :meth:`receive` returned last."""

    def close(self) -> None:
        """Free the receiver's own memory, when no tensor is in use or expected."""


Connect = Callable[[RemoteDevice, RemoteDevice, Tensor], tuple[Sender, Receiver]]
"""Makes both ends for a tensor: from the sender's device of the receiver, and the receiver's device of the sender."""


def check_payload(tensor: Tensor, memory: Local, shape: Shape) -> None:
    """Raise DmaceError unless ``memory`` holds a tensor of that shape."""
    tensor.check(shape)
    if memory.length != tensor.count(shape):
        raise DmaceError(f"Tensor {tensor.name!r} of shape {shape!r} has {tensor.count(shape):,} bytes, not the "
                         f"{memory.length:,} of its memory.")


def exported(memory: Local) -> RemoteMemory:
    """Local memory as peers name it."""
    return RemoteMemory(memory.machine.number, memory.offset, memory.length)


class Use:
    """Whether a receiver's tensor is in use, and the check of the order of calls."""

    def __init__(self, tensor: Tensor) -> None:
        self._name, self._state = tensor.name, "released"

    def receive(self) -> None:
        """Before the next tensor is received."""
        if self._state != "released":
            raise DmaceError(f"Tensor {self._name!r} must be released before it is received again.")
        self._state = "expected"

    def arrive(self, memory: Local, shape: Shape) -> Arrival:
        """Note that it has arrived."""
        self._state = "used"
        return Arrival(memory, shape)

    def fail(self) -> None:
        """After a failed receive, which may be repeated."""
        self._state = "released"

    def release(self) -> None:
        """Before the tensor is released."""
        if self._state != "used":
            raise DmaceError(f"Tensor {self._name!r} has not been received, so it cannot be released.")
        self._state = "released"
