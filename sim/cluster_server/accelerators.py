# SPDX-License-Identifier: Apache-2.0
"""Accelerators in RTL, whose memories are those that the ranks' processes map."""

import mmap
import os
import time
from collections.abc import Callable, Sequence
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SHRINK, fcntl
from typing import Any

import numpy as np

from dmace.cluster_client.protocol import Message, Parts, Result
from dmace.drivers.ace import root_code
from hw.ace.collectives import Collective, Numbered, Ordered
from hw.ace.config import AceConfig
from hw.ace.numerics.formats import DType, Reduction
from hw.ace.words import CommandFlag, CommandWord, Status
from hw.endpoint.config import EndpointConfig
from hw.errors import UserError
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link, Memory, Reason, Statistics
from sim.ace.faults import Faults
from sim.ace.outcome import since
from sim.ace.shared_library import ClusterFailed
from sim.cluster_server.groups import Matched, Paired
from sim.cluster_server.puts import Puts
from sim.endpoint.cluster import EndpointCluster

__all__ = ["PAGE", "Accelerators", "rank_memory"]

PAGE = 1 << 16
"""A rank's memory is a multiple of this number of bytes."""

_REGION, _BASE, _QUEUE = 2, 3 << 32, 0
_FAILED = (1 << 64) - (1 << 56)
"""Bits of a completion word that hold the status."""

LIMIT = 1_000_000_000
"""Cycles of a collective."""


def rank_memory(rank: int, size: int) -> int:
    """Descriptor of a file without a name, whose size is fixed."""
    descriptor = os.memfd_create(f"dmace-rank-{rank}", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    fcntl(descriptor, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK)
    return descriptor


class Accelerators:
    """A cluster, one collective or transfer at a time. Simulated time advances only while one is in progress.

    Parameters
    ----------
    config : AceConfig or EndpointConfig
        Accelerators alone, or endpoints, which have puts.
    shape : tuple of int
    memories : sequence of int
        Descriptors of the ranks' memories, of ``size`` bytes.
    size : int
    link, memory, faults, seed
        Of :class:`sim.ace.cluster.Cluster`.

    Attributes
    ----------
    puts : bool
        There are transfers between two ranks.
    """

    def __init__(self, config: AceConfig | EndpointConfig, shape: Sequence[int], memories: Sequence[int], size: int, *,
                 link: Link, memory: Memory, faults: Faults | None, seed: int) -> None:
        options: dict[str, Any] = {"link": link, "memory": memory, "faults": faults, "seed": seed}
        self._cluster = cluster = (EndpointCluster(config, shape, **options) if isinstance(config, EndpointConfig)
                                   else Cluster(config, shape, **options))
        self._mapped = [mmap.mmap(descriptor, size) for descriptor in memories]
        for rank, mapped in enumerate(self._mapped):
            cluster.share_memory(rank, _BASE, np.frombuffer(mapped, np.uint8))
        cluster.do(*(driver.define_region(_REGION, base=_BASE, length=size) for driver in cluster.drivers))
        self._posted, self._size = [0] * cluster.size, size
        self._puts = Puts(cluster, _BASE, size) if isinstance(cluster, EndpointCluster) else None

    @property
    def puts(self) -> bool:
        return self._puts is not None

    def close(self) -> None:
        self._cluster.close()

    def communicators(self) -> list[Message]:
        """Communicators, as the welcome has them."""
        def name(program: Numbered) -> str:
            if isinstance(program, Collective):
                return program.name
            return f"{program.collective.name}{' in rank order' if isinstance(program, Ordered) else ', one-shot'}"

        return [{"groups": self._cluster.groups(number),
                 "left_out": {name(program): why for program, why in left_out.items()}}
                for number, left_out in enumerate(self._cluster.left_out)]

    def run(self, matched: Matched, progress: Callable[[int], object]) -> Result:
        """Post a collective on all ranks of its group in one cycle, and wait until it has ended on all of them.

        Parameters
        ----------
        matched : :class:`Matched`
        progress : callable
            Receives the cycle, a few times a second; an exception ends the run.

        Raises
        ------
        ClusterFailed
            If it has failed; the cluster cannot be used any more.
        UserError
            If there is no such collective; nothing has been posted.
        """
        cluster, ranks = self._cluster, matched.group.ranks
        words = self._words(matched)
        before, posted, begun = cluster.statistics(), cluster.cycle, time.monotonic()
        cluster.do(*(cluster.drivers[rank].post(_QUEUE, word) for rank, word in zip(ranks, words, strict=True)))
        cluster.clear_watches()
        address = cluster.completion_address(_QUEUE)
        watches = []
        for rank in ranks:
            self._posted[rank] += 1
            watches.append(cluster.watch(rank, address, self._posted[rank] % (1 << 32), failed=_FAILED))
        reason = cluster.run(LIMIT, progress=progress)
        name = matched.commands[0].collective
        failed = [f"{Status(status).name} at rank {rank}" for rank in ranks
                  if (status := cluster.completion(rank, _QUEUE).status)]
        if failed:
            raise ClusterFailed(f"{name} of group {matched.group.name} has failed: {', '.join(failed)}.")
        if reason != Reason.DONE:
            raise ClusterFailed(f"{name} of group {matched.group.name} had not ended after {LIMIT:,} cycles.\n"
                                f"{cluster.waits()}")
        ended = [cluster.met(rank, number) - posted for rank, number in zip(ranks, watches, strict=True)]
        return self._result(before, begun, ended)

    def transfer(self, paired: Paired, progress: Callable[[int], object]) -> Result:
        """Move the bytes of a send to its receive's buffer. Parameters and errors as of :meth:`run`."""
        if self._puts is None:
            raise UserError("A cluster without puts has no transfers between two ranks.")
        cluster = self._cluster
        for one in (paired.send, paired.receive):
            if one.offset + one.length > self._size:
                raise UserError(f"The buffer of a {one.collective} must end within the rank's memory of {self._size:,} "
                                f"bytes, not at {one.offset + one.length:,}.")
        before, posted, begun = cluster.statistics(), cluster.cycle, time.monotonic()
        self._puts.transfer((paired.source, paired.send.offset), (paired.target, paired.receive.offset),
                            paired.send.length, progress)
        return self._result(before, begun, [cluster.cycle - posted], source=paired.group.ranks.index(paired.source))

    def _result(self, before: Statistics, begun: float, ended: list[int], source: int = -1) -> Result:
        cluster, found = self._cluster, since(before, self._cluster.statistics())
        return Result(
            cycles=max(ended), ended=ended, source=source, seconds=time.monotonic() - begun,
            read_bytes=sum(one["read_beats"] for one in found["memories"]) * cluster.config.beat_bytes,
            written_bytes=sum(one["write_bytes"] for one in found["memories"]),
            payload_bytes=sum(one["payload_bytes"] for one in found["links"]),
            header_bytes=sum(one["header_bytes"] for one in found["links"]),
            lost_packets=sum(one["lost"] for one in found["links"]))

    def _words(self, matched: Matched) -> list[CommandWord]:
        cluster, first = self._cluster, matched.commands[0]
        collective, dtype, op = Collective[first.collective], DType[first.dtype], Reduction[first.op]
        number, info = matched.group.communicator, collective.info
        program = collective.in_rank_order if first.ordered and info.reduces else collective
        if why := cluster.left_out[number].get(program):
            raise UserError(f"Group {matched.group.name} has no program for {collective.name}"
                            f"{' in rank order' if first.ordered else ''}: {why}.")
        if first.widen and not dtype.info.widens:
            raise UserError(f"Only floats of 16 and 8 bits can be widened, not {dtype.name}.")
        shape = cluster.communicator_shape(number)
        root = root_code(shape, [int(one) for one in np.unravel_index(first.root, shape)]) if info.rooted else 0
        flags = CommandFlag.SC | (CommandFlag.ORDERED if first.ordered and info.reduces else 0)
        if first.extents is not None:
            flags |= CommandFlag.VARYING
            # The table is this collective's alone, so it begins at row 0, which the field root names.
            if (rows := len(matched.commands)) > cluster.config.extent_rows:
                raise UserError(f"{rows} extents need more than the table's {cluster.config.extent_rows} rows.")
            cluster.do(*(cluster.drivers[rank].define_extents(0, _rows(command.extents.send, command.extents.receive))
                         for rank, command in zip(matched.group.ranks, matched.commands, strict=True)
                         if command.extents is not None))
        size = dtype.info.bytes
        return [CommandWord(collective, flags, number, dtype, op if info.reduces else 0, int(first.widen), root,
                            _REGION, command.send // size, _REGION, command.receive // size, matched.count)
                for command in matched.commands]


def _rows(send: Parts, receive: Parts) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    rows = max(len(send), len(receive))
    return list(zip(*(parts + [(0, 0)] * (rows - len(parts)) for parts in (send, receive)), strict=True))
