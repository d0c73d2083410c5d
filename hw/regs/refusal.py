# SPDX-License-Identifier: Apache-2.0
"""Invalid numbers: fields with a legal range, and the registers that report a refused write."""

from hw.regs.describe import Register
from hw.regs.field import REGISTER_WIDTH, UNPLACED, Access, Field

__all__ = ["REFUSED_WORD", "REFUSED_WRITE", "number_field", "refusal_registers"]


REFUSED_WRITE, REFUSED_WORD = "REFUSED_WRITE", "REFUSED_WORD"
"""Registers that report a refused write, see :func:`refusal_registers`."""


def number_field(name: str, count: int, access: Access, *, doc: str, lsb: int = UNPLACED) -> Field:
    """A field with a number less than ``count``: of a table row, a queue or a port."""
    return Field(name, max(1, (count - 1).bit_length()), access, doc=doc, lsb=lsb, legal=range(count))


def refusal_registers(addr_width: int) -> tuple[Register, Register]:
    """Registers that report the first write refused because of an illegal value, or by hardware.

    A map with such fields or registers includes them (with a star), and the register bank drives them. A refused write
    sets ``REFUSED_WRITE.valid``, software clears it; while it is set, later refusals are not recorded.

    Parameters
    ----------
    addr_width : int
        Address width of the map.

    Returns
    -------
    tuple of two Register
    """
    return (
        Register(REFUSED_WRITE, [
            Field("offset", addr_width, Access.RO, doc="Offset of the register."),
            Field("valid", 1, Access.W1C, lsb=REGISTER_WIDTH - 1, doc="A write was refused; write 1 to clear."),
        ], doc="The first write since valid was cleared that was refused: for an illegal number, or for the reason "
               "that its register names. It got SLVERR and changed nothing."),
        Register(REFUSED_WORD, [Field("word", REGISTER_WIDTH, Access.RO, doc="Written word.")],
                 doc="Word of the write that REFUSED_WRITE reports."),
    )
