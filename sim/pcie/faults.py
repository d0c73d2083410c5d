# SPDX-License-Identifier: Apache-2.0
"""Errors that a completer injects, each into one read request, by schedule.

::

    # In the second completion of the fourth read.
    completer.inject(Injection(Fault.COMPLETER_ABORT, piece=1, after=3))
    # All reads of one page.
    completer.inject(Injection(Fault.DROPPED, addresses=range(0x1000, 0x2000), times=None))
"""

import enum
from dataclasses import dataclass

__all__ = ["Fault", "Injection"]


class Fault(enum.Enum):
    """A wrong response to a read request, at the completion ``piece`` of an :class:`Injection`."""

    UNSUPPORTED_REQUEST = enum.auto()
    """Status UR, no data, and nothing afterwards."""
    COMPLETER_ABORT = enum.auto()
    """Status CA, no data, and nothing afterwards."""
    POISONED = enum.auto()
    """The completion is poisoned and holds wrong data; the others are right."""
    DROPPED = enum.auto()
    """Neither this completion nor any later one is sent."""
    WRONG_BYTE_COUNT = enum.auto()
    """The byte count is 4 too large, as if 4 bytes more remained."""
    WRONG_LOWER_ADDRESS = enum.auto()
    """The lower address is 4 too large."""
    WRONG_ATTRIBUTES = enum.auto()
    """The attributes differ from the request's."""
    NO_DATA = enum.auto()
    """Status SC without data."""
    UNEXPECTED_TAG = enum.auto()
    """A copy of the completion with another tag, ``extra_tag``, is sent before it."""
    DUPLICATE = enum.auto()
    """A copy of the completion is sent ``delay_ns`` after the last one, when the tag may be in use again."""


@dataclass(frozen=True)
class Injection:
    """When a fault happens.

    Parameters
    ----------
    fault : :class:`Fault`
        What happens.
    piece : int
        Index of the completion, from 0; the last one if there are fewer.
    after : int
        Matching reads that complete properly first.
    times : int or None
        Matching reads that fail; None for all.
    addresses : range or None
        Addresses of the memory, as in a backdoor access, that the read must touch; None for all.
    delay_ns : int
        Of a duplicate.
    extra_tag : int
        Of an unexpected completion.
    """

    fault: Fault
    piece: int = 0
    after: int = 0
    times: int | None = 1
    addresses: range | None = None
    delay_ns: int = 5000
    extra_tag: int = 255

    def __post_init__(self) -> None:
        for name, low in (("piece", 0), ("after", 0), ("delay_ns", 0), ("extra_tag", 0)):
            if (value := getattr(self, name)) < low:
                raise ValueError(f"{name} of an injection must be at least {low}, not {value!r}")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times of an injection must be at least 1 or None, not {self.times!r}")

    def touches(self, address: int, length: int) -> bool:
        """Whether bytes of a read are among ``addresses``."""
        return self.addresses is None or (address < self.addresses.stop and address + length > self.addresses.start)
