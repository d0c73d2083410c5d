# SPDX-License-Identifier: Apache-2.0
"""Mutants that survive the fast set, and why.

An entry names the file, the text of the source line, and the change, so that it remains valid when lines move. Reasons
are ``equivalent``: no input of the engine makes a difference, which the proof of the module alone does not see;
``performance``: the same results, later; ``unseen``: no run of the fast set has the case, and which other test has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.operators import Mutant

__all__ = ["EXPLAINED", "Explained", "explanation", "line_of"]

ROOT = Path(__file__).resolve().parents[2]

REASONS = ("equivalent", "performance", "unseen")


@dataclass(frozen=True)
class Explained:
    """A survivor: ``code`` is part of its source line, ``change`` is :attr:`Mutant.change`."""

    file: str
    code: str
    change: str
    reason: str
    why: str


EXPLAINED = [
    Explained("hw/dma_engine/control/totals.py", "turn, at = Signal", "no reset of $signal", "equivalent",
              "The rotation may begin anywhere, and the row at hand is replaced in each cycle."),
    Explained("hw/dma_engine/rings/expand.py", "began, outside, sums = Signal()", "no reset of $signal", "equivalent",
              "`began` is assigned in every cycle, and no descriptor arrives in the first one after a reset."),
    Explained("hw/dma_engine/frontend/scheduler.py", "self.scheduled.beyond.eq(", "and bit 0 of 1 stuck at 1",
              "performance", "`shares` charges a queue with a beat too many or too few for an unaligned segment."),
]


def line_of(mutant: Mutant) -> str:
    """The source line of a mutant, without indentation; an empty string if the file has no such line."""
    path, _, number = mutant.source.rpartition(":")
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""


def explanation(mutant: Mutant, entries: Iterable[Explained] | None = None) -> Explained | None:
    """The entry of a mutant, or None."""
    code = line_of(mutant)
    for entry in EXPLAINED if entries is None else entries:
        if entry.file == mutant.file and entry.code in code and entry.change == mutant.change:
            return entry
    return None
