# SPDX-License-Identifier: Apache-2.0
"""Packets of the PCIe adapter on RQ: writes leave in order, each with its header and all of its data. Bounded."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Format, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.pcie.config import DWORD_BYTES, MAX_PAYLOAD_BYTES
from hw.pcie.layouts import ReadTlp, write_tlp_layout
from hw.pcie.pins import rq_user_layout
from hw.pcie.requester.rq import RequestPacker
from hw.pcie.tlp import RequesterRequest, RequestType
from tests.formal.delivery import stable
from tests.formal.small import pcie
from tests.harness.formal import prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

DWORD = 32
NUMBER = 6
"""Bits of the number of a DW: more DW do not move within the depth."""


class Packets(wiring.Component):
    """A write of the solver's choice on RQ, with a bus of 128 bits: four DW in a beat, the descriptor in the first.

    Each DW of the data has its own number: the packer does not look at it. ``test_pcie_order.py`` asserts that data is
    there when it is due.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "writes": In(1), "write": In(write_tlp_layout(config)), "reads": In(1), "read": In(ReadTlp), "ready": In(1),
            "watch": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.dut = dut = RequestPacker(config)
        count, rq, write, lanes = config.beat_dwords, dut.rq, self.write, config.dword_lane_bits
        number = Signal(NUMBER - lanes)
        m.d.comb += [
            dut.writes.valid.eq(self.writes), dut.writes.payload.eq(write), dut.reads.valid.eq(self.reads),
            dut.reads.payload.eq(self.read), dut.data.valid.eq(1), rq.tready.eq(self.ready),
            dut.data.payload.eq(Cat(
                Cat(Const(position, lanes), number, Const(0, DWORD - NUMBER)) for position in range(count))),
            Assume((write.dwords != 0) & (write.dwords <= MAX_PAYLOAD_BYTES // DWORD_BYTES)),
        ]
        stable(m, dut.writes, Assume, "write")
        stable(m, dut.reads, Assume, "read")
        with m.If(dut.data.ready):
            m.d.sync += number.eq(number + 1)

        # -- Packets on RQ.
        moves, inside, is_write = rq.tvalid & rq.tready, Signal(), Signal()
        descriptor, user = data.View(RequesterRequest, rq.tdata), data.View(rq_user_layout(config.data_width), rq.tuser)
        starts = moves & ~inside
        starts_write = starts & (descriptor.request_type == RequestType.MEMORY_WRITE)
        with m.If(moves):
            m.d.sync += inside.eq(~rq.tlast)
        with m.If(starts):
            m.d.sync += is_write.eq(starts_write)

        # -- The write: those ahead of it that have not started, the number of its first DW, and its DW sent.
        accepted, watching, ours = dut.writes.valid & dut.writes.ready, Signal(), Signal()
        waiting, ahead, header = Signal(3), Signal(3), Signal(write_tlp_layout(config))
        beats, base, first, done = Signal(NUMBER), Signal(NUMBER), Signal(NUMBER), Signal(NUMBER)
        m.d.comb += beats.eq((write.lane + write.dwords + count - 1) >> lanes)
        m.d.sync += waiting.eq(waiting + accepted - starts_write)
        with m.If(accepted):
            m.d.sync += base.eq(base + beats)
        our_start = watching & ~ours & starts_write & (ahead == 0)
        with m.If(accepted & self.watch & ~watching):
            m.d.sync += [watching.eq(1), ahead.eq(waiting - starts_write), header.eq(write),
                         first.eq((base << lanes) + write.lane)]
        with m.Elif(watching & starts_write & (ahead != 0)):
            m.d.sync += ahead.eq(ahead - 1)
        with m.If(our_start):
            m.d.sync += ours.eq(1)
        with m.If(ours & moves & ~starts):
            m.d.sync += [done.eq(done + count), ours.eq(~rq.tlast), watching.eq(~rq.tlast)]
        with m.If(ours & moves & rq.tlast):
            m.d.sync += done.eq(0)
        body, left = ours & moves, Signal(11)
        m.d.comb += left.eq(header.dwords - done)
        m.d.comb += [
            Assert(~starts_write | (waiting != 0), Format("a write of nowhere")),
            Assert(~our_start | Cat(descriptor[name] == header[name] for name in (
                "address", "dwords", "attributes")).all(), Format("another header")),
            Assert(~our_start | (user.first_be == header.first_be) & (user.last_be == header.last_be) & ~rq.tlast
                   & rq.tkeep.all(), Format("byte enables")),
            Assert(~body | (rq.tlast == (left <= count)), Format("the end of a packet")),
            *(Assert(~body | (rq.tkeep[position] == (left > position)), Format("the length of a packet"))
              for position in range(count)),
            *(Assert(~body | (left <= position) | (rq.tdata.word_select(position, DWORD) == (
                first + done + position)[:NUMBER]), Format("other data")) for position in range(count)),
        ]

        # -- Writes that RQ has accepted, and not reported.
        ended = Signal(3)
        m.d.sync += ended.eq(ended + (moves & rq.tlast & Mux(starts, starts_write, is_write)) - dut.sent)
        m.d.comb += Assert(~dut.sent | (ended != 0), Format("a write is reported before RQ has accepted it"))
        return m


def test_packets():
    prove(Packets(pcie(32)), name="pcie-packets", depth=10)
