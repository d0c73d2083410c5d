# SPDX-License-Identifier: Apache-2.0
"""Lines of a C header: numbers, codes of an enum, fields of a word."""

import enum
from collections.abc import Iterable

from .words import FieldTable, field_positions

__all__ = ["code_lines", "define", "field_lines"]

PREFIX = "DMACE_DMA"


def define(name: str, value: str, doc: str | None = None, prefix: str = PREFIX) -> str:
    return f"#define {prefix}_{name} {value}" + (f" /* {doc} */" if doc else "")


def code_lines(kind: str, codes: Iterable[enum.IntEnum | enum.IntFlag], doc: str, prefix: str = PREFIX) -> list[str]:
    """A definition for each code of an enum, below a comment."""
    return [f"/* {doc} */",
            *(define(f"{kind}_{code.name}", f"0x{int(code):02x}u", prefix=prefix) for code in codes), ""]


def field_lines(kind: str, fields: FieldTable, doc: str, prefix: str = PREFIX) -> list[str]:
    """Shift and mask of each field within its 64-bit half; the mask is not shifted."""
    lines = [f"/* {doc} */"]
    for name, (lsb, width) in field_positions(fields).items():
        half = "hi" if lsb >= 64 else "lo"
        where = f"in {half}" if sum(width for _, width in fields) > 64 else None
        name = f"{kind}_{name.upper()}"
        lines += [define(f"{name}_SHIFT", f"{lsb % 64}u", where, prefix),
                  define(f"{name}_MASK", f"UINT64_C(0x{(1 << width) - 1:x})", prefix=prefix)]
    return [*lines, ""]
