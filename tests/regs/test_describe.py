# SPDX-License-Identifier: Apache-2.0
"""Descriptions of registers: placement, lookup, and every refusal word for word."""

import enum
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.regs.describe import Access, Field, Register, RegisterMap, register_pair


class Mode(enum.Enum):
    OFF = 0
    FAST = 3


class Wide(enum.Enum):
    HUGE = 4


class Odd(enum.Enum):
    _SPARE = 1


def field(name="enable", width=1, access=Access.RW, **kwargs):
    return Field(name, width, access, **({"doc": "A field."} | kwargs))


def register(name="control", fields=None, **kwargs):
    return Register(name, [field()] if fields is None else fields, **({"doc": "A register."} | kwargs))


def register_map(registers, addr_width=8, name="block"):
    return RegisterMap(name, registers, doc="A block.", addr_width=addr_width)


def refuses(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def test_fields_follow_each_other_from_bit_0():
    fields = register(fields=[field("a", 3), field("b", 5), field("c", 4, lsb=16), field("d", 2)]).fields
    assert [f.name for f in fields] == ["a", "b", "c", "d"]
    assert [(f.lsb, f.msb) for f in fields] == [(0, 2), (3, 7), (16, 19), (20, 21)]
    assert [f.mask for f in fields] == [0x7, 0xf8, 0xf0000, 0x300000]


def test_fields_are_kept_in_order_of_bit():
    fields = register(fields=[field("high", lsb=31), field("low", lsb=4)]).fields
    assert [f.name for f in fields] == ["low", "high"]


def test_field_fills_the_whole_register():
    assert register(fields=[field(width=32)]).fields[0].msb == 31


def test_registers_follow_each_other():
    block = register_map(
        [register("a"), register("b", offset=0x20), register("c"), register("d", offset=8)])
    assert [(r.name, r.offset) for r in block.registers] == [("a", 0), ("d", 8), ("b", 0x20), ("c", 0x24)]


def test_last_address_is_usable():
    assert register_map([register(offset=0xfc)]).registers[0].offset == 0xfc


def test_description_is_frozen_and_comparable():
    assert register_map([register()]) == register_map([register()])
    assert hash(register_map([register()])) == hash(register_map([register()]))
    with pytest.raises(AttributeError, match=r"^cannot assign to field 'name'$"):
        register().name = "other"


def test_lookup_ignores_case():
    block = register_map([register("CTRL", [field("ENABLE")])])
    assert block["ctrl"] is block["CTRL"] is block.registers[0]
    assert block["ctrl"]["enable"].name == "ENABLE"
    assert (block["CTRL"].member, block["CTRL"]["ENABLE"].member) == ("ctrl", "enable")
    with pytest.raises(KeyError, match=r"^.Register map 'block' has no register 'other'.$"):
        block["other"]
    with pytest.raises(KeyError, match=r"^.Register 'CTRL' has no field 'other'.$"):
        block["ctrl"]["other"]


def test_reset_pack_unpack():
    reg = register(fields=[
        field("go"), field("mode", 2, enum=Mode, reset=3, lsb=4), field("count", 8, reset=0x5a, lsb=8)])
    assert reg.reset == 0x5a30
    assert reg.pack(go=1, mode=Mode.FAST) == 0x31
    assert reg.unpack(0xffff_aa21) == {"go": 1, "mode": 2, "count": 0xaa}
    assert reg["mode"].values == {"OFF": 0, "FAST": 3}
    assert reg["go"].values == {}
    assert reg.has(Access.RW) and not reg.has(Access.RO)
    with refuses("Value of field 'mode' of register 'control' must fit in 2 bits, not 4"):
        reg.pack(mode=4)


def test_pair():
    low, high = register_pair("BYTES", 48, Access.RO, doc="Bytes moved.", reset=0x1234_5678_9abc, offset=0x10)
    assert (low.name, low.offset, low.doc) == ("BYTES_LO", 0x10, "Bytes moved, low word.")
    assert (high.name, high.offset, high.doc) == ("BYTES_HI", 0x14, "Bytes moved, high word.")
    assert (low["value"].width, low["value"].reset) == (32, 0x5678_9abc)
    assert (high["value"].width, high["value"].reset) == (16, 0x1234)
    assert high["value"].doc == "Bytes moved, bits 47 to 32."


def test_pair_without_offset_follows_and_keeps_case():
    block = register_map([register(), *register_pair("base", 64, Access.RW, field="addr", doc="Base.")])
    assert [(r.name, r.offset) for r in block.registers] == [("control", 0), ("base_lo", 4), ("base_hi", 8)]
    assert block["base_hi"]["addr"].width == 32


@pytest.mark.parametrize("make, message", [
    (lambda: field("2nd"), "Field name must be an identifier that starts with a letter, not '2nd'"),
    (lambda: field("_x"), "Field name must be an identifier that starts with a letter, not '_x'"),
    (lambda: field("no space"), "Field name must be an identifier that starts with a letter, not 'no space'"),
    (lambda: field("Class"), "Field name must be an identifier that starts with a letter, not 'Class'"),
    (lambda: field(7), "Field name must be an identifier that starts with a letter, not 7"),
    (lambda: field("READ_STB"), "Field name must not be 'READ_STB', which the register bank uses itself"),
    (lambda: field(width=0), "Width of field 'enable' must be an integer from 1 to 32, not 0"),
    (lambda: field(width=33), "Width of field 'enable' must be an integer from 1 to 32, not 33"),
    (lambda: field(width=1.0), "Width of field 'enable' must be an integer from 1 to 32, not 1.0"),
    (lambda: field(access="rw"), "Access of field 'enable' must be an Access, not 'rw'"),
    (lambda: field(reset=2), "Reset value of field 'enable' must fit in 1 bits, not 2"),
    (lambda: field(reset=-1), "Reset value of field 'enable' must fit in 1 bits, not -1"),
    (lambda: field(access=Access.PULSE, reset=1), "Reset value of PULSE field 'enable' must be 0, not 1"),
    (lambda: field(lsb=-1),
     "Least significant bit of field 'enable' must be a non-negative integer, not -1"),
    (lambda: field(doc=" "), "Documentation of field 'enable' must be a non-empty string, not ' '"),
    (lambda: field(enum=3), "Enum of field 'enable' must be an Enum class, not 3"),
    (lambda: field(width=2, enum=Wide),
     "Value 'HUGE' of the enum of field 'enable' must fit in 2 bits, not 4"),
    (lambda: field(width=2, enum=Odd),
     "Value name in the enum of field 'enable' must be an identifier that starts with a letter, "
     "not '_SPARE'"),
])
def test_field_refusals(make, message):
    with refuses(message):
        make()


@pytest.mark.parametrize("make, message", [
    (lambda: register("a-b"), "Register name must be an identifier that starts with a letter, not 'a-b'"),
    (lambda: register("Bus"), "Register name must not be 'Bus', which the register bank uses itself"),
    (lambda: register(doc=""), "Documentation of register 'control' must be a non-empty string, not ''"),
    (lambda: register(offset=6), "Offset of register 'control' must be a non-negative multiple of 4, not 6"),
    (lambda: register(offset=-4),
     "Offset of register 'control' must be a non-negative multiple of 4, not -4"),
    (lambda: register(fields=[]), "Register 'control' must have at least one field"),
    (lambda: register(fields=["x"]), "Fields of register 'control' must be Field objects, not 'x'"),
    (lambda: register(fields=[field("a", 30), field("b", 3)]),
     "Field 'b' of register 'control' must end within bit 31, not at bit 32"),
    (lambda: register(fields=[field("a", 8), field("b", 4, lsb=7)]),
     "Field 'b' of register 'control' must not overlap field 'a' at bit 7"),
    (lambda: register(fields=[field("a", lsb=3), field("b", 4, lsb=0)]),
     "Field 'a' of register 'control' must not overlap field 'b' at bit 3"),
    (lambda: register(fields=[field("a"), field("A")]),
     "Register 'control' must not have two fields that use the name 'a'"),
    (lambda: register(fields=[field("x_set"), field("x", access=Access.W1C)]),
     "Register 'control' must not have two fields that use the name 'x_set'"),
])
def test_register_refusals(make, message):
    with refuses(message):
        make()


@pytest.mark.parametrize("make, message", [
    (lambda: register_map([register()], name="1"),
     "Register map name must be an identifier that starts with a letter, not '1'"),
    (lambda: RegisterMap("block", [register()], doc="", addr_width=8),
     "Documentation of register map 'block' must be a non-empty string, not ''"),
    (lambda: register_map([register()], addr_width=1),
     "Address width of register map 'block' must be an integer from 2 to 32, not 1"),
    (lambda: register_map([]), "Register map 'block' must have at least one register"),
    (lambda: register_map([field()]),
     f"Registers of register map 'block' must be Register objects, not {field()!r}"),
    (lambda: register_map([register("a", offset=4), register("b", offset=4)]),
     "Register 'b' must not overlap register 'a' at offset 0x4"),
    (lambda: register_map([register("a"), register("A")]),
     "Register map 'block' must not have two registers of the name 'a'"),
    (lambda: register_map([register("a", offset=0xfc), register("b")]),
     "Register 'b' must lie within 8 address bits, not at offset 0x100"),
    (lambda: register_pair("x", 32, Access.RW, doc="X."),
     "Width of register pair 'x' must be an integer from 33 to 64, not 32"),
    (lambda: register_pair("x", 33, Access.RW, doc="X.", reset=1 << 33),
     "Reset value of register pair 'x' must fit in 33 bits, not 8589934592"),
])
def test_map_refusals(make, message):
    with refuses(message):
        make()


@settings(max_examples=50, deadline=None)
@given(widths=st.lists(st.integers(1, 32), min_size=1, max_size=32), data=st.data())
def test_packing_and_unpacking_are_inverse(widths, data):
    while sum(widths) > 32:
        widths.pop()
    reg = register(fields=[field(f"f{i}", w) for i, w in enumerate(widths)])
    values = {f"f{i}": data.draw(st.integers(0, (1 << w) - 1)) for i, w in enumerate(widths)}
    assert reg.unpack(reg.pack(**values)) == values
