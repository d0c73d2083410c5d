# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the trigger unit and between its stages."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import INDEX_WIDTH, TriggerConfig
from .layouts import CODE_WIDTH, RowLayout, due_layout, firing_layout, op_layout, tick_layout

__all__ = ["DueSignature", "FiringSignature", "LeaveSignature", "OperationSignature", "RefusalSignature",
           "TickSignature", "TriggerCounts", "TriggerSettings", "TriggerStatus", "VerdictSignature"]


class VerdictSignature(wiring.Signature):
    """Result of a source's oldest operation that has none yet; a strobe, which is always taken. ``code`` is a
    :class:`~.words.Refusal`."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "code": Out(CODE_WIDTH)})


class TickSignature(wiring.Signature):
    """Ticks of one source, a stream of ``tick_layout``, and their verdicts, in order and at least one cycle later."""

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({**stream.Signature(tick_layout(config)).members, "verdict": In(VerdictSignature())})


class OperationSignature(wiring.Signature):
    """Operations of one source, a stream of ``op_layout``, and their verdicts, in order and at least one cycle later.
    """

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({**stream.Signature(op_layout(config)).members, "verdict": In(VerdictSignature())})


class DueSignature(wiring.Signature):
    """A counter of ``block`` has a pending firing and is to be queued; a strobe, always taken, for each counter is
    queued at most once."""

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"valid": Out(1), "block": Out(config.block_bits), "payload": Out(due_layout(config))})


class LeaveSignature(wiring.Signature):
    """The oldest firing of a counter leaves: a strobe. ``allowed``: its block may post to the page."""

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"valid": Out(1), "counter": Out(config.counter_bits), "allowed": Out(1)})


class FiringSignature(wiring.Signature):
    """A firing left the table for the poster: a strobe, registered. The poster is free, as it has requested it."""

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"valid": Out(1), "payload": Out(firing_layout(config))})


class RefusalSignature(wiring.Signature):
    """An operation or a firing of a counter was refused: a strobe."""

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"valid": Out(1), "block": Out(config.block_bits), "index": Out(INDEX_WIDTH),
                          "code": Out(CODE_WIDTH)})


class TriggerSettings(wiring.Signature):
    """From the registers: strobes without back-pressure.

    Members
    -------
    pages_valid : ``Out(1)``, pages_block : ``Out``, pages : ``Out(pages)``
        The doorbell pages to which a block's counters may post.
    reset_valid : ``Out(1)``, reset_block : ``Out``
        Reset a block.
    select_valid : ``Out(1)``, select_counter : ``Out``
        Read a counter.
    """

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({
            "pages_valid": Out(1), "pages_block": Out(config.block_bits), "pages": Out(config.pages),
            "reset_valid": Out(1), "reset_block": Out(config.block_bits),
            "select_valid": Out(1), "select_counter": Out(config.counter_bits)})


class TriggerCounts(wiring.Signature):
    """Events in this cycle: a tick was accepted; a firing was posted; ``refused`` operations and words were refused."""

    def __init__(self) -> None:
        super().__init__({"ticked": Out(1), "fired": Out(1), "refused": Out(2)})


class TriggerStatus(wiring.Signature):
    """To the registers.

    Members
    -------
    busy : ``Out(blocks)``
        Blocks that are being reset.
    row : ``Out(RowLayout)``, row_valid : ``Out(1)``
        The counter last selected, once it has been read.
    refusal : ``Out(RefusalSignature)``
        Of two refusals in one cycle, the first.
    counts : ``Out(TriggerCounts)``
    """

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({
            "busy": Out(config.blocks), "row": Out(RowLayout), "row_valid": Out(1),
            "refusal": Out(RefusalSignature(config)), "counts": Out(TriggerCounts())})
