# SPDX-License-Identifier: Apache-2.0
"""All-reduces on a new cluster each, with checked results and counters."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from dmace.drivers.ace import Share
from hw.ace.config import WIRE_HEADER_BYTES, AceConfig
from hw.ace.model import collective as model
from hw.ace.numerics.formats import DType
from hw.ace.words import Collective
from sim.ace.bench.timeline import busy
from sim.ace.bench.traffic import bound, hops, limit
from sim.ace.cluster import Cluster
from sim.ace.communicators import Communicator
from sim.ace.endpoints import Link, Memory
from sim.ace.faults import Faults
from sim.ace.shared_library import ClusterFailed, Library

__all__ = ["MEMORY_LATENCY", "Bench", "Found", "differences"]

MEMORY_LATENCY = 100

_WORD_BYTES = 8
"""Bytes of the completion word: the memory counts them, ``COUNT_WRITE_BYTES`` does not."""


class Found(TypedDict):
    """Result of :meth:`Bench.run`."""

    cycles: int
    counters: list[dict[str, int]]
    memories: list[dict[str, int]]
    links: list[dict[str, int]]
    timeline: NotRequired[list[list[float]]]


class Bench:
    """Runs all-reduces.

    Parameters
    ----------
    config : AceConfig
    library
        Of :func:`sim.ace.shared_library.build_library`.
    link_rate : float
        Beats per cycle that a link carries, headers included.
    link_latency : int
    dtype : DType
        FP32 or INT32.
    ordered : bool
        Add in rank order.
    seed : int
    notify : callable
        Receives the cycle of the current run.

    Attributes
    ----------
    cycles : int
        Simulated so far.
    """

    def __init__(self, config: AceConfig, library: Library, *, link_rate: float, link_latency: int,
                 dtype: DType = DType.FP32, ordered: bool = False, seed: int = 1,
                 notify: Callable[[int], object] = lambda cycle: None) -> None:
        self.config, self._built = config, library
        self.link_rate, self.link_latency = link_rate, link_latency
        self.dtype, self.ordered, self.seed, self.notify = dtype, ordered, seed, notify
        self.cycles = 0

    def run(self, shape: Sequence[int], size: int, *, fsms: int | None = None, slots: int | None = None,
            faults: Faults | None = None, timeline: bool = False, one_shot: bool = False) -> Found:
        """All-reduce ``size`` bytes per rank with ``fsms`` FSMs and ``slots`` slots, by default all, over links with
        ``faults``; on the rings, or ``one_shot``.

        Returns
        -------
        Found
            ``cycles`` from the doorbells until the last rank has seen the end; ``counters``, a dict for each rank;
            ``memories`` and ``links`` of :meth:`Endpoints.statistics`; with ``timeline``, what :func:`.timeline.busy`
            gives.

        Raises
        ------
        ClusterFailed
            If a result is not the model's, or two counts of the same thing differ.
        """
        config = self.config
        share = Share(0, fsms or config.fsms, 0, slots or config.slots)
        whole = Communicator(tuple(range(len(shape))), share)
        inputs = self.inputs(prod(shape), size)
        threshold = size if one_shot else 0
        with self.cluster(shape, [whole], faults=faults, one_shot=threshold) as cluster:
            with cluster.log() if timeline else nullcontext() as log:
                outcome = cluster.collective(Collective.ALL_REDUCE, inputs, dtype=self.dtype, ordered=self.ordered,
                                             limit=self._limit(shape, size), progress=self.notify)
            counters = cluster.do(*(driver.counters() for driver in cluster.drivers))
            self.cycles += cluster.cycle
        self.check_results(shape, inputs, outcome.outputs, one_shot=threshold)
        found: Found = {"cycles": outcome.cycles, "counters": counters, "memories": outcome.statistics["memories"],
                 "links": outcome.statistics["links"]}
        if log is not None:
            found["timeline"] = busy(config, shape, log.packets, self.link_rate, log.begin, outcome.cycles)
        # Only the links count retransmissions.
        added = one_shot_added(shape, size) if one_shot else 0
        if not faults and (wrong := differences(config, found, added=added)):
            raise ClusterFailed(wrong[0])
        return found

    def cluster(self, shape: Sequence[int], communicators: Sequence[Communicator], *,
                faults: Faults | None = None, one_shot: int = 0) -> Cluster:
        """A new cluster."""
        link = Link(latency=self.link_latency, bytes_per_cycle=self.link_rate * self.config.beat_bytes)
        memory = Memory(read_latency=MEMORY_LATENCY, write_latency=MEMORY_LATENCY)
        return Cluster(self.config, shape, communicators=communicators, link=link, memory=memory, seed=self.seed,
                       library=self._built, faults=faults, one_shot=one_shot)

    def inputs(self, ranks: int, size: int) -> list[npt.NDArray[np.uint32]]:
        """An array of ``size`` bytes for each rank."""
        rng = np.random.default_rng(self.seed)
        if not self.dtype.info.is_float:
            return [rng.integers(0, 1 << 32, size // 4, np.uint32) for _ in range(ranks)]
        return [rng.standard_normal(size // 4, np.float32).view(np.uint32) for _ in range(ranks)]

    def _limit(self, shape: Sequence[int], size: int) -> int:
        """Cycles that overlapping saves against one FSM with consecutive chunks."""
        chunks = 2 + size // self.config.chunk_bytes
        waits = chunks * (hops(shape) + 2) * (2 * self.link_latency + 1000)
        return 100_000 + waits + int(10 * sum(self.bound(shape, size)))

    def bound(self, shape: Sequence[int], size: int) -> list[float]:
        """Cycles that the links of each dimension need."""
        return bound(self.config, shape, size, self.link_rate, ordered=self.ordered)

    def limit(self, shape: Sequence[int], size: int) -> tuple[float, str]:
        """Cycles that the busiest links, or the memory port, need, and which of them."""
        return limit(self.config, self.bound(shape, size), size)

    def check_results(self, shape: Sequence[int], inputs: Sequence[npt.NDArray[np.uint32]],
                      outputs: Sequence[npt.NDArray[Any] | None], *, one_shot: int = 0) -> None:
        """Raises :class:`ClusterFailed` if they are not the model's."""
        expected = model.results(Collective.ALL_REDUCE, tuple(shape), inputs, dtype=self.dtype, count=len(inputs[0]),
                                 ordered=self.ordered, one_shot=one_shot)
        for rank, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
            if found is None or wanted is None:
                raise ClusterFailed(f"Rank {rank} has no result.")
            if not np.array_equal(found, wanted):
                element = int(np.flatnonzero(found != wanted)[0])
                raise ClusterFailed(f"Element {element} of rank {rank} is {found[element]:#010x}, "
                                    f"but the model has {wanted[element]:#010x}.")


def one_shot_added(shape: Sequence[int], size: int) -> int:
    """Bytes that each rank combines through its loopback in a one-shot all-reduce."""
    return sum(ranks - 1 for ranks in shape) * size


def differences(config: AceConfig, found: Mapping[str, Any] | Found, *, added: int = 0) -> list[str]:
    """A sentence for each counter of the accelerator that differs from those of memories and links. ``added``: bytes
    that each rank combines through its loopback."""
    sentences: list[str] = []
    payloads = {(link["rank"], link["port"]): link["payload_bytes"] for link in found["links"]}
    headers = sum(link["header_bytes"] for link in found["links"])
    packets = sum(link[kind] for link in found["links"] for kind in ("credits", "data", "grants", "others"))
    received = [0] * len(found["counters"])
    for link in found["links"]:
        received[link["to"]] += link["payload_bytes"]
    for rank, (count, memory) in enumerate(zip(found["counters"], found["memories"], strict=True)):
        witnesses = [
            ("bytes read", count["read_bytes"], "the memory", memory["read_beats"] * config.beat_bytes),
            ("bytes written", count["write_bytes"], "the memory", memory["write_bytes"] - _WORD_BYTES),
            ("bytes received", (count["reduced_beats"] + count["copied_beats"]) * config.beat_bytes, "the links",
             received[rank] + added),
            *((f"bytes sent at port {port}", count[f"sent_beats_{port}"] * config.beat_bytes, "the link",
               payloads.get((rank, port), 0)) for port in range(config.ports)),
        ]
        sentences += [f"Rank {rank} counts {one:,} {what}, but {who} {other:,}."
                      for what, one, who, other in witnesses if one != other]
    if headers != packets * WIRE_HEADER_BYTES:
        sentences.append(f"The links carried {headers:,} bytes of headers, but {packets:,} packets.")
    return sentences
