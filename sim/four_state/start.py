# SPDX-License-Identifier: Apache-2.0
"""Verilog of Yosys, changed for the first instant of a simulation in Icarus."""

import re
from collections.abc import Iterable

__all__ = ["started", "with_random_values"]

_START = re.compile(r"^(  reg (\\\$auto\$verilog_backend\S+ ) = 0;)$", flags=re.MULTILINE)


def started(text: str) -> str:
    """Verilog whose processes all run once at the start.

    Each reads a variable, which Yosys declares for that with an initial value. As IEEE 1800 has it, this is no event: a
    process whose other inputs are constants never ran, so that its outputs stayed X.
    """
    return _START.sub(r"\1 initial #0 \2 = 1;", text)


def with_random_values(text: str, names: Iterable[str]) -> str:
    """Verilog of which these registers and memories, without initial values, begin with random values.

    Raises RuntimeError if there is none of a name.
    """
    for name in names:
        text, registers = re.subn(rf"^(  reg \[(?:[12]?\d|3[01]):0\] {name}) *;$", r"\1 = $urandom;", text,
                                  flags=re.MULTILINE)
        text, memories = re.subn(
            rf"^(  reg \[63:0\] {name} \[(\d+):0\];)$",
            rf"\1 integer {name}_row;\n  initial for ({name}_row = 0; {name}_row <= \2; {name}_row = {name}_row + 1) "
            rf"{name}[{name}_row] = {{$urandom, $urandom}};", text, flags=re.MULTILINE)
        if not registers + memories:
            raise RuntimeError(f"There is no register or memory {name!r} without an initial value.")
    return text
