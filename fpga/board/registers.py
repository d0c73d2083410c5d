# SPDX-License-Identifier: Apache-2.0
"""The board's own registers."""

from typing import Protocol

from hw.regs import Access, Field, Register, RegisterMap, constant_field

__all__ = ["ADDR_WIDTH", "ID", "VERSION", "register_map"]

ADDR_WIDTH = 8
ID = int.from_bytes(b"DBRD", "big")
VERSION = 1


class _Design(Protocol):
    """The fields of a :class:`fpga.board.core.BoardConfig` that the registers show."""

    @property
    def kind_number(self) -> int: ...

    @property
    def preset_number(self) -> int: ...

    @property
    def endpoints(self) -> int: ...

    @property
    def memory(self) -> int: ...

    @property
    def clock_hz(self) -> int: ...


def register_map(design: _Design) -> RegisterMap:
    """:class:`RegisterMap` of a board with this :class:`fpga.board.core.BoardConfig`."""
    def fixed(name: str, value: int, doc: str) -> Register:
        return Register(name, [constant_field("value", 32, value, doc)], doc=doc)

    def shown(name: str, doc: str) -> Register:
        return Register(name, [Field("value", 32, Access.RO, doc=doc)], doc=doc)

    return RegisterMap("board", [
        fixed("ID", ID, "DBRD in ASCII."),
        fixed("VERSION", VERSION, "Version of these registers and of the protocol."),
        Register("DESIGN", [
            constant_field("kind", 4, design.kind_number, "0 DMA engine, 1 accelerators, 2 none, 3 endpoints."),
            constant_field("preset", 4, design.preset_number, "0 tiny, 1 base, 2 wide."),
            constant_field("endpoints", 8, design.endpoints, "Engines, each with its memory."),
            constant_field("memory_bits", 8, design.memory.bit_length() - 1, "Log2 of the bytes of each memory."),
        ], doc="Design and sizes of this board."),
        fixed("CLOCK", design.clock_hz, "Clock frequency of the engines, in Hz."),
        shown("CYCLES", "Clock cycles since reset, modulo 2^32."),
        shown("BEGAN", "CYCLES when the doorbell last rung began to ring."),
        shown("ENDED", "CYCLES at the last response to a write of any engine."),
        Register("STATUS", [
            Field("dropped", 1, Access.W1C, doc="A frame was dropped."),
            Field("interrupt", 4, Access.RO, doc="Interrupts of the engines, one bit each."),
        ], doc="Interrupts and errors; the error LED shows their disjunction."),
        Register("SCRATCH", [Field("value", 32, Access.RW, doc="Free for the host.")], doc="Does nothing."),
    ], doc="Description and status of a board.", addr_width=ADDR_WIDTH)
