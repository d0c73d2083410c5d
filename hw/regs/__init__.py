"""Registers: one description, from which gateware, headers and documents are made.

describe -> bank (gateware), export (C header, Markdown, SystemRDL, JSON)
"""

from hw.regs.describe import *

__all__ = ["REGISTER_WIDTH", "Access", "Field", "Register", "RegisterMap", "register_pair"]
