# SPDX-License-Identifier: Apache-2.0
"""The endpoint's own registers, and the whole register space, of which they are the last window."""

from collections.abc import Sequence
from dataclasses import replace

from hw.ace.registers import register_map as ace_map
from hw.dma_engine.registers import register_map as dma_map
from hw.rdma.registers import register_map as rdma_map
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
from hw.triggers.config import COUNTERS_PER_BLOCK, GENERATION_WIDTH, INDEX_WIDTH, THRESHOLD_WIDTH

from .config import ADDR_WIDTH, REMOTE_OFFSET_WIDTH, WEIGHT_WIDTH, EndpointConfig

__all__ = ["WINDOWS", "counters", "register_map", "whole_map"]

ID_VALUE = 0x454E_4450
"""ASCII ``ENDP``."""

VERSION = 1

_MAP_WIDTH = 12

WINDOWS = {"DMA": 0x0000, "ACE": 0x1000, "ENDPOINT": 0x2000, "RDMA": 0x3000}
"""Offset of each block's registers; the RoCEv2 unit is optional."""

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE

_COUNTERS = (
    ("DMA_READ_BEATS", "Beats read by the DMA engine."),
    ("ACE_READ_BEATS", "Beats read by the accelerator."),
    ("DMA_WRITE_BEATS", "Beats written by the DMA engine to local memory."),
    ("ACE_WRITE_BEATS", "Beats written by the accelerator."),
    ("PUT_WRITE_BEATS", "Beats written by neighbours."),
    ("PUT_PACKETS_SENT", "Put packets sent to neighbours."),
    ("PUT_PACKETS_TAKEN", "Put packets received from neighbours, including refused ones."),
    ("PUT_PACKETS_REFUSED", "Received put packets that the table of exported spans did not allow."),
    ("PUT_UNEXPECTED", "Unexpected responses, dropped because their port had no write in flight."),
    ("TRIGGER_TICKS", "Ticks of trigger counters that were accepted."),
    ("TRIGGER_FIRINGS", "Firings of trigger counters that were posted."),
    ("TRIGGER_REFUSED", "Ticks, stores of preparation and firings that were refused."),
)

_LATER_COUNTERS = 4
"""The last ones, which follow other registers, so that those keep their addresses."""

_RDMA_COUNTERS = (
    ("RDMA_READ_BEATS", "Beats read for remote machines."),
    ("RDMA_WRITE_BEATS", "Beats written by remote machines."),
)


def counters(config: EndpointConfig) -> tuple[tuple[str, str], ...]:
    """Name and meaning of each free-running 32-bit counter."""
    return (*_COUNTERS, *(_RDMA_COUNTERS if config.rdma else ()))


def _identity(config: EndpointConfig) -> Sequence[Register]:
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII ENDP.")], doc="Identifies this block."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="A new version requires a change of software."),
        Register("SIZES", [
            constant_field("beat_bits", 4, (config.beat_bytes - 1).bit_length(), "Log2 of bytes per beat."),
            constant_field("ports", 4, config.ports, "Number of link ports."),
            constant_field("export_bits", 4, config.export_bits, "Log2 of the number of exported spans."),
            constant_field("put_bits", 4, (config.puts - 1).bit_length(), "Log2 of puts in flight per port."),
            constant_field("dma_pages", 8, config.dma.queues, "Doorbell pages of the DMA engine, the first ones."),
            constant_field("ace_pages", 8, config.ace.queues, "Doorbell pages of the accelerator, the next ones."),
        ], doc="Sizes of this endpoint."),
    )


def _memory(config: EndpointConfig) -> Sequence[Register]:
    def weights(names: Sequence[str]) -> list[Field]:
        return [Field(name, WEIGHT_WIDTH, RW, reset=1, doc=f"Weight of {_MANAGERS[name]}; 0 counts as 1.")
                for name in names]

    return (
        Register("READ_WEIGHT", weights(config.readers), doc="Shares of the beats read."),
        Register("WRITE_WEIGHT", weights(config.managers), doc="Shares of the beats written."),
        Register("READ_WINDOW", [Field("beats", 16, RW, doc="Maximum of beats in flight; 0 for no limit.")],
                 doc="Limit of reads, for a memory that delivers less than a beat per cycle: its beats per cycle times "
                     "its latency, plus a margin."),
    )


_MANAGERS = {"dma": "the DMA engine", "ace": "the accelerator", "put": "neighbours' puts",
             "rdma": "remote machines"}


def _exports(config: EndpointConfig) -> Sequence[Register]:
    return (
        *register_pair("EXPORT_BASE", ADDR_WIDTH, RW,
                       doc="First byte of the span; a multiple of 4096, lower bits are ignored"),
        *register_pair("EXPORT_LENGTH", REMOTE_OFFSET_WIDTH + 1, RW, doc="Bytes in the span, up to 2^32"),
        Register("EXPORT_ACCESS", [
            number_field("ports", 1 << config.ports, RW, doc="Ports whose neighbours may write the span."),
            Field("counts", 1, RW, lsb=30, doc="Puts to the span count in trigger counters, see EXPORT_COUNTER."),
            Field("valid", 1, RW, lsb=31, doc="The entry is valid."),
        ], doc="Ports with access to the span."),
        Register("EXPORT_COMMIT", [number_field("export", config.exports, PULSE, doc="Entry to write.")],
                 doc="Writes the staged span to the table. It applies to packets checked later."),
    )


def _triggers(config: EndpointConfig) -> Sequence[Register]:
    triggers = config.triggers
    return (
        Register("TRIGGER_SIZES", [
            constant_field("blocks", 4, triggers.blocks, "Blocks of 64 trigger counters."),
            constant_field("page", 12, triggers.pages,
                           "First tick page; one for each block, then the preparation pages."),
        ], doc="Sizes of the trigger counters."),
        Register("EXPORT_COUNTER", [
            number_field("first", COUNTERS_PER_BLOCK, RW, doc="Counter of the first bytes of the span."),
            Field("block", triggers.block_bits, RW, lsb=8, doc="Block of the counters."),
            Field("shift", 5, RW, lsb=16, doc="Log2 of the bytes of the span for each counter."),
        ], doc="Counters of a span whose puts count."),
        *(Register(f"TRIGGER_PAGES_{number}", [
            Field("pages", min(32, triggers.pages - 32 * number), RW,
                  doc=f"Doorbell pages from {32 * number} on to which the block's counters may post."),
        ], doc="Pages of a block.") for number in range(-(-triggers.pages // 32))),
        Register("TRIGGER_COMMIT", [number_field("block", triggers.blocks, PULSE, doc="Block that gets the pages.")],
                 doc="Gives a block its pages."),
        Register("TRIGGER_RESET", [number_field("block", triggers.blocks, PULSE, doc="Block to reset.")],
                 doc="Discards all counts and pending firings of a block; complete when TRIGGER_BUSY shows 0."),
        Register("TRIGGER_BUSY", [Field("blocks", triggers.blocks, RO, doc="Blocks that are being reset.")],
                 doc="Resets in progress."),
        Register("TRIGGER_SELECT", [
            number_field("counter", triggers.counters, PULSE, doc="Block times 64, plus the counter in the block."),
        ], doc="Reads a counter into TRIGGER_STATE and TRIGGER_REMAINING, within 16 cycles unless ticks compete."),
        Register("TRIGGER_STATE", [
            Field("mode", 2, RO, doc="0 idle, 1 once, 2 repeat, 3 sum."),
            Field("due", 2, RO, doc="Firings that are pending."),
            Field("valid", 1, RO, lsb=8, doc="The counter last selected has been read."),
            Field("generation", GENERATION_WIDTH, RO, lsb=16, doc="Its generation."),
        ], doc="State of the selected counter."),
        Register("TRIGGER_REMAINING", [Field("value", THRESHOLD_WIDTH, RO, doc="The count that remains until it fires; "
                                             "of SUM, the negative sum modulo 2^32.")],
                 doc="Count of the selected counter."),
        Register("TRIGGER_REFUSED", [
            Field("counter", INDEX_WIDTH, RO, doc="Counter in the block."),
            Field("block", triggers.block_bits, RO, lsb=8, doc="Its block."),
            Field("code", 3, RO, lsb=16, doc="Reason; see docs/triggers.md."),
            Field("valid", 1, W1C, lsb=31, doc="A refusal was recorded; write 1 to record the next one."),
        ], doc="The first refusal since valid was cleared."),
    )


def _interrupts() -> Sequence[Register]:
    return (
        Register("IRQ_STATUS", [
            Field("register", 1, W1C, doc="A register write was refused; see REFUSED_WRITE."),
            Field("trigger", 1, W1C, doc="A tick or a firing was refused; see TRIGGER_REFUSED."),
        ], doc="Interrupt sources of the endpoint itself."),
        Register("IRQ_ENABLE", [Field(name, 1, RW, doc=f"Let {name} drive irq.") for name in ("register", "trigger")],
                 doc="The irq output is high while an enabled source is set, here or in one of the engines."),
    )


def register_map(config: EndpointConfig) -> RegisterMap:
    """Registers of the endpoint itself."""
    counts = [Register(f"COUNT_{name}", [Field("value", 32, RO, doc="Wraps; zeroed by rst only.")], doc=doc)
              for name, doc in counters(config)]
    early, later = len(_COUNTERS) - _LATER_COUNTERS, len(_COUNTERS)
    return RegisterMap("endpoint", [*_identity(config), *_memory(config), *_exports(config),
                                    *counts[:early], *_interrupts(), *refusal_registers(_MAP_WIDTH),
                                    *counts[early:later], *_triggers(config), *counts[later:]],
                       doc="Registers that DMA engine and accelerator share.", addr_width=_MAP_WIDTH)


def whole_map(config: EndpointConfig) -> RegisterMap:
    """All registers behind ``s_axil``, with the block's name as the prefix of theirs."""
    parts = {"DMA": dma_map(config.dma), "ACE": ace_map(config.ace), "ENDPOINT": register_map(config)}
    if config.rdma:
        parts["RDMA"] = rdma_map(config.rdma)
    return RegisterMap("endpoint_space", [
        replace(register, name=f"{name}_{register.name}", offset=WINDOWS[name] + register.offset)
        for name, part in parts.items() for register in part.registers],
        doc=f"DMA engine, collectives accelerator, {'RoCEv2 unit, ' if config.rdma else ''}and shared registers.",
        addr_width=14)
