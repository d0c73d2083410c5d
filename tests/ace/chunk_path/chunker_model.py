# SPDX-License-Identifier: Apache-2.0
"""A model of the chunker's chunks: the order of a communicator's chunks, and the slot and the FSM of each.

It does not predict cycles: whose chunk is cut, started or drained is the chunker's choice within its rules.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import zip_longest

from hw.ace.config import SEQUENCE_WIDTH
from hw.ace.operations import ROWS
from hw.ace.words import Stage

__all__ = ["NUMBERS", "PATTERNS", "Chunk", "Collective", "Communicator", "Stalls"]

NUMBERS = 1 << SEQUENCE_WIDTH
"""Chunks' numbers before they wrap."""


@dataclass
class Stalls:
    """Probabilities per cycle that a handshake or an event is withheld, and those of errors."""

    program: float = 0
    fills: float = 0
    filled: float = 0
    chunks: float = 0
    through: float = 0
    drains: float = 0
    drained: float = 0
    read_error: float = 0
    write_error: float = 0


PATTERNS = {
    "none": Stalls(), "programs": Stalls(program=0.8), "fills": Stalls(fills=0.8), "memory": Stalls(filled=0.9),
    "chunks": Stalls(chunks=0.8), "links": Stalls(through=0.9), "drains": Stalls(drains=0.8),
    "writes": Stalls(drained=0.9), "all": Stalls(0.3, 0.3, 0.5, 0.3, 0.7, 0.3, 0.5, write_error=0.5),
}


@dataclass
class Collective:
    """A collective, with ``fields`` of ``operation_layout`` and the chunks that remain to be cut."""

    fields: dict
    growth: int = 1                 # bytes in the SRAM per byte of memory
    row: int = 0
    whole: bool = False             # no more chunks will be cut
    chunks: int = 0                 # in progress
    cut: int = 0

    def __post_init__(self):
        shard, half, longest = self.fields["shard_bytes"], self.fields["half"], 16 * self.fields["piece"]
        halves = ([(at, min(longest, end - at), side) for at in range(start, end, longest)]
                  for start, end, side in ((0, half, "plus"), (half, shard, "minus")))
        # Chunks of the halves alternate, the upper half first, until one half is cut.
        self.pieces = deque(piece for pair in zip_longest(*halves) for piece in pair if piece)


@dataclass
class Chunk:
    """A chunk: its columns, slot and FSM, and its progress."""

    communicator: int
    collective: Collective
    sequence: int
    fsm: int
    slot: int
    column: int
    size: int
    side: str
    last: bool
    stage: Stage = Stage.FREE
    started: bool = False           # its FSM has it
    unread: bool = False
    issued_at: int = 0
    startable: int = 0              # cycles in which it could have started
    drain_from: int | None = None   # first cycle in which it, or the rest of it, may be drained
    parted: bool = False            # all but the last drain was reported by itself
    unwritten: bool = False         # with a write error
    stop_seen: bool = False         # its communicator was stopped when it was offered to its FSM, or to the drain


@dataclass
class Communicator:
    """A communicator, and its part of the operations."""

    number: int
    share: dict = field(default_factory=lambda: dict.fromkeys(("fsm_first", "fsm_mask", "slot_first", "slot_mask"), 0))
    priority: int = 0
    open: bool = False
    stopped: bool = False
    following: int = 0              # number of the next chunk to cut
    starting: int = 0               # number of the next chunk to start
    rows: list = field(default_factory=lambda: [None] * ROWS)
    to: int = 0                     # row of its next collective
    cutting: int = 0                # row whose chunks are cut
    idle: int = 0                   # cycles without work
    since: int | None = None        # first cycle in which a chunk could have been cut, without a gap
    in_turn_from: int = 0           # first cycle in which no higher priority can have changed the turns
    overtaken: Counter = field(default_factory=Counter)

    @property
    def begun(self):
        return self.rows[self.cutting] is not None and not self.rows[self.cutting].whole

    def own(self, sequence):
        """FSM and slot of a chunk."""
        return tuple(self.share[f"{name}_first"] + sequence % (self.share[f"{name}_mask"] + 1)
                     for name in ("fsm", "slot"))
