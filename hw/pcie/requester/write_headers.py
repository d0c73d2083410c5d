# SPDX-License-Identifier: Apache-2.0
"""Headers of the write TLPs, and the outcome of each burst.

WriteSplitter -> WriteHeaders -> WriteQueue, WriteResponses.  Latency: 0, combinational.  Throughput: one TLP and one
burst per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.event import EventSignature

from ..config import ADDR_WIDTH, ATTRIBUTE_WIDTH, PcieConfig
from ..layouts import write_tlp_layout
from .write_buffer import payload_beats_shape
from .write_intake import payload_index_bits
from .write_splitter import cut_beat_layout

__all__ = ["BURSTS", "BURST_BITS", "WriteHeaders", "burst_layout", "header_layout"]

BURSTS = 64
"""Most bursts that wait for their TLPs to be accepted."""

BURST_BITS = BURSTS.bit_length()
"""Bits of a burst's number: it differs among twice as many."""


def header_layout(config: PcieConfig) -> data.StructLayout:
    """A TLP with the number of its beats and that of its burst; a message has the number of the burst behind it."""
    return data.StructLayout({
        "tlp": write_tlp_layout(config), "beats": payload_beats_shape(config), "message": 1, "burst": BURST_BITS})


def burst_layout(config: PcieConfig) -> data.StructLayout:
    """A burst whose last TLP was made, with that TLP's address in double words.

    ``flush``: the response comes after a flush.
    """
    return data.StructLayout({
        "id": config.axi_id_width, "resp": Resp, "flush": 1, "address": ADDR_WIDTH - 2, "attributes": ATTRIBUTE_WIDTH})


class WriteHeaders(wiring.Component):
    """Make a TLP's header from its first and last byte.

    A burst with a refused TLP gets SLVERR, a denied one DECERR. Only bursts with OKAY and with a TLP are flushed.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    i : ``In(EventSignature(cut_beat_layout))``
    headers : ``Out(EventSignature(header_layout))``
    bursts : ``Out(EventSignature(burst_layout))``
        At the burst's last beat.
    discard : ``In(1)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(EventSignature(cut_beat_layout(config))), "headers": Out(EventSignature(header_layout(config))),
            "bursts": Out(EventSignature(burst_layout(config))), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat, header, burst = self.i.payload, self.headers.payload, self.bursts.payload
        lane, tlp = self.config.lane_bits, header.tlp
        # Positions of bytes within the longest payload: no TLP crosses its end.
        index = beat.index[:payload_index_bits(self.config)]
        begun, number, single = Signal(name="begun"), Signal(BURST_BITS, name="number"), Signal()
        first, last, first_before, last_before = (Signal(len(index) + lane, name=name) for name in (
            "first", "last", "first_before", "last_before"))
        m.d.comb += [
            first.eq(Mux(begun, first_before, Cat(beat.first, index))),
            last.eq(Mux(beat.any, Cat(beat.last, index), last_before)),
            single.eq(first[2:] == last[2:]),
            self.headers.valid.eq(self.i.valid & beat.sent),
            tlp.address.eq(Cat(first[2:lane] | beat.offset, first[lane:], beat.index[len(index):], beat.page)),
            tlp.dwords.eq(last[2:] - first[2:] + 1), tlp.attributes.eq(beat.attributes), tlp.lane.eq(first[2:lane]),
            tlp.first_be.eq(_from(first[:2]) & Mux(single, _up_to(last[:2]), 0b1111)),
            tlp.last_be.eq(Mux(single, 0, _up_to(last[:2]))),
            header.beats.eq(last[lane:] - first[lane:] + 1), header.message.eq(beat.message), header.burst.eq(number),
        ]
        with m.If(self.i.valid):
            m.d.sync += [begun.eq(~beat.cut & (begun | beat.any)), first_before.eq(first), last_before.eq(last)]

        # The burst up to the beat before: it has a TLP, a refused one; the address of its last TLP.
        some, wrong, address = Signal(name="some"), Signal(name="wrong"), Signal(ADDR_WIDTH - 2, name="address")
        error = Signal()
        m.d.comb += [
            error.eq(wrong | beat.refused), self.bursts.valid.eq(self.i.valid & beat.end & ~beat.message),
            burst.id.eq(beat.id), burst.resp.eq(Mux(beat.denied, Resp.DECERR, Mux(error, Resp.SLVERR, Resp.OKAY))),
            burst.flush.eq(beat.flush & ~error & (some | beat.sent)), burst.attributes.eq(beat.attributes),
            burst.address.eq(Mux(beat.sent, tlp.address, address)),
        ]
        with m.If(self.i.valid):
            m.d.sync += [some.eq(~beat.end & (some | beat.sent)), wrong.eq(~beat.end & error),
                         address.eq(burst.address)]
        m.d.sync += number.eq(number + self.bursts.valid)
        return ResetInserter(self.discard)(m)


def _from(byte):
    """Byte enables of a DW from a byte on."""
    return Cat(byte == 0, byte <= 1, byte <= 2, Const(1))


def _up_to(byte):
    """Byte enables of a DW up to a byte."""
    return Cat(Const(1), byte >= 1, byte >= 2, byte == 3)
