# SPDX-License-Identifier: Apache-2.0
"""The ACE paper's headline figures beside this simulator's, with the cause of each difference.

All figures come from the same default inputs (:data:`.endpoint_kinds.PAPER`); no value is chosen for a workload. Where
the paper leaves something open, there is a row for each possibility: the precision of memory traffic, and the
convention of an endpoint's share of memory bandwidth.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any, TypedDict

from sim.system.endpoint_kinds import PAPER
from sim.system.experiment import Experiment
from sim.system.memory import POOLS
from sim.system.speedups import BASELINES
from sim.system.sweep import Store, run_all

from . import offload

__all__ = ["MEMORY", "NETWORK", "SPEEDUPS", "Headline", "experiments", "headlines", "measure"]

SHAPES = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4))
WORKLOADS = {"ResNet-50": ("resnet50-fp16", "resnet50-fp32"), "GNMT": ("gnmt",), "DLRM": ("dlrm-fp16", "dlrm-fp32")}

SPEEDUPS = {"ResNet-50": (1.41, 1.51), "GNMT": (1.12, 1.17), "DLRM": (1.13, 1.19)}
"""Iteration time of the best baseline over ACE's: mean and most, as the paper's abstract has them."""

NETWORK = (1.44, 2.67)
"""Network rate over the baselines': mean and most."""

MEMORY = 3.5
"""Memory bandwidth of a baseline over ACE's for the same network rate: mean."""

PRESETS = ("wide", "ultra")
"""Presets of the RTL that are columns."""

_Row = Mapping[str, Any]
_Results = Mapping[tuple[str, str, tuple[int, ...], str], _Row]
"""By workload, convention of memory bandwidth, shape and endpoint."""


class Headline(TypedDict):
    """A figure of the paper, and ours. ``limit``: of an endpoint that takes no time; ``built``: of the preset ``wide``;
    ``most_built``: of ``ultra``; None where it has no meaning."""

    figure: str
    case: str
    memory_pool: str
    paper: float
    paper_most: float | None
    ours: float
    ours_most: float
    limit: float | None
    built: float | None
    most_built: float | None
    why: str


def experiments(workloads: Sequence[str], shapes: Sequence[tuple[int, ...]] = SHAPES,
                endpoints: Iterable[str] = (*PAPER, *PRESETS)) -> Iterator[tuple[tuple[str, str, tuple[int, ...], str],
                                                                        Experiment]]:
    """All runs, by the key of :data:`_Results`."""
    for workload in workloads:
        for pool in POOLS:
            for shape in shapes:
                for endpoint in endpoints:
                    yield (workload, pool, shape, endpoint), Experiment(
                        workload=workload, shape=shape, endpoint=endpoint, settings={"memory_pool": pool})


def measure(store: Store, *, progress: Callable[[int, int], object] = lambda done, total: None,
            workloads: Sequence[str] | None = None, shapes: Sequence[tuple[int, ...]] = SHAPES) -> dict[
                tuple[str, str, tuple[int, ...], str], _Row]:
    """Run what is not stored, and return the rows of :func:`.experiment.row`."""
    names = workloads or [name for several in WORKLOADS.values() for name in several]
    wanted = dict(experiments(names, shapes))
    keys = {case: experiment.key() for case, experiment in wanted.items()}
    results = run_all({keys[case]: experiment for case, experiment in wanted.items()}, store, serial=True,
                      progress=progress)
    return {case: results[key]["row"] for case, key in keys.items()}


def headlines(results: _Results, saved: Iterable[offload.Row]) -> Iterator[Headline]:
    """The table: iteration times, network rates, memory bandwidths."""
    for model, names in WORKLOADS.items():
        for workload in names:
            for pool in POOLS:
                yield _speedup(results, model, workload, pool)
    for pool in POOLS:
        yield _network(results, pool)
    rows = list(saved)
    for pool in POOLS:
        yield _memory([row for row in rows if row["memory_pool"] == pool], pool)


def _of(results: _Results, workload: str, pool: str, endpoint: str) -> dict[tuple[int, ...], _Row]:
    return {shape: row for (name, which, shape, one), row in results.items()
            if (name, which, one) == (workload, pool, endpoint)}


def _best(results: _Results, workload: str, pool: str) -> dict[tuple[int, ...], _Row]:
    every = [_of(results, workload, pool, name) for name in BASELINES]
    return {shape: min((rows[shape] for rows in every), key=lambda row: row["step_seconds"]) for shape in every[0]}


def _speedup(results: _Results, model: str, workload: str, pool: str) -> Headline:
    best = _best(results, workload, pool)

    def over(endpoint: str) -> list[float]:
        return [best[shape]["step_seconds"] / row["step_seconds"]
                for shape, row in _of(results, workload, pool, endpoint).items()]

    ours, limit = over("ace"), geometric_mean(over("ideal"))
    mean, (paper, most) = geometric_mean(ours), SPEEDUPS[model]
    names = list(dict.fromkeys(row["endpoint"] for row in best.values()))
    slower = geometric_mean([row["compute_seconds"] / row["compute_alone_seconds"] for row in best.values()])
    why = (f"the best baseline ({', '.join(names)}) computes {100 * (slower - 1):.0f} % longer than alone; ACE reaches "
           f"{100 * mean / limit:.0f} % of Ideal's speed"
           f"{', and even Ideal gains less than the paper has' if limit < paper else ''}")
    return {"figure": "iteration time, best baseline over ACE", "case": workload, "memory_pool": pool, "paper": paper,
            "paper_most": most, "ours": mean, "ours_most": max(ours), "limit": limit,
            "built": geometric_mean(over("wide")), "most_built": geometric_mean(over("ultra")), "why": why}


def _network(results: _Results, pool: str) -> Headline:
    def over(endpoint: str) -> list[float]:
        return [row["network_bytes_per_s"] / results[workload, which, shape, baseline]["network_bytes_per_s"]
                for (workload, which, shape, one), row in results.items() if (which, one) == (pool, endpoint)
                for baseline in BASELINES]

    ours = over("ace")
    by_baseline = ", ".join(f"{geometric_mean(ours[number::len(BASELINES)]):.2f} of {name}'s"
                            for number, name in enumerate(BASELINES))
    return {"figure": "network rate, ACE over each baseline", "case": "all workloads", "memory_pool": pool,
            "paper": NETWORK[0], "paper_most": NETWORK[1], "ours": geometric_mean(ours), "ours_most": max(ours),
            "limit": geometric_mean(over("ideal")), "built": geometric_mean(over("wide")),
            "most_built": geometric_mean(over("ultra")), "why": by_baseline}


def _memory(rows: Sequence[offload.Row], pool: str) -> Headline:
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    needs = [(row["ace_needs"], row["conventional_needs"]) for row in rows if row["ace_needs"]]
    text = ", ".join(f"{(mine or 0) / 1e9:.0f} and {(theirs or 0) / 1e9:.0f}" for mine, theirs in needs)
    never = ", ".join(row["shape"] for row in rows if not row["ace_needs"])
    why = f"GB/s for 90 % of Ideal's rate: {text}; recalled from the paper: ACE 128, CommOpt 450" + (
        f". On {never} ACE's lanes do not reach 90 %" if never else "")
    return {"figure": "memory bandwidth for a network rate, baseline over ACE", "case": "all-reduce",
            "memory_pool": pool, "paper": MEMORY, "paper_most": None, "ours": geometric_mean(ratios),
            "ours_most": max(ratios), "limit": None, "built": None, "most_built": None, "why": why}


def cells(rows: Iterable[Headline]) -> Iterator[tuple[str, ...]]:
    """Each row as texts."""
    for row in rows:
        paper = f"{row['paper']:.2f}" + (f" ({row['paper_most']:.2f})" if row["paper_most"] else "")
        others = ("" if value is None else f"{value:.2f}" for value in (row["limit"], row["built"], row["most_built"]))
        yield (row["figure"], f"`{row['case']}`" if row["case"] in _TABLES else row["case"], row["memory_pool"], paper,
               f"{row['ours']:.2f} ({row['ours_most']:.2f})", *others, row["why"])


def page(rows: Iterable[Headline]) -> str:
    """A page of documentation."""
    head = "| " + " | ".join(("figure", "case", "reads and writes", "paper: mean (most)", "ours: mean (most)", "Ideal",
                              *(f"`{preset}`" for preset in PRESETS), "why")) + " |"
    lines = [_TEXT, head, "|---" * head.count(" | ") + "|---|", *(f"| {' | '.join(row)} |" for row in cells(rows))]
    return "\n".join(lines) + "\n"


_TABLES = {name for names in WORKLOADS.values() for name in names}

_TEXT = f"""# Headline figures of the ACE paper

<!-- Written by `dmace validate --headlines docs/headlines.md`; do not edit. -->

Means are geometric, over {', '.join('x'.join(map(str, shape)) for shape in SHAPES)} and two iterations. All
rows have the same inputs, those of [training.md](training.md#inputs), and no value is chosen for a workload. "Reads and
writes" is the convention of `memory_pool`: an endpoint's share of memory bandwidth for both together (`shared`, the
default), or for each (`separate`). "Ideal" is the figure of an endpoint that takes no time, `wide` and `ultra` those of
presets of the RTL at the same clock, `ultra` with 128 GB/s of memory like ACE.
[training.md](training.md#ace-and-the-best-baseline) discusses them.
"""
