# SPDX-License-Identifier: Apache-2.0
"""Random collectives on clusters in RTL, each rank's buffers against the golden model.

Shapes, links, memories, types, operations, counts, addresses of buffers, communicators, the longest one-shot
all-reduce, the cycles of posting and the stalls of every channel are random. Several collectives are in progress at a
time.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective
from hw.ace.config import EXTENT_ALIGNMENT, ONE_SHOT_WIDTH, AceConfig
from hw.ace.model.collective import results
from hw.ace.model.varying import blocks_received
from hw.ace.numerics.formats import DType, growth, reductions, types, width
from hw.ace.registers import LINK_COUNTERS
from sim.ace.buffers import BEFORE
from sim.ace.cluster import Cluster, CollectiveFailed, Pending
from sim.ace.endpoints import Link, Memory
from sim.ace.faults import Faults, counted
from sim.ace.shared_library import ClusterFailed, Library
from sim.ace.varying import extents, placed, scattered, skewed

__all__ = ["ONE_SHOTS", "SHAPES", "compare"]

SHAPES = ((2,), (3,), (4,), (5,), (8,), (2, 2), (3, 2), (4, 2), (1, 4), (2, 2, 2), (4, 2, 2), (3, 1, 2), (16,))
"""Shapes of 2 to 16 ranks."""

ONE_SHOTS = (0, 256, 1024, (1 << ONE_SHOT_WIDTH) - 1)
"""Bytes of the longest one-shot all-reduce."""

PER_CLUSTER = 20
"""Collectives on one cluster before the next one is built."""

LIMIT = 2_000_000
MOST_SENTENCES = 20

MOST_QUEUES, MOST_OF_A_QUEUE = 3, 2
"""Most collectives in progress at a time."""


_Counts = dict[str, Counter[str]]

_Made = tuple[str, dict[str, Any], Sequence[npt.NDArray[Any] | None]]
"""A sentence, options of :meth:`Cluster.submit`, and each rank's right buffer."""


def compare(config: AceConfig, *, collectives: int, seed: int, stalls: bool = True, faults: bool = False,
            library: Library | None = None, shapes: Sequence[tuple[int, ...]] = SHAPES,
            progress: Callable[[int, int, str], object] | None = None) -> dict[str, Any]:
    """Run N collectives and report the differences.

    Parameters
    ----------
    config : AceConfig
    collectives : int
        N, the least number.
    seed : int
    stalls : bool
        Stalls on all links and channels of most clusters.
    faults : bool
        Links have the faults of :meth:`sim.ace.faults.Faults.random`.
    progress : callable or None
        Receives ``(done, total, note)``.

    Returns
    -------
    dict
        ``collectives``, ``mismatches``, ``hangs``, ``cycles``; ``kinds``, ``types``, ``operations``, ``shapes``: how
        many of each; ``faults``, ``link_counts``: packets to which each was done, and what ports counted, or None;
        ``first_mismatches``: sentences.
    """
    rng = random.Random(seed)
    found = {"collectives": 0, "mismatches": 0, "hangs": 0, "cycles": 0}
    counts: _Counts = {name: Counter() for name in ("kinds", "types", "operations", "shapes")}
    sentences: list[str] = []
    done_to: Counter[str] = Counter()
    reported: Counter[str] = Counter()
    for number in range(-(-collectives // PER_CLUSTER)):
        shape = shapes[number % len(shapes)]
        with Cluster(config, shape, library=library, seed=rng.getrandbits(32), both=rng.random() < 0.8,
                     one_shot=rng.choice(ONE_SHOTS),
                     faults=Faults.random(rng, shape) if faults and prod(shape) > 1 else None,
                     **_surroundings(rng, shape, stalls)) as cluster:
            done = 0
            while done < PER_CLUSTER:
                try:
                    done += _round(cluster, rng, counts, found, sentences, shape)
                except CollectiveFailed as error:
                    found["mismatches"] += 1
                    sentences.append(f"On {_name(shape)}: {error}")
                    break
                except ClusterFailed as error:
                    found["hangs"] += 1
                    sentences.append(f"On {_name(shape)}: {error}")
                    break
                if progress:
                    progress(found["collectives"], collectives, f"{_name(shape)} {found['mismatches']} mismatches")
            found["cycles"] += cluster.cycle
            if faults:
                done_to.update(counted(cluster.statistics()))
                for status in chain.from_iterable(cluster.link_states()):
                    reported.update({name: getattr(status, name) for name, _ in LINK_COUNTERS})
    return {**found, "faults": dict(done_to) or None, "link_counts": dict(reported) or None,
            **{name: dict(sorted(counter.items())) for name, counter in counts.items()},
            "first_mismatches": sentences[:MOST_SENTENCES]}


def _surroundings(rng: random.Random, shape: tuple[int, ...], stalls: bool) -> dict[str, Any]:
    def link() -> Link:
        return Link(latency=rng.choice((1, 5, 20, 100)), bytes_per_cycle=rng.choice((0, 0, 2.5, 6)),
                    stall=rng.choice((0, 0.1, 0.5)) if stalls else 0)

    def memory() -> Memory:
        return Memory(read_latency=rng.choice((2, 30, 200)), write_latency=rng.choice((2, 30, 200)),
                      jitter=rng.choice((0, 20)), read_rate=rng.choice((0, 0, 0.5)),
                      stall=rng.choice((0, 0.1, 0.5)) if stalls else 0)

    ranks = int(np.prod(shape))
    return {"link": [link() for _ in shape], "memory": [memory() for _ in range(ranks)]}


def _round(cluster: Cluster, rng: random.Random, counts: _Counts, found: dict[str, int], sentences: list[str],
           shape: tuple[int, ...]) -> int:
    """One to three collectives at a time, each on a queue of its own, all on one communicator or on several."""
    expected: list[tuple[str, Sequence[npt.NDArray[Any] | None]]] = []
    pendings: list[Pending] = []
    queues = rng.sample(range(cluster.config.queues), rng.randint(1, min(MOST_QUEUES, cluster.config.queues)))
    numbers = rng.sample(range(len(cluster.communicators)), min(len(queues), len(cluster.communicators)))
    # Commands of one communicator must come in the same order on all ranks: they share a queue.
    for queue, communicator in zip(queues, numbers, strict=False):
        for _ in range(rng.choice((1, 1, MOST_OF_A_QUEUE))):
            what, options, want = _one(cluster, rng, communicator, counts)
            delays = [rng.choice((0, 0, rng.randrange(300))) for _ in range(cluster.size)]
            pendings.append(cluster.submit(**options, communicator=communicator, queue=queue, delay=delays))
            expected.append((what, want))
            counts["shapes"][_name(shape)] += 1
    if not pendings:
        return 0
    for (what, want), outcome in zip(expected, cluster.wait(*pendings, limit=LIMIT), strict=True):
        found["collectives"] += 1
        wrong = [rank for rank, (got, right) in enumerate(zip(outcome.outputs, want, strict=True))
                 if (got is not right if got is None or right is None else not np.array_equal(got, right))]
        if wrong:
            found["mismatches"] += 1
            sentences.append(f"On {_name(shape)}: {what} is wrong at ranks {', '.join(map(str, wrong[:8]))}.")
    return len(pendings)


def _one(cluster: Cluster, rng: random.Random, communicator: int, counts: _Counts) -> _Made:
    """A random collective."""
    inner = cluster.communicator_shape(communicator)
    ranks = int(np.prod(inner))
    collective = rng.choice([one for one in Collective if one not in cluster.left_out[communicator]])
    info = collective.info
    if not info.moves_data:
        counts["kinds"][collective.name] += 1
        return collective.name, {"collective": collective}, [None] * cluster.size
    rows = -(-ranks // EXTENT_ALIGNMENT) * EXTENT_ALIGNMENT * MOST_OF_A_QUEUE * min(MOST_QUEUES, cluster.config.queues)
    if info.varying and cluster.config.varying and rows <= cluster.config.extent_rows and rng.random() < 0.4:
        return _varying(cluster, rng, communicator, counts, collective)
    dtype, op = rng.choice(types(cluster.config)), rng.choice(reductions(cluster.config))
    widen = cluster.config.widen and growth(dtype) > 0 and rng.random() < 0.4
    count = rng.choice((0, 1, 2, rng.randint(1, 100), rng.randint(1, 1000), rng.randint(1, 6000) // ranks + 1))
    bits = np.random.default_rng(rng.getrandbits(32))
    kind = np.dtype(f"u{width(dtype) // 8}")
    inputs = [_elements(bits, kind, info.sent(count, ranks), dtype) for _ in range(cluster.size)]
    root = tuple(rng.randrange(size) for size in inner) if info.rooted else None
    ordered = collective.info.reduces and rng.random() < 0.4 and \
        collective.in_rank_order not in cluster.left_out[communicator]
    want: list[npt.NDArray[Any] | None] = [None] * cluster.size
    for group in cluster.groups(communicator):
        made = results(collective, inner, [inputs[rank] for rank in group], dtype=dtype, count=count, op=op, root=root,
                       widen=widen, both=cluster.both, ordered=ordered, one_shot=cluster.one_shot)
        for rank, right in zip(group, made, strict=True):
            want[rank] = right
    options = {"collective": collective, "inputs": inputs, "count": count, "dtype": dtype, "op": op, "root": root,
               "widen": widen, "ordered": ordered, "src_skew": rng.choice((0, rng.randrange(64))),
               "dst_skew": rng.choice((0, rng.randrange(64))),
               "in_place": info.in_place and rng.random() < 0.3}
    short = collective == Collective.ALL_REDUCE and not ordered and 0 < count * dtype.info.bytes <= cluster.one_shot
    counts["kinds"][f"{collective.name}{' in rank order' if ordered else ', one-shot' if short else ''}"] += 1
    counts["types"][dtype.name] += 1
    if info.reduces:
        counts["operations"][op.name] += 1
    what = (f"{collective.name}{' in rank order' if ordered else ''} of {count} {dtype.name}"
            f"{' widened' if widen else ''}, {op.name}, among {_name(inner)}")
    return what, options, want


def _varying(cluster: Cluster, rng: random.Random, communicator: int, counts: _Counts,
             collective: Collective) -> _Made:
    """As :func:`_one`, with parts of different lengths at random offsets."""
    inner = cluster.communicator_shape(communicator)
    ranks = int(np.prod(inner))
    dtype, op = rng.choice(types(cluster.config)), rng.choice(reductions(cluster.config))
    widen = cluster.config.widen and growth(dtype) > 0 and rng.random() < 0.4
    ordered = collective.info.reduces and rng.random() < 0.4 and \
        collective.in_rank_order not in cluster.left_out[communicator]
    most = rng.choice((1, 20, 300, 3000 // ranks + 1))
    lengths: list[Any] = [skewed(rng, ranks, most) for _ in range(ranks)] if collective.info.pairwise else \
        skewed(rng, ranks, most)
    parts = extents(collective, lengths, scattered(rng))
    bits, kind = np.random.default_rng(rng.getrandbits(32)), np.dtype(f"u{width(dtype) // 8}")
    before = np.full(kind.itemsize, BEFORE, np.uint8).view(kind)[0]
    inputs: list[npt.NDArray[Any] | None] = [None] * cluster.size
    want: list[npt.NDArray[Any] | None] = [None] * cluster.size
    for group in cluster.groups(communicator):
        blocks = [[_elements(bits, kind, count, dtype) for count, _ in row] for row in parts.send]
        made = blocks_received(collective, inner, blocks, lengths, dtype=dtype, op=op, widen=widen, both=cluster.both,
                               ordered=ordered)
        for local, rank in enumerate(group):
            inputs[rank] = placed(blocks[local], parts.send[local], before)
            want[rank] = placed(made[local], parts.receive[local], before)
    options = {"collective": collective, "inputs": inputs, "extents": parts, "dtype": dtype, "op": op, "widen": widen,
               "ordered": ordered, "src_skew": rng.randrange(64), "dst_skew": rng.randrange(64)}
    counts["kinds"][f"{collective.name} of different lengths"] += 1
    counts["types"][dtype.name] += 1
    what = (f"{collective.name}{' in rank order' if ordered else ''} of {lengths} {dtype.name}"
            f"{' widened' if widen else ''}, {op.name}, among {_name(inner)}")
    return what, options, want


def _elements(bits: np.random.Generator, kind: np.dtype[Any], count: int, dtype: DType) -> npt.NDArray[Any]:
    """Any bits: half of the time numbers near each other, whose sums round and cancel."""
    if dtype == DType.FP32 and bits.random() < 0.5:
        return bits.standard_normal(count, np.float32).view(kind)
    return bits.integers(0, 1 << 8 * kind.itemsize, count, dtype=np.uint64).astype(kind)


def _name(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
