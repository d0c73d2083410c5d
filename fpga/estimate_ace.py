# SPDX-License-Identifier: Apache-2.0
"""Transistors of an accelerator that was not synthesised, from the figures of others: for comparisons only."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hw.ace.config import BASE, WIDE, AceConfig

from .gates import SRAM_TRANSISTORS

__all__ = ["Estimate", "estimate"]

_OF_WIDTH = ("receive", "drain", "fill", "link")
"""Blocks that grow with the width of a beat, and with it the number of lanes."""

_OF_A_PIPE = ("receive", "transmit")


class Estimate(NamedTuple):
    """Transistors. ``slots``: the SRAM of the slots; ``memories``: all others; ``receive``: that of all pipes, with the
    lanes; ``logic``: the rest of it."""

    slots: float
    memories: float
    receive: float
    logic: float

    @property
    def all(self) -> float:
        return sum(self)


def estimate(accelerator: AceConfig, figures: Mapping[str, Mapping[str, Any]]) -> Estimate:
    """Estimate an accelerator whose lanes accept a beat per cycle.

    Blocks that move beats are on the straight line through those of ``base`` and ``wide``; ``receive`` and ``transmit``
    count once for each pipe; the pool is in proportion to the FSMs, and grows with pipes as that of ``tiny``; memories
    of links are in proportion to their beats and the width. All else is that of ``wide``.

    Parameters
    ----------
    accelerator : AceConfig
    figures : mapping
        Contents of ``docs/area_ace.json``, with one pipe for ``base`` and ``wide``.
    """
    base, wide = (figures[name]["blocks"] for name in ("base", "wide"))
    one, four = (float(figures["tiny"][kind]["pool"]["transistors"]) for kind in ("blocks", "pipes_4"))

    def of_width(block: str) -> float:
        low, high = base[block]["transistors"], wide[block]["transistors"]
        return float(low + (high - low) * (accelerator.data_width - BASE.data_width) / (
            WIDE.data_width - BASE.data_width))

    def transistors(block: str) -> float:
        if block in _OF_WIDTH:
            return of_width(block)
        alone = float(wide[block]["transistors"])
        if block != "pool":
            return alone
        more = float(four / one - 1)      # with four pipes instead of one
        return alone * accelerator.fsms / WIDE.fsms * (1 + more * (accelerator.pipes - 1) / 3)

    def count(block: str) -> int:
        return accelerator.pipes if block in _OF_A_PIPE else int(wide[block]["count"])

    buffers = (accelerator.link_beats + accelerator.replay_beats) * accelerator.data_width / (
        (WIDE.link_beats + WIDE.replay_beats) * WIDE.data_width)
    memories = sum(count(block) * wide[block]["memory_bits"] * (buffers if block == "link" else 1) for block in wide)
    return Estimate(
        SRAM_TRANSISTORS * 8 * accelerator.slots * accelerator.chunk_bytes, SRAM_TRANSISTORS * memories,
        count("receive") * transistors("receive"),
        sum(count(block) * transistors(block) for block in wide if block != "receive"))
