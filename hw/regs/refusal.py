"""Numbers that are not there: fields with an end, and the registers that tell of a write beyond it."""

from hw.regs.describe import REGISTER_WIDTH, UNPLACED, Access, Field, Register

__all__ = ["REFUSED_WORD", "REFUSED_WRITE", "number_field", "refusal_registers"]


REFUSED_WRITE, REFUSED_WORD = "REFUSED_WRITE", "REFUSED_WORD"
"""Registers that tell of a refused write, see :func:`refusal_registers`."""


def number_field(name: str, count: int, access: Access, *, doc: str, lsb: int = UNPLACED) -> Field:
    """A field that is a number less than ``count``: which row of a table, which queue or port."""
    return Field(name, max(1, (count - 1).bit_length()), access, doc=doc, lsb=lsb, legal=range(count))


def refusal_registers(addr_width: int) -> tuple[Register, Register]:
    """Registers that tell of the first write refused because of a value that was not legal.

    A map with such fields has them, and the register bank keeps them by itself. ``REFUSED_WRITE.valid`` is set by a
    refused write and cleared by software; while it is set, later ones change nothing here. Use with a star.

    Parameters
    ----------
    addr_width : int
        Of the map.

    Returns
    -------
    tuple of two Register
    """
    return (
        Register(REFUSED_WRITE, [
            Field("offset", addr_width, Access.RO, doc="Of the register."),
            Field("valid", 1, Access.W1C, lsb=REGISTER_WIDTH - 1, doc="A write was refused; write 1 to forget it."),
        ], doc="The first write refused since valid was cleared, because a number in it was not legal. It was answered "
               "SLVERR and changed nothing."),
        Register(REFUSED_WORD, [Field("word", REGISTER_WIDTH, Access.RO, doc="What was written.")],
                 doc="The word of the write that REFUSED_WRITE tells of."),
    )
