# SPDX-License-Identifier: Apache-2.0
"""The exports, read back by tools that are not ours: SystemRDL and C compilers, a JSON parser."""

import enum
import json
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systemrdl import RDLCompiler
from systemrdl.rdltypes import AccessType, OnWriteType

from hw.regs.describe import Access, Field, Register, RegisterMap, register_pair
from hw.regs.export import to_c_header, to_json, to_markdown, to_systemrdl


class Mode(enum.Enum):
    FAST = 2
    OFF = 0


class Words(enum.Enum):
    reg = 0
    field = 1


BLOCK = RegisterMap("demo", [
    Register("CONTROL", [
        Field("ENABLE", 1, Access.RW, reset=1, doc="Enable the block."),
        Field("MODE", 2, Access.RW, reset=2, lsb=4, enum=Mode, doc="How fast."),
        Field("START", 1, Access.PULSE, lsb=31, doc="Start now."),
    ], doc="Settings by software."),
    Register("EVENTS", [
        Field("ERROR", 3, Access.W1C, reset=5, doc="Errors since they were cleared."),
        Field("BUSY", 1, Access.RO, lsb=8, doc="Work to do."),
        Field("SKIP", 4, Access.PULSE, doc="Leave out this many."),
    ], doc="Events since the last clear.", offset=0x10),
    *register_pair("BYTES", 48, Access.RO, doc="Bytes moved."),
], doc="A block with every kind of field.", addr_width=12)

# Whatever a person may write: quotes, comments, both SystemRDL preprocessors, table bars, other alphabets.
NASTY = ('Say "no" \\ \\n // a /*/ comment /* not */ here, `define X, <% perl %>, <%= 1 %> a | b, '
         '??/ ??> µ 語 %d\n   on two lines \\')

HOSTILE = RegisterMap("hostile", [
    Register("reg", [
        Field("field", 1, Access.RW, enum=Words, doc=NASTY),
        Field("signal", 1, Access.RO, doc=NASTY),
        Field("reset", 1, Access.PULSE, doc=NASTY),
        Field("counter", 2, Access.W1C, doc=NASTY),
    ], doc=NASTY),
    Register("addrmap", [Field("sw", 32, Access.RW, doc=NASTY)], doc=NASTY),
    Register("Enum", [Field("desc", 32, Access.RW, reset=0xffff_ffff, doc=NASTY)], doc=NASTY),
], doc=NASTY, addr_width=32)

SOFTWARE_ACCESS = {
    Access.RW: AccessType.rw,
    Access.RO: AccessType.r,
    Access.W1C: AccessType.rw,
    Access.PULSE: AccessType.w,
}

names = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True).map(lambda name: f"n{name}")


@st.composite
def random_fields(draw):
    fields, lsb = [], 0
    for name in draw(st.lists(names, min_size=1, max_size=6, unique=True)):
        start = lsb + draw(st.integers(0, 6))
        if start > 31:
            break
        width = draw(st.integers(1, 32 - start))
        access = draw(st.sampled_from(Access))
        reset = 0 if access is Access.PULSE else draw(st.integers(0, (1 << width) - 1))
        fields.append(Field(name, width, access, reset=reset, lsb=start, doc=draw(docs)))
        lsb = start + width
    return fields


docs = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1).filter(str.strip)


@st.composite
def random_maps(draw):
    offsets = draw(st.lists(st.integers(0, 255), min_size=1, max_size=5, unique=True))
    titles = draw(st.lists(names, min_size=len(offsets), max_size=len(offsets), unique=True))
    registers = [Register(title, draw(random_fields()), doc=draw(docs), offset=4 * offset)
                 for title, offset in zip(titles, offsets, strict=True)]
    return RegisterMap("random", registers, doc=draw(docs), addr_width=10)


def compile_systemrdl(text, folder):
    path = folder / "map.rdl"
    path.write_text(text, encoding="utf-8")
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def check_systemrdl(block, folder):
    """Compare everything that the SystemRDL compiler has understood with the description."""
    top = compile_systemrdl(to_systemrdl(block), folder)
    assert top.inst_name == block.name
    registers = list(top.registers())
    assert [(r.inst_name, r.absolute_address, r.get_property("regwidth")) for r in registers] == [
        (r.name, r.offset, 32) for r in block.registers]
    for ours, theirs in zip(block.registers, registers, strict=True):
        fields = list(theirs.fields())
        assert [(f.inst_name, f.lsb, f.msb) for f in fields] == [
            (f.name, f.lsb, f.msb) for f in ours.fields]
        for field, node in zip(ours.fields, fields, strict=True):
            assert node.get_property("reset") == field.reset
            assert node.get_property("sw") is SOFTWARE_ACCESS[field.access]
            onwrite = OnWriteType.woclr if field.access is Access.W1C else None
            assert node.get_property("onwrite") is onwrite
            assert node.get_property("singlepulse") == (field.access is Access.PULSE and field.width == 1)
            assert node.is_hw_readable == (field.access is not Access.RO)
            assert node.is_hw_writable == (field.access in (Access.RO, Access.W1C))
            encode = node.get_property("encode")
            assert {v.name: v.value for v in encode or ()} == field.values


def compile_c(source, folder, compiler, *options):
    path = folder / ("use.cpp" if compiler == "g++" else "use.c")
    path.write_text(source, encoding="utf-8")
    run = subprocess.run(
        [compiler, *options, "-Wall", "-Wextra", "-Wundef", "-Werror", "-fsyntax-only", str(path)],
        capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


C_COMPILERS = pytest.mark.parametrize("compiler, standard", [("gcc", "-std=c11"), ("g++", "-std=c++17")])


@pytest.mark.parametrize("block", [BLOCK, HOSTILE], ids=lambda block: block.name)
def test_systemrdl_is_understood(block, tmp_path):
    check_systemrdl(block, tmp_path)


def test_systemrdl_documentation(tmp_path):
    top = compile_systemrdl(to_systemrdl(BLOCK), tmp_path)
    assert top.get_property("desc") == "A block with every kind of field."
    assert top.find_by_path("CONTROL").get_property("desc") == "Settings by software."
    assert top.find_by_path("CONTROL.MODE").get_property("desc") == "How fast."
    hostile = " ".join(NASTY.split()).replace("<%", "< %").replace("`", "'")
    assert compile_systemrdl(to_systemrdl(HOSTILE), tmp_path).get_property("desc") == hostile


@C_COMPILERS
def test_c_header_values(compiler, standard, tmp_path):
    # The compiler itself checks every number, in the preprocessor and as an expression; included twice.
    (tmp_path / "demo.h").write_text(to_c_header(BLOCK, "dmace_demo"), encoding="utf-8")
    expected = {"CONTROL_MODE_OFF": 0, "CONTROL_MODE_FAST": 2}
    for reg in BLOCK.registers:
        expected |= {f"{reg.name}_OFFSET": reg.offset, f"{reg.name}_RESET": reg.reset}
        for field in reg.fields:
            name = f"{reg.name}_{field.name.upper()}"
            expected |= {f"{name}_SHIFT": field.lsb, f"{name}_MASK": field.mask}
    assert len(re.findall(r"^#define \w+ \w+", to_c_header(BLOCK, "dmace_demo"), re.M)) == len(expected)
    lines = ['#include "demo.h"', '#include "demo.h"', "#include <assert.h>"]
    for name, value in expected.items():
        lines += [f"#if DMACE_DEMO_{name} != {value}u", f"#error {name}", "#endif",
                  f'static_assert(DMACE_DEMO_{name} == {value}u, "{name}");',
                  f'static_assert(DMACE_DEMO_{name} - {value}u - 1u > 0, "{name} is unsigned");']
    compile_c("\n".join([*lines, ""]), tmp_path, compiler, standard)


@C_COMPILERS
def test_c_header_with_hostile_text(compiler, standard, tmp_path):
    compile_c(to_c_header(HOSTILE, "X"), tmp_path, compiler, standard)


def test_c_header_refusals():
    message = "C prefix must be an identifier that starts with a letter, not 'a b'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_c_header(BLOCK, "a b")
    clash = RegisterMap("clash", [
        Register("A", [Field("B_C", 1, Access.RW, doc="X.")], doc="X."),
        Register("A_B", [Field("C", 1, Access.RW, doc="X.")], doc="X."),
    ], doc="X.", addr_width=8)
    message = "C header of register map 'clash' must not define P_A_B_C_SHIFT twice"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_c_header(clash, "p")


def from_json(text):
    """Build the description again from its JSON."""
    block = json.loads(text)
    assert block["data_width"] == 32
    registers = []
    for reg in block["registers"]:
        fields = [
            Field(f["name"], f["width"], Access(f["access"]), reset=f["reset"], lsb=f["lsb"], doc=f["doc"],
                  enum=f["enum"] and enum.Enum("Values", f["enum"]))
            for f in reg["fields"]]
        registers.append(Register(reg["name"], fields, offset=reg["offset"], doc=reg["doc"]))
        assert reg["reset"] == registers[-1].reset
    return RegisterMap(block["name"], registers, doc=block["doc"], addr_width=block["addr_width"])


@pytest.mark.parametrize("block", [BLOCK, HOSTILE], ids=lambda block: block.name)
def test_json_holds_the_description(block):
    again = from_json(to_json(block))
    assert to_json(again) == to_json(block)
    assert [[f.values for f in r.fields] for r in again.registers] == [
        [f.values for f in r.fields] for r in block.registers]


def test_markdown():
    text = to_markdown(BLOCK)
    assert "| 0x010 | EVENTS | 0x00000005 | Events since the last clear. |" in text
    assert "## EVENTS (0x010)\n\nEvents since the last clear.\n\n| bits | name | access | reset | meaning |" in text
    assert "| 31 | START | PULSE | 0x0 | Start now. |" in text
    assert "| 5:4 | MODE | RW | 0x2 | How fast. Values: 0 = OFF, 2 = FAST. |" in text
    for reg in BLOCK.registers:
        section = text.split(f"## {reg.name} (")[1].split("\n## ")[0]
        assert [line.split(" | ")[1] for line in section.splitlines() if " | " in line][1:] == [
            field.name for field in reversed(reg.fields)]


def test_markdown_tables_survive_bars_and_lines():
    for line in to_markdown(HOSTILE).splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) in (5, 6)


def test_exports_are_deterministic():
    for export in (to_json, to_markdown, to_systemrdl, lambda block: to_c_header(block, "P")):
        assert export(BLOCK) == export(RegisterMap(
            BLOCK.name, BLOCK.registers[::-1], doc=BLOCK.doc, addr_width=BLOCK.addr_width))
        assert export(BLOCK).endswith("\n") and not export(BLOCK).endswith("\n\n")


@settings(max_examples=25, deadline=None)
@given(block=random_maps())
def test_random_maps(block, tmp_path_factory):
    check_systemrdl(block, tmp_path_factory.mktemp("rdl"))
    assert from_json(to_json(block)) == block
    markdown, header = to_markdown(block), to_c_header(block, "P")
    for reg in block.registers:
        for field in reg.fields:
            assert f" | {field.name} | {field.access.name} | {field.reset:#x} | " in markdown
            name = f"P_{reg.name}_{field.name}".upper()
            assert f"#define {name}_MASK 0x{field.mask:08x}u\n" in header
    assert header.count("/*") == header.count("*/")
