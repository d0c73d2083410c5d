# SPDX-License-Identifier: Apache-2.0
"""Measurements of fused operations in RTL: methods over the number of slices, orders, causes of the difference from the
bound, and the path of a single slice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hw.ace.config import WIRE_HEADER_BYTES
from hw.ace.layouts import PacketKind
from hw.errors import UserError

from .exchange import OUTPUT, Exchange
from .operations import MOST_TASKS, OPERATIONS, Operation, Sizes, make
from .reduction import PARTIAL, SlicedReduction
from .run import run
from .setup import Method, Order, Setup, Thread

__all__ = ["CAUSES", "METHODS", "Bench", "describe"]

METHODS = (Method.TRIGGERS, Method.POLLED, Method.LAST, Method.UNFUSED)

_Row = dict[str, Any]
_Note = Callable[[str], object]


def describe(name: str, operation: Operation, setup: Setup, method: Method, order: Order) -> _Row:
    """A run in the terms of the system simulator: the parameters of its case for this operation.

    A workgroup is busy for ``compute_cycles``; its tick leaves ``write_cycles`` later, when its part is in memory. A
    counter's flag is copied from memory. ``relay``: slices for the opposite rank of four go through the memory of a
    neighbour.
    """
    sizes = operation.sizes
    return {"operation": name, "ranks": sizes.ranks, "slices": sizes.slices, "slice_bytes": sizes.slice_bytes,
            "workgroups": setup.workgroups, "tasks": sizes.tasks, "compute_cycles": setup.compute,
            "order": order.value, "fused": method.fused, "relay": True,
            "link_bytes_per_cycle": setup.link.bytes_per_cycle or setup.config.beat_bytes,
            "link_latency": setup.link.latency, "memory_latency": setup.memory.read_latency,
            "write_cycles": setup.memory.write_latency,
            "flag_cycles": setup.wait_period // 2 + (setup.memory.read_latency if setup.receipts == "counter" else 0),
            "packet_bytes": setup.config.ace.packet_bytes,
            # A link without a rate carries a beat per cycle, and headers beside it.
            "header_bytes": WIRE_HEADER_BYTES if setup.link.bytes_per_cycle else 0,
            "beat_bytes": setup.config.beat_bytes}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An operation of a given size on a given machine.

    Parameters
    ----------
    name : str
        One of :data:`OPERATIONS`.
    ranks : int
    target_bytes : int
        Bytes of a rank's result for each target, or of the whole result of an all-reduce.
    tasks : int
        Tasks that compute them.
    setup : :class:`Setup`
    element : str
    depth : int
        Of :class:`Sizes`.
    """

    name: str
    ranks: int
    target_bytes: int
    tasks: int
    setup: Setup
    element: str = "int32"
    depth: int = 8

    def __post_init__(self) -> None:
        if self.name not in OPERATIONS:
            raise UserError(f"The operation must be one of {', '.join(OPERATIONS)}, not {self.name!r}.")

    def check(self, slices: int) -> None:
        """Raise UserError if there are too few counters for this number of slices."""
        sizes = self.operation(slices).sizes
        if self.name == "gemv":
            SlicedReduction.allot(self.setup.config, sizes)
        else:
            Exchange.allot(self.setup.config, sizes, received=self.setup.receipts == "counter")

    def operation(self, slices: int) -> Operation:
        """The operation with its tasks divided among this number of slices."""
        if self.tasks % slices or not 1 <= self.tasks // slices <= MOST_TASKS:
            raise UserError(f"{self.tasks} tasks cannot be divided among {slices} slices of at most {MOST_TASKS} "
                            "tasks.")
        if self.target_bytes % self.tasks:
            raise UserError(f"{self.target_bytes:,} bytes cannot be divided among {self.tasks} tasks.")
        return make(self.name, Sizes(ranks=self.ranks, slices=slices, tasks=self.tasks // slices, depth=self.depth,
                                     slice_bytes=self.target_bytes // slices, element=self.element),
                    seed=self.setup.seed)

    @property
    def rank_tasks(self) -> int:
        """Tasks of a rank, those of its own slices included."""
        return self.tasks * (1 if self.name == "gemv" else self.ranks)

    def balanced(self, ratio: float, slices: int) -> "Bench":
        """The bench with tasks of such a length that computation alone takes ``ratio`` times communication alone."""
        alone = run(self.operation(slices), self.setup, Method.COMMUNICATION).cycles
        compute = round(ratio * alone * self.setup.workgroups / self.rank_tasks)
        return replace(self, setup=replace(self.setup, compute=compute))

    def with_(self, **changes: Any) -> "Bench":
        """The bench with a changed :class:`Setup`."""
        return replace(self, setup=replace(self.setup, **changes))

    # Methods over slices

    def sweep(self, numbers: Sequence[int], methods: Sequence[Method], note: _Note) -> Iterator[_Row]:
        """A row for each number of slices: cycles of each method, of computation and of communication alone, and
        ``described`` of :func:`describe`."""
        for slices in numbers:
            operation = self.operation(slices)
            row: _Row = {"slices": slices, "slice_bytes": operation.sizes.slice_bytes}
            for method in (Method.COMPUTE, Method.COMMUNICATION, *methods):
                note(f"{slices} slices, {method.value}")
                row[method.value] = run(operation, self.setup, method).cycles
            row["bound"] = max(row["compute"], row["communication"])
            row["described"] = describe(self.name, operation, self.setup, Method.TRIGGERS, Order.REMOTE_FIRST)
            yield row

    def orders(self, slices: int, note: _Note) -> Iterator[_Row]:
        """A row for each order of slices: cycles, and the skew of the ranks."""
        operation = self.operation(slices)
        for order in Order:
            note(f"order {order.value}")
            made = run(operation, self.setup, Method.TRIGGERS, order)
            yield {"order": order.value, "slices": slices, "cycles": made.cycles, "skew": round(made.skew, 4),
                   "ended": made.ended}

    # Causes

    def excess(self, slices: int, method: Method = Method.TRIGGERS) -> _Row:
        """Cycles beyond the longer of computation and communication alone; ``first``: until the first slice was
        complete, ``tail``: from the end of the computation to the end."""
        operation = self.operation(slices)
        alone = [run(operation, self.setup, one).cycles for one in (Method.COMPUTE, Method.COMMUNICATION)]
        made = run(operation, self.setup, method)
        first = min(min(one) for one in made.noticed)
        return {"compute": alone[0], "communication": alone[1], "fused": made.cycles,
                "excess": made.cycles - max(alone), "first": first, "tail": made.cycles - made.computed}

    def causes(self, slices: int, note: _Note) -> list[_Row]:
        """The measured excess, then a row for each cause, with an input changed: ``cycles`` is the excess that this
        removes, by itself; ``remaining`` is the excess when the inputs of the causes before it are changed as well."""
        note("the difference from the bound")
        whole = self.excess(slices)
        rows = [{"cause": "", "change": "", **whole, "cycles": 0, "remaining": whole["excess"]}]
        together, method = self, Method.TRIGGERS
        for cause, (change, changed) in CAUSES.items():
            note(f"without {cause}")
            alone = changed(self)[0].excess(slices, changed(self)[1])
            together, last = changed(together)
            method = last if last != Method.TRIGGERS else method
            rows.append({"cause": cause, "change": change, **alone, "cycles": whole["excess"] - alone["excess"],
                         "remaining": together.excess(slices, method)["excess"]})
        return rows

    def slice_cost(self, slices: int, note: _Note) -> _Row:
        """Cycles of communication alone per slice, beyond those of one slice with the same bytes."""
        note("cost of a slice")
        many, one = (run(self.operation(number), self.setup, Method.COMMUNICATION).cycles
                     for number in (slices, max(1, self.tasks // MOST_TASKS)))
        return {"slices": slices, "communication": many, "one": one, "cycles": round((many - one) / slices, 2)}

    # A single slice

    def path(self, slice_bytes: int, note: _Note) -> _Row:
        """Cycles from the last tick of a single slice to each event after it: a put to a neighbour, or an all-reduce of
        all ranks."""
        note(f"path of a slice of {slice_bytes:,} B")
        one = replace(self, target_bytes=slice_bytes, tasks=1, ranks=self.ranks if self.name == "gemv" else 2)
        made = run(one.operation(1), replace(self.setup, wait_period=1), Method.TRIGGERS, log=True)
        assert made.log is not None
        begin = made.begin + made.noticed[0][0]
        base = PARTIAL if self.name == "gemv" else OUTPUT
        kind = PacketKind.DATA if self.name == "gemv" else PacketKind.PUT
        reads = [burst.begin for burst in made.log.bursts
                 if burst.rank == 0 and not burst.write and base <= burst.address < base + slice_bytes]
        left = [packet.begin for packet in made.log.packets
                if packet.rank == 0 and not packet.came and packet.kind == kind and packet.begin >= begin]
        return {"slice_bytes": slice_bytes, "read": min(reads) - begin, "packet": min(left) - begin,
                "seen": made.begin + made.seen[1][0] - begin}


def _first(bench: Bench) -> tuple[Bench, Method]:
    return bench.with_(first_compute=0), Method.TRIGGERS


def _latencies(bench: Bench) -> tuple[Bench, Method]:
    memory = bench.setup.memory
    return bench.with_(link=replace(bench.setup.link, latency=1),
                       memory=replace(memory, read_latency=2, write_latency=2)), Method.TRIGGERS


def _polls(bench: Bench) -> tuple[Bench, Method]:
    return bench.with_(wait_period=1), Method.TRIGGERS


def _ticks(bench: Bench) -> tuple[Bench, Method]:
    if bench.name == "gemv":
        return bench.with_(thread=Thread(period=1, latency=0, gap=1)), Method.POLLED
    return bench.with_(atomic_latency=0), Method.LAST


CAUSES: dict[str, tuple[str, Callable[[Bench], tuple[Bench, Method]]]] = {
    "first slice": ("the tasks of the first slice take no time, those of the last one twice as long", _first),
    "latencies": ("memories of 2 cycles, links of 1 cycle", _latencies),
    "poll of flags": ("consumers poll in every cycle", _polls),
    "ticks": ("workgroups post the requests themselves, at no cost", _ticks),
}
"""Cause -> the input that is changed, and a function that changes it."""
