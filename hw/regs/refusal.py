"""Fields with a range of legal values, and the registers that record a refused write."""

from hw.regs.describe import REGISTER_WIDTH, Access, Field, Register

__all__ = ["REFUSED_WORD", "REFUSED_WRITE", "number_field", "refusal_registers"]


REFUSED_WRITE, REFUSED_WORD = "REFUSED_WRITE", "REFUSED_WORD"
"""Registers that record a refused write, see :func:`refusal_registers`."""


def number_field(name, count, access, *, doc, lsb=None):
    """A field with a number less than ``count``: of a table row, a queue or a port."""
    return Field(name, max(1, (count - 1).bit_length()), access, doc=doc, lsb=lsb, legal=range(count))


def refusal_registers(addr_width):
    """Registers that record the first write that was refused because of an illegal value.

    A map with such fields includes them (with a star), and the register bank drives them. A refused write sets
    ``REFUSED_WRITE.valid``, software clears it; while it is set, later refusals are not recorded.

    Parameters
    ----------
    addr_width : int
        Width of the map's byte address.

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
