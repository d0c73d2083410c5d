# SPDX-License-Identifier: Apache-2.0
"""Words shared by software and hardware: the command word, status codes and the words of a program.

Plain Python: the golden model, the driver, the C header and the hardware share these tables and nothing else.
"""

import enum
from typing import NamedTuple, Self

from hw.common.words import pack_fields, unpack_fields

from .collectives import Collective, OneShot, Ordered
from .config import COUNT_WIDTH, OFFSET_WIDTH, PHASES, POSITION_WIDTH, ROOT_WIDTH, SEQUENCE_WIDTH, STEP_WIDTH
from .numerics.formats import OP_WIDTH, TYPE_WIDTH

__all__ = [
    "COMMAND_FIELDS", "HEADER_FIELDS", "PHASE_FIELDS", "PROGRAM_WIDTH", "RECORD_FIELDS", "ROLE_FIELDS", "SEND_FIELDS",
    "TRANSFER_FIELDS", "Collective", "CommandFlag", "CommandWord", "CommunicatorState", "HeaderWord", "LinkCause",
    "LinkState", "OneShot", "Ordered", "PhaseWord", "RoleWord", "SendWord", "Stage", "Status", "TransferWord", "Waits",
]


class CommandFlag(enum.IntFlag):
    """Flags of a command."""

    SC = 1 << 0
    """Publish the queue's completion word when the collective has completed here."""
    IRQ = 1 << 1
    """Raise the completion interrupt when it has completed."""
    ORDERED = 1 << 2
    """Combine every element strictly in rank order, 0 to n - 1."""
    VARYING = 1 << 3
    """Parts of the buffers have individual counts and displacements, in the extents table."""


class Status(enum.IntEnum):
    """Result of a collective, or of a word that was refused. Codes that the DMA engine also has mean the same."""

    OK = 0x00
    MALFORMED = 0x01
    """Unknown collective, data type or operation, or a reserved flag; an operation that the type does not have."""
    OVERFLOW = 0x03
    """A word arrived at a full queue and was refused, as is every later one until the queue is cleared."""
    DISABLED = 0x04
    """A word arrived at a disabled queue and was refused."""
    TIMEOUT = 0x05
    """The communicator had work and made no progress for the watchdog's time."""
    COMPLETION_ERROR = 0x06
    """The write of a completion word got an error response."""
    COMMUNICATOR = 0x0A
    """The communicator is not in the table, has no program for the collective, or is of another domain."""
    SRC_REGION = 0x10
    SRC_DOMAIN = 0x11
    SRC_RIGHTS = 0x12
    SRC_BOUNDS = 0x13
    READ_ERROR = 0x14
    """A read of the send buffer got an error response."""
    DST_REGION = 0x20
    DST_DOMAIN = 0x21
    DST_RIGHTS = 0x22
    DST_BOUNDS = 0x23
    WRITE_ERROR = 0x24
    """A write of the receive buffer got an error response."""
    LINK_DOWN = 0x30
    """A link of the communicator is down."""
    REVOKED = 0x31
    """Software revoked the communicator."""


class CommunicatorState(enum.IntEnum):
    """How a communicator treats commands and packets."""

    CLOSED = 0
    """The entry is no communicator."""
    OPEN = 1
    ENDING = 2
    """An error occurred: nothing new starts, and work in progress is dropped."""
    REVOKED = 3
    """It has no work in progress; COMMUNICATOR_COMMIT opens it again."""


class Stage(enum.IntEnum):
    """Stage of a slot's chunk."""

    FREE = 0
    FILLING = 1
    """Being filled from memory."""
    FILLED = 2
    """Filled; it waits for its FSM."""
    LINKS = 3
    """Filled; its FSM executes its phases."""
    DRAINING = 4
    """Being drained to memory."""


class Waits(enum.IntEnum):
    """Cause of an FSM's wait."""

    NOTHING = 0
    """It has no chunk, or continues at once."""
    GRANT = 1
    """The neighbour at its port has not granted the next send."""
    DATA = 2
    """Data has not arrived from the neighbour at the port of the other side."""
    PORT = 3
    """A packet or a GRANT waits for arbitration, or for a credit of the port."""
    SRAM = 4
    """Sent data has not been read yet."""
    PROGRAM = 5
    """A word of its program, or the acceptance of its completed chunk."""
    MEMORY = 6
    """The chunk is still being filled."""


RECORD_FIELDS = (
    ("status", 8),
    ("rank", 8),
    ("port", 3),
    ("phase", 2),
    ("named", 1),
    ("step", STEP_WIDTH),
    ("sequence", SEQUENCE_WIDTH),
)
"""Cause of a communicator's end: payload of an ABORT packet from bit 0 up.

``status``: the cause. ``rank``: where it occurred, in the communicator. ``port``: that is down. ``named``: a chunk is
named, by ``sequence``; it was in ``phase``, with ``step`` sends done.
"""


class LinkState(enum.IntEnum):
    """State of one end of a link; CREDIT packets carry it. The handshake is that of BFD (RFC 5880, 6.2)."""

    DOWN = 0
    """All packets are dropped, until software starts the link again."""
    START = 1
    """Nothing has been received from the peer."""
    INIT = 2
    """The peer's packets arrive here; the other direction is not confirmed."""
    UP = 3
    """Packets arrive in both directions."""


class LinkCause(enum.IntEnum):
    """Cause of a port's last DOWN."""

    NONE = 0
    """Not DOWN since reset."""
    SOFTWARE = 1
    """LINK_STOP, or LINK_START."""
    PATIENCE = 2
    """The peer did not respond."""
    PEER = 3
    """The peer is DOWN."""
    RESTART = 4
    """The peer was reset or started while this end was UP: how much it had received is unknown."""
    VIOLATION = 5
    """The peer acknowledged packets, or returned beats, that were never sent: one of the ends is broken."""


COMMAND_FIELDS = (
    ("collective", 4),
    ("flags", 4),
    ("communicator", 4),
    ("dtype", TYPE_WIDTH),
    ("op", OP_WIDTH),
    ("widen", 1),
    ("root", ROOT_WIDTH),
    ("src_region", 8),
    ("src_offset", OFFSET_WIDTH),
    ("dst_region", 8),
    ("dst_offset", OFFSET_WIDTH),
    ("count", COUNT_WIDTH),
)
"""Fields of the 128-bit command word from bit 0 up; no field straddles the two 64-bit halves.

``count`` and the offsets are in elements; ``count`` means what NCCL's does. ``root`` holds the coordinates of the root,
each in as many bits as the largest of its dimension needs, the last dimension's lowest: the root's rank if all sizes
are powers of two. In a VARYING collective, ``root`` is the first row of its extents, divided by 16, and ``count`` the
maximum of all counts of all ranks. With ``widen``, floats of 16 and 8 bits are FP32 in the SRAM and on the links.
"""


class CommandWord(NamedTuple):
    """A command as a GPU thread stores it: one aligned 16-byte store, little endian."""

    collective: int
    flags: int
    communicator: int
    dtype: int
    op: int
    widen: int
    root: int
    src_region: int
    src_offset: int
    dst_region: int
    dst_offset: int
    count: int      # type: ignore[assignment]  # hides tuple.count, which is not used

    def pack(self) -> int:
        """128-bit integer. Raises ValueError when a field does not fit."""
        return pack_fields(self, COMMAND_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, COMMAND_FIELDS))

    def to_bytes(self) -> bytes:
        return self.pack().to_bytes(16, "little")


PROGRAM_WIDTH = 48
"""Bits of a word of the programs' memory."""

HEADER_FIELDS = (
    ("phases", PHASES.bit_length()),
    ("fills", 8),
    ("drains", 8),
    ("split", 1),
    ("shards", 8),
    ("src_whole", 1),
    ("dst_whole", 1),
    ("piece", 11),
    ("early", 1),
    ("parts", 1),
)
"""First word of a program; its fills follow it, then its drains, then its phases.

``split``: the count is cut into ``shards`` shards; otherwise each shard has ``count`` elements. ``src_whole``,
``dst_whole``: a buffer holds all shards; otherwise one. ``piece``: maximum columns of each shard in a chunk, in units
of COLUMN_BYTES of the SRAM. ``early``: receives of the first phase store to no position that is filled, so they are
granted before the fill. ``parts``: the last drain has the positions of the last receive of the last phase, which
changes no others: the other drains begin when all but that receive have arrived.
"""

ROLE_FIELDS = (("program", 12),)
"""For a collective with a root, the directory has the address of a table of these, one for each role in each dimension:
3 for a ring, 9 and 27 for tori. Number ``role[0] + 3 * role[1] + 9 * role[2]`` is that of a rank that is in dimension
``d`` at the root's coordinate (role 0), at the other end of the chain (2), or between (1). Chains of BROADCAST start at
the root's coordinate, those of REDUCE end there. So with ``distance = (coordinate - root) mod size`` for a BROADCAST
that goes up or a REDUCE that goes down, ``(root - coordinate) mod size`` for the other two, the role is 0 for a
distance of 0, 2 for ``size - 1``, and 1 for all others. Trailing dimensions of one rank may be left out of the table.

For a REDUCE in rank order, the role is 0 at the root's coordinate, 1 above it, 2 below it."""

TRANSFER_FIELDS = (("position", POSITION_WIDTH), ("shard", 8), ("count", 8), ("mark", 1))
"""A fill or a drain: ``count`` pieces between the slot's positions from ``position`` on and the buffer's shards from
``shard`` on. A buffer that is not whole has shard 0 only.

``mark``, of fills but the last: the FSM is notified when this fill and those before it have ended. The first mark
permits to grant receive 0 of the first phase; the second one, sends 0 and 1; number m from the third on, sends below
2 ** (m - 1), and to grant receives below 2 ** (m - 1) - 1. The end of the last fill permits all. A mark that the FSM
does not observe permits nothing, and later ones then count as earlier ones."""

PHASE_FIELDS = (
    ("port", 3),
    ("span", POSITION_WIDTH - 1),
    ("both", 1),
    ("sends", STEP_WIDTH),
    ("receives", STEP_WIDTH),
    ("granted", STEP_WIDTH),
)
"""First word of a phase; its sends follow it, then the next phase.

``port``: of the sends; receives arrive at the port of the dimension's other side. ``span``: positions of each send.
``granted``: receives that are safe when the phase starts. ``both``: the phase also has sends that go back, at the
dimension's other port; then all receives of both sides are granted when it starts, and ``granted`` is not less than the
number of sends. ``receives``: those of sends that do not go back.
"""

SEND_FIELDS = (
    ("source", POSITION_WIDTH),
    ("target", POSITION_WIDTH),
    ("need", STEP_WIDTH),
    ("grants", STEP_WIDTH),
    ("reduce", 1),
    ("back", 1),
    ("local", 1),
    ("next", 2),
    ("next_both", 1),
)
"""A send of ``span`` positions from ``source`` here to ``target`` in the receiver's slot of the same chunk.

``need``: receives of this phase that must precede it; packet ``i`` of the send waits only for packet ``i`` of the last
of them. ``grants``: receives that become safe when the send is done. ``reduce``: the receiver combines it with the
contents of its positions; otherwise it is copied there. ``back``: it leaves at the dimension's other port, and ``need``
counts receives of sends that go back. ``local``: it leaves and arrives at the loopback, without GRANTs, and starts when
all earlier sends have been read, all ``receives`` have arrived, and ``need`` of those that go back, completely.
``next``: dimension of the next phase, plus 1, if all its receives become safe when this send is read from the program,
so that they are granted then and not when that phase starts; 0 if not. It must be another dimension than this phase's.
``next_both``: ``both`` of that phase.
"""


class HeaderWord(NamedTuple):
    """First word of a program: :data:`HEADER_FIELDS`."""

    phases: int
    fills: int
    drains: int
    split: int
    shards: int
    src_whole: int
    dst_whole: int
    piece: int
    early: int = 0
    parts: int = 0

    def pack(self) -> int:
        return pack_fields(self, HEADER_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, HEADER_FIELDS))


class RoleWord(NamedTuple):
    """Address of a role's program: :data:`ROLE_FIELDS`."""

    program: int

    def pack(self) -> int:
        return pack_fields(self, ROLE_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, ROLE_FIELDS))


class TransferWord(NamedTuple):
    """A fill or a drain: :data:`TRANSFER_FIELDS`."""

    position: int
    shard: int
    count: int      # type: ignore[assignment]  # hides tuple.count, which is not used
    mark: int = 0

    def pack(self) -> int:
        return pack_fields(self, TRANSFER_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, TRANSFER_FIELDS))


class PhaseWord(NamedTuple):
    """First word of a phase: :data:`PHASE_FIELDS`."""

    port: int
    span: int
    both: int
    sends: int
    receives: int
    granted: int

    def pack(self) -> int:
        return pack_fields(self, PHASE_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, PHASE_FIELDS))


class SendWord(NamedTuple):
    """A send: :data:`SEND_FIELDS`."""

    source: int
    target: int
    need: int
    grants: int
    reduce: int
    back: int = 0
    local: int = 0
    next: int = 0
    next_both: int = 0

    def pack(self) -> int:
        return pack_fields(self, SEND_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, SEND_FIELDS))
