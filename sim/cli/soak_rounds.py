# SPDX-License-Identifier: Apache-2.0
"""Rounds of ``dmace soak all``: each is some seconds to a minute of random work, from a seed of its own.

A round runs in any process. Its part's ``prepare`` builds the simulators first, so that several rounds do not build the
same.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

from hw.ace import config as ace
from hw.dma_engine.config import PRESETS, DmaConfig
from hw.endpoint.config import EndpointConfig
from sim.configurations import COMPARABLE, DMA_START, configurations, copies, endpoints, show

__all__ = ["JOBS", "PARTS", "Part", "Result", "Round"]

JOBS, _REQUESTS, _COLLECTIVES, _ERRORS = 200, 20_000, 260, 20
"""Sizes of a round; 260 collectives are 20 on each of 13 shapes."""


class Result(NamedTuple):
    seed: int
    done: int
    cycles: int
    findings: list[str]


Round = Callable[[], Result]


class Part(NamedTuple):
    """A kind of random work."""

    option: str
    default: int
    what: str
    """The work that ``option`` counts."""
    name: str
    """In the table."""
    rounds: Callable[[int, int], Iterator[Round]]
    """From the wanted number and the first seed."""
    prepare: Callable[[], object]
    """Builds the simulators that all rounds use."""


def _each(function: Callable[[int, int], Result], size: int) -> Callable[[int, int], Iterator[Round]]:
    """Rounds of ``size``, with consecutive seeds."""
    def rounds(wanted: int, seed: int) -> Iterator[Round]:
        for first, number in zip(range(0, wanted, size), count(seed)):
            yield partial(function, min(size, wanted - first), number)

    return rounds


def _requests(wanted: int, seed: int) -> Result:
    """Requests one at a time and back to back, of all lengths, and many short ones; on `tiny` and `wide` in turn."""
    from sim.cpp import HarnessFailed, build_harness
    from sim.dma.soak import runs

    config, other = PRESETS["tiny" if seed % 2 else "wide"], max(1, wanted // 20)
    harness, done, cycles = build_harness(config), 0, 0
    try:
        for soak in runs(config, other, other, small=max(1, wanted - 3 * other)):
            row = soak.run(harness, seed)
            done, cycles = done + row["requests"], cycles + row["cycles"]
    except HarnessFailed as failure:
        return Result(seed, done, cycles, [f"Seed {seed} of the requests: {failure}"])
    return Result(seed, done, cycles, [])


def _jobs(engine: str, wanted: int, seed: int) -> Result:
    from sim.cli.soak_fuzz import build, fuzz

    found = fuzz(build(engine), runs=wanted, seed=seed << 16)
    return Result(seed, found["runs"], 0, [f"{found['finding']} The job:\n{found['job']}"] if found["finding"] else [])


def _collectives(wanted: int, seed: int) -> Result:
    from sim.ace.compare import compare
    from sim.ace.shared_library import build_library

    found = compare(ace.TINY, collectives=wanted, seed=seed, faults=True, library=build_library(ace.TINY))
    return Result(seed, found["collectives"], found["cycles"], found["first_mismatches"])


def _errors(wanted: int, seed: int) -> Result:
    """Collectives whose communicators end at random moments and are opened again."""
    from sim.ace.compare_errors import compare_errors
    from sim.ace.shared_library import build_library

    found = compare_errors(ace.TINY, errors=wanted, seed=seed, library=build_library(ace.TINY))
    return Result(seed, found["errors"], found["cycles"], found["first_mismatches"])


def _engines(wanted: int, seed: int) -> Iterator[Round]:
    made = configurations(DMA_START, rounds=-(-wanted // 3), seed=seed, least=COMPARABLE)
    return (partial(_engine, config, seed) for config in list(made)[:wanted])


def _engine(config: DmaConfig, seed: int) -> Result:
    from sim.cpp import HarnessFailed

    try:
        rows = copies(config, seed=seed, requests=1000)
    except HarnessFailed as failure:
        return Result(seed, 0, 0, [f"Sizes {show(config)}: {failure}"])
    return Result(seed, sum(row["requests"] for row in rows), sum(row["cycles"] for row in rows), [])


def _endpoints(wanted: int, seed: int) -> Iterator[Round]:
    return (partial(_endpoint, config, seed) for config in list(endpoints(rounds=-(-wanted // 3), seed=seed))[:wanted])


def _endpoint(config: EndpointConfig, seed: int) -> Result:
    from sim.ace.shared_library import ClusterFailed
    from sim.endpoint.soak import work

    try:
        found = work(config, seed=seed)
    except ClusterFailed as failure:
        return Result(seed, 0, 0, [f"Sizes {show(config)}: {failure}"])
    return Result(seed, found.requests, found.cycles, [f"Sizes {show(config)}: {text}" for text in found.findings])


def _error_rounds(wanted: int, seed: int) -> Iterator[Round]:
    rng = random.Random(seed)
    return (partial(_errors, min(_ERRORS, wanted - first), rng.getrandbits(32)) for first in range(0, wanted, _ERRORS))


def _build_engines() -> None:
    from sim.cpp import build_harness

    for preset in ("tiny", "wide"):
        build_harness(PRESETS[preset])


def _build_fuzzer(engine: str) -> None:
    from sim.cli.soak_fuzz import build

    build(engine)


def _build_accelerators() -> None:
    from sim.ace.shared_library import build_library

    build_library(ace.TINY)


def _nothing() -> None:
    """Each round builds an engine of its own."""


PARTS = (
    Part("requests", 10_000_000, "requests of the DMA engine", "copies", _each(_requests, _REQUESTS), _build_engines),
    Part("jobs", 100_000, "jobs of the DMA engine's fuzzer", "jobs, DMA engine",
         _each(partial(_jobs, "tiny"), JOBS), partial(_build_fuzzer, "tiny")),
    Part("ace-jobs", 20_000, "jobs of the accelerator's fuzzer", "jobs, accelerators",
         _each(partial(_jobs, "ace"), JOBS), partial(_build_fuzzer, "ace")),
    Part("pcie-jobs", 50_000, "jobs of the PCIe adapter's fuzzer", "jobs, PCIe adapter",
         _each(partial(_jobs, "pcie"), JOBS), partial(_build_fuzzer, "pcie")),
    Part("configurations", 6, "DMA engines of random sizes", "copies, random sizes", _engines, _nothing),
    Part("endpoints", 3, "pairs of endpoints of random sizes", "requests, endpoints", _endpoints, _nothing),
    Part("collectives", 10_000, "collectives with faults of links", "collectives, faults",
         _each(_collectives, _COLLECTIVES), _build_accelerators),
    Part("errors", 1_000, "collectives that errors end", "collectives, errors", _error_rounds, _build_accelerators),
)
