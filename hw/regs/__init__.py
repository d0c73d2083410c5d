"""Registers: one description, from which gateware, headers and documents are made.

describe -> bank (gateware), export (C header, Markdown, SystemRDL, JSON)
"""

from hw.regs.bank import *
from hw.regs.describe import *
from hw.regs.export import *

__all__ = [
    "REGISTER_WIDTH",
    "Access",
    "Field",
    "Register",
    "RegisterBank",
    "RegisterMap",
    "register_pair",
    "register_signature",
    "to_c_header",
    "to_json",
    "to_markdown",
    "to_systemrdl",
]
