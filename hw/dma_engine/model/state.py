# SPDX-License-Identifier: Apache-2.0
"""State of the golden model: queues, their requests, and entries of the error log."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from hw.common.words import CompletionWord
from hw.dma_engine.words import NativeWord, Status

from .ark import ArkQueue
from .rings import Ring, RingWord

__all__ = ["LogEntry", "Queue", "Request"]


class LogEntry(NamedTuple):
    """An entry of the error log."""

    queue: int
    status: Status
    count: int      # type: ignore[assignment]  # hides tuple.count, which is unused


@dataclass
class Request:
    """An accepted word. ``word`` is None if it was malformed; ``fault`` is its status."""

    word: NativeWord | None
    #: Number of the request in its queue since RESET.
    number: int
    #: True if the engine may have begun to move it before it completed.
    may_have_begun: bool = True
    #: The descriptor that it came from, if any.
    ring_word: RingWord | None = None
    fault: Status | None = None
    #: Addresses of the flags that its success sets, in this order.
    flags: tuple[int, ...] = ()
    #: Its status, None until it completes.
    status: Status | None = None
    #: Destination addresses and their new bytes, of a successful request.
    moved: list[tuple[int, bytes]] | None = None


@dataclass
class Queue:
    """State of one queue."""

    domain: int = 0
    sc: int | None = None
    rc: int | None = None
    skip_errors: bool = False
    #: The descriptor ring that drives it.
    ring: Ring | None = None
    #: ``pair`` of its ring, until RESET also of a former one; None without.
    pair: bool | None = None
    #: In ARK mode; ``sc`` is None then.
    ark: ArkQueue | None = None
    enabled: bool = False
    running: bool = False
    #: The progress of posted requests is unknown, because a RESET will intervene.
    frozen: bool = False
    #: None, or the status for which it holds.
    held: Status | None = None
    refusing: bool = False
    count: int = 0
    failed: int = 0
    #: Bytes that requests have moved, and the additional bytes that failed ones may have moved.
    bytes: int = 0
    bytes_unknown: int = 0
    status: Status = Status.OK
    posted: int = 0
    waiting: deque[Request] = field(default_factory=deque)
    #: Completed requests, in order; ``count`` is their number.
    ended: list[Request] = field(default_factory=list)
    #: The failed request for which the queue holds.
    failed_request: Request | None = None
    #: Every value that a completion word may have shown since RESET, oldest first.
    history: list[CompletionWord] = field(default_factory=list)
    #: ``(address, request)`` of every flag set since RESET.
    flagged: list[tuple[int, Request]] = field(default_factory=list)
    #: ``"sc"`` and ``"rc"`` -> the value last published since RESET.
    published: dict[str, CompletionWord] = field(default_factory=dict)

    @property
    def word(self) -> CompletionWord:
        return CompletionWord(self.count, self.failed, self.status)
