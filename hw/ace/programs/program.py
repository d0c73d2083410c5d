# SPDX-License-Identifier: Apache-2.0
"""One program: its fills, drains and phases, and the words that they become.

Schedule -> Program -> words, for the memory of :mod:`~.programs`. Plain Python.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hw.ace.config import COLUMN_BYTES, AceConfig
from hw.ace.words import HeaderWord, PhaseWord, SendWord, TransferWord

__all__ = ["Phase", "Program", "encode", "granted_ahead"]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A ring pass. Fields are those of :data:`~.words.PHASE_FIELDS`, with the sends themselves."""

    port: int
    span: int
    sends: tuple[SendWord, ...] = ()
    receives: int = 0
    granted: int = 0
    both: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """A rank's program for a chunk. Fields are those of :data:`~.words.HEADER_FIELDS`; ``positions``: positions of its
    slot."""

    positions: int
    shards: int
    split: bool = False
    src_whole: bool = False
    dst_whole: bool = False
    fills: tuple[TransferWord, ...] = ()
    drains: tuple[TransferWord, ...] = ()
    phases: tuple[Phase, ...] = ()
    early: bool = False
    parts: bool = False


def granted_ahead(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    """The phases, each with its receives granted when the one before it starts: with that one's first send."""
    made: list[Phase] = []
    for phase in phases:
        if made and made[-1].sends:
            first, *others = made[-1].sends
            first = first._replace(next=1 + phase.port // 2, next_both=phase.both)
            made[-1] = replace(made[-1], sends=(first, *others))
        made.append(phase)
    return tuple(made)


def encode(program: Program, config: AceConfig) -> list[int]:
    """48-bit words of a program. Raises ValueError if it does not fit a slot, or a number its field; if a phase moves
    pieces of no position: it would never complete; or if a send grants another next phase than that which follows."""
    unit = max(COLUMN_BYTES, config.beat_bytes)     # a position begins at a beat
    piece = config.chunk_bytes // program.positions // unit * (unit // COLUMN_BYTES)
    if not piece:
        raise ValueError(f"{program.positions} positions of {unit} bytes do not fit a slot of "
                         f"{config.chunk_bytes} bytes")
    words: list[HeaderWord | TransferWord | PhaseWord | SendWord] = [
        HeaderWord(len(program.phases), len(program.fills), len(program.drains), program.split, program.shards,
                   program.src_whole, program.dst_whole, piece, program.early, program.parts),
         *program.fills, *program.drains]
    for number, phase in enumerate(program.phases):
        if not phase.span and (phase.sends or phase.receives):
            raise ValueError(f"The program cannot be encoded: phase {number} has sends or receives, and a span of 0 "
                             "positions")
        _check_next(program, number)
        words += [PhaseWord(phase.port, phase.span, phase.both, len(phase.sends), phase.receives, phase.granted),
                  *phase.sends]
    try:
        return [word.pack() for word in words]
    except ValueError as error:
        raise ValueError(f"The program cannot be encoded: {error}") from error


def _check_next(program: Program, number: int) -> None:
    """Raise ValueError if sends of this phase grant something else than the next phase receives."""
    phase, following = program.phases[number], program.phases[number + 1:number + 2]
    said = {(send.next, bool(send.next_both)) for send in phase.sends if send.next}
    if not said:
        return
    true = {(1 + one.port // 2, one.both) for one in following
            if one.port // 2 != phase.port // 2 and (one.port ^ phase.port) & 1 == 0
            and not any(send.grants for send in one.sends)}
    if said != true or sum(send.next > 0 for send in phase.sends) > 1:
        raise ValueError(f"The program cannot be encoded: one send of phase {number} may grant all receives of the "
                         "next phase, which is in another dimension and sends in the same direction, and no later send "
                         "may grant more of them")
