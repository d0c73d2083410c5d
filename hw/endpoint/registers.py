"""The endpoint's own registers, and the whole register space of which they are the last window."""

from collections.abc import Sequence
from dataclasses import replace

from hw.ace.registers import register_map as ace_map
from hw.dma_engine.registers import register_map as dma_map
from hw.regs import (
    Access,
    Field,
    Register,
    RegisterMap,
    constant_field,
    number_field,
    refusal_registers,
    register_pair,
)

from .config import ADDR_WIDTH, MANAGERS, REMOTE_OFFSET_WIDTH, WEIGHT_WIDTH, EndpointConfig

__all__ = ["COUNTERS", "WINDOWS", "register_map", "whole_map"]

ID_VALUE = 0x454E_4450
"""ASCII ``ENDP``."""

VERSION = 1

_MAP_WIDTH = 12

WINDOWS = {"DMA": 0x0000, "ACE": 0x1000, "ENDPOINT": 0x2000}
"""Offset of each block's registers."""

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE

COUNTERS = (
    ("DMA_READ_BEATS", "Beats that the DMA engine has read."),
    ("ACE_READ_BEATS", "Beats that the accelerator has read."),
    ("DMA_WRITE_BEATS", "Beats that the DMA engine has written to the own memory."),
    ("ACE_WRITE_BEATS", "Beats that the accelerator has written."),
    ("PUT_WRITE_BEATS", "Beats that neighbours have written."),
    ("PUT_PACKETS_SENT", "Packets of puts sent to neighbours."),
    ("PUT_PACKETS_TAKEN", "Packets of puts that came from neighbours, refused ones included."),
    ("PUT_PACKETS_REFUSED", "Of these, those that the table of exported spans did not allow."),
    ("PUT_UNEXPECTED", "Responses dropped: the port that they name had no put's write in flight."),
)
"""Name and meaning of each free-running 32-bit counter."""


def _identity(config: EndpointConfig) -> Sequence[Register]:
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII ENDP.")], doc="Tells what this block is."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="Changes when software must."),
        Register("SIZES", [
            constant_field("beat_bits", 4, (config.beat_bytes - 1).bit_length(), "Log2 of bytes per beat."),
            constant_field("ports", 4, config.ports, "Link ports."),
            constant_field("export_bits", 4, config.export_bits, "Log2 of exported spans."),
            constant_field("put_bits", 4, (config.puts - 1).bit_length(), "Log2 of puts in flight at a port."),
            constant_field("dma_pages", 8, config.dma.queues, "Doorbell pages of the DMA engine; they come first."),
            constant_field("ace_pages", 8, config.ace.queues, "Doorbell pages of the accelerator, behind them."),
        ], doc="Sizes this endpoint was built with."),
    )


def _memory(config: EndpointConfig) -> Sequence[Register]:
    def weights(names: Sequence[str]) -> list[Field]:
        return [Field(name, WEIGHT_WIDTH, RW, reset=1, doc=f"Of {_WHO[name]}; 0 counts as 1.") for name in names]

    return (
        Register("READ_WEIGHT", weights(MANAGERS[:2]), doc="Shares of the beats read."),
        Register("WRITE_WEIGHT", weights(MANAGERS), doc="Shares of the beats written."),
        Register("READ_WINDOW", [Field("beats", 16, RW, doc="Beats in flight, or 0 for any number.")],
                 doc="While so many are in flight, no more are asked for; for a memory that cannot bring a beat in "
                     "each cycle: its beats per cycle times its latency, and some more."),
    )


_WHO = {"dma": "the DMA engine", "ace": "the accelerator", "put": "neighbours' puts"}


def _exports(config: EndpointConfig) -> Sequence[Register]:
    return (
        *register_pair("EXPORT_BASE", ADDR_WIDTH, RW,
                       doc="First byte of the span; a multiple of 4096, lower bits are ignored"),
        *register_pair("EXPORT_LENGTH", REMOTE_OFFSET_WIDTH + 1, RW, doc="Bytes in the span, up to 2^32"),
        Register("EXPORT_ACCESS", [
            number_field("ports", 1 << config.ports, RW, doc="Ports whose neighbours may write the span."),
            Field("valid", 1, RW, lsb=31, doc="The entry is a span."),
        ], doc="Who may write the span."),
        Register("EXPORT_COMMIT", [number_field("export", config.exports, PULSE, doc="Entry to write.")],
                 doc="Writes the staged span to the table. Packets looked at later see it."),
    )


def _interrupts() -> Sequence[Register]:
    return (
        Register("IRQ_STATUS", [
            Field("register", 1, W1C, doc="A write to a register was refused; REFUSED_WRITE says which."),
        ], doc="Interrupt sources besides those of the DMA engine and of the accelerator."),
        Register("IRQ_ENABLE", [Field("register", 1, RW, doc="Let register drive irq.")],
                 doc="The irq output is high while an enabled source is set, here or in one of the two."),
    )


def register_map(config: EndpointConfig) -> RegisterMap:
    """Registers of the endpoint itself."""
    counters = [Register(f"COUNT_{name}", [Field("value", 32, RO, doc="Wraps; zeroed by rst only.")], doc=doc)
                for name, doc in COUNTERS]
    return RegisterMap("endpoint", [*_identity(config), *_memory(config), *_exports(config), *counters[:-1],
                                    *_interrupts(), *refusal_registers(_MAP_WIDTH),
                                    counters[-1]],      # last, so that no other has another address than before
                       doc="What DMA engine and accelerator share.", addr_width=_MAP_WIDTH)


def whole_map(config: EndpointConfig) -> RegisterMap:
    """All registers behind ``s_axil``, their names with the block's in front."""
    parts = {"DMA": dma_map(config.dma), "ACE": ace_map(config.ace), "ENDPOINT": register_map(config)}
    return RegisterMap("endpoint_space", [
        replace(register, name=f"{name}_{register.name}", offset=WINDOWS[name] + register.offset)
        for name, part in parts.items() for register in part.registers],
        doc="DMA engine, collectives accelerator, and what they share.", addr_width=14)
