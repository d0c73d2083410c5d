# SPDX-License-Identifier: Apache-2.0
"""Transports in Python: an object with a few methods becomes the table of functions that libdmace reaches a card by.

The card of such a transport cannot reach the memory of this process: memory is that of the card's side.
"""

import ctypes
import errno
import threading
from collections.abc import Callable
from typing import Any, Protocol

from hw.errors import UserError

from .errors import DmaceError

__all__ = ["HostTransport", "Table"]

_VERSION = 1
_U32, _U64, _Size, _Pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_To = ctypes.POINTER


class HostTransport(Protocol):
    """Accesses to a card. They raise :class:`DmaceError`, or another :class:`hw.errors.UserError`.

    Calls come from any thread, one at a time. Addresses and lengths of memory are multiples of 4096 in ``allocate`` and
    ``release``, and any within allocated memory in ``load`` and ``save``.
    """

    name: str
    """One word for messages, of at most 15 characters."""

    def read(self, offset: int) -> int:
        """A 32-bit register in BAR 0, all ones where there is none, after all earlier writes and stores."""

    def write(self, offset: int, value: int) -> None: ...

    def store(self, offset: int, data: bytes) -> None:
        """Store 4, 8 or 16 bytes to BAR 2 at once."""

    def allocate(self, length: int) -> int:
        """Address of new memory."""

    def release(self, address: int, length: int) -> None: ...

    def load(self, address: int, length: int) -> bytes: ...

    def save(self, address: int, data: bytes) -> None: ...

    def reset(self) -> None:
        """Registers have their reset values afterwards; memory stays allocated."""

    def close(self) -> None: ...


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "read": (_U32, _To(_U32)),
    "write": (_U32, _U32),
    "store": (_U64, _Pointer, _Size),
    "page": (_U64,),
    "map": (_Pointer, _Size, _U32, _To(_U64)),
    "unmap": (_U64, _Size),
    "map_dmabuf": (ctypes.c_int, _U64, _Size, _U32, _To(_U64)),
    "allocate": (_Size, _To(_U64)),
    "release": (_U64, _Size),
    "load": (_U64, _Pointer, _Size),
    "save": (_U64, _Pointer, _Size),
    "interrupt": (_U32, ctypes.c_int),
    "reset": (),
    "cycles": (_To(_U64),),
    "error": (),
    "close": (),
}
"""Functions of ``dmace_transport``: arguments behind the context."""

_RESULTS = {"page": _Pointer, "error": _Pointer, "close": None}
_TYPES = {name: ctypes.CFUNCTYPE(_RESULTS.get(name, ctypes.c_int), _Pointer, *arguments)
          for name, arguments in _SIGNATURES.items()}


def _members() -> list[tuple[str, Any]]:
    members: list[tuple[str, Any]] = [("version", _U32), ("name", ctypes.c_char_p)]
    for name, kind in _TYPES.items():
        if name == "interrupt":
            members.append(("vectors", _U32))
        members.append((name, kind))
    return members


class Table(ctypes.Structure):
    """``dmace_transport`` over a :class:`HostTransport`. It must exist until the device is closed."""

    _fields_ = _members()

    def __init__(self, transport: HostTransport) -> None:
        # The card executes one access at a time, and so does its transport.
        self._lock, self._transport = threading.Lock(), transport
        # Thread -> sentence of its latest failure, which libdmace reads behind the call.
        self._sentences: dict[int, Any] = {}
        calls: dict[str, Callable[..., Any]] = {
            "read": self._read, "allocate": self._allocate, "load": self._load,
            "write": lambda offset, value: transport.write(offset, value),
            "store": lambda offset, data, size: transport.store(offset, ctypes.string_at(data, size)),
            "release": lambda address, length: transport.release(address, length),
            "save": lambda address, data, length: transport.save(address, ctypes.string_at(data, length)),
            "reset": transport.reset,
        }
        functions = {name: _TYPES[name](self._guarded(call)) for name, call in calls.items()}
        functions["error"] = _TYPES["error"](self._error)
        guarded = self._guarded(transport.close)
        functions["close"] = _TYPES["close"](lambda context: (guarded(context), None)[1])
        super().__init__(version=_VERSION, name=transport.name.encode(), vectors=0, **functions)

    def _guarded(self, call: Callable[..., None]) -> Callable[..., int]:
        """The call with the result of a C function: exceptions become numbers and sentences."""
        def guarded(context: int | None, *arguments: Any) -> int:
            try:
                with self._lock:
                    call(*arguments)
                return 0
            except UserError as error:
                code, sentence = getattr(error, "code", 0) or errno.EIO, str(error)
            except KeyboardInterrupt:
                code, sentence = errno.EINTR, "the program was interrupted"
            except Exception as error:
                code, sentence = errno.EIO, f"{type(error).__name__}: {error}"
            # libdmace puts it behind a colon.
            self._sentences[threading.get_ident()] = ctypes.create_string_buffer(sentence.rstrip(".").encode())
            return -code

        return guarded

    def _error(self, context: int | None) -> int | None:
        found = self._sentences.get(threading.get_ident())
        return ctypes.addressof(found) if found is not None else None

    def _read(self, offset: int, value: Any) -> None:
        value[0] = self._transport.read(offset)

    def _allocate(self, length: int, address: Any) -> None:
        address[0] = self._transport.allocate(length)

    def _load(self, address: int, data: int, length: int) -> None:
        found = self._transport.load(address, length)
        if len(found) != length:
            raise DmaceError(f"The transport loaded {len(found)} bytes instead of {length}.")
        ctypes.memmove(data, found, length)
