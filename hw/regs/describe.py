# SPDX-License-Identifier: Apache-2.0
"""Register maps: the single description from which gateware, headers, documents and drivers are generated.

A :class:`RegisterMap` holds :class:`Register` objects, which hold :class:`Field` objects. All three are frozen data,
validated when created, and import no hardware.

Registers are 32 bits wide. A register without an offset follows the one before it; a field without a least significant
bit follows the one before it, from bit 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from itertools import pairwise

from hw.regs.field import REGISTER_WIDTH, UNPLACED, Access, Field, check_doc, check_name, constant_field

__all__ = ["REGISTER_WIDTH", "Access", "Field", "Register", "RegisterMap", "constant_field", "register_pair"]

# The register bank uses these names itself.
_RESERVED_REGISTERS = {"bus", "elaborate", "metadata", "reading", "refused", "register_map", "signature",
                       "writing"}


@dataclass(frozen=True)
class Register:
    """One 32-bit word of fields.

    Parameters
    ----------
    name : str
        An identifier, unlike that of any other register of the map whatever the case.
    fields : iterable of Field
        At least one. Kept as a tuple ordered by bit, each field with its ``lsb`` filled in.
    doc : str
        Purpose of the register, in a sentence.
    offset : int, optional
        Byte offset in the map, a multiple of 4. Filled in by the map if not given.
    guard : str, optional
        Hardware may refuse a write, whatever the values are: the reason, as part of a sentence.
    """

    name: str
    fields: Sequence[Field]
    _: KW_ONLY
    doc: str
    offset: int = UNPLACED
    guard: str = ""

    def __post_init__(self) -> None:
        check_name("Register", self.name, _RESERVED_REGISTERS)
        check_doc(f"register {self.name!r}", self.doc)
        if self.offset is not None and (not isinstance(self.offset, int) or self.offset < 0
                                        or self.offset % 4 != 0):
            raise ValueError(
                f"Offset of register {self.name!r} must be a non-negative multiple of 4, "
                f"not {self.offset!r}")
        placed = self._place()
        self._check_members(placed)
        object.__setattr__(self, "fields", tuple(placed))

    def _place(self) -> list[Field]:
        """Assign bits to every field."""
        placed: list[Field] = []
        lsb = 0
        for field in self.fields:
            if not isinstance(field, Field):
                raise ValueError(f"Fields of register {self.name!r} must be Field objects, not {field!r}")
            field = replace(field, lsb=lsb if field.lsb is None else field.lsb)
            if field.msb >= REGISTER_WIDTH:
                raise ValueError(
                    f"Field {field.name!r} of register {self.name!r} must end within bit "
                    f"{REGISTER_WIDTH - 1}, not at bit {field.msb}")
            placed.append(field)
            lsb = field.msb + 1
        if not placed:
            raise ValueError(f"Register {self.name!r} must have at least one field")
        placed.sort(key=lambda field: field.lsb)
        for low, high in pairwise(placed):
            if high.lsb <= low.msb:
                raise ValueError(
                    f"Field {high.name!r} of register {self.name!r} must not overlap field "
                    f"{low.name!r} at bit {high.lsb}")
        return placed

    def _check_members(self, fields: Iterable[Field]) -> None:
        """Raise ValueError if two fields would have the same signal name in the register bank."""
        members: set[str] = set()
        for field in fields:
            names = {field.member}
            if field.access is Access.W1C:
                names.add(f"{field.member}_set")
            for name in sorted(names & members):
                raise ValueError(
                    f"Register {self.name!r} must not have two fields that use the name {name!r}")
            members |= names

    def __getitem__(self, name: str) -> Field:
        """Field of that name, whatever the case."""
        for field in self.fields:
            if field.member == name.lower():
                return field
        raise KeyError(f"Register {self.name!r} has no field {name!r}")

    @property
    def member(self) -> str:
        """Name of the register in the register bank: its name in lower case."""
        return self.name.lower()

    @property
    def reset(self) -> int:
        """Value of the whole word after reset."""
        return sum(field.reset << field.lsb for field in self.fields)

    def has(self, access: Access) -> bool:
        """Whether any field has that access."""
        return any(field.access is access for field in self.fields)

    @property
    def limited(self) -> bool:
        """Whether a write may be refused: a field restricts its values, or hardware decides."""
        return bool(self.guard) or any(field.legal is not None for field in self.fields)

    def end(self, field: Field) -> int:
        """Bit of the next field above ``field``, or the width of the register."""
        return min((other.lsb for other in self.fields if other.lsb > field.lsb), default=REGISTER_WIDTH)

    def illegal(self, word: int) -> str | None:
        """Reason to refuse a write of the whole ``word``, as part of a sentence, or None."""
        for field in self.fields:
            value = word >> field.lsb & (1 << self.end(field) - field.lsb) - 1
            if field.legal is not None and value not in field.legal:
                return f"{field.name} must be from {field.legal[0]} to {field.legal[-1]}, not {value}"
        return None

    def pack(self, **values: int | Enum) -> int:
        """Word with these field values; fields not named are 0."""
        word = 0
        for name, value in values.items():
            field, value = self[name], int(value.value if isinstance(value, Enum) else value)
            if not 0 <= value < 1 << field.width:
                raise ValueError(
                    f"Value of field {field.name!r} of register {self.name!r} must fit in "
                    f"{field.width} bits, not {value!r}")
            word |= value << field.lsb
        if why := self.illegal(word):
            raise ValueError(f"Register {self.name!r} cannot be written so: {why}")
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Field values of a word, as a dict from bank member name to integer."""
        return {field.member: (word & field.mask) >> field.lsb for field in self.fields}


@dataclass(frozen=True)
class RegisterMap:
    """All registers of one block, at their addresses.

    Parameters
    ----------
    name : str
        An identifier; names the address map in the exports.
    registers : iterable of Register
        At least one. Kept as a tuple ordered by address, each register with its ``offset`` filled in.
    doc : str
        Purpose of the block, in a sentence.
    addr_width : int
        Width of the byte address, 2 to 32. A spare address bit costs comparators, not registers.
    """

    name: str
    registers: Sequence[Register]
    _: KW_ONLY
    doc: str
    addr_width: int

    def __post_init__(self) -> None:
        check_name("Register map", self.name, ())
        check_doc(f"register map {self.name!r}", self.doc)
        if not isinstance(self.addr_width, int) or not 2 <= self.addr_width <= 32:
            raise ValueError(
                f"Address width of register map {self.name!r} must be an integer from 2 to 32, "
                f"not {self.addr_width!r}")
        placed: list[Register] = []
        offset = 0
        for register in self.registers:
            if not isinstance(register, Register):
                raise ValueError(
                    f"Registers of register map {self.name!r} must be Register objects, not {register!r}")
            register = replace(register, offset=offset if register.offset is None else register.offset)
            if register.offset >= 1 << self.addr_width:
                raise ValueError(
                    f"Register {register.name!r} must lie within {self.addr_width} address bits, "
                    f"not at offset {register.offset:#x}")
            placed.append(register)
            offset = register.offset + 4
        self._check(placed)
        object.__setattr__(self, "registers", tuple(sorted(placed, key=lambda r: r.offset)))

    def _check(self, registers: Sequence[Register]) -> None:
        if not registers:
            raise ValueError(f"Register map {self.name!r} must have at least one register")
        names: set[str] = set()
        offsets: dict[int, str] = {}
        for register in registers:
            if register.member in names:
                raise ValueError(
                    f"Register map {self.name!r} must not have two registers of the name "
                    f"{register.member!r}")
            if register.offset in offsets:
                raise ValueError(
                    f"Register {register.name!r} must not overlap register "
                    f"{offsets[register.offset]!r} at offset {register.offset:#x}")
            names.add(register.member)
            offsets[register.offset] = register.name

    def __getitem__(self, name: str) -> Register:
        """Register of that name, whatever the case."""
        for register in self.registers:
            if register.member == name.lower():
                return register
        raise KeyError(f"Register map {self.name!r} has no register {name!r}")


def register_pair(name: str, width: int, access: Access, *, doc: str, field: str = "value", reset: int = 0,
                  offset: int = UNPLACED) -> tuple[Register, Register]:
    """Registers ``<name>_LO`` and ``<name>_HI`` that hold one value of 33 to 64 bits.

    The suffixes are ``_lo`` and ``_hi`` after a name that is not in capitals. Each register has one
    field, called ``field``. Unpack the pair with ``*`` in a list of registers, and join the halves in gateware
    with ``Cat(bank.<name>_lo.value, bank.<name>_hi.value)``. Reading the two is not atomic: copy a counter's
    high half on ``<name>_lo.read_stb``, so that HI matches the LO that was read.

    Returns
    -------
    tuple of two Register
    """
    if not isinstance(width, int) or not REGISTER_WIDTH < width <= 2 * REGISTER_WIDTH:
        raise ValueError(
            f"Width of register pair {name!r} must be an integer from {REGISTER_WIDTH + 1} to "
            f"{2 * REGISTER_WIDTH}, not {width!r}")
    if not isinstance(reset, int) or not 0 <= reset < 1 << width:
        raise ValueError(f"Reset value of register pair {name!r} must fit in {width} bits, not {reset!r}")
    doc = doc.rstrip().rstrip(".")
    lo, hi = ("LO", "HI") if name.isupper() else ("lo", "hi")
    low = Field(field, REGISTER_WIDTH, access, reset=reset & 0xffff_ffff, doc=f"{doc}, bits 31 to 0.")
    high = Field(field, width - REGISTER_WIDTH, access, reset=reset >> REGISTER_WIDTH,
                 doc=f"{doc}, bits {width - 1} to 32.")
    return (
        Register(f"{name}_{lo}", [low], doc=f"{doc}, low word.", offset=offset),
        Register(f"{name}_{hi}", [high], doc=f"{doc}, high word.",
                 offset=UNPLACED if offset is None else offset + 4),
    )
