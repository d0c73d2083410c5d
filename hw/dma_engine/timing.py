# SPDX-License-Identifier: Apache-2.0
"""Timing options of the DMA engine: the critical paths to cut."""

from dataclasses import dataclass

from hw.common.timing import TimingOptions

__all__ = ["DmaTimingOptions"]


@dataclass(frozen=True, kw_only=True)
class DmaTimingOptions(TimingOptions):
    """Cuts of a DMA engine's critical paths, each independent of the others.

    Parameters
    ----------
    registered_arrivals : bool
        From the doorbell and the rings to the queue store: the choice between them is registered. One cycle when the
        source changes.
    registered_doorbells : bool
        From an arriving word to the scheduler's pick: it competes in the next cycle, where it would otherwise bypass
        the idle scheduler. One cycle from the doorbell to AR.
    grouped_fetch : bool
        From the choice of a queue to the fetch of its next word: each group of eight queues finds out whether it needs
        one. No cycle; some 80 LUTs with 64 queues.
    registered_entitlement : bool
        From the ends of a queue's window to the scheduler's decision: whether the queue holds less than its guaranteed
        part is kept and not computed. No cycle; some two LUTs per queue.
    registered_credits : bool
        From a segment that the scheduler drops to its credit counter. No cycle.
    legalizer_output_register : bool
        From the legalizer's checks to ReadIssue: segments pass the queue's output register and do not bypass it. One
        cycle from the doorbell to AR.
    precomputed_takes : bool
        From the sequencer's block RAM to its count of source beats: the count is stored and not added up. No cycle; one
        more column of block RAM with 1,024 tags.
    registered_operations : bool
        From five sources of queue operations to Retire: the choice between them is registered. One cycle when the
        source changes.
    carry_chain_increment : bool
        From Retire's table to the next count of a queue: a carry chain where FPGAs have fast ones, in place of LUTs
        over all lower bits. No cycle.
    registered_words : bool
        From completion words and notices to the write path: the choice between them is registered. One cycle when the
        source changes.
    word_output_register : bool
        From that choice to the sequencer: a skid buffer holds the word. One cycle for each completion word.
    """

    registered_arrivals: bool = False
    registered_doorbells: bool = False
    grouped_fetch: bool = False
    registered_entitlement: bool = False
    registered_credits: bool = False
    legalizer_output_register: bool = False
    precomputed_takes: bool = False
    registered_operations: bool = False
    carry_chain_increment: bool = False
    registered_words: bool = False
    word_output_register: bool = False
