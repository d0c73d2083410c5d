# SPDX-License-Identifier: Apache-2.0
"""Remote procedure calls with copies, the baseline: message buffers at both ends, in fragments of a fixed length.

The sender copies the tensor into its message buffer, a fragment behind a header at a time, and writes each fragment
into a slot of the receiver's ring, with a flag. The receiver copies it out, and signals the number of consumed
fragments, which are the sender's credits. As many fragments as the ring has slots are in flight.

This baseline is generous to RPC: the local DMA engine makes both copies at its full rate, where a library would use a
CPU's loads and stores; the header is not a serialised message; and there is no dispatch to a handler's thread.
"""

from collections import deque

from dmace.runtime.errors import DmaceError
from hw.common.sizes import is_integer

from .device import RemoteDevice, RemoteMemory
from .future import Future, Turns, completion
from .header import HEADER_BYTES, Header
from .local import FLAG_BYTES, Local
from .mechanism import Arrival, Use, check_payload, exported
from .tensor import Shape, Tensor

__all__ = ["FRAGMENT_BYTES", "PAYLOAD_OFFSET", "SLOTS", "RpcReceiver", "RpcSender", "connect_rpc"]

FRAGMENT_BYTES = 4096
SLOTS = 8
"""Fragments of a ring, by default."""

PAYLOAD_OFFSET = -(-HEADER_BYTES // 128) * 128
"""Offset of the payload in a slot: aligned to two beats of the widest engine."""


def connect_rpc(sending: RemoteDevice, receiving: RemoteDevice, tensor: Tensor, *, fragment: int = FRAGMENT_BYTES,
                slots: int = SLOTS) -> tuple["RpcSender", "RpcReceiver"]:
    """Both ends of a tensor of any shape, with a ring of ``slots`` fragments of ``fragment`` bytes."""
    if not is_integer(fragment, 1, 1 << 27) or not is_integer(slots, 1, 1 << 16):
        raise DmaceError(f"A ring must have 1 to {1 << 16} slots of 1 to {1 << 27} bytes, not {slots!r} of "
                         f"{fragment!r}.")
    ring, flags = _slots(receiving, fragment, slots), receiving.local.allocate(FLAG_BYTES * slots)
    flags.store(bytes(flags.length))
    consumed = sending.local.flag()
    return (RpcSender(sending, tensor, fragment, exported(ring), exported(flags), consumed),
            RpcReceiver(receiving, tensor, fragment, ring, flags, exported(consumed)))


def _slots(device: RemoteDevice, fragment: int, slots: int) -> Local:
    return device.local.allocate(slots * _pitch(fragment))


def _pitch(fragment: int) -> int:
    """Bytes from one slot to the next."""
    return PAYLOAD_OFFSET + -(-fragment // 64) * 64


class RpcSender:
    """Sender of fragments; a send is done when the whole tensor is in the message buffer.

    Parameters
    ----------
    device : RemoteDevice
        The receiver's machine.
    tensor : Tensor
    fragment : int
        Payload bytes of a slot.
    ring, flags : RemoteMemory
        The receiver's slots, and an 8-byte flag for each.
    consumed : Local
        Word with the number of fragments that the receiver has copied out.
    """

    def __init__(self, device: RemoteDevice, tensor: Tensor, fragment: int, ring: RemoteMemory, flags: RemoteMemory,
                 consumed: Local) -> None:
        self._device, self._tensor, self._fragment = device, tensor, fragment
        self._ring, self._flags, self._consumed = ring, flags, consumed
        self._slots = flags.length // FLAG_BYTES
        self._staging = _slots(device, fragment, self._slots)
        self._sent = self._fragments = 0
        self._last: Future[None] | None = None

    def send(self, memory: Local, shape: Shape) -> Future[None]:
        check_payload(self._tensor, memory, shape)
        self._sent += 1
        self._last = self._device.start(self._send(memory, shape, self._sent, self._last))
        return self._last

    def _send(self, memory: Local, shape: Shape, number: int, previous: Future[None] | None) -> Turns[None]:
        if previous is not None:
            yield from completion(previous)
        copied: deque[tuple[int, int, Future[None]]] = deque()
        writes: deque[Future[None]] = deque()
        begin, more = 0, True
        while more or copied or writes:
            while more and self._fragments < self._consumed.load_word() + self._slots:
                part = memory[begin:min(begin + self._fragment, memory.length)]
                slot = self._fragments % self._slots * _pitch(self._fragment)
                header = Header.of(self._tensor, shape, offset=begin, length=part.length, number=number)
                self._staging[slot:slot + HEADER_BYTES].store(header.pack())
                payload = self._staging[slot + PAYLOAD_OFFSET:slot + PAYLOAD_OFFSET + part.length]
                copied.append((self._fragments, PAYLOAD_OFFSET + part.length, self._device.local.copy(part, payload)))
                self._fragments += 1
                begin += part.length
                more = begin < memory.length
            while copied and copied[0][2].advance():
                fragment, length, copy = copied.popleft()
                copy.result()
                writes.append(self._write(fragment, length))
            while writes and writes[0].advance():
                writes.popleft().result()
            if more or copied or writes:
                yield

    def _write(self, fragment: int, length: int) -> Future[None]:
        slot = fragment % self._slots
        first, flag = slot * _pitch(self._fragment), slot * FLAG_BYTES
        return self._device.write_with_flag(self._staging[first:first + length], self._ring.part(first, first + length),
                                            self._flags.part(flag, flag + FLAG_BYTES), fragment + 1)

    def close(self) -> None:
        self._device.local.free(self._consumed)
        self._device.local.free(self._staging)


class RpcReceiver:
    """Receiver that copies fragments out of its ring into memory of the tensor, which it allocates.

    Parameters
    ----------
    device : RemoteDevice
        The sender's machine.
    tensor : Tensor
    fragment : int
    ring, flags : Local
    consumed : RemoteMemory
        The sender's word of :class:`RpcSender`.
    """

    def __init__(self, device: RemoteDevice, tensor: Tensor, fragment: int, ring: Local, flags: Local,
                 consumed: RemoteMemory) -> None:
        self._device, self._tensor, self._fragment = device, tensor, fragment
        self._ring, self._flags, self._consumed = ring, flags, consumed
        self._slots = flags.length // FLAG_BYTES
        self._fragments = self._taken = 0
        self._number = 1
        self._first: Header | None = None
        self._use = Use(tensor)
        self._memory: Local | None = None

    def receive(self) -> Future[Arrival]:
        self._use.receive()
        return self._device.start(self._receive())

    def _receive(self) -> Turns[Arrival]:
        while (header := self._first or self._header()) is None:
            yield
        self._first = header
        length = self._tensor.count(header.shape)
        try:
            self._memory = self._device.local.allocate(max(1, length))
        except DmaceError:
            self._use.fail()
            raise
        memory = self._memory[:length]
        copied: deque[Future[None]] = deque()
        begin, more = 0, True
        while more or copied:
            if more and (found := self._first or self._header()) is not None:
                self._first = None
                if found.shape != header.shape or (found.offset, found.length) != (
                        begin, min(self._fragment, memory.length - begin)):
                    raise DmaceError(f"Fragment {self._fragments} of tensor {self._tensor.name!r} must continue at "
                                     f"byte {begin}, not have {found.length} bytes at {found.offset}.")
                copied.append(self._copy(memory[begin:begin + found.length]))
                begin += found.length
                more = begin < memory.length
                continue
            while copied and copied[0].advance():
                copied.popleft().result()
                self._taken += 1
                self._device.notify(self._consumed, self._taken)
            if more or copied:
                yield
        self._number += 1
        return self._use.arrive(memory, header.shape)

    def _header(self) -> Header | None:
        """Header of the next fragment if it has arrived; its flag is cleared."""
        slot = self._fragments % self._slots
        flag = self._flags[slot * FLAG_BYTES:(slot + 1) * FLAG_BYTES]
        value = flag.load_word()
        if not value:
            return None
        if value != self._fragments + 1:
            raise DmaceError(f"The flag of fragment {self._fragments} of tensor {self._tensor.name!r} must be "
                             f"{self._fragments + 1}, not {value}.")
        first = slot * _pitch(self._fragment)
        header = Header.unpack(self._ring[first:first + HEADER_BYTES].load())
        header.check(self._tensor, self._number)
        flag.store_word(0)
        return header

    def _copy(self, destination: Local) -> Future[None]:
        """Copy the next fragment out of its slot."""
        first = self._fragments % self._slots * _pitch(self._fragment) + PAYLOAD_OFFSET
        self._fragments += 1
        return self._device.local.copy(self._ring[first:first + destination.length], destination)

    def release(self) -> None:
        self._use.release()
        if self._memory is not None:
            self._device.local.free(self._memory)
            self._memory = None

    def close(self) -> None:
        self._device.local.free(self._ring)
        self._device.local.free(self._flags)
