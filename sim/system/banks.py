# SPDX-License-Identifier: Apache-2.0
"""Stalls by the banks of the SRAM, which its users share: :class:`hw.ace.sram.Sram`.

A user reads or writes a beat per cycle, and the next beat is in the next bank. So two of them are in the same bank in
all cycles of a run of beats, or in none: in the first case, one of them waits for a cycle, and from then on follows the
other. It is assumed that stalls end before the next run begins.
"""

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

    def begin(self, user: int, cycle: int, beat: int, beats: int, *, reads: bool,
              writes: bool) -> tuple[Stream, int]:
        """A user begins to request ``beats`` beats, the first of them at ``beat``. Returns the :class:`Stream`, and how
        many cycles its first beat waits."""
        bank = beat + beat // SRAM_RUN_BEATS
        stream = Stream((bank - cycle) % self._banks, cycle + beats, reads, writes)
        self._streams[user] = stream
        self.stalls += self._resolve(cycle)
        return stream, stream.end - cycle - beats

    def _resolve(self, cycle: int) -> int:
        """Stall requests from ``cycle`` on, until none is for the bank of another that has precedence. Returns the
        number of stalls."""
        stalls = 0
        for now in range(cycle, cycle + SRAM_PATIENCE):
            active = [one for one in self._streams if one is not None and one.end > now]
            stalled = [one for number, one in enumerate(active)
                       if any(_meet(one, other) for other in active[:number])]
            if not stalled:
                break
            for one in stalled:
                one.phase, one.end = (one.phase - 1) % self._banks, one.end + 1
            stalls += len(stalled)
        return stalls


def _meet(one: Stream, other: Stream) -> bool:
    return one.phase == other.phase and ((one.reads and other.reads) or (one.writes and other.writes))
