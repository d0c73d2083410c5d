# SPDX-License-Identifier: Apache-2.0
"""Messages between the process of a rank and the process of the cluster.

The transport is a Unix socket of type ``SOCK_SEQPACKET``: one packet is one message, a JSON object with ``type``. Only
the welcome has a file descriptor beside it: the rank's memory, which is a file without a name, so nothing remains of it
when processes are killed.

From a rank:

``hello``
    ``version``, ``rank``, ``size``. The first message.
``group``
    ``name``, ``communicator``, ``ranks``: a group of ranks, all of which send it before they post to it. ``ranks`` are
    those of one of the communicator's groups, in its order.
``collective``
    Fields of :class:`Command`: posted to the queue of the rank in that group. Ranks post the same collectives of a
    group in the same order; a collective starts when all of them have posted it.
``transfer``
    Fields of :class:`Transfer`: a send or a receive. Those between two ranks of a group with one tag are matched in
    the order in which each of them has posted; a transfer starts when both have.
``leave``
    The rank posts nothing more and closes the connection.
``abort``
    ``reason``, a sentence: the rank ends, and with it each of its groups.

From the cluster:

``welcome``
    ``version``, ``shape``, ``memory`` (bytes), ``puts`` (whether there are transfers), ``communicators``: a list of
    ``groups`` (lists of ranks) and ``left_out`` (collective -> why there is no program for it). Sent when all ranks
    have said hello and the accelerators are ready.
``refused``
    ``reason``, a sentence; the connection is closed.
``done``
    ``number`` and the fields of :class:`Result`.
``failed``
    ``number``, ``reason``.
"""

import json
import socket
from dataclasses import asdict, dataclass, fields
from typing import Any

from dmace.runtime.errors import DmaceError

__all__ = ["LONGEST", "VERSION", "Command", "Disconnected", "Extents", "Message", "Parts", "Result", "Transfer",
           "decode", "encode", "listen", "receive"]

VERSION = 2

LONGEST = 1 << 17
"""Bytes of a message at most."""

Message = dict[str, Any]

Parts = list[tuple[int, int]]
"""Count and displacement, in elements, of each part of a buffer."""


class Disconnected(DmaceError):
    """The other side has closed the connection."""


@dataclass(frozen=True)
class Extents:
    """Parts of a rank's send and receive buffer in a collective whose parts are of different lengths."""

    send: Parts
    receive: Parts


@dataclass(frozen=True, kw_only=True)
class Command:
    """A collective that a rank posts.

    Parameters
    ----------
    number : int
        Of the rank's own choice; in the response.
    group : str
    collective, dtype, op : str
        Names of :class:`hw.ace.collectives.Collective`, :class:`hw.ace.numerics.formats.DType` and ``Reduction``.
    count : int
        As NCCL has it; with ``extents`` it is not used.
    root : int
        Rank in the group.
    widen, ordered : bool
        Add narrow floats as FP32; combine in rank order.
    send, receive : int
        Bytes from the start of the rank's memory to its buffers, multiples of the element's size.
    extents : :class:`Extents` or None
    """

    number: int
    group: str
    collective: str
    dtype: str = "INT8"
    op: str = "SUM"
    count: int = 0
    root: int = 0
    widen: bool = False
    ordered: bool = False
    send: int = 0
    receive: int = 0
    extents: Extents | None = None

    def message(self) -> Message:
        return {"type": "collective", **asdict(self)}

    @classmethod
    def of(cls, message: Message) -> "Command":
        """The command in a message; raises :class:`DmaceError` if it is not well-formed."""
        found = _fields(cls, message)
        if found.get("extents") is not None:
            sides = {side: [(int(count), int(at)) for count, at in found["extents"][side]]
                     for side in ("send", "receive")}
            found["extents"] = Extents(**sides)
        return cls(**found)


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One side of a transfer between two ranks.

    Parameters
    ----------
    number : int
        Of the rank's own choice; in the response.
    group : str
    sends : bool
        This rank sends; else it receives.
    peer : int
        Rank in the group of the other side; -1 in a receive: of any rank.
    tag : int
    offset, length : int
        Bytes from the start of the rank's memory, and of the buffer there. Both sides have the same length.
    """

    number: int
    group: str
    sends: bool
    peer: int
    tag: int = 0
    offset: int = 0
    length: int = 0

    @property
    def collective(self) -> str:
        """Name in messages."""
        return "SEND" if self.sends else "RECEIVE"

    def message(self) -> Message:
        return {"type": "transfer", **asdict(self)}

    @classmethod
    def of(cls, message: Message) -> "Transfer":
        """The transfer in a message; raises :class:`DmaceError` if it is not well-formed."""
        found = cls(**_fields(cls, message))
        if not all(type(value) is int for value in (found.number, found.peer, found.tag, found.offset, found.length)):
            raise DmaceError(f"Fields of a transfer must be integers, not those of {message}.")
        return found


@dataclass(frozen=True, kw_only=True)
class Result:
    """A collective that has completed on all ranks of its group, or a transfer.

    Attributes
    ----------
    cycles : int
        From the posting of the commands, in one cycle, until the last rank could see that it had ended; of a transfer,
        until the sender could see that all bytes were in the receiver's memory.
    ended : list of int
        The same of each rank of the group; of a transfer, only of the sender.
    read_bytes, written_bytes : int
        Of all memories.
    payload_bytes, header_bytes : int
        On all links; headers are all bytes beside payload.
    lost_packets : int
        Dropped on links, as ``faults`` demands; they were sent again.
    source : int
        Rank in the group that has sent, of a transfer; else -1.
    seconds : float
        Of the simulation.
    """

    cycles: int
    ended: list[int]
    read_bytes: int
    written_bytes: int
    payload_bytes: int
    header_bytes: int
    lost_packets: int
    source: int = -1
    seconds: float = 0.0

    def message(self, number: int) -> Message:
        return {"type": "done", "number": number, **asdict(self)}

    @classmethod
    def of(cls, message: Message) -> "Result":
        return cls(**_fields(cls, message))


def _fields(kind: Any, message: Message) -> dict[str, Any]:
    known = {field.name for field in fields(kind)}
    return {name: value for name, value in message.items() if name in known}


def encode(message: Message) -> bytes:
    packet = json.dumps(message, separators=(",", ":")).encode()
    if len(packet) > LONGEST:
        raise DmaceError(f"A message to the cluster has at most {LONGEST:,} bytes, not {len(packet):,}.")
    return packet


def decode(packet: bytes) -> Message:
    try:
        message = json.loads(packet)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise DmaceError(f"A message must be a JSON object with a type, not {packet[:40]!r}.")
    return message


def listen(path: str) -> socket.socket:
    """A socket that listens at a path which does not exist."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(path)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise DmaceError(f"A cluster cannot listen at {path}: {error.strerror or error}.", error.errno or 0) from None
    return listener


def receive(connection: socket.socket) -> Message:
    """The next message; raises :class:`Disconnected` if there is none any more."""
    try:
        packet = connection.recv(LONGEST)
    except ConnectionError:
        packet = b""
    if not packet:
        raise Disconnected("The other side has closed the connection.")
    return decode(packet)
