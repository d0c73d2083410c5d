# SPDX-License-Identifier: Apache-2.0
"""One program: its fills, drains and phases, and the words that they become.

Schedule -> Program -> words, for the memory of :mod:`~.programs`. Plain Python.
"""

from dataclasses import dataclass

from hw.ace.config import COLUMN_BYTES, AceConfig
from hw.ace.words import HeaderWord, PhaseWord, SendWord, TransferWord

__all__ = ["Phase", "Program", "encode"]


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


def encode(program: Program, config: AceConfig) -> list[int]:
    """48-bit words of a program. Raises ValueError if it does not fit a slot, or a number its field, or if a phase
    moves pieces of no position: it would never complete."""
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
        words += [PhaseWord(phase.port, phase.span, phase.both, len(phase.sends), phase.receives, phase.granted),
                  *phase.sends]
    try:
        return [word.pack() for word in words]
    except ValueError as error:
        raise ValueError(f"The program cannot be encoded: {error}") from error
