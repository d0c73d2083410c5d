# SPDX-License-Identifier: Apache-2.0
"""The collectives: one row for each, from which hardware, golden model, driver, tools, pages and tests derive.

Plain Python. A new collective is a code and a row here, a program in :mod:`~.programs.schedule` and its meaning in
:mod:`~.model.collective`.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

__all__ = [
    "COLLECTIVES", "DIRECTORY_WIDTH", "RANK_ORDER", "Buffer", "Collective", "CollectiveInfo", "Numbered", "OneShot",
    "Ordered", "those",
]


class Collective(enum.IntEnum):
    """Code of a collective in a command, with NCCL's semantics. Every other value is malformed."""

    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    ALL_GATHER = 3
    ALL_TO_ALL = 4
    BROADCAST = 5
    REDUCE = 6
    BARRIER = 7

    @property
    def info(self) -> "CollectiveInfo":
        """Its row of :data:`COLLECTIVES`."""
        return COLLECTIVES[self]

    @property
    def in_rank_order(self) -> "Ordered":
        """Its directory number in rank order. Raises ValueError if it does not reduce."""
        return Ordered(self | RANK_ORDER)


DIRECTORY_WIDTH = max(Collective).bit_length() + 1
"""Bits of a collective's number in the directory of programs: its code, and the flag ORDERED above it."""

RANK_ORDER = 1 << (DIRECTORY_WIDTH - 1)
"""The flag ORDERED in a directory number."""


class Ordered(enum.IntEnum):
    """Directory numbers of programs in rank order: one for each collective that reduces."""

    ALL_REDUCE = RANK_ORDER | Collective.ALL_REDUCE
    REDUCE_SCATTER = RANK_ORDER | Collective.REDUCE_SCATTER
    REDUCE = RANK_ORDER | Collective.REDUCE

    @property
    def collective(self) -> Collective:
        return Collective(self & ~RANK_ORDER)

    @property
    def info(self) -> "CollectiveInfo":
        """The row of its collective."""
        return self.collective.info


class OneShot(enum.IntEnum):
    """Directory numbers of one-shot programs, for short buffers: the decoder takes them up to the communicator's
    threshold. They have the remaining numbers from RANK_ORDER on."""

    ALL_REDUCE = RANK_ORDER

    @property
    def collective(self) -> Collective:
        return Collective[self.name]

    @property
    def info(self) -> "CollectiveInfo":
        """The row of its collective."""
        return self.collective.info


Numbered = Collective | Ordered | OneShot
"""Anything that has an entry in the directory of programs."""


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A send or a receive buffer.

    Parameters
    ----------
    blocks : bool
        It has a block of ``count`` elements for each rank, in rank order; otherwise it has ``count`` elements.
    root_only : bool
        Only the root has one.
    """

    blocks: bool = False
    root_only: bool = False

    def elements(self, count: int, ranks: int) -> int:
        """Its length."""
        return count * ranks if self.blocks else count

    def __str__(self) -> str:
        return f"{'count x ranks' if self.blocks else 'count'}{', at the root' if self.root_only else ''}"


@dataclass(frozen=True, kw_only=True)
class CollectiveInfo:
    """A row of :data:`COLLECTIVES`.

    Parameters
    ----------
    doc : str
        Its meaning, as half a sentence.
    nccl : str or None
        NCCL's function.
    send, receive : Buffer or None
        Its buffers; a collective has both or none.
    reduces : bool
        It combines the ranks' elements; then it can do so in rank order, too.
    in_place : bool
        The buffers may overlap, as NCCL defines it: see :meth:`in_place_offsets`.
    both_directions : bool
        Half of the columns may travel down each ring. Otherwise all chunks travel up, as they do in rank order.
    """

    doc: str
    nccl: str | None
    send: Buffer | None = Buffer()
    receive: Buffer | None = Buffer()
    reduces: bool = False
    in_place: bool = True
    both_directions: bool = True

    @property
    def moves_data(self) -> bool:
        """It has buffers; without, it only synchronizes."""
        return self.send is not None and self.receive is not None

    @property
    def sends_blocks(self) -> bool:
        return self.send is not None and self.send.blocks

    @property
    def receives_blocks(self) -> bool:
        return self.receive is not None and self.receive.blocks

    @property
    def from_root(self) -> bool:
        """Data travels from the root to all other ranks."""
        return self.send is not None and self.send.root_only

    @property
    def to_root(self) -> bool:
        """Data travels from all other ranks to the root."""
        return self.receive is not None and self.receive.root_only

    @property
    def rooted(self) -> bool:
        return self.from_root or self.to_root

    @property
    def pairwise(self) -> bool:
        """Each pair of ranks exchanges a block of its own."""
        return self.sends_blocks and self.receives_blocks

    @property
    def varying(self) -> bool:
        """It has a VARYING form, in which each block has a count and a displacement of its own."""
        return self.sends_blocks or self.receives_blocks

    def sent(self, count: int, ranks: int) -> int:
        """Elements of the send buffer."""
        return self.send.elements(count, ranks) if self.send else 0

    def received(self, count: int, ranks: int) -> int:
        """Elements of the receive buffer."""
        return self.receive.elements(count, ranks) if self.receive else 0

    def writes(self, *, at_root: bool) -> bool:
        """Whether a rank's receive buffer is written."""
        return self.receive is not None and (at_root or not self.receive.root_only)

    def in_place_offsets(self, count: int, rank: int) -> tuple[int, int]:
        """Elements from the start of one buffer that serves as both to the send and to the receive buffer: a buffer
        without blocks is the rank's own block of the other."""
        own = count * rank
        return (own if self.receives_blocks and not self.sends_blocks else 0,
                own if self.sends_blocks and not self.receives_blocks else 0)


COLLECTIVES = {
    Collective.ALL_REDUCE: CollectiveInfo(
        doc="every rank gets the reduction of all", nccl="ncclAllReduce", reduces=True),
    Collective.REDUCE_SCATTER: CollectiveInfo(
        doc="rank r gets block r of the reduction", nccl="ncclReduceScatter", send=Buffer(blocks=True), reduces=True),
    Collective.ALL_GATHER: CollectiveInfo(
        doc="every rank gets all blocks, in rank order", nccl="ncclAllGather", receive=Buffer(blocks=True)),
    Collective.ALL_TO_ALL: CollectiveInfo(
        doc="rank r gets block r of every rank, in rank order", nccl="ncclAlltoAll", send=Buffer(blocks=True),
        receive=Buffer(blocks=True), in_place=False),
    Collective.BROADCAST: CollectiveInfo(
        doc="every rank gets the root's buffer", nccl="ncclBroadcast", send=Buffer(root_only=True)),
    Collective.REDUCE: CollectiveInfo(
        doc="the root gets the reduction of all", nccl="ncclReduce", receive=Buffer(root_only=True), reduces=True),
    Collective.BARRIER: CollectiveInfo(
        doc="it completes on no rank before every rank has started it", nccl=None, send=None, receive=None,
        both_directions=False),
}
"""Code -> row."""


def those(rule: Callable[[CollectiveInfo], bool]) -> tuple[Collective, ...]:
    """Collectives whose row satisfies ``rule``, in the order of their codes."""
    return tuple(one for one in Collective if rule(one.info))
