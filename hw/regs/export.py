# SPDX-License-Identifier: Apache-2.0
"""Register maps as text: C and C++ headers, Markdown, SystemRDL, JSON.

Every function takes a :class:`RegisterMap` and returns a string that depends on nothing else, so
that generated files can be committed and compared.
"""

import json
import re

from hw.regs.describe import REGISTER_WIDTH, Access, Field, RegisterMap

__all__ = ["to_c_header", "to_json", "to_markdown", "to_systemrdl"]


def to_c_header(register_map: RegisterMap, prefix: str) -> str:
    """Header with the offsets, masks, shifts and values of a map, for C11 and C++.

    With prefix ``DMACE_DMA``, all in capitals: ``DMACE_DMA_<REG>_OFFSET`` in bytes, ``_RESET``, and per
    field ``DMACE_DMA_<REG>_<FIELD>_SHIFT``, ``_MASK`` (in place, that is, already shifted), and one
    ``DMACE_DMA_<REG>_<FIELD>_<VALUE>`` per named value (not shifted). Every number is unsigned.

    Raises
    ------
    ValueError
        If the prefix is not an identifier, or two things would get the same name.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise ValueError(f"C prefix must be an identifier that starts with a letter, not {prefix!r}")
    prefix = prefix.upper()
    guard = f"{prefix}_REGS_H"
    lines = [f"/* {_c_comment(register_map.doc)} Generated from the register map; do not edit. */",
             f"#ifndef {guard}", f"#define {guard}"]
    names = {guard}

    def define(*parts: str, value: str, doc: str | None = None) -> None:
        name = "_".join((prefix, *parts)).upper()
        if name in names:
            raise ValueError(
                f"C header of register map {register_map.name!r} must not define {name} twice")
        names.add(name)
        lines.append(f"#define {name} {value}" + (f" /* {_c_comment(doc)} */" if doc else ""))

    for reg in register_map.registers:
        lines += ["", f"/* {reg.name}: {_c_comment(reg.doc)} */"]
        define(reg.name, "OFFSET", value=f"0x{reg.offset:x}u")
        define(reg.name, "RESET", value=f"0x{reg.reset:08x}u")
        for field in reg.fields:
            define(reg.name, field.name, "SHIFT", value=f"{field.lsb}u",
                   doc=f"{field.access.name}: {field.meaning}")
            define(reg.name, field.name, "MASK", value=f"0x{field.mask:08x}u")
            for name, value in field.values.items():
                define(reg.name, field.name, name, value=f"{value}u")
    return "\n".join([*lines, "", f"#endif /* {guard} */", ""])


def to_markdown(register_map: RegisterMap) -> str:
    """Page with an overview of the registers and a table of the fields of each."""
    lines = [f"# Registers: {register_map.name}", "", _one_line(register_map.doc), "",
             "| offset | register | reset | purpose |", "|---|---|---|---|"]
    for reg in register_map.registers:
        lines.append(f"| {reg.offset:#05x} | {reg.name} | 0x{reg.reset:08x} | {_md_cell(reg.doc)} |")
    kinds = " ".join(f"**{access.name}** {meaning}" for access, meaning in _MEANING.items())
    lines += ["", f"Access: {kinds}"]
    for reg in register_map.registers:
        lines += ["", f"## {reg.name} ({reg.offset:#05x})", "", _one_line(reg.doc), "",
                  "| bits | name | access | reset | meaning |", "|---|---|---|---|---|"]
        for field in reversed(reg.fields):
            bits = f"{field.lsb}" if field.width == 1 else f"{field.msb}:{field.lsb}"
            meaning = _md_cell(field.meaning)
            if field.values:
                values = ", ".join(f"{value} = {name}" for name, value in field.values.items())
                meaning = f"{meaning.removesuffix('.')}. Values: {values}."
            lines.append(
                f"| {bits} | {field.name} | {field.access.name} | {field.reset:#x} | {meaning} |")
    return "\n".join([*lines, ""])


def to_systemrdl(register_map: RegisterMap) -> str:
    """SystemRDL 2.0 source of the map, for generators of documents, headers and test benches."""
    lines = [f"addrmap {_rdl_name(register_map.name)} {{",
             f"    name = {_rdl_string(register_map.name)};",
             f"    desc = {_rdl_string(register_map.doc)};",
             f"    default regwidth = {REGISTER_WIDTH};",
             f"    default accesswidth = {REGISTER_WIDTH};"]
    for reg in register_map.registers:
        lines += ["", "    reg {", f"        desc = {_rdl_string(reg.doc)};"]
        for field in reg.fields:
            lines += _rdl_field(field)
        lines.append(f"    }} {_rdl_name(reg.name)} @ {reg.offset:#x};")
    return "\n".join([*lines, "};", ""])


def to_json(register_map: RegisterMap) -> str:
    """The whole description, with offsets and bit numbers filled in, as JSON."""
    return json.dumps({
        "name": register_map.name,
        "doc": register_map.doc,
        "addr_width": register_map.addr_width,
        "data_width": REGISTER_WIDTH,
        "registers": [{
            "name": reg.name,
            "doc": reg.doc,
            "offset": reg.offset,
            "reset": reg.reset,
            "guard": reg.guard or None,
            "fields": [{
                "name": field.name,
                "doc": field.doc,
                "lsb": field.lsb,
                "width": field.width,
                "access": field.access.value,
                "reset": field.reset,
                "enum": field.values or None,
                "legal": None if field.legal is None else [field.legal[0], field.legal[-1]],
            } for field in reg.fields],
        } for reg in register_map.registers],
    }, indent=2) + "\n"


_MEANING = {
    Access.RW: "software writes, hardware reads;",
    Access.RO: "hardware drives, writes change nothing;",
    Access.W1C: "hardware sets, writing 1 clears;",
    Access.PULSE: "a write of the whole word acts once, reads as 0.",
}

_RDL_ACCESS = {
    Access.RW: "sw = rw; hw = r;",
    Access.RO: "sw = r; hw = w;",
    # Each bit keeps what hardware has set until software clears it; hardware wins.
    Access.W1C: "sw = rw; hw = rw; onwrite = woclr; intr; precedence = hw;",
    Access.PULSE: "sw = w; hw = r;",
}

_RDL_KEYWORDS = frozenset("""
    abstract accesstype addressingtype addrmap alias all bit boolean bothedge compact component
    componentwidth constraint default encode enum external false field fullalign hw inside internal
    level longint mem na negedge nonsticky number onreadtype onwritetype posedge property r rclr ref
    reg regalign regfile rset ruser rw rw1 signal string struct sw this true type unsigned w w1
    woclr woset wot wr wset wuser wzc wzs wzt wclr
""".split())


def _rdl_field(field: Field) -> list[str]:
    body = [f"desc = {_rdl_string(field.meaning)};"]
    if field.values:
        names = " ".join(f"{_rdl_name(n)} = {field.width}'d{v};" for n, v in field.values.items())
        body.append(f"enum {field.member}_e {{ {names} }};")
        body.append(f"encode = {field.member}_e;")
    body.append(_RDL_ACCESS[field.access])
    if field.access is Access.PULSE:
        body.append("singlepulse;" if field.width == 1 else "swmod;")
    return [
        "        field {",
        *(f"            {line}" for line in body),
        f"        }} {_rdl_name(field.name)}[{field.msb}:{field.lsb}] = {field.width}'d{field.reset};",
    ]


def _rdl_name(name: str) -> str:
    return f"\\{name}" if name in _RDL_KEYWORDS else name


def _rdl_string(text: str) -> str:
    # Both preprocessors of SystemRDL, Perl and Verilog, look into strings.
    text = _one_line(text).replace("<%", "< %").replace("`", "'")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _c_comment(text: str) -> str:
    return _one_line(text).replace("/*", "/ *").replace("*/", "* /")


def _md_cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


def _one_line(text: str) -> str:
    return " ".join(text.split())
