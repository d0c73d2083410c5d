# SPDX-License-Identifier: Apache-2.0
"""Stalls by the banks of the SRAM, which its users share: :class:`hw.ace.sram.Sram`.

A user reads or writes a beat per cycle, and the next beat is in the next bank. So two of them are in the same bank in
all cycles of a run of beats, or in none: in the first case, one of them waits for a cycle, and from then on follows the
other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hw.ace.config import SRAM_PATIENCE, SRAM_RUN_BEATS

__all__ = ["Banks", "Stream"]


@dataclass
class Stream:
    """A run of beats of a user.

    Attributes
    ----------
    phase : int
        Bank less cycle, modulo the number of banks, of all its beats.
    end : int
        Cycle after its last beat; later with each stall.
    reads, writes : bool
    """

    phase: int
    end: int
    reads: bool
    writes: bool


class Banks:
    """
    Parameters
    ----------
    banks : int
    users : int
        A user with a lower number has precedence.
    """

    def __init__(self, banks: int, users: int) -> None:
        self._banks = banks
        self._streams: list[Stream | None] = [None] * users
        self.stalls = 0

    def begin(self, user: int, cycle: int, beat: int, beats: int, *, after: int = 0, reads: bool,
              writes: bool) -> tuple[Stream, int]:
        """A user begins ``beats`` beats, the first of which is at ``beat`` and requested ``after`` cycles later. Returns
        the :class:`Stream`, and how many cycles its first beat waits."""
        bank = beat + beat // SRAM_RUN_BEATS
        stream = Stream((bank - cycle - after) % self._banks, cycle + beats, reads, writes)
        self._streams[user] = stream
        active = [other for other in self._streams if other is not None and other.end > cycle]
        waits = 0
        for number, one in enumerate(active):
            stalls = self._stalls(one, active[:number])
            one.phase, one.end = (one.phase - stalls) % self._banks, one.end + stalls
            self.stalls += stalls
            if one is stream:
                waits = stalls
        return stream, waits

    def _stalls(self, one: Stream, before: Sequence[Stream]) -> int:
        """Cycles until a bank is free of all that have precedence; no more than :data:`SRAM_PATIENCE`."""
        taken = {other.phase for other in before
                 if (one.reads and other.reads) or (one.writes and other.writes)}
        for stalls in range(self._banks):
            if (one.phase - stalls) % self._banks not in taken:
                return stalls
        return SRAM_PATIENCE
