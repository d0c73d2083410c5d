# SPDX-License-Identifier: Apache-2.0
"""Frames of the packets to send: headers by the table of peers, payload moved behind them, ICRC.

TransmitMerge -> FrameBuilder -> MAC.

::

    cycle  0        1                 2           3             4          5           6
           packet   plan of the       headers,    payload       remainder  ICRC        beat
                    frame, its peer   masks       rotated                  (IcrcStage)

Latency: 6 cycles from a packet's first beat to the frame's first; 7 if payload begins in a higher lane than in the
frame.  Throughput: one beat of the frame per cycle, without cycles between frames, as long as the packet's beats keep
up.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiStreamSignature
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import transmit_layout
from hw.rdma.ports import ConnectionWrite, StationSettings
from hw.stream import Queue

from .frame_headers import HeaderVector, header_fields, headers, merged
from .frame_plan import HEADER_BYTES, plan_layout, planned
from .icrc_stage import IcrcStage, built_layout, framed_layout
from .lanes import below, by_lane, rotated, up_to
from .peer_table import PeerTable

__all__ = ["FrameBuilder"]

DEPTH = 16
"""Beats between the choice of a step and the MAC: the pipeline and the queue behind it."""


class FrameBuilder(wiring.Component):
    """Build the frame of each packet, without its preamble and FCS.

    IPv4 headers have no options, identification 0, and forbid fragments; the flow label of IPv6 is 0. The checksum of
    UDP is 0 in both (IBTA 1.6, A17.4.5.1). Addresses are those with which the queue pair was opened, at least
    ``OPEN_CYCLES`` before. The MAC gets all beats of a frame without interruption if ``packets`` has them so.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    packets : ``In(stream.Signature(transmit_layout(config)))``
        ``ready`` depends on registers only.
    connections : ``In(ConnectionWrite)``, station : ``In(StationSettings)``
    o : ``Out(AxiStreamSignature)``
        Registered, except for ``tkeep``, which is a level behind. ``tuser`` is 0.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "packets": In(stream.Signature(transmit_layout(config))), "connections": In(ConnectionWrite(config)),
            "station": In(StationSettings()), "o": Out(AxiStreamSignature(data_width=config.data_width)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self._packet = data.StructLayout({"fields": header_fields(), "plan": plan_layout(config), "ipv6": 1, "vlan": 1})
        self._step = data.StructLayout({
            "emits": 1, "data": config.data_width, "rotation": config.lane_bits,
            "upper": config.beat_bytes, "payload": config.beat_bytes, "first": 1, "ends": 1, "more": 1, "last": 1,
            "icrc_word": config.lane_bits - 2, "last_word": config.lane_bits - 2})
        beat, packet, peer = self._look_up(m)
        step, valid, vector = self._choose(m, beat, packet, peer)
        built, built_valid = self._move(m, step, valid, vector)
        self._send(m, built, built_valid)
        return m

    def _look_up(self, m):
        """Cycle 0: the next beat; with the first of a packet, its plan and its peer."""
        offered = self.packets.payload
        m.submodules.peers = peers = PeerTable(self.config)
        self._taken, self._valid = Signal(), Signal()
        beat = Signal(data.StructLayout({"data": self.config.data_width, "last": 1}), reset_less=True)
        packet, load = Signal(self._packet, reset_less=True), Signal()
        m.d.comb += [
            self.packets.ready.eq(~self._valid | self._taken), load.eq(self.packets.valid & self.packets.ready),
            peers.qp.eq(offered.header.qp), peers.read.eq(load & offered.first),
        ]
        wiring.connect(m, wiring.flipped(self.connections), peers.connections)
        wiring.connect(m, wiring.flipped(self.station), peers.station)
        plan = planned(m, self.config, offered.header, ipv6=peers.ipv6, vlan=peers.vlan)
        fields = merged(m, offered.header)
        with m.If(self.packets.ready):
            m.d.sync += [self._valid.eq(self.packets.valid), beat.data.eq(offered.data), beat.last.eq(offered.last)]
        with m.If(load & offered.first):
            m.d.sync += [packet.fields.eq(fields), packet.plan.eq(plan), packet.ipv6.eq(peers.ipv6),
                         packet.vlan.eq(peers.vlan)]
        return beat, packet, peers.peer

    def _choose(self, m, beat, packet, peer):
        """Cycle 1: the next step, which emits a beat of the frame, takes one of payload, or both."""
        lanes = self.config.beat_bytes
        self._free, self._issued = Signal(init=1), Signal()
        plan = packet.plan
        now, held = Signal(plan_layout(self.config)), Signal(plan_layout(self.config), reset_less=True)
        inside, emitted, drained, emits, takes, go, last = (Signal(name=name) for name in (
            "inside", "emitted", "drained", "emits", "takes", "go", "last"))
        left, waits = Signal.like(plan.beats), Signal.like(plan.waits)
        left_now, waits_now = Signal.like(left), Signal.like(waits)
        m.d.comb += [
            now.eq(Mux(inside, held, plan)), left_now.eq(Mux(inside, left, plan.beats)),
            waits_now.eq(Mux(inside, waits, plan.waits)), emits.eq(inside | ~plan.lags),
            takes.eq((waits_now == 0) & ~(inside & drained)), last.eq(emits & (left_now == 0)),
            go.eq(self._free & (self._valid | inside & ~takes)), self._taken.eq(go & takes),
            self._issued.eq(go & emits),
        ]
        with m.If(go):
            m.d.sync += [inside.eq(~last), left.eq(left_now - emits), waits.eq(waits_now - (waits_now != 0)),
                         drained.eq(takes & beat.last | inside & drained), held.eq(now), emitted.eq(emits & ~last)]

        step, valid, vector = Signal(self._step, reset_less=True), Signal(), Signal(HeaderVector, reset_less=True)
        behind, partial = Signal(), Signal()
        m.d.comb += [partial.eq(left_now == now.ends_early), behind.eq(now.ends_early & (left_now == 0))]
        word = (now.icrc_word + 1)[:len(now.icrc_word)]
        m.d.sync += [
            valid.eq(go), step.emits.eq(emits), step.data.eq(beat.data),
            step.rotation.eq(now.rotation), step.upper.eq(up_to(~now.rotation, lanes)[::-1]),
            step.payload.eq(Mux(partial, below(now.end_lane, lanes), Mux(behind, 0, -1))), step.first.eq(~emitted),
            step.ends.eq(left_now == now.straddles), step.more.eq(now.straddles & (left_now == 0)), step.last.eq(last),
            step.icrc_word.eq(now.icrc_word), step.last_word.eq(word),
        ]

        # The headers' beats follow one another; an empty step keeps them.
        loaded = headers(m, packet.fields, plan, peer, self.station, ipv6=packet.ipv6, vlan=packet.vlan)
        with m.If(go & ~inside):
            m.d.sync += vector.eq(loaded)
        with m.Elif(go & emitted):
            m.d.sync += [vector.sent.eq(vector.sent >> 8 * lanes), vector.covered.eq(vector.covered >> 8 * lanes),
                         vector.used.eq(vector.used >> lanes)]
        return step, valid, vector

    def _move(self, m, step, valid, vector):
        """Cycle 2: payload in its lanes, from this beat and the one before, behind the headers."""
        built, built_valid = Signal(built_layout(self.config), reset_less=True), Signal()
        before = Signal(self.config.data_width, reset_less=True)
        moved = rotated(m, step.data, step.rotation, unit=8)
        with m.If(valid):
            m.d.sync += before.eq(moved)
        payload = by_lane(m, step.payload, by_lane(m, step.upper, moved, before))
        lanes = min(self.config.beat_bytes, HEADER_BYTES)
        used, bits = Cat(vector.used[:lanes], C(0, self.config.beat_bytes - lanes)), 8 * lanes
        m.d.sync += [built.data.eq(by_lane(m, used, vector.sent[:bits], payload)),
                     built.covered.eq(by_lane(m, used, vector.covered[:bits], payload))]
        m.d.sync += [built_valid.eq(valid & step.emits), *(
            built[name].eq(step[name]) for name in ("first", "ends", "more", "last", "icrc_word", "last_word"))]
        return built, built_valid

    def _send(self, m, built, built_valid):
        """Cycles 3 to 5: the ICRC. No stage stalls: a step is chosen only if the queue has an entry for its beat."""
        words = self.config.beat_bytes // 4
        m.submodules.icrc = icrc = IcrcStage(self.config)
        m.submodules.frames = frames = Queue(framed_layout(self.config), depth=DEPTH, output_register=True)
        beat = frames.o.payload
        full = up_to(beat.last_word, words) | ~beat.last.replicate(words)
        m.d.comb += [
            icrc.i.eq(built), icrc.valid.eq(built_valid),
            frames.i.payload.eq(icrc.o), frames.i.valid.eq(icrc.o_valid),
            self.o.tdata.eq(beat.data), self.o.tlast.eq(beat.last), self.o.tuser.eq(0),
            self.o.tvalid.eq(frames.o.valid), frames.o.ready.eq(self.o.tready),
            self.o.tkeep.eq(Cat(Cat(full[word].replicate(2), (full[word + 1] if word + 1 < words else ~beat.last)
                                    .replicate(2)) for word in range(words))),
        ]
        used, leaves = Signal(range(DEPTH + 1)), Signal()
        m.d.comb += leaves.eq(self.o.tvalid & self.o.tready)
        m.d.sync += [used.eq(used + self._issued - leaves), self._free.eq(used + self._issued < DEPTH)]
