# SPDX-License-Identifier: Apache-2.0
"""The writer of doorbells: payload words aligned to beats of 16 bytes.

RequestSplit -> DoorbellWriter -> doorbells.  Latency: 1 cycle.  Throughput: one beat per cycle; a request whose last
word spills into one more beat takes one cycle more than it has words.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Burst, Resp
from hw.stream import Skid

from ..config import PcieConfig
from .layouts import PAYLOAD_LENGTH_WIDTH, WORD_DWORDS, WORD_WIDTH, doorbell_word_layout

__all__ = ["DoorbellWriter"]

STROBES = WORD_WIDTH // 8

MOST_BURSTS = 63
"""Bursts whose response is outstanding, at most."""


class DoorbellWriter(wiring.Component):
    """Send each memory write as one INCR burst of aligned full-size beats, with strobes for its bytes.

    AW and the first beat of W are valid in the same cycle.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    i : ``In(stream.Signature(doorbell_word_layout))``
    doorbells : ``Out(AxiSignature)``
        From registers; responses are always accepted. Nothing is read.
    unsupported : ``Out(1)``
        Strobe: a write got an error response in the cycle before.
    idle : ``Out(1)``
        No beat, and no address, waits to be accepted, and no response is outstanding. From registers.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(doorbell_word_layout(config))),
            "doorbells": Out(AxiSignature(
                addr_width=config.doorbell_addr_width, data_width=WORD_WIDTH, id_width=config.doorbell_id_width)),
            "unsupported": Out(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus, item = self.doorbells, self.i.payload
        m.submodules.addresses = addresses = Skid(data.StructLayout({
            "page_word": self.config.doorbell_addr_width - 4, "len": 8}))
        m.submodules.beats = beats = Skid(data.StructLayout({"data": WORD_WIDTH, "strb": STROBES, "last": 1}))

        # -- Geometry: DW of the payload start at `lane` of the first beat and end at `end` of the last.
        lane, final, more = item.address[:2], Signal(3), Signal(2)
        end, spills = final[:2], final[2]
        beats_less_one = Signal(PAYLOAD_LENGTH_WIDTH - 1)
        m.d.comb += [
            more.eq(item.dwords[:2] - 1), final.eq(lane + more),
            beats_less_one.eq((item.dwords + lane - 1) >> 2),
        ]
        start_strb, end_strb = Signal(STROBES), Signal(STROBES)
        for dword in range(WORD_DWORDS):
            part = slice(4 * dword, 4 * dword + 4)
            m.d.comb += [
                start_strb[part].eq(Mux(lane == dword, item.first_be, (lane < dword).replicate(4))),
                end_strb[part].eq(Mux((end == dword) & (item.dwords != 1), item.last_be,
                                      (end >= dword).replicate(4))),
            ]

        # -- A beat: this word and the one before. After the last word, its remainder may need a beat of its own.
        spilling, held_lane, held_strb = Signal(), Signal(2), Signal(STROBES)
        before, select = Signal(WORD_WIDTH, reset_less=True), Signal(2)
        m.d.comb += select.eq(Mux(spilling, held_lane, lane))
        both = Cat(before, item.data)
        with m.Switch(select):
            for number in range(WORD_DWORDS):
                with m.Case(number):
                    shift = WORD_WIDTH - 32 * number
                    m.d.comb += beats.i.payload.data.eq(both[shift:shift + WORD_WIDTH])
        last = Signal()
        m.d.comb += [
            last.eq(item.last & ~spills),
            beats.i.payload.last.eq(spilling | last),
            beats.i.payload.strb.eq(Mux(
                spilling, held_strb, Mux(item.first, start_strb, ~0) & Mux(last, end_strb, ~0))),
            beats.i.valid.eq(spilling | self.i.valid & (~item.first | addresses.i.ready)),
            self.i.ready.eq(~spilling & beats.i.ready & (~item.first | addresses.i.ready)),
            addresses.i.valid.eq(~spilling & self.i.valid & item.first & beats.i.ready),
            addresses.i.payload.page_word.eq(item.address[2:]), addresses.i.payload.len.eq(beats_less_one),
        ]
        with m.If(beats.i.ready):
            m.d.sync += spilling.eq(~spilling & self.i.valid & self.i.ready & item.last & spills)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [before.eq(item.data), held_lane.eq(lane), held_strb.eq(end_strb)]

        # -- Responses: the subordinate may be in another clock domain, where acceptance here says nothing.
        outstanding, after = Signal(range(MOST_BURSTS + 1)), Signal(range(MOST_BURSTS + 1))
        waiting, full = Signal(), Signal()
        m.d.comb += after.eq(outstanding + (bus.awvalid & bus.awready) - (bus.bvalid & waiting))
        m.d.sync += [outstanding.eq(after), waiting.eq(after != 0), full.eq(after == MOST_BURSTS)]

        # -- Pins.
        m.d.comb += [
            bus.awaddr.eq(addresses.o.payload.page_word << 4), bus.awlen.eq(addresses.o.payload.len),
            bus.awsize.eq((STROBES - 1).bit_length()), bus.awburst.eq(Burst.INCR),
            bus.awvalid.eq(addresses.o.valid & ~full), addresses.o.ready.eq(bus.awready & ~full),
            bus.wdata.eq(beats.o.payload.data), bus.wstrb.eq(beats.o.payload.strb), bus.wlast.eq(beats.o.payload.last),
            bus.wvalid.eq(beats.o.valid), beats.o.ready.eq(bus.wready),
            bus.bready.eq(1), bus.rready.eq(1), bus.arburst.eq(Burst.INCR),
            *(getattr(bus, name).eq(0) for name in (
                "awid", "awcache", "awprot", "awqos", "arid", "araddr", "arlen", "arsize", "arcache", "arprot", "arqos",
                "arvalid")),
            self.idle.eq(~(spilling | addresses.o.valid | beats.o.valid | waiting)),
        ]
        m.d.sync += self.unsupported.eq(bus.bvalid & ((bus.bresp == Resp.SLVERR) | (bus.bresp == Resp.DECERR)))
        return m
