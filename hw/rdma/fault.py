# SPDX-License-Identifier: Apache-2.0
"""Reasons for the failure of a queue pair."""

from enum import IntEnum

__all__ = ["Fault"]


class Fault(IntEnum):
    """Why a queue pair failed."""

    NONE = 0
    RETRIES = 1
    """No acknowledgement after all retransmissions."""
    RNR_RETRIES = 2
    """The peer was not ready after all retries."""
    REMOTE_ACCESS = 3
    """The peer refused a key, a range or a right."""
    REMOTE_INVALID = 4
    """The peer refused a request as invalid."""
    REMOTE_OPERATION = 5
    """The peer's memory failed."""
    BAD_RESPONSE = 6
    """A response violated the protocol."""
    LOCAL_ACCESS = 8
    """The peer's request was refused: a key, a range or a right."""
    LOCAL_INVALID = 9
    """The peer's request was refused: opcode, length or sequence of opcodes."""
    LOCAL_OPERATION = 10
    """Memory responded to the peer's request with an error."""
