# SPDX-License-Identifier: Apache-2.0
"""A module of a design, with all that it contains, as a block of its own, which Verilator translates once.

Verilator makes C++ of each instance of a module, as their surroundings differ. Of a block there is one copy, which all
instances share: the design contains a wrapper that calls it twice per cycle (``--lib-create``). This pays where a
module has many instances whose C++ would not fit into the processor's caches.
"""

import re

__all__ = ["BLOCK", "separated"]

BLOCK = "dmace_block"
"""Name of the block's module in a build."""

_MODULE = re.compile(r"^module (\\\S+|\w+) ?\(.*?^endmodule\n", flags=re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\\?[\w.$\\]+) +\S+ +\($", flags=re.MULTILINE)


def separated(text: str, *, top: str, block: str, name: str) -> tuple[str, str]:
    """Verilog of the design without the block, and of the block.

    Parameters
    ----------
    text : str
        Verilog of :func:`hw.emit.verilog`.
    top : str
        Name of its top module.
    block : str
        Path of the block's first instance below ``top``, joined by dots.
    name : str
        New name of the block's module, a plain identifier. The design instantiates it, and does not contain it.

    Raises
    ------
    ValueError
        If there is no such module.
    """
    modules = {found[1]: found[0] for found in _MODULE.finditer(text)}
    module = f"\\{top}.{block}"
    if module not in modules:
        raise ValueError(f"The design {top} has no module {block}.")
    outside = {key: body.replace(f"  {module} ", f"  {name} ") for key, body in modules.items() if key != module}
    kept = _reachable(outside, top)
    inside = {**modules, name: modules[module].replace(f"module {module} ", f"module {name} ", 1)}
    own = _reachable(inside, name)
    return ("".join(body for key, body in outside.items() if key in kept),
            "".join(body for key, body in inside.items() if key in own))


def _reachable(modules: dict[str, str], top: str) -> set[str]:
    """Names of ``top`` and of the modules below it."""
    found, new = set(), [top]
    while new:
        name = new.pop()
        if name in modules and name not in found:
            found.add(name)
            new += _INSTANCE.findall(modules[name])
    return found
