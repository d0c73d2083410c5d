# SPDX-License-Identifier: Apache-2.0
"""Communicators: NCCL's collectives on the accelerators of connected cards, one command for each rank.

::

    requests = [rank.all_reduce(memory, dtype="fp32") for rank, memory in zip(ranks, memories)]
    for request in requests:
        request.wait(timeout=10)
"""

import threading
from collections import deque
from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from dmace.drivers.ace import root_code
from hw.ace.collectives import Numbered
from hw.ace.config import COUNT_WIDTH, OFFSET_WIDTH
from hw.ace.numerics.formats import DType, Reduction, types
from hw.ace.words import Collective, CommandFlag, CommandWord, CommunicatorState, Status
from hw.common.sizes import PAGE_BYTES

from .accelerator import Accelerator
from .collective_request import CollectiveRequest
from .device import Device
from .errors import DmaceError
from .memory import Span

__all__ = ["Communicator", "dtype_of"]

_MASK = (1 << 32) - 1

_Type = str | DType | npt.DTypeLike


def dtype_of(name: _Type) -> DType:
    """An element type by its name (``"bf16"``), or as NumPy has it (``numpy.float32``)."""
    if isinstance(name, DType):
        return name
    if isinstance(name, str) and name.upper() in DType.__members__:
        return DType[name.upper()]
    try:
        known = np.dtype(name).name
    except TypeError:
        known = None
    for dtype in DType:
        if dtype.info.numpy == known:
            return dtype
    names = ", ".join(dtype.name.lower() for dtype in DType)
    raise DmaceError(f"An element type of a collective must be one of {names}, not {name!r}.")


def _reduction_of(name: str | Reduction) -> Reduction:
    if isinstance(name, Reduction):
        return name
    if isinstance(name, str) and name.upper() in Reduction.__members__:
        return Reduction[name.upper()]
    names = ", ".join(one.name.lower() for one in Reduction)
    raise DmaceError(f"A reduction must be one of {names}, not {name!r}.")


class Communicator:
    """One rank of a communicator, from :meth:`Cluster.communicators`. Threads may share it.

    Each collective is posted on every rank, in the same order, with the same arguments but for the buffers. It returns
    a :class:`CollectiveRequest` at once; a rank's collectives complete in order. Buffers are memory, or spans of it, of
    this rank's device, and of the communicator's domain. They are aligned to their elements, and as long as NCCL has
    them; ``receive`` may be left out where both buffers are the same.

    Attributes
    ----------
    rank, size : int
    device : :class:`Device`
    domain : int
        Its protection domain.
    """

    def __init__(self, accelerator: Accelerator, number: int, queue: int, *, shape: Sequence[int], rank: int,
                 domain: int, left_out: dict[Numbered, str]) -> None:
        self._accelerator, self._queue, self._left_out = accelerator, queue, left_out
        self.number, self.shape, self.rank, self.domain = number, tuple(shape), rank, domain
        self.size = prod(shape)
        self._lock = threading.RLock()
        self._waiting: deque[CollectiveRequest] = deque()
        self._posted = self._count = self._failed = 0
        accelerator.pollers.append(self.poll)

    @property
    def device(self) -> Device:
        return self._accelerator.device

    # Collectives

    def all_reduce(self, send: Span, receive: Span | None = None, *, dtype: _Type, op: str | Reduction = "sum",
                   widen: bool = False, ordered: bool = False) -> CollectiveRequest:
        """Reduce the elements of all ranks; every rank receives the result.

        Parameters
        ----------
        send, receive : :class:`Span`
            Buffers of the same length.
        dtype : str, DType or NumPy's type
            ``"fp32"``, ``"bf16"``, ``"fp16"``, ``"int32"``, ``"int8"``, ``"e4m3"``, ``"e5m2"`` and so on.
        op : str or Reduction
            ``"sum"``, ``"min"``, ``"max"``, ``"avg"`` or ``"prod"``.
        widen : bool
            Add floats of 16 and 8 bits as FP32.
        ordered : bool
            Combine in rank order.
        """
        return self._post(Collective.ALL_REDUCE, send, receive, dtype, op=op, widen=widen, ordered=ordered)

    def reduce_scatter(self, send: Span, receive: Span, *, dtype: _Type, op: str | Reduction = "sum",
                       widen: bool = False, ordered: bool = False) -> CollectiveRequest:
        """Reduce the elements of all ranks; rank r receives block r. ``send`` has a block for each rank.

        In place, ``receive`` is this rank's block of ``send``. The options are those of :meth:`all_reduce`.
        """
        return self._post(Collective.REDUCE_SCATTER, send, receive, dtype, op=op, widen=widen, ordered=ordered)

    def all_gather(self, send: Span, receive: Span, *, dtype: _Type, widen: bool = False) -> CollectiveRequest:
        """Every rank receives the blocks of all ranks. In place, ``send`` is this rank's block of ``receive``."""
        return self._post(Collective.ALL_GATHER, send, receive, dtype, widen=widen)

    def all_to_all(self, send: Span, receive: Span, *, dtype: _Type, widen: bool = False) -> CollectiveRequest:
        """Rank r receives block r of every rank. The buffers must not overlap."""
        return self._post(Collective.ALL_TO_ALL, send, receive, dtype, widen=widen)

    def broadcast(self, send: Span, receive: Span | None = None, *, dtype: _Type, root: int = 0,
                  widen: bool = False) -> CollectiveRequest:
        """Every rank receives the elements of the root. ``send`` of other ranks is not read."""
        return self._post(Collective.BROADCAST, send, receive, dtype, root=root, widen=widen)

    def reduce(self, send: Span, receive: Span | None = None, *, dtype: _Type, op: str | Reduction = "sum",
               root: int = 0, widen: bool = False, ordered: bool = False) -> CollectiveRequest:
        """Reduce the elements of all ranks; the root receives the result. ``receive`` of other ranks is not written."""
        return self._post(Collective.REDUCE, send, receive, dtype, op=op, root=root, widen=widen,
                          ordered=ordered)

    def barrier(self) -> CollectiveRequest:
        """It completes after every rank has started it; it does not wait for earlier collectives."""
        return self._submit(Collective.BARRIER, CommandWord(
            Collective.BARRIER, CommandFlag.SC, self.number, 0, 0, 0, 0, 0, 0, 0, 0, 0), ())

    def revoke(self) -> None:
        """End this communicator's collectives on all its ranks, with the status REVOKED."""
        self._accelerator.do(self._accelerator.driver.revoke(self.number))

    def ended(self) -> bool:
        """Whether it has been revoked or has failed, and nothing of it is in progress on this rank."""
        self.poll()
        state = self._accelerator.do(self._accelerator.driver.communicator_state(self.number)).state
        return state == CommunicatorState.REVOKED and not self._waiting

    def reopen(self) -> None:
        """Open this rank's part again; :meth:`Cluster.reopen` does it on all ranks."""
        self._accelerator.reopen(self.number)

    # Commands

    def _post(self, collective: Collective, send: Span, receive: Span | None, dtype: _Type, *,
              op: str | Reduction = "sum", root: int = 0, widen: bool = False,
              ordered: bool = False) -> CollectiveRequest:
        receive = send if receive is None else receive
        element, reduction = dtype_of(dtype), _reduction_of(op)
        if element not in types(self._accelerator.config):
            raise DmaceError(f"This accelerator has no elements of type {element.name}.")
        if widen and not element.info.widens:
            raise DmaceError(f"Only floats of 16 and 8 bits can be widened, not {element.name}.")
        if not isinstance(root, int) or not 0 <= root < self.size:
            raise DmaceError(f"The root must be a rank from 0 to {self.size - 1}, not {root!r}.")
        program: Numbered = collective.in_rank_order if ordered else collective
        if program in self._left_out:
            raise DmaceError(f"This communicator has no program for {collective.name}"
                             f"{' in rank order' if ordered else ''}: {self._left_out[program]}.")
        count = self._count_of(collective, send, receive, element)
        for name, span in (("send", send), ("receive", receive)):
            self._check(name, span, element)
        self._check_overlap(collective, send, receive, element, count)
        coordinates = [int(one) for one in np.unravel_index(root, self.shape)]
        (source, source_offset), (target, target_offset) = map(self._accelerator.place, (send, receive))
        size, info = element.info.bytes, collective.info
        word = CommandWord(
            collective, CommandFlag.SC | (CommandFlag.ORDERED if ordered else 0), self.number, element,
            reduction if info.reduces else 0, int(widen), root_code(self.shape, coordinates) if info.rooted else 0,
            source, source_offset // size, target, target_offset // size, count)
        return self._submit(collective, word, (send, receive))

    def _count_of(self, collective: Collective, send: Span, receive: Span, element: DType) -> int:
        """As NCCL counts, from the lengths of the buffers."""
        info, size = collective.info, element.info.bytes
        blocks = self.size if info.sends_blocks else 1
        count, rest = divmod(send.length, size * blocks)
        if rest:
            raise DmaceError(f"The send buffer of {collective.name} must have a multiple of {size * blocks} bytes"
                             f"{f', {size} for each of {blocks} ranks' if blocks > 1 else ''}, not {send.length}.")
        expected = info.received(count, self.size) * size
        if receive.length != expected:
            raise DmaceError(f"The receive buffer of {collective.name} must have {expected} bytes with a send buffer "
                             f"of {send.length} and {self.size} ranks, not {receive.length}.")
        if count >= 1 << COUNT_WIDTH:
            raise DmaceError(f"A collective has fewer than {1 << COUNT_WIDTH} elements, not {count}.")
        return count

    def _check(self, name: str, span: Span, element: DType) -> None:
        memory, size = span.memory, element.info.bytes
        if memory.device is not self.device:
            raise DmaceError(f"The {name} buffer must be memory of rank {self.rank}'s device, {self.device.name}, not "
                             f"of {memory.device.name}.")
        if memory.domain != self.domain:
            raise DmaceError(f"The {name} buffer must be memory of the communicator's domain {self.domain}, not of "
                             f"domain {memory.domain}.")
        if (memory.address + span.offset) % size:
            raise DmaceError(f"The {name} buffer must begin at a multiple of {size} bytes, the size of {element.name}, "
                             f"not {(memory.address + span.offset) % size} behind one.")
        if memory.address % PAGE_BYTES + span.offset + span.length > size << OFFSET_WIDTH:
            raise DmaceError(f"The {name} buffer must be within the first {size << OFFSET_WIDTH} bytes of its memory.")

    def _check_overlap(self, collective: Collective, send: Span, receive: Span, element: DType, count: int) -> None:
        if send.memory is not receive.memory or not count:
            return
        if send.offset + send.length <= receive.offset or receive.offset + receive.length <= send.offset:
            return
        info = collective.info
        sent, received = info.in_place_offsets(count, self.rank)
        if not info.in_place:
            raise DmaceError(f"The buffers of {collective.name} must not overlap.")
        if send.offset - receive.offset != (sent - received) * element.info.bytes:
            raise DmaceError(f"The buffers of {collective.name} may overlap only in place: the shorter one must be "
                             "this rank's block of the other.")

    def _submit(self, collective: Collective, word: CommandWord, spans: Sequence[Span]) -> CollectiveRequest:
        memories = tuple({span.memory for span in spans})
        with self._lock:
            self.poll()
            depth = self._accelerator.config.queue_depth
            if len(self._waiting) >= depth:
                raise DmaceError(f"{depth} collectives are in progress at rank {self.rank}, as many as its queue "
                                 "holds; wait for one of them.")
            request = CollectiveRequest(self, collective, self._posted + 1, memories)
            self._accelerator.use(memories)
            self._waiting.append(request)
            try:
                self._accelerator.post(self._queue, word.to_bytes())
            except DmaceError:
                self._waiting.pop()
                self._accelerator.unuse(memories)
                raise
            self._posted += 1
        return request

    def poll(self) -> None:
        """See what has completed."""
        with self._lock:
            if not self._waiting:
                return
            word = self._accelerator.word(self._queue)
            count, failed, status = word & _MASK, word >> 32 & 0xFFFFFF, word >> 56
            # The word may still be that of a failure which has been handled.
            while 0 < (count - self._count) & _MASK < 1 << 31:
                self._complete(Status.OK)
            if status and failed != self._failed:
                self._failed = failed
                self._complete(Status(status))
                self._accelerator.clear(self._queue)

    def _complete(self, status: Status) -> None:
        self._count = self._count + 1 & _MASK
        request = self._waiting.popleft()
        fault = None
        if status >= Status.LINK_DOWN or status in (Status.TIMEOUT, Status.READ_ERROR, Status.WRITE_ERROR):
            fault = self._accelerator.do(self._accelerator.driver.fault(self.number))
        self._accelerator.unuse(request.memories)
        request.end(status, fault)
