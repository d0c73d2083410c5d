# SPDX-License-Identifier: Apache-2.0
"""The process group: each method of ``torch.distributed`` as a list of :class:`~.buffers.Call`.

Methods have the names that torch uses, and return a ``Work``; tensors are filled when it has ended. Collectives that
move elements take every type; those that reduce, the accelerator's.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from dmace.cluster_client.client import NoSuchGroup
from dmace.runtime.errors import DmaceError

from .buffers import Buffers, Call
from .elements import WIDENED, moved_as, reduced_as, reduction
from .fallback import Gloo
from .options import Options
from .session import Session, join_session
from .views import blocks, check_dense, check_same, elements, equal_parts, rows, transposed
from .work import CollectiveWork, completed, joined

__all__ = ["ProcessGroup", "create"]

_HINT = 'Gloo does it with Options(fallback="gloo").'


class ProcessGroup(dist.ProcessGroup):
    """Ranks of one of the cluster's communicators, or of Gloo.

    Parameters
    ----------
    name : str
    rank, size : int
    timeout : float
        Seconds of a collective.
    options : :class:`Options`
    session : :class:`Session` or None
        None for a group of one rank, which copies.
    on_cluster : bool
        These ranks are a group of a communicator.
    gloo : :class:`~.fallback.Gloo` or None
        The fallback.
    """

    def __init__(self, name: str, rank: int, size: int, timeout: float, options: Options, session: Session | None, *,
                 on_cluster: bool, gloo: Any) -> None:
        super().__init__(rank, size)
        self._name, self._me, self._ranks, self._timeout = name, rank, size, timeout
        self._options, self._session, self._on_cluster, self._gloo = options, session, on_cluster, gloo
        self._buffers: Buffers | None = None
        self._coalesced: list[Any] | None = None
        self._open = True
        if session is not None:
            self._buffers = Buffers(session)
            session.hold()

    # Reductions

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        works = []
        for views in _by_type(tensors):
            if self._by_gloo(views[0], opts):
                works += [self._fall_back("allreduce", [view], *_given(opts)) for view in views]
            else:
                works.append(self._reduce("ALL_REDUCE", views, views, elements(views), opts, in_place=True))
        return joined(works, tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: list[Any], opts: Any = None) -> Any:
        root, tensor = 0 if opts is None else opts.rootRank, tensors[0]
        if self._by_gloo(tensor, opts):
            return self._fall_back("reduce", tensors, *_given(opts))
        return self._reduce("REDUCE", [tensor], [tensor] if self._me == root else [], tensor.numel(), opts,
                            in_place=True, root=root)

    def reduce_scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> Any:
        works = []
        for output, parts in zip(outputs, inputs, strict=True):
            check_same("reduce_scatter", [output, *parts], self._ranks + 1)
            lengths = [part.numel() for part in parts]
            if output.numel() != lengths[self._me]:
                raise DmaceError(f"The output of reduce_scatter must have the {lengths[self._me]} elements of part "
                                 f"{self._me} of the input, not {output.numel()}.")
            if self._by_gloo(output, opts):
                works.append(self._fall_back("reduce_scatter", [output], [parts], *_given(opts)))
                continue
            uneven = None if len(set(lengths)) == 1 else (lengths, [output.numel()])
            works.append(self._reduce("REDUCE_SCATTER", parts, [output], output.numel(), opts, parts=uneven))
        return joined(works, outputs)

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> Any:
        works = []
        for pairs in _pairs_by_type(outputs, inputs):
            if self._by_gloo(pairs[0][0], opts):
                works += [self._fall_back("_reduce_scatter_base", *pair, *_given(opts)) for pair in pairs]
                continue
            some = [output for output, _ in pairs]
            parts = [self._blocks("reduce_scatter", given, output) for output, given in pairs]
            works.append(self._reduce("REDUCE_SCATTER", transposed(parts), some, elements(some), opts))
        return joined(works, outputs)

    # Moves

    def broadcast(self, tensors: list[Any], opts: Any = None) -> Any:
        root, works = 0 if opts is None else opts.rootRank, []
        if not self._on_cluster:
            return self._fall_back("broadcast", tensors, *_given(opts))
        for views in _by_type(tensors):
            sent, received = (views, []) if self._me == root else ([], views)
            works.append(self._move("BROADCAST", sent, received, elements(views), elements(views), views, in_place=True,
                                    root=root))
        return joined(works, tensors)

    def allgather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> Any:
        if not self._on_cluster:
            return self._fall_back("allgather", outputs, inputs, *_given(opts))
        works = []
        for parts, given in zip(outputs, inputs, strict=True):
            check_same("all_gather", [given, *parts], self._ranks + 1)
            lengths = [part.numel() for part in parts]
            if given.numel() != lengths[self._me]:
                raise DmaceError(f"The input of all_gather must have the {lengths[self._me]} elements of part "
                                 f"{self._me} of the output, not {given.numel()}.")
            uneven = None if len(set(lengths)) == 1 else ([given.numel()], lengths)
            works.append(self._move("ALL_GATHER", [given], parts, given.numel(), sum(lengths), parts, parts=uneven))
        return joined(works, [part for parts in outputs for part in parts])

    def allgather_coalesced(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> Any:
        """``outputs[rank][i]`` is ``inputs[i]`` of that rank."""
        return self.allgather([list(parts) for parts in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        return self.all_gather_single_coalesced([output], [given], opts)

    def all_gather_single_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> Any:
        works = []
        for pairs in _pairs_by_type(outputs, inputs):
            if not self._on_cluster:
                works += [self._fall_back("_allgather_base", *pair, *_given(opts)) for pair in pairs]
                continue
            given = [one for _, one in pairs]
            received = transposed([self._blocks("all_gather", output, one) for output, one in pairs])
            works.append(self._move("ALL_GATHER", given, received, elements(given), elements(received), received))
        return joined(works, outputs)

    def gather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> Any:
        """An all-gather of which only the root keeps the result."""
        if not self._on_cluster:
            return self._fall_back("gather", outputs, inputs, *_given(opts))
        given = inputs[0]
        parts = outputs[0] if self._me == (0 if opts is None else opts.rootRank) else []
        check_same("gather", [given, *parts], self._ranks + 1 if parts else 1)
        if any(part.numel() != given.numel() for part in parts):
            raise DmaceError(f"Each output of gather must have the {given.numel()} elements of the input.")
        return self._move("ALL_GATHER", [given], parts, given.numel(), given.numel() * self._ranks, parts)

    def scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> Any:
        """An all-to-all in which only the root's parts are not empty."""
        if not self._on_cluster:
            return self._fall_back("scatter", outputs, inputs, *_given(opts))
        root, output, length = 0 if opts is None else opts.rootRank, outputs[0], outputs[0].numel()
        parts = inputs[0] if self._me == root else []
        check_same("scatter", [output, *parts], self._ranks + 1 if parts else 1)
        if any(part.numel() != length for part in parts):
            raise DmaceError(f"Each input of scatter must have the {length} elements of the output.")
        if not length:
            return completed([output])
        sent = [length if parts else 0] * self._ranks
        received = [length if rank == root else 0 for rank in range(self._ranks)]
        return self._move("ALL_TO_ALL", parts, [output], length, length, [output], parts=(sent, received))

    def alltoall(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> Any:
        """Always with lengths for each part: other ranks may have unequal ones."""
        if not self._on_cluster:
            return self._fall_back("alltoall", outputs, inputs, *_given(opts))
        check_same("all_to_all", [*outputs, *inputs], 2 * self._ranks)
        lengths = [one.numel() for one in inputs], [one.numel() for one in outputs]
        return self._move("ALL_TO_ALL", inputs, outputs, max(lengths[0]), sum(lengths[1]), outputs, parts=lengths)

    def alltoall_base(self, output: Any, given: Any, output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Any = None) -> Any:
        if not self._on_cluster:
            return self._fall_back("alltoall_base", output, given, output_splits, input_splits, *_given(opts))
        check_same("all_to_all", [output, given], 2)
        parts = rows(given, input_splits or equal_parts(given, self._ranks), self._ranks)
        received = rows(output, output_splits or equal_parts(output, self._ranks), self._ranks)
        lengths = [one.numel() for one in parts], [one.numel() for one in received]
        if not input_splits and not output_splits:
            if lengths[0] != lengths[1]:
                raise DmaceError(f"The output of all_to_all must have the {given.numel()} elements of the input, not "
                                 f"{output.numel()}.")
            return self._move("ALL_TO_ALL", parts, received, lengths[0][0], output.numel(), [output])
        return self._move("ALL_TO_ALL", parts, received, max(lengths[0]), output.numel(), [output], parts=lengths)

    def barrier(self, opts: Any = None) -> Any:
        if not self._on_cluster:
            return self._fall_back("barrier", *_given(opts))
        return self._start(Call(collective="BARRIER", send=[], receive=[], received=0, count=0, element=torch.int8,
                                dtype="INT8", in_place=True), [])

    # Names of earlier versions, and those that C++ calls

    all_to_all_single = alltoall_base
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # Between two ranks: puts, which only endpoints have

    def send(self, tensors: list[Any], rank: int, tag: int) -> Any:
        return self._transfer("send", tensors, rank, tag) or self._fall_back("send", tensors, rank, tag)

    def recv(self, tensors: list[Any], rank: int, tag: int) -> Any:
        return self._transfer("recv", tensors, rank, tag) or self._fall_back("recv", tensors, rank, tag)

    def recv_anysource(self, tensors: list[Any], tag: int) -> Any:
        return self._transfer("recv", tensors, -1, tag) or self._fall_back("recv_anysource", tensors, tag)

    def _transfer(self, name: str, tensors: list[Any], peer: int, tag: int) -> CollectiveWork | None:
        """The work of a transfer, or None if the fallback has to do it."""
        if self._buffers is None or self._session is None or not self._on_cluster or not self._session.client.puts:
            return None
        check_same(name, tensors, 1)
        work = self._buffers.transfer(self._name, self._ranks, tensors[0], sends=name == "send", peer=peer, tag=tag,
                                      timeout=self._timeout)
        self._kept(work)
        return work

    # Several operations as one work

    def _start_coalescing(self, device: Any) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any) -> Any:
        works, self._coalesced = self._coalesced or [], None
        return joined(works, [])

    # How they are done

    def _by_gloo(self, tensor: Any, opts: Any) -> bool:
        """Whether a reduction is done by the fallback. Raises :class:`DmaceError` if it cannot be done."""
        if not self._on_cluster:
            return True
        try:
            if reduced_as(tensor.dtype) is None:
                raise DmaceError(f"The accelerator does not reduce elements of type {tensor.dtype}.")
            _reduction_of(opts)
        except DmaceError as error:
            if self._gloo is None:
                raise DmaceError(f"{error} {_HINT}") from None
            return True
        return False

    def _fall_back(self, name: str, *arguments: Any) -> Any:
        if self._gloo is None:
            raise DmaceError(f"{name} is a transfer between two ranks, for which the cluster must have endpoints with "
                             f"DMA engines: Options(puts=True). {_HINT}")
        return self._kept(getattr(self._gloo, name)(*arguments))

    def _kept(self, work: Any) -> Any:
        """The work, which is coalesced with others if they are."""
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _blocks(self, name: str, whole: Any, part: Any) -> list[Any]:
        """A block of ``whole`` for each rank, as long as ``part``."""
        check_same(name, [whole, part], 2)
        if whole.numel() != part.numel() * self._ranks:
            raise DmaceError(f"The longer tensor of {name} must have {self._ranks} times the {part.numel()} elements "
                             f"of the other, not {whole.numel()}.")
        return blocks(whole, self._ranks)

    def _reduce(self, collective: str, send: list[Any], receive: list[Any], count: int, opts: Any,
                **options: Any) -> CollectiveWork:
        for view in send:
            check_dense(view)
        dtype, given = reduced_as(send[0].dtype), self._options
        return self._start(Call(
            collective=collective, send=send, receive=receive, received=count, count=count, element=send[0].dtype,
            dtype=dtype or "", op=_reduction_of(opts), ordered=given.rank_order,
            widen=given.widen and dtype in WIDENED, **options), receive)

    def _move(self, collective: str, send: list[Any], receive: list[Any], count: int, received: int,
              outputs: list[Any], **options: Any) -> CollectiveWork:
        for view in (*send, *receive):
            check_dense(view)
        element = (send or receive)[0].dtype
        dtype, words = moved_as(element)
        return self._start(Call(collective=collective, send=send, receive=receive, received=received, count=count,
                                element=element, dtype=dtype, words=words, **options), outputs)

    def _start(self, call: Call, outputs: list[Any]) -> CollectiveWork:
        if self._buffers is None:
            with torch.no_grad():
                for source, target in zip(call.send, call.receive, strict=False):
                    target.copy_(source.view_as(target))
            work = completed(outputs)
        elif call.parts is None and not call.count and call.collective != "BARRIER":
            work = completed(outputs)
        else:
            work = self._buffers.start(self._name, self._ranks, call, self._timeout, outputs)
        self._kept(work)
        return work

    # Called by torch.distributed itself

    def shutdown(self) -> None:
        """Leave the group, and with the last group of this process the cluster. A second call does nothing."""
        if self._open:
            self._open = False
            if self._session is not None:
                self._session.release()

    abort = shutdown

    def getBackendName(self) -> str:
        return "dmace"

    def name(self) -> str:
        return "dmace"

    def size(self) -> int:
        return self._ranks

    def rank(self) -> int:
        return self._me

    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        """It has its name from the start."""

    setGroupName = _set_group_name


def create(given: Any, options: Options | None) -> ProcessGroup:
    """A process group from what torch gives to a backend, and those of this backend."""
    if options is not None and not isinstance(options, Options):
        raise DmaceError(f"Options of the backend dmace must be dmace.torch.Options, not {type(options).__name__}.")
    rank, size, name = given.group_rank, given.group_size, given.group_id
    ranks = list(given.global_ranks_in_group) or list(range(size))
    session = None if size == 1 else join_session(given.store, rank, size, ranks, options)
    chosen = session.options if session is not None else options or Options.from_environment()
    gloo = Gloo(dist.PrefixStore("gloo", given.store), rank, size, given.timeout) \
        if chosen.fallback == "gloo" else None
    on_cluster = True
    if session is not None:
        try:
            session.open_group(name, ranks)
        except NoSuchGroup as error:
            if gloo is None:
                raise DmaceError(f"{error} {_HINT}") from None
            on_cluster = False
    return ProcessGroup(name, rank, size, given.timeout.total_seconds(), chosen, session, on_cluster=on_cluster,
                        gloo=gloo)


def _reduction_of(opts: Any) -> str:
    return "SUM" if opts is None else reduction(opts.reduceOp)


def _given(opts: Any) -> tuple[Any, ...]:
    """Arguments of a method of Gloo, which has defaults."""
    return () if opts is None else (opts,)


def _by_type(tensors: Sequence[Any]) -> list[list[Any]]:
    """Tensors of one type together, in their order."""
    return [[tensor for tensor in tensors if tensor.dtype == dtype]
            for dtype in dict.fromkeys(tensor.dtype for tensor in tensors)]


def _pairs_by_type(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[list[tuple[Any, Any]]]:
    pairs = list(zip(outputs, inputs, strict=True))
    return [[pair for pair in pairs if pair[1].dtype == dtype] for dtype in dict.fromkeys(one.dtype for one in inputs)]
