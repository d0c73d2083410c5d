# SPDX-License-Identifier: Apache-2.0
"""A core as Vivado takes it: a Verilog wrapper with Xilinx's port names, and its IP-XACT component.

The wrapper calls ``m_axi__awaddr`` ``m_axi_awaddr``, a link's ``tx__0__payload`` ``tx_0_tdata``, and turns the
active-low ``aresetn`` into ``rst``. Links are AXI4-Stream; one that is left open is silent. IP-XACT is IEEE 1685-2009,
the version that Vivado reads.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

__all__ = ["BUSES", "component_xml", "links", "wrapper"]

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "http://www.xilinx.com"

BUSES = {"m_axi": "master", "s_axi_db": "slave", "s_axil": "slave"}
"""AXI interfaces of the cores, and their sides."""

Pins = Mapping[str, Any]
"""Contents of a ``pins.json``."""

_LINK = re.compile(r"([tr]x)__(\d+)__(payload|valid|ready)")


def outer_name(pin: str) -> str:
    """Name of a pin on the wrapper."""
    if link := _LINK.fullmatch(pin):
        return f"{link[1]}_{link[2]}_t{link[3].replace('payload', 'data')}"
    return {"clk": "aclk", "rst": "aresetn"}.get(pin, pin.replace("__", "_"))


def links(pins: Pins) -> list[str]:
    """Names of the links' AXI4-Stream interfaces, like ``tx_0``."""
    return list(dict.fromkeys(f"{link[1]}_{link[2]}" for pin in pins["pins"] if (link := _LINK.fullmatch(pin["name"]))))


def wrapper(pins: Pins, *, name: str) -> str:
    """Verilog of the module ``name`` around the module of a ``pins.json``."""
    ports = [f"    {pin['direction']} wire {_range(pin)}{outer_name(pin['name'])}" for pin in pins["pins"]]
    bound = [f"        .{pin['name']}({'~aresetn' if pin['name'] == 'rst' else outer_name(pin['name'])})"
             for pin in pins["pins"]]
    attribute = (f'(* X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF {":".join((*BUSES, *links(pins)))}, '
                 'ASSOCIATED_RESET aresetn" *)\n')
    ports[0] = f"    {attribute}{ports[0]}" if pins["pins"][0]["name"] == "clk" else ports[0]
    return (f"// Written by dmace fpga package; do not edit.\n`default_nettype none\nmodule {name} (\n"
            + ",\n".join(ports) + f"\n);\n    {pins['module']} core (\n" + ",\n".join(bound)
            + "\n    );\nendmodule\n`default_nettype wire\n")


def _range(pin: Mapping[str, Any]) -> str:
    return f"[{pin['width'] - 1}:0] " if pin["width"] > 1 else ""


def component_xml(pins: Pins, *, name: str, version: str, files: Iterable[str]) -> str:
    """IP-XACT text of the wrapper ``name``; ``files`` are Verilog files beside it."""
    ElementTree.register_namespace("spirit", _SPIRIT)
    ElementTree.register_namespace("xilinx", _XILINX)
    root = ElementTree.Element(_tag("component"))
    for tag, text in (("vendor", "dmace"), ("library", "dmace"), ("name", name), ("version", version)):
        _add(root, tag, text)
    interfaces = _add(root, "busInterfaces")
    for bus, side in BUSES.items():
        if any(pin["name"].startswith(f"{bus}__") for pin in pins["pins"]):
            _bus(interfaces, pins, bus, side)
    for link in links(pins):
        _stream(interfaces, link)
    _single(interfaces, "aclk", "clock", "CLK", {"ASSOCIATED_BUSIF": ":".join((*BUSES, *links(pins))),
                                                 "ASSOCIATED_RESET": "aresetn"})
    _single(interfaces, "aresetn", "reset", "RST", {"POLARITY": "ACTIVE_LOW"})
    if any(pin["name"] == "irq" for pin in pins["pins"]):
        _single(interfaces, "irq", "interrupt", "INTERRUPT", {"SENSITIVITY": "LEVEL_HIGH"}, side="master")
    spaces = _add(root, "addressSpaces")
    space = _add(spaces, "addressSpace")
    _add(space, "name", "m_axi")
    _add(space, "range", "16E")
    _add(space, "width", "64")
    _memory_maps(root, pins)
    model = _add(root, "model")
    view = _add(_add(model, "views"), "view")
    _add(view, "name", "xilinx_anylanguagesynthesis")
    _add(view, "envIdentifier", ":vivado.xilinx.com:synthesis")
    _add(view, "language", "Verilog")
    _add(view, "modelName", name)
    _add(_add(view, "fileSetRef"), "localName", "sources")
    ports = _add(model, "ports")
    for pin in pins["pins"]:
        port = _add(ports, "port")
        _add(port, "name", outer_name(pin["name"]))
        wire = _add(port, "wire")
        _add(wire, "direction", {"input": "in", "output": "out"}[pin["direction"]])
        if pin["width"] > 1:
            vector = _add(wire, "vector")
            _add(vector, "left", str(pin["width"] - 1))
            _add(vector, "right", "0")
        if _LINK.fullmatch(pin["name"]) and pin["direction"] == "input":
            _add(_add(wire, "driver"), "defaultValue", "0")
    fileset = _add(_add(root, "fileSets"), "fileSet")
    _add(fileset, "name", "sources")
    for file in files:
        entry = _add(fileset, "file")
        _add(entry, "name", file)
        _add(entry, "fileType", "verilogSource")
    _add(root, "description", "dmace: GPU-driven communication")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _bus(interfaces: Element, pins: Pins, bus: str, side: str) -> None:
    interface = _add(interfaces, "busInterface")
    _add(interface, "name", bus)
    for tag, kind in (("busType", "aximm"), ("abstractionType", "aximm_rtl")):
        _vlnv(interface, tag, "interface", kind)
    role = _add(interface, side)
    if side == "master":
        _add(role, "addressSpaceRef").set(_tag("addressSpaceRef"), "m_axi")
    else:
        _add(role, "memoryMapRef").set(_tag("memoryMapRef"), bus)
    maps = _add(interface, "portMaps")
    for pin in pins["pins"]:
        if pin["name"].startswith(f"{bus}__"):
            _port_map(maps, pin["name"].partition("__")[2].upper(), outer_name(pin["name"]))


def _stream(interfaces: Element, link: str) -> None:
    interface = _add(interfaces, "busInterface")
    _add(interface, "name", link)
    for tag, kind in (("busType", "axis"), ("abstractionType", "axis_rtl")):
        _vlnv(interface, tag, "interface", kind)
    _add(interface, "master" if link.startswith("tx") else "slave")
    maps = _add(interface, "portMaps")
    for signal in ("tdata", "tvalid", "tready"):
        _port_map(maps, signal.upper(), f"{link}_{signal}")


def _single(interfaces: Element, port: str, kind: str, logical: str, parameters: Mapping[str, str],
            side: str = "slave") -> None:
    interface = _add(interfaces, "busInterface")
    _add(interface, "name", port)
    _vlnv(interface, "busType", "signal", kind)
    _vlnv(interface, "abstractionType", "signal", f"{kind}_rtl")
    _add(interface, side)
    _port_map(_add(interface, "portMaps"), logical, port)
    listed = _add(interface, "parameters")
    for name, value in parameters.items():
        parameter = _add(listed, "parameter")
        _add(parameter, "name", name)
        _add(parameter, "value", value)


def _memory_maps(root: Element, pins: Pins) -> None:
    maps = _add(root, "memoryMaps")
    for bus in ("s_axi_db", "s_axil"):
        width = next((pin["width"] for pin in pins["pins"] if pin["name"] == f"{bus}__awaddr"), None)
        data = next((pin["width"] for pin in pins["pins"] if pin["name"] == f"{bus}__wdata"), None)
        if width is None:
            continue
        memory_map = _add(maps, "memoryMap")
        _add(memory_map, "name", bus)
        block = _add(memory_map, "addressBlock")
        for tag, text in (("name", "reg0"), ("baseAddress", "0x0"), ("range", str(1 << width)), ("width", str(data)),
                          ("usage", "register" if bus == "s_axil" else "memory")):
            _add(block, tag, text)


def _port_map(maps: Element, logical: str, physical: str) -> None:
    entry = _add(maps, "portMap")
    _add(_add(entry, "logicalPort"), "name", logical)
    _add(_add(entry, "physicalPort"), "name", physical)


def _vlnv(parent: Element, tag: str, library: str, name: str) -> None:
    made = _add(parent, tag)
    for key, value in (("vendor", "xilinx.com"), ("library", library), ("name", name), ("version", "1.0")):
        made.set(_tag(key), value)


def _add(parent: Element, tag: str, text: str | None = None) -> Element:
    made = ElementTree.SubElement(parent, _tag(tag))
    made.text = text
    return made


def _tag(name: str) -> str:
    return f"{{{_SPIRIT}}}{name}"
