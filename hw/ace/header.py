# SPDX-License-Identifier: Apache-2.0
"""The C header ``dmace_ace.h``: registers, commands and codes of the collectives accelerator, beside ``dmace.h``.

The text around them is in ``dmace_ace.h.in``. C11, C++17 and CUDA, without a compiled part.
"""

from pathlib import Path

from hw.common.c_header import code_lines, field_lines
from hw.common.words import field_positions
from hw.regs import to_c_header

from .collectives import Collective
from .config import AceConfig
from .numerics.formats import DType, Reduction
from .registers import register_map
from .words import COMMAND_FIELDS, CommandFlag, Status

__all__ = ["c_header"]

PREFIX = "DMACE_ACE"

_CODES = (
    ("COLLECTIVE", Collective, "Collectives."),
    ("FLAG", CommandFlag, "Flags of a command."),
    ("TYPE", DType, "Types of elements."),
    ("OP", Reduction, "Operations of collectives that reduce."),
    ("STATUS", Status, "How a collective ended."),
)


def c_header(config: AceConfig) -> str:
    """Text of ``dmace_ace.h`` for an accelerator of these sizes."""
    tables = [
        to_c_header(register_map(config), PREFIX),
        *(line for name, codes, doc in _CODES for line in code_lines(name, codes, doc, PREFIX)),
        *field_lines("COMMAND", COMMAND_FIELDS,
                     "Command word: 16 bytes, `lo` at the lower address, each little endian.", PREFIX),
    ]
    text = Path(__file__).with_name("dmace_ace.h.in").read_text(encoding="utf-8")
    members = "\n".join(f"    uint32_t {name};" for name, _ in COMMAND_FIELDS)
    for mark, made in (("@TABLES@", "\n".join(tables).rstrip()), ("@MEMBERS@", members), ("@PACK@", _packed())):
        text = text.replace(mark, made)
    return text


def _packed() -> str:
    """Statements that fill both halves of a word from a command's members."""
    halves: dict[str, list[str]] = {"lo": [], "hi": []}
    for name, (lsb, _) in field_positions(COMMAND_FIELDS).items():
        mark = f"{PREFIX}_COMMAND_{name.upper()}"
        halves["hi" if lsb >= 64 else "lo"].append(f"((command->{name} & {mark}_MASK) << {mark}_SHIFT)")
    return "\n".join(f"    word.{half} = " + "\n        | ".join(parts) + ";" for half, parts in halves.items())
