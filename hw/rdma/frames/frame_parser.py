# SPDX-License-Identifier: Apache-2.0
"""Received frames: RoCEv2 to this station is checked and becomes packets, all others are passed on.

MAC -> FrameParser -> ReceiveDispatch; ``other``.

::

    cycle  0                1                   2                   3             4            5         6
           beat: kind of    fields; beat as     checks; remainder   remainder of  ICRC and     packet    packet
           frame, length    ICRC covers it      of the beat;        all; last     checks:      without   with
                                                payload to lane 0   payload beat  keep, drop   payload   payload

Latency: 6 cycles from a frame's last beat to its packet, 5 if it has no payload; 4 to the first beat on ``other``.
Throughput: one beat per cycle, one frame per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiStreamSignature
from hw.common.carry_save import carry_save
from hw.common.crc import CRC_WIDTH, crc32, remainder, shift, shifted
from hw.common.delay import delayed
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import receive_header_layout, receive_layout
from hw.rdma.ports import StationSettings
from hw.rdma.protocol import ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, IPV4_BYTES, IPV6_BYTES, UDP_BYTES

from .frame_plan import BARE_HEADERS, HEADER_BYTES
from .lanes import below, by_lane, number_of, rotated, up_to
from .other_frames import OtherFrames
from .packet_buffer import PacketBuffer
from .received_fields import LENGTH_AT, MASKED, FrameFields, fields_layout, ip_at, udp_at

__all__ = ["FrameCounts", "FrameParser"]

FRAME_BITS = 17
"""Bits of the number of a byte in a frame: a beat beyond them counts as the last one."""

_TYPE_AT, _TAGGED_TYPE_AT = 12, 16

_RESIDUE = crc32(crc32(b"").to_bytes(4, "little")) ^ (1 << CRC_WIDTH) - 1
"""Remainder of a message that ends with its CRC."""


class FrameCounts(wiring.Signature):
    """Event strobes of FrameParser, from registers.

    Members
    -------
    good
        A packet was received.
    icrc, malformed
        A frame was dropped: its ICRC is wrong; its headers or lengths are, or the MAC marked it as corrupt.
    dropped
        A good packet was dropped, as the buffer was full.
    marked
        A packet was received that met congestion.
    passed, lost
        A frame of other traffic was passed on; it was dropped, as its buffer was full.
    """

    def __init__(self) -> None:
        super().__init__({name: Out(1) for name in (
            "good", "icrc", "malformed", "dropped", "marked", "passed", "lost")})


class FrameParser(wiring.Component):
    """Check frames and remove their headers.

    RoCEv2 to this station is a frame to its MAC address, with at most one VLAN tag, IPv4 without options and not a
    fragment, or IPv6 without extension headers, to its IP address and UDP port 4791. It is a packet if the checksum of
    IPv4, the lengths of IP, UDP and payload, BTH's version, P_Key and pad count, the opcode and the ICRC are right.
    UDP's checksum is ignored, since the ICRC covers more, and so are bytes behind the IP packet.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    i : ``In(AxiStreamSignature)``
        ``tready`` is always 1.
    station : ``In(StationSettings)``
    received : ``Out(stream.Signature(receive_layout(config)))``
        ``header.qp`` is 0.
    other : ``Out(AxiStreamSignature)``
        All frames that are not RoCEv2 to this station and that the MAC has not marked as corrupt, unchanged.
    counts : ``Out(FrameCounts())``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(AxiStreamSignature(data_width=config.data_width)), "station": In(StationSettings()),
            "received": Out(stream.Signature(receive_layout(config))),
            "other": Out(AxiStreamSignature(data_width=config.data_width)), "counts": Out(FrameCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        self._beat = data.StructLayout({
            "data": self.config.data_width, "number": FRAME_BITS - self.config.lane_bits,
            "last_lane": self.config.lane_bits, "first": 1, "last": 1, "bad": 1, "ipv6": 1, "vlan": 1, "ip": 1,
            "finish": FRAME_BITS, "length": 16, "length_known": 1})
        beat, valid, window = self._capture(m)
        fields = FrameFields(window, ipv6=beat.ipv6, vlan=beat.vlan).decode(m, self.station)
        self._decode(m, beat, valid, fields)
        self._classify(m)
        self._move_payload(m)
        self._judge(m)
        return m

    def _at(self, byte):
        """Number of the beat that contains a byte of the frame, and the byte's lane."""
        return divmod(byte, self.config.beat_bytes)

    def _here(self, beat_number, byte, count=2):
        """The number of ``count`` bytes from ``byte`` on, and whether it is in the beat on ``i``."""
        number, lane = self._at(byte)
        return number_of(self.i.tdata, lane, count), beat_number == number

    def _capture(self, m):
        """Cycle 0: kind of the frame, and the number of the last byte of the IP packet."""
        size, i = self.config.beat_bytes, self.i
        number, fresh = Signal(FRAME_BITS - self.config.lane_bits), Signal(init=1)
        beat, valid = Signal(self._beat, reset_less=True), Signal()
        kind, tagged_kind = Signal(data.StructLayout({"vlan": 1, "ipv4": 1, "ipv6": 1})), Signal(2)
        held, held_tagged = Signal.like(kind, reset_less=True), Signal(2, reset_less=True)
        ipv4, ipv6, length, finish = Signal(), Signal(), Signal(16), Signal(FRAME_BITS)
        ethertype, here = self._here(number, _TYPE_AT)
        tagged, tagged_here = self._here(number, _TAGGED_TYPE_AT)
        m.d.comb += [
            i.tready.eq(1),
            Value.cast(kind).eq(Mux(here, Cat(ethertype == one for one in (
                ETHERTYPE_VLAN, ETHERTYPE_IPV4, ETHERTYPE_IPV6)), held)),
            tagged_kind.eq(Mux(tagged_here, Cat(tagged == ETHERTYPE_IPV4, tagged == ETHERTYPE_IPV6), held_tagged)),
            Cat(ipv4, ipv6).eq(Mux(kind.vlan, tagged_kind, Cat(kind.ipv4, kind.ipv6))),
        ]
        lengths = [[ip_at(vlan) + LENGTH_AT[six] for vlan in (1, 0)] for six in (1, 0)]
        known = number == self._at(lengths[0][0])[0]
        ends = [[ip_at(vlan) + (IPV6_BYTES if six else 0) - 1 for vlan in (1, 0)] for six in (1, 0)]
        m.d.comb += [
            length.eq(Mux(ipv6, *(Mux(kind.vlan, *(self._here(number, at)[0] for at in some)) for some in lengths))),
            finish.eq(length + Mux(ipv6, *(Mux(kind.vlan, *some) for some in ends))),
        ]
        top = i.tkeep & ~(i.tkeep >> 1)
        m.d.sync += valid.eq(i.tvalid)
        window = Signal(8 * size * (-(-HEADER_BYTES // size)), reset_less=True)
        with m.If(i.tvalid):
            m.d.sync += [
                held.eq(kind), held_tagged.eq(tagged_kind), fresh.eq(i.tlast),
                number.eq(Mux(i.tlast, 0, number + ~number.all())),
                beat.data.eq(i.tdata), beat.number.eq(number), beat.first.eq(fresh), beat.last.eq(i.tlast),
                beat.bad.eq(i.tuser), beat.ipv6.eq(ipv6), beat.vlan.eq(kind.vlan), beat.ip.eq(ipv4 | ipv6),
                beat.last_lane.eq(Mux(i.tlast, Cat(Cat(top[lane] for lane in range(size) if lane >> bit & 1).any()
                                                   for bit in range(self.config.lane_bits)), -1)),
                beat.length_known.eq(number >= self._at(lengths[0][0])[0]),
            ]
            with m.If(known):
                m.d.sync += [beat.length.eq(length), beat.finish.eq(finish)]
            for index in range(len(window) // (8 * size)):
                with m.If(number == index):
                    m.d.sync += window[8 * size * index:8 * size * (index + 1)].eq(i.tdata)
        return beat, valid, window

    def _decode(self, m, beat, valid, fields):
        """Cycle 1: the beat as the ICRC covers it; the fields; lengths compared."""
        config, size = self.config, self.config.beat_bytes
        finish_number, finish_lane = beat.finish[config.lane_bits:], beat.finish[:config.lane_bits]
        inside, partial = Signal(), Signal()
        m.d.comb += [inside.eq(~beat.length_known | (beat.number <= finish_number)),
                     partial.eq(beat.length_known & (beat.number == finish_number))]
        ones, nibbles, zeros = (Signal(size, name=name) for name in ("ones", "nibbles", "zeros"))
        with m.Switch(Cat(beat.vlan, beat.ipv6)):
            for case in range(4):
                with m.Case(case):
                    self._mask(m, beat, case >> 1, case & 1, ones, nibbles, zeros)
        used = Mux(partial, up_to(finish_lane, size), inside.replicate(size)) & ~zeros
        covered, forced = Signal(config.data_width), Signal(config.data_width)
        m.d.comb += [forced.eq(Cat(Cat((one | nibble).replicate(4), one.replicate(4))
                                   for one, nibble in zip(ones, nibbles, strict=True))),
                     covered.eq(by_lane(m, used, beat.data | forced))]

        checked = data.StructLayout({
            "data": config.data_width, "covered": config.data_width, "number": len(beat.number),
            "last_lane": config.lane_bits, "first": 1, "last": 1, "bad": 1, "ipv6": 1, "inside": 1,
            "icrc_word": config.lane_bits - 2, "reaches_udp": 1, "whole": 1, "aligned": 1, "same": 1, "ip": 1,
            "body": signed(18)})
        self._checked, self._valid = Signal(checked, reset_less=True), Signal()
        self._fields = Signal(fields_layout(), reset_less=True)
        position, udp_length = Cat(beat.last_lane, beat.number), Signal(signed(18), name="udp_length")
        least = Mux(beat.ipv6, *(Mux(beat.vlan, *(udp_at(six, vlan) + UDP_BYTES - 1 for vlan in (1, 0)))
                                 for six in (1, 0)))
        m.d.comb += udp_length.eq(beat.length - Mux(beat.ipv6, 0, IPV4_BYTES))
        out = self._checked
        m.d.sync += [
            self._valid.eq(valid), self._fields.eq(fields), out.covered.eq(covered), out.inside.eq(inside),
            *(out[name].eq(beat[name]) for name in (
                "data", "number", "last_lane", "first", "last", "bad", "ipv6", "ip")),
            out.icrc_word.eq(finish_lane[2:]), out.reaches_udp.eq(position >= least),
            out.whole.eq((position >= beat.finish) & beat.length_known), out.aligned.eq(beat.length[:2] == 0),
            out.same.eq(fields.udp_length == udp_length),
            out.body.eq(beat.length - (Mux(beat.ipv6, 0, IPV4_BYTES) + 4 * BARE_HEADERS)
                        - Cat(C(0, 2), fields.extension)),
        ]

    def _mask(self, m, beat, ipv6, vlan, ones, nibbles, zeros):
        """Bytes of the headers that count as ones or zeros in the ICRC; see frame_headers.py."""
        start, udp = ip_at(vlan), udp_at(ipv6, vlan)
        masked = {*range(start - 4, start), *(start + at for at in MASKED[ipv6]), udp + 6, udp + 7, udp + UDP_BYTES + 4}
        for number in range(self._at(max(masked))[0] + 1):
            at = number * self.config.beat_bytes
            masks = [sum(1 << byte - at for byte in some if self._at(byte)[0] == number) for some in (
                masked, {start} if ipv6 else (), range(start - 4))]
            with m.If(beat.number == number):
                m.d.comb += [mask.eq(value) for mask, value in zip((ones, nibbles, zeros), masks, strict=True)]

    def _classify(self, m):
        """Cycle 2: RoCEv2 to this station or not; checks of lengths, and half of IPv4's checksum."""
        config, beat, fields = self.config, self._checked, self._fields
        self._rows, self._ours, self._right = Signal(range(config.mtu_beats + 1)), Signal(), Signal()
        payload, sensible = Signal(signed(18)), Signal()
        m.d.comb += [
            self._ours.eq(beat.ip & fields.mine & fields.routed & fields.aimed & beat.reaches_udp),
            payload.eq(beat.body - fields.pad),
            sensible.eq(~payload[-1] & (payload <= config.max_mtu) & ~(fields.bare & beat.body.any())),
            self._rows.eq(Mux(~beat.body[-1] & (beat.body <= config.max_mtu),
                              (beat.body + (config.beat_bytes - 1)) >> config.lane_bits, 0)),
            self._right.eq(sensible & beat.whole & beat.aligned & beat.same & fields.sound),
        ]
        header = Signal(receive_header_layout(config), reset_less=True)
        m.d.sync += [*(header[name].eq(fields[name]) for name, _ in fields_layout() if name in dict(
            receive_header_layout(config))), header.length.eq(payload), header.qp.eq(0)]
        self._header = delayed(m, header, 1, name="header")

        m.submodules.frames = other = OtherFrames(config)
        keep = ~self._ours & ~beat.bad
        wiring.connect(m, other.o, wiring.flipped(self.other))
        m.d.comb += [
            other.valid.eq(self._valid), other.keep.eq(keep),
            *(getattr(other, name).eq(beat[name]) for name in ("data", "last_lane", "first", "last")),
        ]
        ends = self._valid & beat.last & keep
        m.d.sync += [self.counts.passed.eq(ends & other.fits), self.counts.lost.eq(ends & ~other.fits)]

    def _move_payload(self, m):
        """Cycle 2: payload from this beat and the one before. Its last beat follows the frame's last beat."""
        config, beat, fields, words = self.config, self._checked, self._fields, self.config.lane_bits - 2
        before, row, split = Signal(config.data_width, reset_less=True), Signal(config.data_width), Signal(
            config.beat_bytes)
        offset, last_number = fields.header_words[:words], fields.header_words[words:]
        moved = rotated(m, beat.data.rotate_right(16), offset, unit=32, right=True)
        m.d.comb += split.eq(below(~Cat(C(1, 2), offset), config.beat_bytes))
        flush, left, emits = Signal(), Signal(range(config.mtu_beats + 1)), Signal()
        m.d.sync += flush.eq(self._valid & beat.last)
        with m.If(self._valid):
            m.d.sync += before.eq(moved)
        m.d.comb += row.eq(by_lane(m, split | flush.replicate(config.beat_bytes), before, moved))
        begins = Signal()
        self._row, self._row_valid, self._row_last = Signal(config.data_width, reset_less=True), Signal(), Signal()
        m.d.comb += [begins.eq(beat.number <= last_number), emits.eq(flush | (self._valid & ~begins))]
        with m.If(self._valid & begins):
            m.d.sync += left.eq(self._rows)
        with m.Elif(emits & (left != 0)):
            m.d.sync += left.eq(left - 1)
        m.submodules.buffer = self._buffer = buffer = PacketBuffer(config)
        m.d.sync += [self._row.eq(row), self._row_valid.eq(emits & (left != 0)), self._row_last.eq(left == 1)]
        m.d.comb += [buffer.valid.eq(self._row_valid), buffer.data.eq(self._row), buffer.last.eq(self._row_last)]
        wiring.connect(m, buffer.o, wiring.flipped(self.received))

    def _judge(self, m):
        """Cycles 2 to 4: ICRC and checksum, and the verdict."""
        config, beat, fields = self.config, self._checked, self._fields
        summand, register, total = Signal(CRC_WIDTH, reset_less=True), Signal(CRC_WIDTH, reset_less=True), \
            Signal(CRC_WIDTH)
        m.d.sync += summand.eq(remainder(m, beat.covered))
        state = data.StructLayout({"first": 1, "last": 1, "bad": 1, "ipv6": 1, "inside": 1, "ours": 1, "right": 1,
                                   "icrc_word": config.lane_bits - 2})
        now, later, later_valid = Signal(state), Signal(state, reset_less=True), Signal()
        m.d.comb += [*(now[name].eq(beat[name]) for name in ("first", "last", "bad", "ipv6", "inside", "icrc_word")),
                     now.ours.eq(self._ours), now.right.eq(self._right)]
        m.d.sync += [later.eq(now), later_valid.eq(self._valid)]

        # IPv4's checksum: all words of the header add up to ones.
        one, two = carry_save(*fields.sums[:3])
        three, four = carry_save(one, two, fields.sums[3])
        five, six = carry_save(three, four, fields.sums[4])
        words = Signal(20, reset_less=True)
        m.d.sync += words.eq(five + six)
        intact = later.ipv6 | (~words[:16] == words[16:])

        m.d.comb += total.eq(Mux(later.first, 0, shifted(m, register, config.data_width)) ^ summand)
        with m.If(later_valid & later.inside):
            m.d.sync += register.eq(total)
        expected = Signal(CRC_WIDTH, reset_less=True)
        end, ours, right, bad = (Signal(name=name) for name in ("end", "ours", "right", "bad"))
        with m.Switch(later.icrc_word):
            for word in range(config.beat_bytes // 4):
                with m.Case(word):
                    m.d.sync += expected.eq(shift(_RESIDUE, config.data_width - 32 * word - 16))
        m.d.sync += [end.eq(later_valid & later.last), ours.eq(later.ours & ~later.bad),
                     right.eq(later.right & intact), bad.eq(later.bad)]

        matches, buffer, counts = Signal(), self._buffer, self.counts
        m.d.comb += [
            matches.eq(register == expected), buffer.end.eq(end), buffer.header.eq(self._header),
            buffer.keep.eq(ours & right & matches),
        ]
        good = end & buffer.keep
        m.d.sync += [
            counts.good.eq(good & buffer.fits), counts.dropped.eq(good & ~buffer.fits),
            counts.marked.eq(good & buffer.fits & self._header.ce),
            counts.malformed.eq(end & (bad | ours & ~right)), counts.icrc.eq(end & ours & right & ~matches),
        ]
