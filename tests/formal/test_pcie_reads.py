# SPDX-License-Identifier: Apache-2.0
"""Read requests of the PCIe adapter: each burst is cut into legal ones that cover it, once, in order. By induction."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.sizes import PAGE_BYTES
from hw.pcie.attributes import tlp_attributes
from hw.pcie.config import DWORD_BYTES, MIN_PAYLOAD_BYTES
from hw.pcie.layouts import read_burst_layout
from hw.pcie.requester.read_splitter import ReadSplitter
from tests.formal.delivery import stable
from tests.formal.small import pcie
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Requests(wiring.Component):
    """Every piece, compared with its burst and with the limits of PCI Express (Base 2.2.5, 2.2.7).

    Assumed of the engine: a burst has full beats and does not cross 4 KiB, as AXI4 demands, and AR is stable. MRRS may
    change in every cycle.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({"valid": In(1), "burst": In(read_burst_layout(config)), "ready": In(1), "max_read": In(3),
                          "discard": In(1)})

    def elaborate(self, platform):
        m = Module()
        config, dut = self.config, ReadSplitter(self.config)
        m.submodules.dut = parts = elaborated(dut)
        lane, burst, piece = config.lane_bits, self.burst, dut.pieces.payload
        m.d.comb += [
            dut.bursts.valid.eq(self.valid), dut.bursts.payload.eq(burst), dut.pieces.ready.eq(self.ready),
            dut.max_read.eq(self.max_read), dut.discard.eq(self.discard),
            Assume(burst.addr[lane:12] + burst.len < PAGE_BYTES // config.beat_bytes),
        ]
        stable(m, dut.bursts, Assume, "burst")

        # -- The burst in progress, and the address of its next byte.
        held, active, position, limit = Signal.like(burst, name="held"), Signal(), Signal(64), Signal(3)
        accept, move = Signal(), Signal()
        start, end, last = Signal(65), Signal(65), Signal(65)
        m.d.comb += [
            accept.eq(self.valid & dut.bursts.ready & ~self.discard), move.eq(dut.pieces.valid & self.ready),
            start.eq(Cat(piece.offset, piece.address)), end.eq((piece.address + piece.dwords) << 2),
            last.eq((held.addr[lane:] + held.len + 1) << lane),
        ]
        m.d.sync += limit.eq(self.max_read)
        with m.If(accept):
            m.d.sync += [active.eq(1), held.eq(burst), position.eq(burst.addr)]
        with m.Elif(self.discard | move & piece.ends_burst):
            m.d.sync += active.eq(0)
        with m.Elif(move):
            m.d.sync += position.eq(end)

        # -- Legal requests.
        length, most = Signal(13), Signal(13)
        single = piece.dwords == 1
        m.d.comb += [
            length.eq(piece.dwords * DWORD_BYTES),
            most.eq(Mux(limit >= 2, Const(config.read_bytes, 13), MIN_PAYLOAD_BYTES << limit[0])),
        ]
        for rule, holds in (
                ("no piece without a burst", active),
                ("the length", (piece.dwords != 0) & (length <= most)),
                ("a request crosses 4 KiB", start[:12] + length - piece.offset <= PAGE_BYTES),
                ("the first byte enables", piece.first_be == (0b1111 << piece.offset)[:4]),
                ("the last byte enables", piece.last_be == Mux(single, 0, 0b1111)),
                ("a request starts elsewhere", start == position),
                ("a request goes beyond its burst", end <= last),
                ("the end of the burst", piece.ends_burst == (end == last)),
                ("a request ends within the read completion boundary", piece.ends_burst | (end[:7] == 0)),
                ("number of beats", piece.left == (end - (start >> lane << lane)) >> lane),
                ("ID or attributes", (piece.id == held.id) & (piece.attributes == tlp_attributes(held)))):
            m.d.comb += Assert(~dut.pieces.valid | holds, Format(rule))
        m.d.comb += [
            Assert(~accept | ~active | move & piece.ends_burst, Format("a burst is lost")),
            Assert(~active | self.discard | dut.pieces.valid, Format("a burst waits for nothing")),
        ]

        # -- The invariant.
        busy, beat, final = internal(parts, "busy"), internal(parts, "beat"), internal(parts, "last")
        offset, page, mask = internal(parts, "offset"), internal(parts, "page"), internal(parts, "mask")
        m.d.comb += [
            Assert(busy == active, Format("busy")),
            Assert(~busy | (Cat(offset, beat, page) == position), Format("position")),
            Assert(~busy | (beat <= final), Format("beat")),
            Assert(~busy | (final == held.addr[lane:12] + held.len), Format("last")),
            Assert(~busy | (page == held.addr[12:]), Format("page")),
            Assert(~busy | (internal(parts, "number") == held.id), Format("number")),
            Assert(~busy | (internal(parts, "attributes") == tlp_attributes(held)), Format("attributes")),
            Assert((mask == 0) | (mask == most // config.beat_bytes - 1), Format("mask")),
        ]
        return m


@pytest.mark.parametrize("data_width", [128, 512])
def test_read_requests(data_width):
    prove(Requests(pcie(32, data_width=data_width)), name=f"pcie-reads-{data_width}", depth=2, mode="prove")
