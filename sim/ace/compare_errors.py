# SPDX-License-Identifier: Apache-2.0
"""Collectives that are stopped at random moments, by software, memories and links: which ranks report it, and how the
communicator recovers.

Each error must be reported with its kind and its rank on all ranks of its communicator and on no other; the others
continue, and the one that failed gives the golden model's bits again as soon as it is reopened.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective, those
from hw.ace.config import AceConfig
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType, width
from hw.ace.words import Status
from sim.ace.cluster import Cluster, CollectiveFailed, Pending
from sim.ace.compare import ONE_SHOTS
from sim.ace.endpoints import Link, Memory
from sim.ace.faults import Cut, Faults
from sim.ace.recovery import recover, revoke
from sim.ace.shared_library import ClusterFailed, Library

__all__ = ["CAUSES", "SHAPES", "compare_errors"]

SHAPES = ((4,), (2, 2), (2,), (5,), (3, 2), (2, 2, 2), (8,))

CAUSES = (Status.REVOKED, Status.READ_ERROR, Status.WRITE_ERROR, Status.LINK_DOWN)

PER_CLUSTER = 10
LIMIT = 500_000
CUT = 60_000
"""Cycles for which a link is cut: more than its time-out."""

REPAIR_CYCLES = 500
"""Cycles in which a link comes up again."""

MOST_SENTENCES = 20

_ALL = those(lambda info: info.moves_data and not info.rooted)
"""Every rank reads and writes its memory."""

_DATA = those(lambda info: info.moves_data)


_Submitted = tuple[Pending, str, Sequence[npt.NDArray[Any] | None]]
"""A collective that is pending, its name, and each rank's right buffer."""


def compare_errors(config: AceConfig, *, errors: int, seed: int, causes: Sequence[Status] = CAUSES,
                   library: Library | None = None, shapes: Sequence[tuple[int, ...]] = SHAPES,
                   progress: Callable[[int, int, str], object] | None = None) -> dict[str, Any]:
    """Stop N collectives and report the differences.

    Parameters
    ----------
    config : AceConfig
    errors : int
        N, the least number.
    seed : int
    causes : sequence of Status
        Of :data:`CAUSES`, in turn.
    progress : callable or None
        Receives ``(done, total, note)``.

    Returns
    -------
    dict
        ``errors``, ``mismatches``, ``hangs``, ``cycles``; ``causes``, ``shapes``: how many of each; ``longest``: most
        cycles from an error, or from the start of the failed collective, until all ranks could be reopened;
        ``first_mismatches``: sentences.
    """
    rng = random.Random(seed)
    found = {"errors": 0, "mismatches": 0, "hangs": 0, "cycles": 0, "longest": 0}
    counts: dict[str, Counter[str]] = {"causes": Counter(), "shapes": Counter()}
    sentences: list[str] = []
    while found["errors"] < errors:
        shape = shapes[found["errors"] // PER_CLUSTER % len(shapes)]
        link = Link(latency=rng.choice((1, 10, 50)), bytes_per_cycle=rng.choice((0, 3)), stall=rng.choice((0, 0.2)))
        memory = Memory(read_latency=rng.choice((5, 100)), write_latency=rng.choice((5, 100)),
                        stall=rng.choice((0, 0.2)))
        with Cluster(config, shape, library=library, seed=rng.getrandbits(32), link=link, memory=memory,
                     one_shot=rng.choice(ONE_SHOTS)) as cluster:
            for _ in range(min(PER_CLUSTER, errors - found["errors"])):
                cause, name = causes[found["errors"] % len(causes)], "x".join(map(str, shape))
                found["errors"] += 1
                counts["causes"][cause.name] += 1
                counts["shapes"][name] += 1
                try:
                    wrong, cycles = _one(cluster, rng, cause)
                except ClusterFailed as error:
                    failed = isinstance(error, CollectiveFailed)
                    found["mismatches" if failed else "hangs"] += 1
                    sentences.append(f"On {name}, {cause.name}: {error}")
                    break
                found["longest"] = max(found["longest"], cycles)
                if wrong:
                    found["mismatches"] += 1
                    sentences += [f"On {name}, {cause.name}: {sentence}" for sentence in wrong]
                if progress:
                    progress(found["errors"], errors, f"{name} {found['mismatches']} mismatches")
            found["cycles"] += cluster.cycle
    return {**found, **{name: dict(sorted(counter.items())) for name, counter in counts.items()},
            "first_mismatches": sentences[:MOST_SENTENCES]}


def _one(cluster: Cluster, rng: random.Random, cause: Status) -> tuple[list[str], int]:
    """Sentences, and cycles until the communicator could be opened again."""
    target, queue = rng.randrange(len(cluster.communicators)), rng.randrange(cluster.config.queues)
    others = [number for number in range(len(cluster.communicators)) if number != target]
    rank = rng.randrange(cluster.size)
    group = next(group for group in cluster.groups(target) if rank in group)
    ends = {rank}
    for _ in range(rng.choice((1, 1, 2))):
        # All links of an all-reduce carry packets.
        _submit(cluster, rng, target, queue, longest=20_000,
                kinds=(Collective.ALL_REDUCE,) if cause == Status.LINK_DOWN else _ALL)
    beside = None
    if cause == Status.REVOKED:
        if others:
            beside = _submit(cluster, rng, rng.choice(others), (queue + 1) % cluster.config.queues, longest=5000)
        cluster.run(int(10 ** rng.uniform(0, 3.7)))
        begin = cluster.cycle
        revoke(cluster, target, rank)
    elif cause == Status.LINK_DOWN:
        port, begin = 2 * rng.choice(_rings(cluster, target)) + rng.randrange(2), cluster.cycle
        ends.add(cluster.neighbour(rank, port))
        cluster.set_faults(Faults(cuts=(Cut(rank, port, rng.randint(1, 500), CUT),)))
        cluster.clear_watches()
        cluster.run(CUT)
        cluster.do(*(cluster.drivers[end].start_links([at]) for end, at in (
            (rank, port), (cluster.neighbour(rank, port), port ^ 1))))
        cluster.run(REPAIR_CYCLES)
    else:
        fail = cluster.fail_read if cause == Status.READ_ERROR else cluster.fail_write
        begin = cluster.cycle
        fail(rank, rng.randint(1, 3))
    wrong = [] if beside is None else _check(cluster, *beside)
    faults = recover(cluster, target, ranks=group, limit=LIMIT)
    cycles = cluster.cycle - begin
    # Either end of a link may time out first, or both.
    want = {(cause, group.index(end)) for end in ends}
    reported = {(fault.status, fault.rank) for fault in faults}
    if not reported <= want or len(set(faults)) > len(ends):
        wrong.append(f"ranks {group} report {', '.join(sorted(map(str, set(faults))))}; it was {cause.name} at rank "
                     f"{' or '.join(map(str, sorted(ends)))}.")
    for number in [target, *others[:1]]:
        wrong += _check(cluster, *_submit(cluster, rng, number, rng.randrange(cluster.config.queues), longest=400))
    return wrong, cycles


def _rings(cluster: Cluster, communicator: int) -> list[int]:
    """Dimensions in which its ranks have links."""
    return [dimension for dimension in cluster.communicators[communicator].dimensions
            if cluster.shape[dimension] > 1]


def _submit(cluster: Cluster, rng: random.Random, communicator: int, queue: int, *, longest: int,
            kinds: Sequence[Collective] = _DATA) -> _Submitted:
    """Post a random collective."""
    inner = cluster.communicator_shape(communicator)
    ranks = int(np.prod(inner))
    collective = rng.choice([kind for kind in kinds if kind not in cluster.left_out[communicator]])
    dtype = rng.choice((DType.FP32, DType.INT8, DType.BF16))
    root = tuple(rng.randrange(size) for size in inner) if collective.info.rooted else None
    count = rng.randint(longest // 4, longest) // (ranks if collective.info.varying else 1) + 1
    many = collective.info.sent(count, ranks)
    bits, kind = np.random.default_rng(rng.getrandbits(32)), np.dtype(f"u{width(dtype) // 8}")
    inputs = [bits.integers(0, 1 << 8 * kind.itemsize, many, dtype=np.uint64).astype(kind)
              for _ in range(cluster.size)]
    want: list[npt.NDArray[Any] | None] = [None] * cluster.size
    for group in cluster.groups(communicator):
        made = results(collective, inner, [inputs[rank] for rank in group], dtype=dtype, count=count, root=root,
                       both=cluster.both, one_shot=cluster.one_shot)
        for rank, right in zip(group, made, strict=True):
            want[rank] = right
    pending = cluster.submit(collective, inputs, count=count, dtype=dtype, root=root, communicator=communicator,
                             queue=queue)
    return pending, f"{collective.name} of {count} {dtype.name} of communicator {communicator}", want


def _check(cluster: Cluster, pending: Pending, what: str, want: Sequence[npt.NDArray[Any] | None]) -> list[str]:
    outcome, = cluster.wait(pending, limit=LIMIT)
    wrong = [rank for rank, (got, right) in enumerate(zip(outcome.outputs, want, strict=True))
             if (got is not right if got is None or right is None else not np.array_equal(got, right))]
    return [f"{what} is wrong at ranks {', '.join(map(str, wrong[:8]))}."] if wrong else []
