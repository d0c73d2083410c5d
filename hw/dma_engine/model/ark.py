# SPDX-License-Identifier: Apache-2.0
"""ARK mode in the golden model: 8-byte words to requests, and the flags that report their completion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hw.dma_engine.words import ARK_EMPTY, ARK_FLAG_BYTES, ArkWord, NativeWord, Status

__all__ = ["ArkQueue", "ArkRequest", "Connection", "ark_requests"]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """An entry of the connection table; its fields are those of the CONNECTION registers."""

    base: int
    rc: int
    domain: int = 0
    valid: bool = True


class ArkQueue(NamedTuple):
    """Additional settings of a queue in ARK mode: the region of its segment 0, and its SC array or None."""

    base: int
    sc: int | None


class ArkRequest(NamedTuple):
    """A request from an ARK word: a native word without flags, or its status if there is none, and its flags."""

    word: NativeWord | None
    fault: Status | None
    #: Addresses of its RC flag and its SC flag, in the order of their writes.
    flags: tuple[int, ...] = ()


def ark_requests(store: int, strobes: int, ark: ArkQueue, domain: int,
                 connections: Mapping[int, Connection]) -> list[ArkRequest]:
    """Requests of a 16-byte store to the page of a queue in ARK mode."""
    found = []
    for half in range(2):
        stored, enabled = store >> 64 * half & ARK_EMPTY, strobes >> 8 * half & 0xFF
        if enabled and not (enabled == 0xFF and stored == ARK_EMPTY):
            found.append(_request(stored, enabled == 0xFF, ark, domain, connections))
    return found


def _request(stored: int, whole: bool, ark: ArkQueue, domain: int, connections: Mapping[int, Connection]) -> ArkRequest:
    word = ArkWord.unpack(stored)
    if not whole or word.req or word.reserved:
        return ArkRequest(None, Status.MALFORMED)
    if word.length == 0:
        return ArkRequest(None, Status.ZERO_LENGTH)
    connection = connections.get(word.connection)
    if connection is None or not connection.valid or connection.domain != domain:
        return ArkRequest(None, Status.CONNECTION)
    flags = [connection.rc + ARK_FLAG_BYTES * word.dst]
    if ark.sc is not None:
        flags.append(ark.sc + ARK_FLAG_BYTES * word.src)
    native = NativeWord.copy(src=(ark.base + word.src, 0), dst=(connection.base + word.dst, 0), length=word.length,
                             flags=0)
    return ArkRequest(native, None, tuple(flags))
