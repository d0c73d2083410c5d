# SPDX-License-Identifier: Apache-2.0
"""PyTorch's execution traces as :class:`~sim.system.chakra.trace.Trace`.

A rank's calls become one event after the other, in the order of their start: calls of ``c10d`` are collectives and
messages, and each outermost call without communication inside is computation. The time between calls is not counted.
Collectives begin when the computation before them has ended. A computation waits for those that were not asynchronous,
and for those whose tensors' storage it uses; a message that was sent holds only what writes to its storage.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.workloads import Work

from . import files, groups
from .host import Call, Tensor, read_calls
from .kineto import Durations
from .operators import is_free, work_of
from .schema import NodeType
from .trace import Event, Trace

__all__ = ["ANNOTATION", "SUFFIXES", "read_pytorch"]

SUFFIXES = (".json", ".json.gz")

ANNOTATION = "pg_name:"
"""Begins the name of a ``record_function`` around calls whose process group the backend does not record."""

STEP = "ProfilerStep#"

USER_SCOPE = 7
"""Scope of annotations."""

EVALUATE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class _Kind:
    """How a call of ``c10d`` counts: names of the arguments with its bytes, and with its root."""

    collective: Collective
    sizes: tuple[str, ...]
    root: str = ""


_GATHERED = _Kind(Collective.ALL_GATHER, ("input_tensors", "inputs", "input_tensor", "input", "input_list"))
_SCATTERED = _Kind(Collective.REDUCE_SCATTER, ("input_tensors", "inputs", "input_tensor", "input"))
_EXCHANGED = _Kind(Collective.ALL_TO_ALL, ("input_tensors", "input"))

COLLECTIVES = {
    "allreduce_": _Kind(Collective.ALL_REDUCE, ("tensors",)),
    "allreduce_coalesced_": _Kind(Collective.ALL_REDUCE, ("tensors",)),
    "broadcast_": _Kind(Collective.BROADCAST, ("tensors",), "root_rank"),
    "reduce_": _Kind(Collective.REDUCE, ("tensors",), "root_rank"),
    "allgather_": _GATHERED, "_allgather_base_": _GATHERED, "allgather_coalesced_": _GATHERED,
    "allgather_into_tensor_coalesced_": _GATHERED,
    "reduce_scatter_": _SCATTERED, "_reduce_scatter_base_": _SCATTERED, "reduce_scatter_tensor_coalesced_": _SCATTERED,
    "alltoall_": _EXCHANGED, "alltoall_base_": _EXCHANGED,
    "barrier": _Kind(Collective.BARRIER, ()), "monitored_barrier_": _Kind(Collective.BARRIER, ()),
}
"""By the name of the call after ``c10d::``."""

PARAMETERS = "record_param_comms"
"""Name of the record of a call's parameters that NCCL's backend makes: tensors, if any, a sequence number, the group,
a rank, the name of the call, and more."""

MESSAGES = {"send": (NodeType.COMM_SEND, "dst"), "recv_": (NodeType.COMM_RECV, "src")}


def read_pytorch(prefix: Path, measured: bool | None = None) -> list[Trace]:
    """Traces of ``PREFIX.0.json``, ``PREFIX.1.json``, ..., with durations of ``PREFIX.0.kineto.json``, ....

    Parameters
    ----------
    prefix : Path
        Both kinds of files may end in ``.gz``.
    measured : bool or None
        True: computation takes as long as recorded. False: by shapes alone. None: as recorded if all ranks have it.

    Raises
    ------
    UserError
        For files that are missing or anything else, and for calls that cannot be run.
    """
    paths = files.ranks(prefix, SUFFIXES)
    kineto = [next((path for suffix in SUFFIXES if (path := Path(f"{prefix}.{rank}.kineto{suffix}")).is_file()), None)
              for rank in range(len(paths))]
    if measured is None:
        measured = any(kineto)
    if measured and None in kineto:
        raise UserError(f"there is no {prefix}.{kineto.index(None)}.kineto.json with the durations of rank "
                        f"{kineto.index(None)}.")
    calls = [read_calls(path) for path in paths]
    found = [_groups(mine, path) for mine, path in zip(calls, paths, strict=True)]
    every = groups.merged(zip(paths, found, strict=True), len(paths))
    return [_Reading(path, rank, mine, its, every, durations if measured else None, len(paths)).run(prefix.name)
            for rank, (path, mine, its, durations) in enumerate(zip(paths, calls, found, kineto, strict=True))]


def _groups(roots: Iterable[Call], path: Path) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for root in roots:
        for call in root.walk():
            if call.name == groups.METADATA and call.values:
                found |= groups.parsed(str(call.values[0]), f"{path}: node {call.id}")
    return found


class _Reading:
    """Events of one rank."""

    def __init__(self, path: Path, rank: int, roots: list[Call], own: dict[str, tuple[int, ...]],
                 every: dict[str, tuple[int, ...]], kineto: Path | None, count: int) -> None:
        self.path, self.rank, self.roots, self.own, self.every, self.count = path, rank, roots, own, every, count
        self.durations = kineto and Durations(kineto, rank, (call for root in roots for call in root.walk()))
        self.events: list[Event] = []
        self.last: int | None = None
        # Events that the next computation waits for; storage -> communication that uses it, and that only reads it.
        self.blocking: set[int] = set()
        self.using: dict[int, set[int]] = {}
        self.reading: dict[int, set[int]] = {}
        self.steps: dict[str, int] = {}
        # Sequence number in a record of communication -> communication with that number, and its group.
        self.numbered: dict[str, list[tuple[str, int]]] = {}

    def run(self, name: str) -> Trace:
        chosen = sorted(((call, step, owners) for root in self.roots for call, step, owners in self.outermost(root)),
                        key=lambda one: one[0].id)
        for call, step, owners in chosen:
            if call.name.startswith("c10d::"):
                self.communicate(call, step, owners)
            elif call.name == PARAMETERS:
                self.wait(call)
            else:
                self.compute(call, step, owners)
        if not self.events:
            raise UserError(f"{self.path} has neither computation nor communication.")
        return Trace(path=self.path, events=tuple(self.events), groups=self.every, name=name,
                     source="an execution trace of PyTorch with " + (
                         "recorded durations" if self.durations else "durations from shapes"),
                     steps=max(1, len(self.steps)))

    def outermost(self, root: Call) -> Iterator[tuple[Call, int, tuple[Call, ...]]]:
        """Communication, and the outermost calls without any inside; with step, and the calls around it."""
        busy: set[int] = set()
        for call in root.walk():
            if call.name.startswith("c10d::"):
                busy.add(call.parent)
        # Calls that have communication at any depth: parents began before their children.
        for call in reversed(list(root.walk())):
            if call.id in busy:
                busy.add(call.parent)
        stack: list[tuple[Call, int, tuple[Call, ...]]] = [(root, 0, ())]
        while stack:
            call, step, owners = stack.pop()
            if call.name.startswith(STEP):
                step = self.steps.setdefault(call.name, len(self.steps))
            annotation = call.attributes.get("scope") == USER_SCOPE
            if call.name.startswith("c10d::"):
                yield call, step, owners
            elif call is root or call.id in busy or (annotation and call.children):
                stack += [(child, step, (*owners, call)) for child in reversed(call.children)]
            elif not annotation:
                yield call, step, owners

    def compute(self, call: Call, step: int, owners: tuple[Call, ...]) -> None:
        work = work_of(call)
        if self.durations:
            work = replace(work, seconds=self.durations.seconds(call))
        if work in (Work(), Work(seconds=0.0)):
            return
        needs = self.blocking | ({self.last} if self.last is not None else set())
        used, written = _storages(call)
        for storage in used:
            needs |= self.using.pop(storage, set())
        for storage in written:
            needs |= self.reading.pop(storage, set())
        self.add(Event(id=len(self.events), type=NodeType.COMP, layer=call.name.removeprefix(EVALUATE),
                       part=_part((call, *owners)), step=step, needs=tuple(sorted(needs)), work=work))
        self.last = len(self.events) - 1
        self.blocking = set()

    def communicate(self, call: Call, step: int, owners: tuple[Call, ...]) -> None:
        name = call.name.removeprefix("c10d::")
        where = f"{self.path}: node {call.id}, {call.name}"
        if name not in COLLECTIVES and name not in MESSAGES:
            raise UserError(f"{where}: there is no such collective in the simulator.")
        group = self.group(call, owners, where)
        ranks = groups.resolve(group, self.every, self.count, where)
        if self.rank not in ranks:
            raise UserError(f"{where}: rank {self.rank} is not in process group {group!r}.")
        used, written = _storages(call)
        needs = self.blocking | ({self.last} if self.last is not None else set())
        for storage in used:
            needs |= self.using.get(storage, set())
        for storage in written:
            needs |= self.reading.get(storage, set())
        number = len(self.events)
        common: dict[str, Any] = {"id": number, "layer": call.name, "part": "communication", "step": step,
                                  "needs": tuple(sorted(needs)), "pg_name": group}
        if name in MESSAGES:
            kind, other = MESSAGES[name]
            tensors = call.tensors("tensors")
            self.add(Event(type=kind, bytes=self.bytes(tensors, where), tag=self.number(call, "tag", where),
                           peer=self.member(ranks, self.number(call, other, where), where), **common))
            book = self.reading if kind == NodeType.COMM_SEND else self.using
        else:
            made = COLLECTIVES[name]
            size = 1 if not made.sizes else self.bytes(next((
                tensors for argument in made.sizes if (tensors := call.tensors(argument))), ()), where)
            root = self.member(ranks, self.number(call, made.root, where), where) if made.root else None
            self.add(Event(type=NodeType.COMM_COLL, collective=made.collective, bytes=size, root=root, **common))
            if call.argument("async_op") is False or not made.sizes:
                self.blocking.add(number)
            book = self.using
        for storage in used:
            book.setdefault(storage, set()).add(number)
        for one in call.walk():
            if one.name == PARAMETERS:
                # Tensors come first, and are a list.
                place = 1 if one.types and "Tensor" in one.types[0] else 0
                if len(one.values) > place:
                    self.numbered.setdefault(str(one.values[place]), []).append((group, number))

    def wait(self, call: Call) -> None:
        """Let later calls wait for the communication that a record of a wait names."""
        if "wait" not in call.values or not call.values:
            return
        name = call.attributes.get("pg_name")
        found = [number for group, number in self.numbered.get(str(call.values[0]), ()) if name in (None, "", group)]
        self.blocking |= set(found[-1:])

    def add(self, event: Event) -> None:
        self.events.append(event)

    def group(self, call: Call, owners: tuple[Call, ...], where: str) -> str:
        """Name of the process group of a call."""
        for one in call.walk():
            if isinstance(name := one.attributes.get("pg_name"), str) and name:
                return name
        for one in reversed(owners):
            if one.name.startswith(ANNOTATION):
                return one.name.removeprefix(ANNOTATION).strip()
            if one.name.startswith("_c10d_functional::"):
                texts = [value for value, kind in zip(one.values, one.types, strict=True) if kind == "String"]
                if texts:
                    return str(texts[-1])
        if len(self.own) > 1:
            raise UserError(f"{where}: its backend does not record the process group, and rank {self.rank} is in "
                            f"several ({', '.join(sorted(self.own))}); put the call into "
                            f"record_function('{ANNOTATION}NAME').")
        return next(iter(self.own), "")

    def number(self, call: Call, name: str, where: str) -> int:
        value = call.argument(name)
        if type(value) is not int:
            raise UserError(f"{where}: its {name} must be an integer, not {value!r}.")
        return value

    @staticmethod
    def member(ranks: tuple[int, ...], number: int, where: str) -> int:
        """Global rank of a rank of a group."""
        if not 0 <= number < len(ranks):
            raise UserError(f"{where}: its process group of {len(ranks)} ranks has no rank {number}.")
        return ranks[number]

    @staticmethod
    def bytes(tensors: tuple[Tensor, ...], where: str) -> int:
        size = sum(tensor.bytes for tensor in tensors)
        if size < 1:
            raise UserError(f"{where}: its tensors have no bytes.")
        return size


def _part(calls: Iterable[Call]) -> str:
    """Part of a step, from the names of a call and of those around it."""
    names = [call.name for call in calls]
    if any(name.startswith("Optimizer.") for name in names):
        return "update"
    backward = (EVALUATE, "torch.distributed.ddp.reducer", "torch::distributed::reducer")
    return "backward" if any(name.startswith(backward) for name in names) else "forward"


def _storages(call: Call) -> tuple[set[int], set[int]]:
    """Storages that a call uses, and those among them that it writes. A view uses none."""
    used: set[int] = set()
    written: set[int] = set()
    for one in call.walk():
        if is_free(one):
            continue
        written |= {tensor.storage for tensors in one.outputs for tensor in tensors}
        used |= {tensor.storage for tensors in one.inputs for tensor in tensors}
    return used | written, written
