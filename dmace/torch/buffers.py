# SPDX-License-Identifier: Apache-2.0
"""Tensors in buffers of the rank's simulated memory: one copy in, one collective, one copy out.

A buffer is described by the tensors, or views of tensors, whose elements it has one after the other. So the forms of a
collective in ``torch.distributed`` (lists, single tensors, coalesced) differ only in their lists of views.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from dmace.cluster_client.protocol import Extents, Parts, Result
from dmace.runtime.errors import DmaceError

from .session import Session
from .stats import Record, record
from .work import CollectiveWork

__all__ = ["Buffers", "Call"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A collective of one rank.

    Parameters
    ----------
    collective : str
        Name of a :class:`hw.ace.collectives.Collective`.
    send, receive : list of tensor
        Views in the order of their elements in the buffers.
    received : int
        Elements of the receive buffer.
    count : int
        Elements, as NCCL has it.
    parts : tuple of list of int, or None
        Elements of each part of the send and of the receive buffer, if they are of different lengths.
    dtype : str
        The accelerator's type.
    words : int
        Elements of that type in an element of the tensors.
    element : torch.dtype
        Of the tensors.
    in_place : bool
        Both buffers are the same.
    op, root, widen, ordered
        Of :class:`dmace.cluster_client.protocol.Command`.
    """

    collective: str
    send: list[Any]
    receive: list[Any]
    received: int
    count: int
    element: Any
    dtype: str
    words: int = 1
    parts: tuple[list[int], list[int]] | None = None
    in_place: bool = False
    op: str = "SUM"
    root: int = 0
    widen: bool = False
    ordered: bool = False

    def extents(self) -> Extents | None:
        return None if self.parts is None else Extents(*(self._side(lengths) for lengths in self.parts))

    def _side(self, lengths: list[int]) -> Parts:
        places = [0, *accumulate(lengths)]
        return [(length * self.words, place * self.words) for length, place in zip(lengths, places, strict=False)]


class _Begun:
    """The times of a collective: those of its record, and a range of ``torch.profiler`` until it has completed."""

    def __init__(self, collective: str) -> None:
        self._collective, self._time, self._nanoseconds = collective, time.monotonic(), time.time_ns()

    def profile(self, work: CollectiveWork) -> None:
        """Let the profiler, if it is enabled, record a range that ends with the work."""
        if torch.autograd._profiler_enabled():
            span = torch.autograd.profiler.record_function(f"dmace:{self._collective.lower()}")
            span.__enter__()
            span._call_end_callbacks_on_future(work.get_future())

    def record(self, dtype: str, ranks: int, sent: int, result: Result) -> None:
        record(Record(self._collective, dtype, ranks, sent, result, time.monotonic() - self._time, self._nanoseconds))


class Buffers:
    """The memory of a session's rank, as tensors.

    Parameters
    ----------
    session : :class:`Session`
    """

    def __init__(self, session: Session) -> None:
        self._client = session.client
        self._bytes = torch.frombuffer(self._client.memory.bytes, dtype=torch.uint8)

    def start(self, group: str, ranks: int, call: Call, timeout: float, outputs: list[Any]) -> CollectiveWork:
        """Copy the tensors to be sent, post the collective, and return its work.

        Raises
        ------
        DmaceError
            If the memory is too small, or the cluster has ended.
        """
        memory, size = self._client.memory, call.element.itemsize
        sent = sum(view.numel() for view in call.send)
        send = memory.allocate(sent * size, timeout)
        try:
            receive = send if call.in_place else memory.allocate(call.received * size, timeout)
        except DmaceError:
            memory.release(send)
            raise

        def finish() -> None:
            self._copy(receive, call.element, call.receive, out=True)

        begun, work = _Begun(call.collective), CollectiveWork(outputs, finish)

        def ended(result: Result | DmaceError) -> None:
            if isinstance(result, Result):
                begun.record(call.dtype, ranks, sent * size, result)
            work.end(result if isinstance(result, DmaceError) else None)
            release()

        def release() -> None:
            for offset in {send, receive}:
                memory.release(offset)

        try:
            self._copy(send, call.element, call.send, out=False)
            self._client.post(ended, timeout=timeout, group=group, collective=call.collective, dtype=call.dtype,
                              op=call.op, count=call.count * call.words, root=call.root, widen=call.widen,
                              ordered=call.ordered, send=send, receive=receive, extents=call.extents())
        except BaseException:
            release()
            raise
        begun.profile(work)
        return work

    def transfer(self, group: str, ranks: int, tensor: Any, *, sends: bool, peer: int, tag: int,
                 timeout: float) -> CollectiveWork:
        """Post a send or a receive of a tensor, and return its work. Raises as :meth:`start`."""
        memory, length = self._client.memory, tensor.numel() * tensor.element_size()
        offset = memory.allocate(length, timeout)

        def finish() -> None:
            if not sends:
                self._copy(offset, tensor.dtype, [tensor], out=True)

        begun, work = _Begun("SEND" if sends else "RECEIVE"), CollectiveWork([tensor], finish)

        def ended(result: Result | DmaceError) -> None:
            if isinstance(result, Result):
                work.source = result.source
                begun.record("INT8", ranks, length if sends else 0, result)
            work.end(result if isinstance(result, DmaceError) else None)
            memory.release(offset)

        try:
            if sends:
                self._copy(offset, tensor.dtype, [tensor], out=False)
            self._client.post_transfer(ended, timeout=timeout, group=group, sends=sends, peer=peer, tag=tag,
                                       offset=offset, length=length)
        except BaseException:
            memory.release(offset)
            raise
        begun.profile(work)
        return work

    def _copy(self, offset: int, element: Any, views: Sequence[Any], *, out: bool) -> None:
        with torch.no_grad():
            for view in views:
                length = view.numel() * element.itemsize
                if not length:
                    continue
                there = self._bytes[offset:offset + length].view(element).view(view.shape)
                if out:
                    view.copy_(there)
                else:
                    there.copy_(view)
                offset += length
