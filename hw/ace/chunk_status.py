# SPDX-License-Identifier: Apache-2.0
"""Reports of the chunker about chunks: to the registers, to the counters and to Faults.

Chunker -> Control, Faults.
"""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature

from .config import SEQUENCE_WIDTH, AceConfig

__all__ = ["ChunkCountLookup", "ChunkFailed", "ChunkerCounts", "SlotLookup", "name_layout", "slot_layout"]


def name_layout(config):
    """Identity of a chunk: its communicator, and its number there."""
    return data.StructLayout({"communicator": config.communicator_bits, "sequence": SEQUENCE_WIDTH})


def slot_layout(config):
    """A slot as software sees it: the stage of its chunk, and the chunk's identity."""
    return data.StructLayout({"stage": 3, "name": name_layout(config)})


class ChunkFailed(EventSignature):
    """A read or a write of the chunk ``payload`` got an error response from memory. Driven by Chunker."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(name_layout(config))


class SlotLookup(wiring.Signature):
    """Debug look-up: the registers drive ``slot``; ``state`` follows in the same cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"slot": Out(config.slot_bits), "state": In(slot_layout(config))})


class ChunkCountLookup(wiring.Signature):
    """Debug look-up: the registers drive ``communicator``; ``chunks``, the number cut of it, follows in the same
    cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"communicator": Out(config.communicator_bits), "chunks": In(SEQUENCE_WIDTH)})


class ChunkerCounts(wiring.Signature):
    """Counts of Chunker, a strobe per cycle: ``active_cycles``, a slot is in use."""

    def __init__(self) -> None:
        super().__init__({"active_cycles": Out(1)})
