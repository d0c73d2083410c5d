# SPDX-License-Identifier: Apache-2.0
"""A cluster with its software: communicators, buffers, and collectives with their results.

::

    with Cluster(TINY, (4, 2), link=Link(latency=50)) as cluster:
        outcome = cluster.collective(Collective.ALL_REDUCE, [np.ones(1000, np.float32)] * 8)
        outcome.outputs[0], outcome.cycles
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.drivers.ace import AceDriver, root_code
from dmace.drivers.ace_states import LinkStatus
from hw.ace.collectives import Collective, Numbered
from hw.ace.config import COUNT_WIDTH, EXTENT_ALIGNMENT, ONE_SHOT_BYTES, WIRE_HEADER_BYTES, AceConfig
from hw.ace.link.session import TIMEOUT_WIDTH
from hw.ace.model.numerics import element_type
from hw.ace.numerics.formats import DType, Reduction
from hw.ace.words import CommandFlag, CommandWord, Status
from hw.common.words import COMPLETION_FIELDS, CompletionWord, field_positions
from hw.errors import UserError
from sim.ace.buffers import REGIONS, Buffers
from sim.ace.communicators import Communicator, default_communicators
from sim.ace.endpoints import Endpoints, Link, Reason
from sim.ace.faults import Faults
from sim.ace.outcome import CollectiveFailed, Outcome, Pending, since
from sim.ace.shared_library import ClusterFailed
from sim.ace.varying import Extent, Extents

__all__ = ["Cluster", "CollectiveFailed", "Outcome", "Pending"]

_WORDS, _WORD_PITCH = 0x1_0000, 64
_STATUS_LSB, _STATUS_WIDTH = field_positions(COMPLETION_FIELDS)["status"]
_FAILED = (1 << _STATUS_WIDTH) - 1 << _STATUS_LSB
_SHOWN = 16
TRIES = 16
"""Cycles without progress before a link times out."""


class Cluster(Endpoints):
    """Endpoints that are configured as one cluster.

    Parameters
    ----------
    config, shape, link, memory, seed, threads, library, status
        Of :class:`Endpoints`.
    communicators : sequence of :class:`Communicator`, optional
        Number 0 first; else :func:`default_communicators`.
    both : bool
        Send half of all columns in each direction.
    one_shot : int
        Bytes of the longest one-shot all-reduce.
    faults : :class:`sim.ace.faults.Faults`, optional
        Faults of links, from the start.

    Attributes
    ----------
    drivers : list of :class:`AceDriver`
        By rank.
    left_out : list of dict
        By communicator: collective, or Ordered, -> why there is no program for it.
    """

    def __init__(self, config: AceConfig, shape: Sequence[int], *, communicators: Sequence[Communicator] | None = None,
                 both: bool = True, one_shot: int = ONE_SHOT_BYTES, faults: Faults | None = None,
                 **options: Any) -> None:
        super().__init__(config, shape, **options)
        self.both, self.one_shot = both, one_shot
        self.communicators = list(default_communicators(config, self.shape) if communicators is None
                                  else communicators)
        self.drivers = [AceDriver(self.bus(rank), config) for rank in range(self.size)]
        self._buffers = Buffers(self)
        self._posted = [0] * config.queues
        self._waiting, self._extent_rows = 0, 0
        self._timeout = _timeout_for(config, self.links, faults)
        if faults is not None:
            self.set_faults(faults)
        for rank in range(self.size):
            self.write_memory(rank, _WORDS, bytes(_WORD_PITCH * config.queues))
        self.left_out = self.do(*(self._set_up(rank, both) for rank in range(self.size)))[0]

    async def _set_up(self, rank: int, both: bool) -> list[dict[Numbered, str]]:
        driver, position = self.drivers[rank], self.coordinates(rank)
        await driver.check_identity()
        await driver.set_link_patience(timeout=self._timeout, tries=TRIES)
        for number, region in REGIONS.items():
            await driver.define_region(number, **region)
        for queue in range(self.config.queues):
            await driver.configure_queue(queue, sc=_WORDS + _WORD_PITCH * queue)
        left_out: list[dict[Numbered, str]] = []
        for number, communicator in enumerate(self.communicators):
            left_out.append(await driver.define_communicator(
                number, shape=self.communicator_shape(number), dimensions=communicator.dimensions,
                coordinates=[position[dimension] for dimension in communicator.dimensions], share=communicator.share,
                both=both, priority=communicator.priority, one_shot=self.one_shot))
        return left_out

    # Communicators

    def communicator_shape(self, communicator: int) -> tuple[int, ...]:
        return tuple(self.shape[dimension] for dimension in self.communicators[communicator].dimensions)

    def groups(self, communicator: int = 0) -> list[list[int]]:
        """Groups of ranks, each in the order of their ranks in the communicator."""
        inside = self.communicators[communicator].dimensions
        fixed_dimensions = [dimension for dimension in range(len(self.shape)) if dimension not in inside]

        def ranks(fixed: tuple[int, ...]) -> Iterator[int]:
            for moving in product(*(range(self.shape[dimension]) for dimension in inside)):
                position = dict(zip((*fixed_dimensions, *inside), (*fixed, *moving), strict=True))
                yield int(np.ravel_multi_index([position[dimension] for dimension in range(len(self.shape))],
                                               self.shape))

        return [list(ranks(fixed)) for fixed in product(*(range(self.shape[dimension])
                                                          for dimension in fixed_dimensions))]

    # Collectives

    def collective(self, collective: Collective, inputs: Sequence[npt.NDArray[Any]] | None = None, *,
                   limit: int = 1_000_000, progress: Callable[[int], object] | None = None,
                   **options: Any) -> Outcome:
        """Post a collective on all ranks, wait until it has ended everywhere, and return its :class:`Outcome`.

        Parameters
        ----------
        limit : int
            Cycles to wait.
        progress : callable or None
            Receives the cycle, a few times a second.
        collective, inputs, **options
            Of :meth:`submit`.

        Raises
        ------
        CollectiveFailed
            If it failed on any rank.
        ClusterFailed
            If it has not ended within ``limit`` cycles, with the wait of each FSM, or bytes outside the receive buffers
            were written.
        """
        outcome, = self.wait(self.submit(collective, inputs, **options), limit=limit, progress=progress)
        return outcome

    def submit(self, collective: Collective, inputs: Sequence[npt.NDArray[Any]] | None = None, *,
               count: int | None = None, dtype: DType | None = None, op: Reduction = Reduction.SUM,
               root: int | Sequence[int] | None = None, widen: bool = False, ordered: bool = False,
               extents: Extents | None = None, communicator: int = 0, queue: int = 0,
               src_skew: int | Sequence[int] = 0, dst_skew: int | Sequence[int] = 0, in_place: bool = False,
               delay: int | Sequence[int] = 0, flags: CommandFlag = CommandFlag.SC, post: bool = True) -> Pending:
        """Fill buffers and post a collective on all ranks; it begins with :meth:`wait`. Returns a :class:`Pending`.

        Parameters
        ----------
        inputs : sequence of arrays
            Each rank's send buffer; in a broadcast, only the root's contents matter. A barrier has none.
        count : int
            As NCCL has it; by default what fits the inputs.
        dtype : DType
            Needed if the arrays' type is ambiguous: arrays may hold the elements' bits.
        root : int or tuple of int
            Rank in the communicator, or its coordinates there.
        ordered : bool
            Combine in rank order.
        extents : :class:`sim.ace.varying.Extents`, optional
            Parts of the buffers are of different lengths: ``inputs`` are the whole send buffers, outputs the receive
            buffers, which keep their contents outside the parts. ``count`` is theirs. They are written to rows of the
            table that no collective in progress uses.
        src_skew, dst_skew : int, or one for each rank
            Elements from an address that is a multiple of 4096 to the first of the buffer.
        in_place : bool
            Let send and receive buffer overlap as NCCL does.
        delay : int, or one for each rank
            Cycles from now until the command is stored to the doorbell.
        post : bool
            Post it now; else post each rank's ``commands`` one by one.
        """
        shape = self.communicator_shape(communicator)
        ranks = prod(shape)
        info = collective.info
        if ordered and not info.reduces:
            raise UserError(f"{collective.name} combines nothing, so it has no rank order.")
        if why := self.left_out[communicator].get(collective.in_rank_order if ordered else collective):
            raise UserError(f"Communicator {communicator} has no program for {collective.name}"
                            f"{' in rank order' if ordered else ''}: {why}.")
        if not info.moves_data:
            inputs, dtype, count = [np.zeros(0, np.uint8)] * self.size, DType.INT8, 0
        if inputs is None:
            raise UserError(f"{collective.name} needs an array for each rank.")
        inputs = [np.ascontiguousarray(one) for one in inputs]
        dtype = _dtype(inputs[0].dtype) if dtype is None else dtype
        blocks = info.sent(1, ranks)
        count = extents.count if extents else len(inputs[0]) // blocks if count is None else count
        _check(collective, inputs, dtype, count, info.sent(count, ranks), self.size, root, in_place, extents)
        root_coordinates = [int(at) for at in (np.unravel_index(root, shape) if isinstance(root, int) else root or ())]
        code = root_code(shape, root_coordinates) if root_coordinates else 0
        if extents:
            code = self._define_extents(extents, self.groups(communicator)) // EXTENT_ALIGNMENT
            flags |= CommandFlag.VARYING
        flags |= CommandFlag.ORDERED if ordered else 0
        size, received = dtype.info.bytes, info.received(count, ranks)
        at_root = np.ravel_multi_index(root_coordinates, shape) if root_coordinates else None
        placements: list[Any] = [None] * self.size
        commands: list[Any] = [None] * self.size
        pending = Pending(collective, queue, self._posted[queue] + 1, self.cycle, inputs[0].dtype, placements,
                          self.statistics(), commands)
        for local, rank in (pair for group in self.groups(communicator) for pair in enumerate(group)):
            placements[rank] = position = self._buffers.place(
                rank, inputs[rank].view(np.uint8),
                received=_length(extents.receive[local]) * size if extents else received * size,
                writes=info.writes(at_root=local == at_root),
                skews=[_of(skew, rank) * size for skew in (src_skew, dst_skew)],
                in_place=[offset * size for offset in info.in_place_offsets(count, local)] if in_place else None)
            commands[rank] = CommandWord(
                collective, flags, communicator, dtype, op, int(widen), code, position.src.region,
                position.src.offset // size, position.dst.region, position.dst.offset // size, count)
        if post:
            self.do(*(driver.post(queue, command, delay=_of(delay, rank))
                      for rank, (driver, command) in enumerate(zip(self.drivers, commands, strict=True))))
        self._posted[queue] += 1
        self._waiting += 1
        return pending

    def _define_extents(self, extents: Extents, groups: Sequence[Sequence[int]]) -> int:
        """Write all ranks' extents, and return the first row."""
        first = self._extent_rows
        rows = -(-len(groups[0]) // EXTENT_ALIGNMENT) * EXTENT_ALIGNMENT
        if first + rows > self.config.extent_rows:
            raise UserError(f"The extents of the collectives in progress need more than the table's "
                            f"{self.config.extent_rows} rows.")
        self._extent_rows += rows
        self.do(*(self.drivers[rank].define_extents(first, extents.rows(local))
                  for group in groups for local, rank in enumerate(group)))
        return first

    def wait(self, *pendings: Pending, limit: int = 1_000_000,
             progress: Callable[[int], object] | None = None) -> list[Outcome]:
        """Wait until collectives have ended everywhere; a list of each one's :class:`Outcome`. Raises as
        :meth:`collective`."""
        self.clear_watches()
        numbers = [[self.watch(rank, _WORDS + _WORD_PITCH * pending.queue, pending.number % (1 << 32), failed=_FAILED)
                    for rank in range(self.size)] for pending in pendings]
        reason = self.run(limit, progress=progress)
        self._waiting -= len(pendings)
        if not self._waiting:
            self._buffers.free()
            self._extent_rows = 0
        for pending in pendings:
            self._check_status(pending)
        if reason != Reason.DONE:
            names = " and ".join(pending.collective.name for pending in pendings)
            raise ClusterFailed(f"{names} had not ended everywhere after {limit:,} cycles.\n{self.waits()}")
        after, outcomes = self.statistics(), []
        for pending, watches in zip(pendings, numbers, strict=True):
            ended = [self.met(rank, number) - pending.posted for rank, number in enumerate(watches)]
            outcomes.append(Outcome([self._output(pending, rank) for rank in range(self.size)], ended,
                                    since(pending.before, after)))
        return outcomes

    @staticmethod
    def completion_address(queue: int = 0) -> int:
        """Address of a queue's completion word."""
        return _WORDS + _WORD_PITCH * queue

    def completion(self, rank: int, queue: int = 0) -> CompletionWord:
        """The :class:`CompletionWord` in memory."""
        word = self.read_memory(rank, _WORDS + _WORD_PITCH * queue, 8)
        return CompletionWord.unpack(int.from_bytes(word.tobytes(), "little"))

    def clear(self, queue: int = 0) -> None:
        """Clear a queue on all ranks where its command failed."""
        self.do(*(self.drivers[rank].clear(queue) for rank in range(self.size)
                  if self.completion(rank, queue).status != Status.OK))

    def clear_pending(self) -> None:
        """Drop the pending collectives; all queues are empty."""
        self.clear_watches()
        self._waiting = 0
        self._buffers.free()

    def _check_status(self, pending: Pending) -> None:
        words = [self.completion(rank, pending.queue) for rank in range(self.size)]
        if not any(word.status for word in words):
            return
        statuses = [Status(word.status) if word.status or word.count == pending.number % (1 << 32) else None
                    for word in words]
        failed = [f"{status.name} at rank {rank}" for rank, status in enumerate(statuses) if status]
        others = [rank for rank, status in enumerate(statuses) if status is None]
        more = f" and it did not end at ranks {', '.join(map(str, others))}" if others else ""
        raise CollectiveFailed(f"{pending.collective.name} failed: {', '.join(failed)}{more}.", statuses)

    def _output(self, pending: Pending, rank: int) -> npt.NDArray[Any] | None:
        found = self._buffers.result(rank, pending.placements[rank])
        return None if found is None else found.view(pending.element)

    def link_states(self) -> list[list[LinkStatus]]:
        """States of each rank's ports."""
        async def states(driver: AceDriver) -> list[LinkStatus]:
            return [await driver.link_state(port) for port in range(self.config.ports)]

        return self.do(*map(states, self.drivers))

    def waits(self) -> str:
        """The waits of each rank, as lines of text."""
        lines: list[str] = []
        for rank, pending in enumerate(self.do(*(driver.pending() for driver in self.drivers))):
            neighbours = {port: f"rank {self.neighbour(rank, port)}" for port in range(self.config.ports)}
            lines += [f"  rank {rank}, {line}" for line in pending.lines(neighbours)]
        # Lines of links first: they show which rank waits for which.
        lines.sort(key=lambda line: " is " not in line and ", FSM " not in line)
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return "\n".join([*lines[:_SHOWN], *more]) or "  Nothing is in progress."

    def neighbour(self, rank: int, port: int) -> int:
        """The rank at the other end of a port's link."""
        position = list(self.coordinates(rank))
        if port // 2 < len(position):
            position[port // 2] = (position[port // 2] + (-1 if port % 2 else 1)) % self.shape[port // 2]
        return int(np.ravel_multi_index(position, self.shape))


def _timeout_for(config: AceConfig, links: Sequence[Link], faults: Faults | None) -> int:
    """Cycles without progress on a link after which a packet counts as lost."""
    def one_direction(link: Link) -> float:
        stalls = (1 - link.stall) ** 2
        packet = (config.packet_bytes + WIRE_HEADER_BYTES) / (link.bytes_per_cycle or config.beat_bytes) / stalls
        return link.latency + 4 * packet + 100 / stalls

    delayed = 2 * faults.delay_cycles if faults is not None and faults.delay else 0
    return min((1 << TIMEOUT_WIDTH) - 1, int(2 * max(map(one_direction, links)) + delayed) + 300)


def _dtype(element: np.dtype[Any]) -> DType:
    if (dtype := element_type(element)) is None:
        raise UserError(f"Arrays of {element} have no DType.")
    return dtype


def _of(option: int | Sequence[int], rank: int) -> int:
    return option if isinstance(option, int) else int(option[rank])


def _length(parts: Sequence[Extent]) -> int:
    """Elements of a buffer that has these parts."""
    return max((count + displacement for count, displacement in parts if count), default=0)


def _check(collective: Collective, inputs: Sequence[npt.NDArray[Any]], dtype: DType, count: int, sent: int,
           ranks: int, root: object, in_place: bool, extents: Extents | None) -> None:
    info = collective.info
    if len(inputs) != ranks:
        raise UserError(f"There must be an array for each of {ranks} ranks, not {len(inputs)}.")
    for data in inputs:
        if data.dtype != inputs[0].dtype or data.dtype.itemsize != dtype.info.bytes:
            raise UserError(f"Arrays must be of one type with elements as large as {dtype.name}, not {data.dtype}.")
        if not extents and len(data) != sent:
            raise UserError(f"A send buffer of {collective.name} must have {sent} elements, not {len(data)}.")
    if not 0 <= count < 1 << COUNT_WIDTH:
        raise UserError(f"A count must be less than 2 ** {COUNT_WIDTH}, not {count}.")
    if (root is not None) != info.rooted:
        raise UserError(f"{collective.name} {'needs a' if info.rooted else 'has no'} root.")
    if extents and not info.varying:
        raise UserError(f"{collective.name} has no parts of different lengths.")
    if extents and in_place:
        raise UserError("A collective with parts of different lengths cannot be done in place here.")
    if in_place and not info.in_place:
        raise UserError(f"{collective.name} cannot be done in place.")
