# SPDX-License-Identifier: Apache-2.0
"""Modules of a netlist with equal contents become one module with several instances.

Amaranth writes a module for each instance. In its text, equal modules differ only in the order of their ports, in the
numbers of those without a name, and in the names of the modules that they contain.
"""

import re

__all__ = ["with_shared_modules"]

_MODULE = re.compile(r"^((?:attribute [^\n]*\n)*)module (\\\S+)\n(.*?)^end\n", flags=re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^  cell (\\\S+) \S+\n.*?^  end\n", flags=re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^((?:  attribute [^\n]*\n)*  wire width \d+ (?:input|output|inout) )\d+( .*?)(\\\S+)\n",
                   flags=re.MULTILINE)
_CONNECTED_PORT = re.compile(r"^    connect (\\port\$\S+) ", flags=re.MULTILINE)
_NUMBERED = re.compile(r"(\\port\$[^\s\0]+)(\0?)")


def with_shared_modules(text: str) -> str:
    """RTLIL in which no two modules are equal; a shared module has the name of its first instance.

    Parameters
    ----------
    text : str
        RTLIL from Amaranth, the top module first.
    """
    modules = {name: (attributes, body) for attributes, name, body in _MODULE.findall(text)}
    known: dict[tuple[str, str], str] = {}
    shared: dict[str, str] = {}
    ports: dict[str, dict[str, str]] = {}
    kept: dict[str, str] = {}

    def cell(found: re.Match[str]) -> str:
        kind = found[1]
        if kind not in modules:
            return found[0]
        share(kind)
        # The mark keeps a name of the inner module from being taken for one of the outer module's.
        connected = _CONNECTED_PORT.sub(lambda port: f"    connect {ports[kind][port[1]]}\0 ", found[0])
        return connected.replace(f"cell {kind} ", f"cell {shared[kind]} ", 1)

    def share(name: str) -> None:
        if name in shared:
            return
        attributes, body = modules[name]
        own: dict[str, str] = {}
        if name != top:
            body = _with_ordered_ports(body)
            own = {port: f"\\port${number}" for number, port in enumerate(_numbered_ports(body))}
        ports[name] = own
        body = _CELL.sub(cell, body)
        body = _NUMBERED.sub(lambda port: str(port[1]) if port[2] else own.get(port[1], port[1]), body)
        shared[name] = known.setdefault((attributes, body), name)
        kept[name] = f"{attributes}module {name}\n{body}end\n"

    top = next(iter(modules), None)
    for name in modules:
        share(name)
    begin = _MODULE.search(text)
    return (text[:begin.start()] if begin else text) + "".join(
        kept[name] for name in modules if shared[name] == name)


def _numbered_ports(body: str) -> list[str]:
    """Ports without a name of a module, in the order of their first use."""
    if "\\port$" not in body:
        return []
    declared = {name for *_, name in _PORT.findall(body) if name.startswith("\\port$")}
    used = (found[1] for found in _NUMBERED.finditer(_PORT.sub("", body)))
    return list(dict.fromkeys([*(name for name in used if name in declared), *sorted(declared)]))


def _with_ordered_ports(body: str) -> str:
    """Contents of a module with its ports in the order of their names, and those without one in that of their use."""
    numbered = {name: number for number, name in enumerate(_numbered_ports(body))}
    ports = iter([f"{begin}{index}{options}{name}\n" for index, (begin, options, name) in enumerate(sorted(
        _PORT.findall(body), key=lambda port: (port[2] in numbered, numbered.get(port[2], 0), port[2])))])
    return _PORT.sub(lambda _: next(ports), body)
