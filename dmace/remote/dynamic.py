# SPDX-License-Identifier: Apache-2.0
"""Dynamic allocation: the receiver learns shape and address from metadata, allocates, and reads. No copies.

The sender writes a :class:`Header` with the address of the payload into a slot of the receiver, and then the slot's
flag. The receiver polls the flag, clears it, allocates memory for the shape that it finds, READs the payload from the
sender's memory, and signals the number of tensors that it has read. Only then does the sender reuse payload and slot.
"""

from dmace.runtime.errors import DmaceError

from .device import RemoteDevice, RemoteMemory
from .future import Future, Turns, completion
from .header import HEADER_BYTES, Header
from .local import Local
from .mechanism import Arrival, Use, check_payload, exported
from .tensor import Shape, Tensor

__all__ = ["DynamicReceiver", "DynamicSender", "connect_dynamic"]


def connect_dynamic(sending: RemoteDevice, receiving: RemoteDevice,
                    tensor: Tensor) -> tuple["DynamicSender", "DynamicReceiver"]:
    """Both ends of a tensor of any shape, with slot and words."""
    slot, flag, consumed = receiving.local.allocate(HEADER_BYTES), receiving.local.flag(), sending.local.flag()
    return (DynamicSender(sending, tensor, exported(slot), exported(flag), consumed),
            DynamicReceiver(receiving, tensor, slot, flag, exported(consumed)))


class DynamicSender:
    """Sender of a tensor's metadata; a send is done when the receiver has read the payload.

    Parameters
    ----------
    device : RemoteDevice
        The receiver's machine.
    tensor : Tensor
    slot, flag : RemoteMemory
        The receiver's slot for metadata, and its flag.
    consumed : Local
        Word with the number of tensors that the receiver has read.
    """

    def __init__(self, device: RemoteDevice, tensor: Tensor, slot: RemoteMemory, flag: RemoteMemory,
                 consumed: Local) -> None:
        self._device, self._tensor, self._slot, self._flag, self._consumed = device, tensor, slot, flag, consumed
        self._staging = device.local.allocate(HEADER_BYTES)
        self._sent = 0

    def send(self, memory: Local, shape: Shape) -> Future[None]:
        check_payload(self._tensor, memory, shape)
        self._sent += 1
        header = Header.of(self._tensor, shape, offset=memory.offset, length=memory.length, number=self._sent)
        return self._device.start(self._send(header))

    def _send(self, header: Header) -> Turns[None]:
        while self._consumed.load_word() < header.number - 1:
            yield
        self._staging.store(header.pack())
        yield from completion(self._device.write_with_flag(self._staging, self._slot, self._flag, header.number))
        while self._consumed.load_word() < header.number:
            yield

    def close(self) -> None:
        self._device.local.free(self._consumed)
        self._device.local.free(self._staging)


class DynamicReceiver:
    """Receiver that allocates memory for each tensor, and frees it when the tensor is released.

    A :class:`PoolExhausted` ends a receive without loss: it may be repeated when memory is free.

    Parameters
    ----------
    device : RemoteDevice
        The sender's machine.
    tensor : Tensor
    slot, flag : Local
    consumed : RemoteMemory
        The sender's word of :class:`DynamicSender`.
    """

    def __init__(self, device: RemoteDevice, tensor: Tensor, slot: Local, flag: Local, consumed: RemoteMemory) -> None:
        self._device, self._tensor, self._slot, self._flag, self._consumed = device, tensor, slot, flag, consumed
        self._number, self._use = 1, Use(tensor)
        self._header: Header | None = None
        self._memory: Local | None = None

    def receive(self) -> Future[Arrival]:
        self._use.receive()
        return self._device.start(self._receive())

    def _receive(self) -> Turns[Arrival]:
        try:
            while self._header is None and not self._flag.load_word():
                yield
            header = self._header = self._header or self._described()
            whole = self._device.local.allocate(max(1, header.length))
        except DmaceError:
            self._use.fail()
            raise
        memory, self._memory = whole[:header.length], whole
        yield from completion(self._device.read(RemoteMemory(self._device.peer, header.offset, header.length), memory))
        self._device.notify(self._consumed, self._number)
        self._number, self._header = self._number + 1, None
        return self._use.arrive(memory, header.shape)

    def _described(self) -> Header:
        """Check the metadata in the slot, and clear the flag."""
        header = Header.unpack(self._slot.load())
        header.check(self._tensor, self._number)
        if header.length != self._tensor.count(header.shape):
            raise DmaceError(f"Metadata of tensor {self._tensor.name!r} must name {self._tensor.count(header.shape):,} "
                             f"bytes, not {header.length:,}.")
        self._flag.store_word(0)
        return header

    def release(self) -> None:
        self._use.release()
        if self._memory is not None:
            self._device.local.free(self._memory)
            self._memory = None

    def close(self) -> None:
        self._device.local.free(self._slot)
        self._device.local.free(self._flag)
