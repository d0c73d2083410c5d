# SPDX-License-Identifier: Apache-2.0
"""The fast set: runs that must fail with each mutant.

Cheap ones come first, as the first failure ends a mutant. Each takes the simulators of
:func:`tests.mutation.designs.prepare` and the original's measurement of the same run. The DMA engine's own cocotb tests
are of rare cases, and each is only run for mutants of the files whose cases it has. ``python -m tests.mutation --list``
prints them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw.ace import config as ace_config
from hw.errors import UserError
from sim.cpp import Flow, Harness, Target
from tests.mutation import ace_errors, ace_runs
from tests.mutation.designs import Ready
from tests.mutation.operators import Mutant

__all__ = ["FAST_SETS", "Difference", "Test"]

SEED = 20_240
"""Seed of the runs."""

SLOWER = 1.01
"""Most cycles that a run of the C++ harness may take, of those of the original."""

CYCLES = 100_000
"""Cycles of a run of the C++ harness after which requests that have not ended are a failure."""


LIMIT = 30_000
"""Cycles after which collectives that have not ended are a failure."""

ERROR_LIMIT = 60_000
"""The same with an error."""


class Difference(UserError):
    """A result that is not the model's."""


@dataclass(frozen=True)
class Test:
    """A run; ``call(ready, measured)`` returns its measurement and raises an exception if the engine is wrong.

    ``about``, if not empty: parts of the paths of the files whose mutants it is run for.
    """

    __test__ = False

    name: str
    call: Callable[[Ready, float | None], float]
    about: tuple[str, ...] = ()

    def fits(self, mutant: Mutant) -> bool:
        """Whether it is run for a mutant."""
        return not self.about or any(part in mutant.file for part in self.about)


def _flows(name: str, flows: list[Flow], targets: list[Target] | None = None, **options: Any) -> Test:
    """A run of the C++ harness, whose measurement is its cycles."""
    def call(ready: Ready, measured: float | None) -> float:
        harness: Harness = ready.parts["harness"]
        result = harness.run(flows, targets or [Target(read_latency=20, write_latency=20)], seed=SEED, limit=CYCLES,
                             **options)
        cycles: int = result["cycles"]
        if measured is not None and cycles > measured * SLOWER:
            raise Difference(f"The run took {cycles} cycles instead of {measured:.0f}.")
        return cycles

    return Test(f"harness: {name}", call)


def _compare(seed: int, requests: int) -> Test:
    """``dmace compare dma``: all observable results and the golden model's."""
    def call(ready: Ready, measured: float | None) -> float:
        import json
        import tempfile

        with tempfile.TemporaryDirectory(prefix="dmace-") as folder:
            path = Path(folder) / "result.json"
            options = {"config": "tiny", "requests": requests, "stalls": "random", "latency": 20, "seed": seed,
                       "result": str(path)}
            ready.parts["simulator"].run("sim.dma.compare", env={"DMACE_RUN": json.dumps(options)}, seed=seed,
                                         log=Path(folder) / "log", results=Path(folder) / "results.xml")
            result = json.loads(path.read_text(encoding="utf-8"))
        if result["mismatches"]:
            raise Difference(result["first_mismatches"][0])
        return float(result["cycles"])

    return Test(f"compare dma, seed {seed}", call)


def _cocotb(module: str, *about: str, tests: tuple[str, ...] = (), **parameters: Any) -> Test:
    """Cocotb tests of the engine, one after the other in one simulation, each of which begins with a reset."""
    def call(ready: Ready, measured: float | None) -> float:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="dmace-") as folder:
            env = {f"DMACE_TEST_{name.upper()}": value for name, value in parameters.items()}
            result = ready.parts["simulator"].run(
                f"tests.dma_engine.{module}", testcase=tests or None, env=env, seed=SEED, log=Path(folder) / "log",
                results=Path(folder) / "results.xml")
        return sum(test.sim_ns for test in result.tests) / 4

    return Test(f"cocotb: {module}", call, about)


_ANY = {"random_shift": 600, "size_from": 1}

DMA = [
    _flows("one at a time", [Flow(size=900, requests=12, **_ANY)]),
    _flows("all queues", [Flow(count=4, size=700, depth=8, burst=2, requests=40, **_ANY)], stall=0.2, jitter=10),
    _flows("rings", [Flow(count=2, size=300, depth=16, ring=3, records=1, burst=3, requests=60, **_ANY),
                     Flow(first=2, count=2, size=40, depth=8, requests=40, **_ANY)], out_of_order=True, jitter=30),
    _flows("a ring with the buffer of two", [Flow(size=64, depth=40, ring=2, pair=1, burst=8, requests=200)]),
    _flows("small ones back to back", [Flow(count=4, size=24, depth=8, burst=4, requests=150)]),
    _flows("slow reads", [Flow(count=2, size=3000, depth=4, requests=20, **_ANY),
                          Flow(first=2, count=2, size=64, depth=4, priority=1, requests=60, source=1, destination=1)],
           [Target(read_latency=300, write_latency=20, slow=True, limit=40), Target(read_latency=20)]),
    _flows("misbehaving queues", [Flow(size=500, depth=4, requests=60, **_ANY), Flow(first=1, depth=4, misbehaves=1),
                                  Flow(first=2, depth=4, misbehaves=2), Flow(first=3, depth=4, misbehaves=3)],
           window=3000),
    _flows("sources across 4 KiB", [Flow(count=4, size=4000, depth=3, across=1, weight=2, requests=12)], stall=0.1),
    _compare(1, 60),
    _cocotb("test_counters", "instruments/", "control/totals", "control/moderation", "control/frontpanel", "regs/"),
    _cocotb("test_trace", "instruments/"),
    _cocotb("test_control", "control/", "common/", "completion/retire", "frontend/queues", "stream/", "rings/",
            "instruments/", "regs/",
            tests=("rst_brings_all_back", "rst_clears_regions", "counters_add_up", "numbers_beyond_the_tables")),
    _cocotb("test_queue_interrupts", "completion/interrupts", "completion/notices", "record_interrupts",
            "rings/records", "control/moderation", "completion/word_responses"),
    _cocotb("test_quiesce", "control/quiesce", tests=("idle_and_twice",)),
    _cocotb("test_scheduling", "frontend/scheduler", "frontend/shares", "frontend/targets", "frontend/window_pool",
            tests=("classes", "queue_limit", "target_limit", "limits_come_back")),
    _cocotb("test_error_log", "error_log", tests=("full_log", "flooded_log")),
    _cocotb("test_attributes", "mover/axi_port", "rings/records", "completion/writer"),
    _cocotb("test_ark", "frontend/ark_words", "completion/ark_flags", tests=("all_fields", "two_words", "refused_words",
                                                                            "malformed", "checks"), stalls="random"),
    _cocotb("test_rings", "rings/"),
    _cocotb("test_reclaim", "control/epochs", "mover/port_drain", "mover/responses", "mover/buffer"),
    _cocotb("test_abandon", "control/epochs", "completion/word_responses", "rings/lifecycle",
            tests=("reads_without_response", "words_without_response")),
]


def _collectives(name: str, seed: int, number: int, shapes: tuple[tuple[int, ...], ...], **options: Any) -> Test:
    """``dmace compare ace``: buffers of each rank and the golden model's."""
    def call(ready: Ready, measured: float | None) -> float:
        from sim.ace import compare

        compare.LIMIT = LIMIT
        result = compare.compare(ace_config.TINY, collectives=number, seed=seed, library=ready.parts["library"],
                                 shapes=shapes, **options)
        return _judged(result)

    return Test(f"compare ace: {name}, seed {seed}", call)


def _errors(name: str, seed: int, number: int, shapes: tuple[tuple[int, ...], ...]) -> Test:
    """``dmace compare ace --revoke``: collectives that are stopped at random moments."""
    def call(ready: Ready, measured: float | None) -> float:
        from sim.ace import compare_errors

        compare_errors.LIMIT = ERROR_LIMIT
        return _judged(compare_errors.compare_errors(ace_config.TINY, errors=number, seed=seed, shapes=shapes,
                                                     library=ready.parts["library"]))

    return Test(f"compare ace: {name}, seed {seed}", call)


def _judged(result: dict[str, Any]) -> float:
    if result["mismatches"] or result["hangs"]:
        raise Difference(result["first_mismatches"][0])
    return float(result["cycles"])


def _directed(run: Callable[[Any], float | None]) -> Test:
    """A run of the library of a cluster; if it returns cycles, a mutant may not take more."""
    def call(ready: Ready, measured: float | None) -> float:
        found = run(ready.parts["library"])
        if found is not None and measured is not None and found > measured * SLOWER:
            raise Difference(f"The run took {found:.0f} cycles instead of {measured:.0f}.")
        return found or 0

    return Test(f"directed: {run.__name__}", call)


ACE = [
    _collectives("rings", 1, 20, ((2,),)),
    _directed(ace_runs.registers),
    _directed(ace_runs.refusals),
    _directed(ace_errors.links),
    _directed(ace_runs.work),
    _directed(ace_errors.cycles),
    _collectives("faults", 3, 40, ((3,), (2, 2)), faults=True),
    _directed(ace_errors.errors),
    _collectives("all shapes", 2, 80, ((4,), (2, 2), (5,), (3, 1, 2))),
    _errors("stopped collectives", 4, 12, ((2,), (3,))),
    _collectives("more faults", 6, 80, ((4,), (2,), (3, 2), (2, 2, 2)), faults=True),
]

FAST_SETS = {"dma": DMA, "ace": ACE}
