"""Registers: one description, from which gateware, headers and documents are made.

describe -> bank (gateware, imported as ``hw.regs.bank``), export (C header, Markdown, SystemRDL, JSON)
"""

from hw.regs.describe import *
from hw.regs.export import *

__all__ = [
    "REGISTER_WIDTH",
    "Access",
    "Field",
    "Register",
    "RegisterMap",
    "register_pair",
    "to_c_header",
    "to_json",
    "to_markdown",
    "to_systemrdl",
]
