# SPDX-License-Identifier: Apache-2.0
"""Read requests on RQ: tags, reorder slots, and the order among requests.

ReadSplitter, write path -> ReadIssue -> RQ.  Latency: 1 cycle.  Throughput: one request per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import PcieConfig
from ..layouts import ReadTlp, flush_layout
from .read_layouts import (
    IssuedSignature,
    PreviousSignature,
    TagEvent,
    Termination,
    read_piece_layout,
    termination_layout,
)

__all__ = ["ReadIssue"]


class ReadIssue(wiring.Component):
    """Hold one piece or flush until it has a tag and, behind an older request of its row, a reorder slot.

    While the bus master is disabled, a request takes its tag, but goes to ``refused`` and not to RQ.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    pieces : ``In(stream.Signature(read_piece_layout))``
    previous : ``In(PreviousSignature)``
        Of the row of ``pieces``.
    flushes : ``In(stream.Signature(flush_layout))``
        Alternate with pieces.
    tags, slots : ``In(stream.Signature(number))``
    delivered : ``In(TagEvent)``
    tlps : ``Out(stream.Signature(ReadTlp))``
        From registers, ``valid`` through two levels of logic. A TLP on offer stays, whatever the levels below do.
    issued : ``Out(IssuedSignature)``
    refused : ``Out(stream.Signature(termination_layout))``
    hold : ``Out(1)``
        A TLP is on ``tlps`` and is not accepted: its tag must stay.
    bus_master, halt, discard : ``In(1)``
        ``discard`` drops pieces and flushes that are not on offer.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "pieces": In(stream.Signature(read_piece_layout(config))), "previous": In(PreviousSignature(config)),
            "flushes": In(stream.Signature(flush_layout(config))),
            "tags": In(stream.Signature(config.tag_bits)), "slots": In(stream.Signature(config.slot_bits)),
            "delivered": In(TagEvent(config)), "tlps": Out(stream.Signature(ReadTlp)),
            "issued": Out(IssuedSignature(config)), "refused": Out(stream.Signature(termination_layout(config))),
            "hold": Out(1), "bus_master": In(1), "halt": In(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        layout = read_piece_layout(self.config)
        valid, flush, older = Signal(), Signal(), Signal()
        piece, previous = Signal(layout, reset_less=True), Signal(self.config.tag_bits)
        leave, offered = Signal(), Signal()     # offered: on tlps in the cycle before, and not accepted

        # Flushes and pieces alternate.
        take_flush, load, flushed = Signal(), Signal(), Signal()
        m.d.comb += [
            take_flush.eq(self.flushes.valid & ~(flushed & self.pieces.valid)),
            load.eq(~valid | leave),
            self.pieces.ready.eq(load & ~take_flush), self.flushes.ready.eq(load & take_flush | self.discard),
        ]
        with m.If(load):
            m.d.sync += [
                valid.eq((take_flush | self.pieces.valid) & ~self.discard),
                flush.eq(take_flush), flushed.eq(take_flush),
                piece.eq(Mux(take_flush, _flush_piece(layout, self.flushes.payload), self.pieces.payload)),
                older.eq(~take_flush & self.previous.in_flight), previous.eq(self.previous.tag),
            ]
        with m.Else():
            with m.If(self.discard & ~offered):
                m.d.sync += valid.eq(0)
            with m.If(self.delivered.valid & (self.delivered.tag == previous)):
                m.d.sync += older.eq(0)

        # A request that waits for a slot which it needs no more has none for one cycle longer.
        able, linked, free = Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(~self.halt & ~self.discard),
            able.eq(valid & self.tags.valid & (~older | self.slots.valid)),
            linked.eq(older & ~(self.delivered.valid & (self.delivered.tag == previous))),
            self.tlps.valid.eq(able & (offered | free & self.bus_master)),
            self.refused.valid.eq(able & ~offered & free & ~self.bus_master),
            leave.eq(self.tlps.valid & self.tlps.ready | self.refused.valid & self.refused.ready),
            self.tags.ready.eq(leave), self.slots.ready.eq(leave & linked),
            self.refused.payload.tag.eq(self.tags.payload), self.refused.payload.kind.eq(Termination.REFUSED),
        ]
        m.d.comb += self.hold.eq(self.tlps.valid & ~self.tlps.ready)
        m.d.sync += offered.eq(self.hold)
        m.d.comb += [self.tlps.payload[name].eq(piece[name])
                     for name in ("address", "dwords", "first_be", "last_be", "attributes")]
        m.d.comb += self.tlps.payload.tag.eq(self.tags.payload)

        issued, record = self.issued, self.issued.record
        m.d.comb += [
            issued.valid.eq(leave), issued.tag.eq(self.tags.payload), issued.sent.eq(self.tlps.valid),
            issued.ordered.eq(~flush), issued.row.eq(piece.row), issued.linked.eq(linked), issued.previous.eq(previous),
            record.id.eq(piece.id), record.flush.eq(flush), record.stored.eq(linked),
            record.slot.eq(self.slots.payload), record.ends_burst.eq(piece.ends_burst), record.left.eq(piece.left),
            Cat(record.offset, record.beat).eq(Cat(piece.offset, piece.address)),
        ]
        return m


def _flush_piece(layout, flush):
    """A read of no byte: one DW without byte enables."""
    values = {"id": flush.id, "address": flush.address, "dwords": 1, "attributes": flush.attributes, "left": 1}
    return data.View(layout, Cat(
        Value.cast(values.get(name, 0))[:field.width] if name in ("id", "address", "attributes")
        else Const(values.get(name, 0), field.width) for name, field in layout))
