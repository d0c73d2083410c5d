# SPDX-License-Identifier: Apache-2.0
"""libdmace through ctypes: its structures and functions, which raise the exceptions of :mod:`.errors`."""

import ctypes
import errno
from collections.abc import Callable
from functools import cache
from typing import Any

from .errors import DmaceError

__all__ = ["FOREVER", "Info", "Library", "QueueOptions", "QueueStats", "Word", "load"]

FOREVER = -1
"""No time limit."""

_U32, _U64, _I64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
_Int, _Size, _Text, _Handle = ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
_To = ctypes.POINTER


class Info(ctypes.Structure):
    """``dmace_info``."""

    _fields_ = [("transport", ctypes.c_char * 16)] + [(name, _U32) for name in (
        "queues", "extended_queues", "queue_depth", "regions", "domains", "vectors", "beat_bytes", "segment_bytes",
        "max_copy")]


class QueueOptions(ctypes.Structure):
    """``dmace_queue_options``."""

    _fields_ = [(name, _U32) for name in ("domain", "weight", "priority", "segments", "ring", "interrupt",
                                          "skip_errors", "pair")]


class QueueStats(ctypes.Structure):
    """``dmace_queue_stats``."""

    _fields_ = [*((name, _U64) for name in ("requests", "failed", "bytes", "segments", "stalls")),
                ("waiting", _U32), ("in_flight", _U32), ("histogram", _U32 * 16)]


class Word(ctypes.Structure):
    """``dmace_word``."""

    _fields_ = [("lo", _U64), ("hi", _U64)]


class View(ctypes.Structure):
    """``dmace_queue``."""

    _fields_ = [(name, _Handle) for name in ("doorbell", "sc", "rc")]


_CHECKED: dict[str, tuple[Any, ...]] = {
    "open": (_Text, _To(_Handle)),
    "open_transport": (_Handle, _Handle, _To(_Handle)),
    "get_info": (_Handle, _To(Info)),
    "reset": (_Handle,),
    "read_register": (_Handle, _U32, _To(_U32)),
    "write_register": (_Handle, _U32, _U32),
    "store": (_Handle, _U64, _Text, _Size),
    "cycles": (_Handle, _To(_U64)),
    "pop_log": (_Handle, _To(_U32), _To(_Int), _To(_U32)),
    "alloc": (_Handle, _Size, _U32, _U32, _To(_Handle)),
    "register": (_Handle, _Handle, _Size, _U32, _U32, _To(_Handle)),
    "register_dmabuf": (_Handle, _Int, _U64, _Size, _U32, _U32, _To(_Handle)),
    "register_bar": (_Handle, _Text, ctypes.c_uint, _U64, _Size, _U32, _U32, _To(_Handle)),
    "register_address": (_Handle, _U64, _Size, _U32, _U32, _To(_Handle)),
    "deregister": (_Handle,),
    "memory_load": (_Handle, _U64, _Handle, _Size),
    "memory_save": (_Handle, _U64, _Handle, _Size),
    "queue_create": (_Handle, _To(QueueOptions), _To(_Handle)),
    "queue_destroy": (_Handle,),
    "copy": (_Handle, _Handle, _U64, _Handle, _U64, _U64, _U32, _To(_U64)),
    "copy_2d": (_Handle, _Handle, _U64, _I64, _Handle, _U64, _I64, _U64, _U32, _U32, _To(_U64)),
    "signal": (_Handle, _Handle, _U64, _U64, _U32, _To(_U64)),
    "post_word": (_Handle, Word, _To(_U64)),
    "get_queue_stats": (_Handle, _To(QueueStats)),
}
"""Functions that return 0 or more, or a negative errno with a sentence: arguments."""

_OTHERS: dict[str, tuple[Any, ...]] = {
    "error": (_Text,), "status_name": (_Text, _Int), "close": (None, _Handle),
    "memory_data": (_Handle, _Handle), "memory_length": (_Size, _Handle), "memory_region": (_U32, _Handle),
    "memory_offset": (_U64, _Handle), "memory_address": (_U64, _Handle),
    "queue_number": (_U32, _Handle), "queue_view": (View, _Handle),
    "queue_eventfd": (_Int, _Handle), "wait": (_Int, _Handle, _U64, _I64), "sleep": (_Int, _Handle, _U64, _I64),
}
"""Other functions: result and arguments."""


class Library:
    """The functions of ``libdmace.h`` without their prefix."""

    def __init__(self, path: str) -> None:
        self._loaded = ctypes.CDLL(path)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, arguments in _CHECKED.items():
            function = self._loaded[f"dmace_{name}"]
            function.restype, function.argtypes = _Int, arguments
            self._functions[name] = self._checked(function)
        for name, (result, *rest) in _OTHERS.items():
            function = self._loaded[f"dmace_{name}"]
            function.restype, function.argtypes = result, rest
            self._functions[name] = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(name) from None

    def sentence(self) -> str:
        """That of this thread's latest failure."""
        text = str(self.error().decode())
        return text if text.endswith((".", "?", "!")) or not text else f"{text}."

    def _checked(self, function: Any) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            result: int = function(*arguments)
            if result < 0:
                raise DmaceError(self.sentence() or errno.errorcode.get(-result, str(-result)), -result)
            return result

        return call


@cache
def load() -> Library:
    """The library, compiled if that was not done before. Raises :class:`hw.errors.UserError` without a C compiler."""
    from dmace.libdmace.build import library

    return Library(str(library()))
