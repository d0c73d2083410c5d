# SPDX-License-Identifier: Apache-2.0
"""Types of the netlists that Yosys writes as JSON (``write_json``)."""

from typing import TypedDict

__all__ = ["Cell", "Module", "Net", "Port"]

Bits = list[int | str]
"""Number of a net for each bit; a text for a constant."""


class Cell(TypedDict):
    """An instance of a module or of a library cell."""

    type: str
    parameters: dict[str, str]
    attributes: dict[str, str]
    port_directions: dict[str, str]
    connections: dict[str, Bits]


class Port(TypedDict):
    """A port of a module."""

    direction: str
    bits: Bits


class Net(TypedDict):
    """A name of nets."""

    bits: Bits


class Module(TypedDict):
    """A module."""

    ports: dict[str, Port]
    cells: dict[str, Cell]
    netnames: dict[str, Net]
