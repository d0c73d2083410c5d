# SPDX-License-Identifier: Apache-2.0
"""Deliberate bugs of several classes, and what finds each of them: ``python -m tests.deliberate_bugs [name ...]``.

A copy of the sources under ``build/bugs`` gets one bug at a time, and each of its tests runs there: proofs, tests of
the block, tests of the part that contains it, simulations of the engine. ``docs/verification.md`` has the table.
"""

import sys
from dataclasses import dataclass

from tests.changed_sources import chosen, run_changed

__all__ = ["BUGS", "Bug", "finds"]

SEED = "1"


@dataclass(frozen=True, kw_only=True)
class Bug:
    """``old``, which occurs once in the file ``path``, becomes ``new``; then each test of ``means`` fails."""

    name: str
    path: str
    old: str
    new: str
    means: tuple[str, ...]


_WHOLE_ENGINE = "tests/test_four_state.py::test_no_x_of_rtl"

BUGS = [
    Bug(name="bounds check off by one", path="hw/dma_engine/frontend/legalizer.py",
        old="a.dst_end > a.dst_length)", new="a.dst_end > a.dst_length + 1)",
        means=("tests/formal/test_legalizer.py::test_legalizer",
               "tests/formal/test_whole.py::test_no_write_leaves_the_regions",
               "tests/dma_engine/frontend/test_legalizer.py::test_statuses")),
    Bug(name="credit leak", path="hw/stream/credit.py",
        old="self.available - self.take + self.give, self.available + self.give",
        new="self.available - self.take, self.available + self.give",
        means=("tests/formal/test_credits.py::test_credits_add_up[5-3-2]", "tests/stream/test_credit.py::test_count")),
    Bug(name="RC before B", path="hw/dma_engine/completion/window_table.py",
        old="lookup.marked.eq(found.generation != expected)", new="lookup.marked.eq(1)",
        means=("tests/dma_engine/completion/test_window_table.py::test_random",
               "tests/dma_engine/completion/test_retire.py::test_random",
               _WHOLE_ENGINE)),
    Bug(name="stale page entry", path="hw/dma_engine/frontend/legalizer.py",
        old="| (segment.jumps & ~pages.next.present)", new="| 0",
        means=("tests/formal/test_legalizer.py::test_legalizer",
               "tests/dma_engine/frontend/test_legalizer.py::test_statuses")),
    Bug(name="tag reuse", path="hw/pcie/requester/event_pair.py",
        old="event.valid & (bits[0].data ^ bits[1].data)", new="event.valid & ~(bits[0].data ^ bits[1].data)",
        means=("tests/pcie/requester/test_tags.py::test_pairs", "tests/pcie/requester/test_tags.py::test_pool",
               "tests/pcie/requester/test_reads.py::test_random")),
    Bug(name="sequence-number wrap", path="hw/ace/link/window.py",
        old="Mux(number < peer, self.high + 1, self.high)", new="self.high",
        means=("tests/formal/test_link.py::test_window", "tests/ace/link/test_port.py::test_link")),
    Bug(name="lost abort", path="hw/dma_engine/frontend/scheduler.py",
        old="m.d.sync += aborting[index].eq(1)", new="m.d.sync += aborting[index].eq(0)",
        means=("tests/dma_engine/frontend/test_scheduler.py::test_random",
               "tests/dma_engine/test_compare.py::test_compare")),
    Bug(name="missed carry", path="hw/ace/numerics/integer.py",
        old="compare if not n else compare | whole", new="compare if not n else compare",
        means=("tests/ace/numerics/test_integer.py::test_words", "tests/ace/numerics/test_alu.py::test_random",
               "tests/ace/test_cluster.py::test_every_collective")),
    Bug(name="missing reset", path="hw/common/sweep.py",
        old="done = Signal(width + 1)", new="done = Signal(width + 1, reset_less=True)",
        means=(_WHOLE_ENGINE, "tests/test_four_state.py::test_no_x_of_collectives",
               "tests/test_initial_values.py::test_rtl")),
]


def finds(bug: Bug, means: str) -> bool:
    """Whether this test, ``FILE::NAME``, fails with the bug. Raises RuntimeError if it could not run."""
    result = run_changed(bug.name, bug.path, bug.old, bug.new, means, "--seed", SEED)
    if result.returncode not in (0, 1) or (" skipped" in result.stdout and " passed" not in result.stdout):
        raise RuntimeError(f"{means} did not run with the bug {bug.name!r}:\n{result.stdout[-3000:]}")
    return result.returncode == 1


def main(names: list[str]) -> int:
    """Run the bugs of these names, or all; returns the number of means that found nothing."""
    missed = 0
    for bug in chosen(BUGS, names):
        for means in bug.means:
            found = finds(bug, means)
            missed += not found
            print(f"{bug.name:24} {'found' if found else 'NOT FOUND':10} {means}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
