# SPDX-License-Identifier: Apache-2.0
"""Fields of registers: runs of bits with an access, a reset value and a meaning."""

import keyword
import re
from collections.abc import Container
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any

__all__ = ["REGISTER_WIDTH", "UNPLACED", "Access", "Field", "check_doc", "check_name", "constant_field"]

REGISTER_WIDTH = 32

UNPLACED: Any = None
"""``lsb`` of a field before a register contains it, and ``offset`` of a register before a map contains it. Neither is
read before it is filled in, so their type is plain ``int``."""

# The register bank uses these names itself.
_RESERVED_FIELDS = {"read_stb", "refuse", "signature", "written_stb"}


class Access(Enum):
    """Access rights of software and hardware to a field."""

    RW = "rw"
    """Software writes, hardware reads."""

    RO = "ro"
    """Hardware drives, software reads; a write changes nothing."""

    W1C = "w1c"
    """Hardware sets bits, software clears a bit by writing 1 to it."""

    PULSE = "pulse"
    """Software writes, hardware sees the value for one cycle; reads as 0."""


@dataclass(frozen=True)
class Field:
    """A run of bits of one register.

    Parameters
    ----------
    name : str
        An identifier, unlike that of any other field of the register whatever the case.
    width : int
        Number of bits, 1 to 32.
    access : Access
        Access rights of software and hardware.
    reset : int
        Value after reset. Always 0 for PULSE fields.
    doc : str
        Meaning of the field, in a sentence.
    enum : type of Enum, optional
        Names of the field's values, for all exports. The values are non-negative integers.
    lsb : int, optional
        Least significant bit in the register. Filled in by the register if not given.
    legal : range, optional
        Values that software may write to an RW or PULSE field. The bits above the field, up to the next one, count too.
        A write of another value is refused and changes nothing in the register.
    constant : bool
        An RO field that always reads as ``reset``, without an input from hardware.
    """

    name: str
    width: int
    access: Access
    _: KW_ONLY
    reset: int = 0
    doc: str
    enum: type[Enum] | None = None
    lsb: int = UNPLACED
    legal: range | None = None
    constant: bool = False

    def __post_init__(self) -> None:
        check_name("Field", self.name, _RESERVED_FIELDS)
        if not isinstance(self.width, int) or not 1 <= self.width <= REGISTER_WIDTH:
            raise ValueError(
                f"Width of field {self.name!r} must be an integer from 1 to {REGISTER_WIDTH}, "
                f"not {self.width!r}")
        if not isinstance(self.access, Access):
            raise ValueError(f"Access of field {self.name!r} must be an Access, not {self.access!r}")
        if not isinstance(self.reset, int) or not 0 <= self.reset < 1 << self.width:
            raise ValueError(
                f"Reset value of field {self.name!r} must fit in {self.width} bits, not {self.reset!r}")
        if self.access is Access.PULSE and self.reset != 0:
            raise ValueError(f"Reset value of PULSE field {self.name!r} must be 0, not {self.reset!r}")
        if self.constant and self.access is not Access.RO:
            raise ValueError(f"Constant field {self.name!r} must be RO, not {self.access.name}")
        if self.lsb is not None and (not isinstance(self.lsb, int) or self.lsb < 0):
            raise ValueError(
                f"Least significant bit of field {self.name!r} must be a non-negative integer, "
                f"not {self.lsb!r}")
        check_doc(f"field {self.name!r}", self.doc)
        if self.enum is not None:
            self._check_enum()
        if self.legal is not None:
            self._check_legal()

    def _check_legal(self) -> None:
        if not isinstance(self.legal, range) or not self.legal or self.legal.step != 1:
            raise ValueError(f"Legal values of field {self.name!r} must be a range of steps of 1 that is not empty, "
                             f"not {self.legal!r}")
        if self.legal.start < 0 or self.legal.stop > 1 << self.width:
            raise ValueError(f"Legal values of field {self.name!r} must fit in {self.width} bits, not {self.legal!r}")
        if self.access not in (Access.RW, Access.PULSE):
            raise ValueError(f"Field {self.name!r} has legal values and must be RW or PULSE, not {self.access.name}")
        if self.access is Access.RW and self.reset not in self.legal:
            raise ValueError(f"Reset value of field {self.name!r} must be among its legal values, not {self.reset!r}")

    def _check_enum(self) -> None:
        if not isinstance(self.enum, type) or not issubclass(self.enum, Enum):
            raise ValueError(f"Enum of field {self.name!r} must be an Enum class, not {self.enum!r}")
        for member in self.enum:
            if not _is_identifier(member.name):
                raise ValueError(
                    f"Value name in the enum of field {self.name!r} must be an identifier that starts "
                    f"with a letter, not {member.name!r}")
            if not isinstance(member.value, int) or not 0 <= member.value < 1 << self.width:
                raise ValueError(
                    f"Value {member.name!r} of the enum of field {self.name!r} must fit in "
                    f"{self.width} bits, not {member.value!r}")

    @property
    def member(self) -> str:
        """Name of the field in the register bank: its name in lower case."""
        return self.name.lower()

    @property
    def msb(self) -> int:
        """Most significant bit in the register."""
        return self.lsb + self.width - 1

    @property
    def mask(self) -> int:
        """Bits of the register that belong to the field."""
        return ((1 << self.width) - 1) << self.lsb

    @property
    def meaning(self) -> str:
        """``doc`` and the legal values."""
        if self.legal is None:
            return self.doc
        return f"{self.doc.rstrip()} From {self.legal[0]} to {self.legal[-1]}; a write of another value is refused."

    @property
    def values(self) -> dict[str, int]:
        """Named values as a dict from name to integer, in order of value; empty without an enum."""
        if self.enum is None:
            return {}
        return {m.name: int(m.value) for m in sorted(self.enum, key=lambda m: int(m.value))}


def constant_field(name: str, width: int, value: int, doc: str) -> Field:
    """An RO field that always reads as ``value``, such as a version or a size."""
    return Field(name, width, Access.RO, reset=int(value), doc=doc, constant=True)


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None


def check_name(kind: str, name: str, reserved: Container[str]) -> None:
    """Raise :class:`ValueError` unless ``name`` is an identifier that is not reserved."""
    if not _is_identifier(name) or keyword.iskeyword(name.lower()):
        raise ValueError(f"{kind} name must be an identifier that starts with a letter, not {name!r}")
    if name.lower() in reserved:
        raise ValueError(f"{kind} name must not be {name!r}, which the register bank uses itself")


def check_doc(what: str, doc: object) -> None:
    """Raise :class:`ValueError` unless ``doc`` is a non-empty string."""
    if not isinstance(doc, str) or not doc.strip():
        raise ValueError(f"Documentation of {what} must be a non-empty string, not {doc!r}")
