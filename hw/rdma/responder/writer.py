# SPDX-License-Identifier: Apache-2.0
"""Writes to memory: payload is rotated to the byte lanes of its address, and cut into bursts.

RegionRecheck, RequestIntake, RecordWriter -> MemoryWriter -> memory, Completion.  Latency: 4 cycles.  Throughput: one
beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi.lanes import rotate_up
from hw.stream import Skid

from ..config import ADDR_WIDTH, RdmaConfig
from ..layouts import write_layout
from .layouts import burst_bits, flight_layout, payload_layout, verdict_layout

__all__ = ["MemoryWriter"]


class MemoryWriter(wiring.Component):
    """Write packets and records, one at a time, in bursts of full beats with ID 0.

    Each entry is passed on to ``flights`` before its first beat is written; entries without payload alone. The beats of
    a packet that is not written are dropped.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    entries : ``In(stream.Signature(verdict_layout)).array(2)``
        Of packets, and of records, which come first.
    payload : ``In(stream.Signature(payload_layout)).array(2)``
        For each of them, from lane 0.
    vacant : ``In(1)``
        There is a free entry for another packet in flight.
    writes : ``Out(stream.Signature(write_layout))``
    flights : ``Out(stream.Signature(flight_layout))``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "entries": In(stream.Signature(verdict_layout(config))).array(2),
            "payload": In(stream.Signature(payload_layout(config))).array(2), "vacant": In(1),
            "writes": Out(stream.Signature(write_layout(config))),
            "flights": Out(stream.Signature(flight_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes, block = self.config, self.config.lane_bits, burst_bits(self.config)
        packets, records = self.entries

        # -- The next entry: its geometry, in a register.
        width = len(Const(config.mtu_beats + 1))
        job = data.StructLayout({
            "record": 1, "payload": 1, "write": 1, "addr": ADDR_WIDTH, "end_lane": lanes, "left": width, "extra": 1})
        offered, now, busy, load = (Signal(job), Signal(job, reset_less=True), Signal(), Signal())
        verdict, take_packet, step, final = Signal(verdict_layout(config)), Signal(), Signal(), Signal()
        start, end, span = Signal(lanes), Signal(config.mtu_bits + 2), Signal(block + 2)
        length = verdict.entry.length[:config.mtu_bits + 1]
        m.d.comb += [
            take_packet.eq(~records.valid), verdict.eq(Mux(take_packet, packets.payload, records.payload)),
            start.eq(verdict.entry.address), end.eq(start + length - 1),
            span.eq(verdict.entry.address[:block] + length - 1),
            offered.record.eq(~take_packet), offered.payload.eq(verdict.payload), offered.write.eq(verdict.write),
            offered.addr.eq(verdict.entry.address), offered.end_lane.eq(end), offered.left.eq(end >> lanes),
            # Rotated payload has one beat more than its source if its last byte moves beyond the last beat.
            offered.extra.eq((end >> lanes) != ((length - 1) >> lanes)),
        ]
        flight = self.flights.payload
        m.d.comb += [
            load.eq((records.valid | (packets.valid & self.vacant)) & self.flights.ready & (~busy | (step & final))),
            packets.ready.eq(load & take_packet), records.ready.eq(load & ~take_packet),
            self.flights.valid.eq(load), flight.entry.eq(verdict.entry), flight.again.eq(~take_packet),
            flight.bursts.eq(Mux(verdict.write, (span >> block) + 1, 0)),
        ]
        with m.If(load):
            m.d.sync += [now.eq(offered), busy.eq(verdict.payload)]
        with m.Elif(step & final):
            m.d.sync += busy.eq(0)
        self._move(m, now, offered, busy, load, step, final)
        return m

    def _move(self, m, now, offered, busy, load, step, final):
        """One beat of the entry per step, through a register for the rotation and another for the merging."""
        config, lanes, count = self.config, self.config.lane_bits, self.config.beat_bytes
        block = burst_bits(config) - lanes
        m.submodules.output = output = Skid(write_layout(config))
        wiring.connect(m, output.o, wiring.flipped(self.writes))
        advance, turn = Signal(), Signal(lanes, reset_less=True)
        opposite = Signal(lanes, init=-1, reset_less=True)
        first, begins, rest, needs, beat = Signal(), Signal(), Signal(8), Signal(), Signal(payload_layout(config))
        number = Signal.like(rest)
        sources = self.payload
        last_beat = now.left == 0
        m.d.comb += [
            beat.eq(Mux(now.record, sources[1].payload, sources[0].payload)),
            needs.eq(~(last_beat & now.extra & ~first & now.write)),
            step.eq(busy & (~now.write | advance)
                    & (~needs | Mux(now.record, sources[1].valid, sources[0].valid))),
            final.eq(Mux(now.write, last_beat, beat.last)),
            sources[0].ready.eq(step & needs & ~now.record), sources[1].ready.eq(step & needs & now.record),
            # Beats of the burst after this one: up to the packet's end, or to the next multiple of the longest burst.
            begins.eq(first | (rest == 0)),
            number.eq(Mux(begins, _least(now.left, ~now.addr[lanes:lanes + block]), rest - 1)),
        ]
        with m.If(load):
            m.d.sync += [first.eq(1), turn.eq(offered.addr), opposite.eq(~offered.addr[:lanes])]
        with m.Elif(step):
            m.d.sync += first.eq(0)
        with m.If(step & ~load):
            m.d.sync += [now.left.eq(now.left - 1), now.addr.eq(Cat(C(0, lanes), now.addr[lanes:] + 1))]
        with m.If(step):
            m.d.sync += rest.eq(number)

        # -- Rotated.
        rotated = Signal(config.data_width, reset_less=True)
        kept, shown, strobes = Signal(write_layout(config), reset_less=True), Signal(), Signal(count)
        below, carry = Signal(count, reset_less=True), Signal(config.data_width, reset_less=True)
        start = Signal(count)
        m.d.comb += [
            advance.eq(~shown | output.i.ready),
            start.eq(Cat(lane < turn for lane in range(count))),
            strobes.eq(Cat(~(first & start[lane]) & ~(last_beat & (lane > now.end_lane)) for lane in range(count))),
        ]
        with m.If(advance):
            m.d.sync += [
                shown.eq(step & now.write), rotated.eq(rotate_up(beat.data, turn, opposite)), below.eq(start),
                kept.addr.eq(now.addr), kept.len.eq(number), kept.strb.eq(strobes), kept.first.eq(begins),
                kept.last.eq(number == 0),
            ]
        # -- Merged with the rest of the beat before.
        m.d.comb += [
            output.i.valid.eq(shown), output.i.payload.eq(kept),
            output.i.payload.data.eq(Cat(
                Mux(below[lane], carry.word_select(lane, 8), rotated.word_select(lane, 8)) for lane in range(count))),
        ]
        with m.If(shown & output.i.ready):
            m.d.sync += carry.eq(rotated)


def _least(one, other):
    return Mux(one < other, one, other)
