# SPDX-License-Identifier: Apache-2.0
"""Verilog without initial values, for simulations in which registers and memories are X."""

import re

__all__ = ["without_initial_values"]

_BLOCK = re.compile(r"^  initial begin.*?^  end\n", flags=re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(r"^(  reg (?:\[\d+:\d+\] )?)(\S+)\s+= \d+'[hdb][0-9a-fx]+;$", flags=re.MULTILINE)
_STARTS = "\\$auto$verilog_backend"
"""Variables with which Yosys starts processes without inputs: their initial values are not those of the design."""


def without_initial_values(text: str) -> str:
    """Verilog whose registers and memories are X until a reset or a write, as in silicon.

    Raises RuntimeError if an initial value remains.
    """
    text = _BLOCK.sub("", text)
    text = _REGISTER.sub(lambda found: found[0] if found[2].startswith(_STARTS) else f"{found[1]}{found[2]} ;", text)
    left = re.findall(r"^\s*(?:initial\b.*|reg .*=.*)$", text, flags=re.MULTILINE)
    if wrong := [line for line in left if _STARTS not in line]:
        raise RuntimeError(f"An initial value remains: {wrong[0].strip()}")
    return text
