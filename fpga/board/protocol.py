# SPDX-License-Identifier: Apache-2.0
"""Frames between a host and a board over a serial line; shared by gateware, driver and tests.

Plain Python. Each request gets one response, and their first bytes differ:

====== ============================================ ============================================
byte   request                                      response
====== ============================================ ============================================
0      0xA5                                         0x5A
1      sequence                                     that of the request
2      operation: 0 HELLO, 1 READ, 2 WRITE          status: 0 OK, 1 BAD_OPERATION, 2 BUS_ERROR
3      words: READ and WRITE 1 to 64, HELLO 0       words that follow
4 to 7 address in bytes, a multiple of 4            (missing)
then   the words of a WRITE, little endian          the words of a READ, little endian
last 2 CRC-16 of all from byte 1 on, high byte first the same
====== ============================================ ============================================

Numbers are little endian except the CRC, which is CRC-16/IBM-3740 (polynomial 0x1021, initial value 0xFFFF). A corrupt
or truncated frame is dropped without a response, and the host sends it again with the same sequence. A request with the
sequence of the previous one gets a response but is not repeated: a doorbell rings once. HELLO clears the sequence.
"""

import enum
import struct
from binascii import crc_hqx
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["MAX_WORDS", "REQUEST_SYNC", "RESPONSE_SYNC", "Operation", "Response", "Space", "Status", "parse_response",
           "request", "response_length"]

REQUEST_SYNC, RESPONSE_SYNC = 0xA5, 0x5A
MAX_WORDS = 64
"""Most words of a frame."""
HEADER_BYTES, CRC_BYTES = 4, 2


class Operation(enum.IntEnum):
    """Operation of a request."""

    HELLO = 0
    READ = 1
    WRITE = 2


class Status(enum.IntEnum):
    """How a request ended."""

    OK = 0
    BAD_OPERATION = 1
    """Unknown operation; nothing was done."""
    BUS_ERROR = 2
    """Nothing is at this address, or a bus returned an error. Earlier words may have been written."""


class Space(enum.IntEnum):
    """Bits 31:28 of an address; bits 27:24 are the number of the endpoint."""

    BOARD = 0
    REGISTERS = 1
    """Registers of the engine."""
    DOORBELLS = 2
    """All words of a frame, up to four, are one store; the last must be the last of a 16-byte slot or of 8 bytes."""
    MEMORY = 3


class Response(NamedTuple):
    """A response; ``words`` are those that were read."""

    sequence: int
    status: int
    words: tuple[int, ...]


def request(sequence: int, operation: Operation, address: int = 0, *, words: Sequence[int] = (),
            count: int | None = None) -> bytes:
    """Bytes of a request frame. ``count`` is that of a READ; that of a WRITE follows from ``words``."""
    count = len(words) if count is None else count
    body = struct.pack("<BBBI", sequence, operation, count, address) + struct.pack(f"<{len(words)}I", *words)
    return bytes([REQUEST_SYNC]) + body + struct.pack(">H", crc_hqx(body, 0xFFFF))


def response_length(header: bytes) -> int:
    """Bytes of a whole response whose first four are ``header``."""
    return HEADER_BYTES + 4 * header[3] + CRC_BYTES


def parse_response(frame: bytes) -> Response | None:
    """:class:`Response` of a whole frame, None where it is damaged."""
    body, crc = frame[1:-CRC_BYTES], frame[-CRC_BYTES:]
    if frame[0] != RESPONSE_SYNC or crc_hqx(body, 0xFFFF) != int.from_bytes(crc, "big"):
        return None
    return Response(body[0], body[1], struct.unpack(f"<{body[2]}I", body[3:]))
