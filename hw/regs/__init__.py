# SPDX-License-Identifier: Apache-2.0
"""Registers: one description, from which gateware, headers and documents are made.

describe, refusal -> bank (gateware), export (C header, Markdown, SystemRDL, JSON)
"""

from hw.regs.bank import *
from hw.regs.describe import *
from hw.regs.export import *
from hw.regs.refusal import *

__all__ = [
    "REFUSED_WORD",
    "REFUSED_WRITE",
    "REGISTER_WIDTH",
    "Access",
    "Field",
    "Register",
    "RegisterBank",
    "RegisterMap",
    "constant_field",
    "number_field",
    "refusal_registers",
    "register_pair",
    "register_signature",
    "to_c_header",
    "to_json",
    "to_markdown",
    "to_systemrdl",
]
