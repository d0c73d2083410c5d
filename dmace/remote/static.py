# SPDX-License-Identifier: Apache-2.0
"""Static placement: the receiver's buffer is known before the step, and the sender writes into it. No copies.

The sender writes tensor and flag in one request, :meth:`RemoteDevice.write_with_flag`. The receiver polls its flag,
clears it, and uses the tensor where it is. When it releases the tensor, it signals the number of consumed tensors to a
word of the sender, which starts the next write only then: so neither buffer nor flag is overwritten in use.
"""

from dmace.runtime.errors import DmaceError

from .device import RemoteDevice, RemoteMemory
from .future import Future, Turns, completion
from .local import Local
from .mechanism import Arrival, Use, check_payload, exported
from .tensor import Shape, Tensor

__all__ = ["StaticReceiver", "StaticSender", "connect_static"]


def connect_static(sending: RemoteDevice, receiving: RemoteDevice,
                   tensor: Tensor) -> tuple["StaticSender", "StaticReceiver"]:
    """Both ends of a tensor whose shape is known, with their buffer and words."""
    shape = tensor.known
    if shape is None:
        raise DmaceError(f"Tensor {tensor.name!r} has a shape that is not known before the step, so it has no static "
                         "placement.")
    buffer = receiving.local.allocate(max(1, tensor.count(shape)))[:tensor.count(shape)]
    flag, consumed = receiving.local.flag(), sending.local.flag()
    return (StaticSender(sending, tensor, exported(buffer), exported(flag), consumed),
            StaticReceiver(receiving, tensor, buffer, flag, exported(consumed)))


class StaticSender:
    """Sender of a tensor into the receiver's buffer.

    Parameters
    ----------
    device : RemoteDevice
        The receiver's machine.
    tensor : Tensor
        Its shape is known.
    target, flag : RemoteMemory
        The receiver's buffer, as long as the tensor, and its flag.
    consumed : Local
        Word with the number of tensors that the receiver has released.
    """

    def __init__(self, device: RemoteDevice, tensor: Tensor, target: RemoteMemory, flag: RemoteMemory,
                 consumed: Local) -> None:
        self._device, self._tensor, self._target, self._flag = device, tensor, target, flag
        self._consumed, self._sent = consumed, 0

    def send(self, memory: Local, shape: Shape) -> Future[None]:
        check_payload(self._tensor, memory, shape)
        self._sent += 1
        return self._device.start(self._send(memory, self._sent))

    def _send(self, memory: Local, number: int) -> Turns[None]:
        while self._consumed.load_word() < number - 1:
            yield
        yield from completion(self._device.write_with_flag(memory, self._target, self._flag, number))

    def close(self) -> None:
        self._device.local.free(self._consumed)


class StaticReceiver:
    """Receiver of a tensor in a buffer of its own.

    Parameters
    ----------
    device : RemoteDevice
        The sender's machine.
    tensor : Tensor
    buffer, flag : Local
    consumed : RemoteMemory
        The sender's word of :class:`StaticSender`.
    """

    def __init__(self, device: RemoteDevice, tensor: Tensor, buffer: Local, flag: Local,
                 consumed: RemoteMemory) -> None:
        self._device, self._buffer, self._flag, self._consumed = device, buffer, flag, consumed
        self._tensor, self._shape = tensor, tensor.known or ()
        self._number, self._use = 0, Use(tensor)

    def receive(self) -> Future[Arrival]:
        self._use.receive()
        self._number += 1
        return self._device.start(self._receive())

    def _receive(self) -> Turns[Arrival]:
        while not (value := self._flag.load_word()):
            yield
        if value != self._number:
            raise DmaceError(f"The flag of tensor {self._tensor.name!r} must be its number {self._number}, "
                             f"not {value}.")
        self._flag.store_word(0)
        return self._use.arrive(self._buffer, self._shape)

    def release(self) -> None:
        self._use.release()
        self._device.notify(self._consumed, self._number)

    def close(self) -> None:
        self._device.local.pool.free(self._buffer.offset)
        self._device.local.free(self._flag)
