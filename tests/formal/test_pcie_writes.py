# SPDX-License-Identifier: Apache-2.0
"""Write requests of the PCIe adapter: each burst is cut into legal ones of exactly its strobed bytes. By induction."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Format, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.axi import Resp
from hw.common.sizes import PAGE_BYTES
from hw.pcie.attributes import tlp_attributes
from hw.pcie.config import ADDR_WIDTH, ATTRIBUTE_WIDTH, MAX_PAYLOAD_BYTES, MIN_PAYLOAD_BYTES
from hw.pcie.layouts import MessageLayout, write_beat_layout
from hw.pcie.requester.write_headers import BURST_BITS, WriteHeaders
from hw.pcie.requester.write_intake import FLUSH_BIT, WriteIntake
from hw.pcie.requester.write_splitter import WriteSplitter
from tests.formal.small import assume_constant, pcie
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]

BLOCK_BITS = (MAX_PAYLOAD_BYTES - 1).bit_length()
CONTIGUOUS = [(0b1111 << first) & (0b1111 >> 3 - last) for first in range(4) for last in range(first, 4)]


def _beat_layout(config):
    """A beat, or a message, with what is expected of it.

    ``address``: of the beat, or of the message. ``ranges``: of strobed bytes in the request up to this beat, at most 2.
    ``chosen``: the watched byte is one of them. ``beats``: those that have one. ``cut``: the request ends.
    """
    return data.StructLayout({
        "valid": 1, "message": 1, "address": ADDR_WIDTH, "payload": BLOCK_BITS + 1, "denied": 1, "flush": 1,
        "attributes": ATTRIBUTE_WIDTH, "id": config.axi_id_width, "last": 1, "data": config.data_width, "some": 1,
        "top": 1, "ranges": 2, "chosen": 1, "beats": 7, "cut": 1})


class Requests(wiring.Component):
    """Every request, compared with the strobes of its burst and the limits of PCI Express (Base 2.2.5, 2.2.7).

    The solver chooses a byte of each block of 1,024 bytes: a request has it exactly if it was strobed. Assumed of the
    engine: a burst does not cross 4 KiB, as AXI4 demands. Of AxiStreams: ``first`` is set after ``last``.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "valid": In(1), "beat": In(write_beat_layout(config)), "posts": In(1), "message": In(MessageLayout),
            "max_payload": In(2), "bus_master": In(1), "open": In(1), "discard": In(1), "watched": In(BLOCK_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        intake, splitter, headers = WriteIntake(config), WriteSplitter(config), WriteHeaders(config)
        parts = [elaborated(part) for part in (intake, splitter, headers)]
        m.submodules.intake, m.submodules.splitter, m.submodules.headers = parts
        wiring.connect(m, intake.o, splitter.i)
        wiring.connect(m, splitter.o, headers.i)
        m.d.comb += [
            intake.beats.valid.eq(self.valid), intake.beats.payload.eq(self.beat), intake.messages.valid.eq(self.posts),
            intake.messages.payload.eq(self.message), intake.settings.max_payload.eq(self.max_payload),
            intake.settings.bus_master.eq(self.bus_master), intake.open.eq(self.open),
            *(part.discard.eq(self.discard) for part in (intake, splitter, headers)),
        ]
        assume_constant(m, self.watched)

        # The beat that is accepted, and the last one that passed the intake, the splitter, and the headers.
        now = Signal(_beat_layout(config))
        first = {"payload": MIN_PAYLOAD_BYTES, "last": 1, "cut": 1}
        taken, split, past = (Signal(_beat_layout(config), name=name, init=first)
                              for name in ("taken", "split", "past"))
        self._expect(m, intake, parts[0], now, taken)
        m.d.sync += [taken.valid.eq(now.valid), split.eq(taken), past.eq(split)]
        with m.If(now.valid):
            m.d.sync += taken.eq(now)
        with m.If(self.discard):
            for beat in (taken, split, past):
                m.d.sync += [beat.valid.eq(0), beat.last.eq(1), beat.cut.eq(1)]
        self._assert_payload(m, splitter, taken)
        self._assert_headers(m, headers, split)
        self._assert_bursts(m, splitter, headers, parts[2], split)
        self._assert_invariant(m, intake.o, parts, taken, split, past)
        return m

    def _expect(self, m, intake, parts, now, before):
        """Derive what is accepted in this cycle, after ``before``."""
        lane, size, beat = self.config.lane_bits, self.config.beat_bytes, self.beat
        inside, pending, turn, message = ~before.last, Signal(), Signal(), Signal(MessageLayout)
        accepted, strobes, starts = self.valid & intake.beats.ready, Signal(size), Signal(size)
        m.d.comb += [
            turn.eq(pending & ~inside & self.bus_master), strobes.eq(Mux(turn, 0b1111, beat.strb)),
            starts.eq(strobes & ~Cat(before.top & ~before.cut, strobes[:-1])),
            now.valid.eq(accepted | turn & self.open), now.message.eq(turn), now.last.eq(turn | beat.last),
            now.data.eq(Cat(Mux(turn, message.data, beat.data[:32]), beat.data[32:])), now.some.eq(strobes.any()),
            now.top.eq(strobes[-1]),
        ]
        with m.If(turn | ~inside):
            m.d.comb += [
                now.address.eq(Mux(turn, message.address, Cat(Const(0, lane), beat.addr[lane:]))),
                now.payload.eq(MIN_PAYLOAD_BYTES << self.max_payload), now.denied.eq(~self.bus_master),
                now.id.eq(beat.id), now.flush.eq(beat.qos[FLUSH_BIT]),
                now.attributes.eq(Mux(turn, 0, tlp_attributes(beat))),
            ]
        with m.Else():
            m.d.comb += [
                now.address.eq(before.address + size),
                *(now[name].eq(before[name]) for name in ("payload", "denied", "id", "flush", "attributes")),
            ]
        ranges, chosen, beats = (Mux(before.cut, 0, before[name]) for name in ("ranges", "chosen", "beats"))
        here = (now.address[lane:BLOCK_BITS] == self.watched[lane:]) & strobes.bit_select(self.watched[:lane], 1)
        m.d.comb += [
            now.ranges.eq(Mux((starts & (starts - 1)).any() | (ranges == 2) | starts.any() & (ranges == 1), 2,
                              ranges | starts.any())),
            now.chosen.eq(chosen | here), now.beats.eq(beats + now.some),
            now.cut.eq(now.last | ((now.address + size) & (now.payload - 1) == 0)),
        ]
        with m.If(intake.messages.ready & self.posts):
            m.d.sync += [pending.eq(1), message.eq(self.message)]
        with m.Elif(now.valid & turn):
            m.d.sync += pending.eq(0)
        with m.If(self.discard):
            m.d.sync += pending.eq(0)
        kept = internal(parts, "message")
        m.d.comb += [
            Assume(~accepted | (beat.first == ~inside)),
            Assume(~accepted | beat.last | (now.address[lane:12] != PAGE_BYTES // size - 1)),
            Assert((internal(parts, "pending") == pending) & (internal(parts, "inside") == inside), Format("pending")),
            Assert(~pending | (kept == message.as_value()), Format("message")),
            Assert(before.last | (before.address[lane:12] != PAGE_BYTES // size - 1), Format("4 KiB")),
        ]

    def _assert_payload(self, m, splitter, beat):
        """Stored beats: those with a strobed byte of requests that are sent, in order."""
        payload, live = splitter.payload, beat.valid & ~beat.denied
        m.d.comb += [
            Assert(payload.push == (live & beat.some), Format("a beat is lost, or too many")),
            Assert(~payload.push | (payload.data == beat.data), Format("other data")),
            Assert(payload.commit == (live & beat.cut & (beat.ranges == 1)), Format("payload without a request")),
            Assert(payload.drop == (live & beat.cut & (beat.ranges == 2)), Format("payload of a refused request")),
        ]

    def _assert_headers(self, m, headers, beat):
        """Legal requests of the bytes up to ``beat``."""
        header, tlp, lanes = headers.headers.payload, headers.headers.payload.tlp, self.config.dword_lane_bits
        valid, position = headers.headers.valid, Signal(BLOCK_BITS - 2)
        first, last, several = tlp.first_be, tlp.last_be, tlp.dwords > 1
        burst = valid & ~beat.message
        # The watched byte: its DW from the start of the request on, which does not leave the block.
        m.d.comb += position.eq(self.watched[2:] - tlp.address)
        enables = Mux(position == 0, first, Mux(position == tlp.dwords - 1, last, 0b1111))
        inside = (self.watched[2:] >= tlp.address[:BLOCK_BITS - 2]) & (position < tlp.dwords)
        chosen = inside & enables.bit_select(self.watched[:2], 1)
        due = beat.valid & beat.cut & (beat.ranges == 1) & ~beat.denied
        for rule, holds in (
                ("the length", (tlp.dwords != 0) & (tlp.dwords << 2 <= beat.payload)),
                ("the first byte enables", Mux(several, _one_of(first, [0b1111, 0b1110, 0b1100, 0b1000]),
                                               _one_of(first, CONTIGUOUS))),
                ("the last byte enables", Mux(several, _one_of(last, [0b1111, 0b0111, 0b0011, 0b0001]), last == 0)),
                ("attributes", tlp.attributes == beat.attributes), ("message", header.message == beat.message)):
            m.d.comb += Assert(~valid | holds, Format(rule))
        for rule, holds in (
                ("a request crosses a multiple of the longest payload",
                 ((tlp.address << 2) & (beat.payload - 1)) + (tlp.dwords << 2) <= beat.payload),
                ("another block", tlp.address[BLOCK_BITS - 2:] == beat.address[BLOCK_BITS:]),
                ("bytes that were not strobed, or not all", chosen == beat.chosen),
                ("number of beats", header.beats == beat.beats),
                ("payload of another length", header.beats == (tlp.lane + tlp.dwords + (1 << lanes) - 1) >> lanes),
                ("position of the payload", tlp.lane == tlp.address[:lanes])):
            m.d.comb += Assert(~burst | holds, Format(rule))
        m.d.comb += [
            Assert(valid == due, Format("a request is lost, or one too many")),
            Assert(~(valid & beat.message) | (tlp.address == beat.address[2:]) & (tlp.dwords == 1) & (first == 0b1111)
                   & (tlp.lane == 0) & (header.beats == 1), Format("a message")),
        ]

    def _assert_bursts(self, m, splitter, headers, parts, beat):
        """The outcome of each burst."""
        burst, tlp = headers.bursts.payload, headers.headers.payload.tlp
        some, wrong, address, number = Signal(), Signal(), Signal(ADDR_WIDTH - 2), Signal(BURST_BITS)
        sends, refuses = headers.headers.valid, Signal()
        m.d.comb += refuses.eq(beat.valid & beat.cut & (beat.ranges == 2) & ~beat.denied)
        with m.If(beat.valid):
            m.d.sync += [some.eq(~beat.last & (some | sends)), wrong.eq(~beat.last & (wrong | refuses))]
        with m.If(sends):
            m.d.sync += address.eq(tlp.address)
        m.d.sync += number.eq(number + headers.bursts.valid)
        with m.If(self.discard):
            m.d.sync += [some.eq(0), wrong.eq(0), number.eq(0)]
        error = wrong | refuses
        for rule, holds in (
                ("ID or attributes", (burst.id == beat.id) & (burst.attributes == beat.attributes)),
                ("response", burst.resp.as_value() == Mux(
                    beat.denied, Resp.DECERR, Mux(error, Resp.SLVERR, Resp.OKAY))),
                ("flush", burst.flush == (beat.flush & ~error & (some | sends))),
                ("address of a flush", ~burst.flush | (burst.address == Mux(sends, tlp.address, address)))):
            m.d.comb += Assert(~headers.bursts.valid | holds, Format(rule))
        m.d.comb += [
            Assert(headers.bursts.valid == (beat.valid & beat.last & ~beat.message), Format("end of a burst")),
            Assert(~sends | (headers.headers.payload.burst == number), Format("number of the burst")),
            Assert(splitter.refused == refuses, Format("event of a refused request")),
            Assert((internal(parts, "some") == some) & (internal(parts, "wrong") == wrong), Format("some, wrong")),
            Assert(~some | (internal(parts, "address") == address), Format("last address")),
            Assert(internal(parts, "number") == number, Format("number")),
        ]

    def _assert_invariant(self, m, o, parts, taken, split, past):
        """The registers of the parts hold the beats that passed them."""
        lane, beat, block = self.config.lane_bits, o.payload, slice(self.config.lane_bits, BLOCK_BITS)
        live = taken.valid | ~taken.last
        m.d.comb += Assert(o.valid == taken.valid, Format("taken"))
        for name, holds in (
                ("address", Cat(beat.index, beat.page) == taken.address[lane:]), ("burst", Cat(
                    beat[name] == taken[name] for name in ("id", "denied", "flush", "attributes")).all()),
                ("offset", beat.offset == Mux(taken.message, taken.address[2:lane], 0)),
                ("mask", beat.mask == (taken.payload >> lane) - 1)):
            m.d.comb += Assert(~live | holds, Format(name))
        begun, joined, several = (internal(parts[1], name) for name in ("begun", "joined", "several"))
        m.d.comb += [
            Assert(begun == (~split.cut & (split.ranges != 0)), Format("begun")),
            Assert(joined == (~split.cut & split.top), Format("joined")),
            Assert(several == (~split.cut & (split.ranges == 2)), Format("several")),
        ]
        first, last = internal(parts[2], "first_before"), internal(parts[2], "last_before")
        m.d.comb += Assert(internal(parts[2], "begun") == (~past.cut & (past.ranges != 0)), Format("header begun"))
        for name, holds in (
                ("chosen", past.chosen == (self.watched >= first) & (self.watched <= last)),
                ("first", (first <= last) & (((first ^ past.address) & ~(past.payload - 1))[:BLOCK_BITS] == 0)),
                ("last", last[lane:] <= past.address[block]), ("top", ~past.top | (
                    last == Cat(Const(-1, lane), past.address[block]))),
                ("beats", past.beats == last[lane:] - first[lane:] + 1)):
            m.d.comb += Assert(past.cut | (past.ranges != 1) | holds, Format("header: {}", name))
        for stage in (taken, split, past):
            m.d.comb += [
                Assert(Cat(stage.payload == MIN_PAYLOAD_BYTES << size for size in range(4)).any(), Format("payload")),
                Assert(stage.message | (stage.address[:lane] == 0), Format("aligned")),
                Assert(~stage.message | stage.last, Format("message")),
                Assert(~stage.last | stage.cut, Format("cut at the end")),
                Assert(stage.cut | (((stage.address + self.config.beat_bytes) & (stage.payload - 1)) != 0),
                       Format("cut at multiples")),
                Assert((stage.ranges != 0) | ~stage.top & ~stage.chosen & (stage.beats == 0), Format("no range")),
                Assert(stage.ranges != 3, Format("ranges")),
            ]


def _one_of(value, values):
    return Cat(value == one for one in values).any()


@pytest.mark.parametrize("data_width", [128, 512])
def test_write_requests(data_width):
    prove(Requests(pcie(32, data_width=data_width)), name=f"pcie-writes-{data_width}", depth=3, mode="prove")
