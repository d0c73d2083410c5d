# SPDX-License-Identifier: Apache-2.0
"""Verilog without initial values, for simulations in which registers and memories are X."""

import re

__all__ = ["without_initial_values"]

_BLOCK = re.compile(r"^  initial begin.*?^  end\n", flags=re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"^module .*?^endmodule$", flags=re.MULTILINE | re.DOTALL)
_MEMORY = re.compile(r"^ +(?:for \([^)]*\) )?(\\\S+ |\w+)\[\w+\] = ", flags=re.MULTILINE)
_WRITE = re.compile(r"^ +(\\\S+ |\w+)\[[^=\n]*\] <= ", flags=re.MULTILINE)
_REGISTER = re.compile(r"^(  reg (?:\[\d+:\d+\] )?)(\S+)\s+= \d+'[hdb][0-9a-fx]+;$", flags=re.MULTILINE)
_STARTS = "\\$auto$verilog_backend"
"""Variables with which Yosys starts processes without inputs: their initial values are not those of the design."""


def without_initial_values(text: str) -> str:
    """Verilog whose registers and memories are X until a reset or a write, as in silicon.

    A memory without a write keeps its contents, which are logic: Yosys makes such memories of tables.

    Raises RuntimeError if an initial value remains.
    """
    text = _MODULE.sub(_without_blocks, text)
    text = _REGISTER.sub(lambda found: found[0] if found[2].startswith(_STARTS) else f"{found[1]}{found[2]} ;", text)
    kept = _MODULE.sub(lambda found: _BLOCK.sub("", found[0]), text)
    left = re.findall(r"^\s*(?:initial\b.*|reg .*=.*)$", kept, flags=re.MULTILINE)
    if wrong := [line for line in left if _STARTS not in line]:
        raise RuntimeError(f"An initial value remains: {wrong[0].strip()}")
    return text


def _without_blocks(module: re.Match[str]) -> str:
    """A module without the initial contents of the memories that it writes."""
    written = set(_WRITE.findall(module[0]))
    return _BLOCK.sub(lambda block: "" if written.issuperset(_MEMORY.findall(block[0])) else block[0], module[0])
