# SPDX-License-Identifier: Apache-2.0
"""The packer of completions: double words into packets on CC.

RegisterAccess -> CompletionPacker -> cc.  Latency: 2 cycles from a packet's last double word.  Throughput: one double
word per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import CommitQueue, Skid

from ..config import PcieConfig
from ..pins import PacketSignature, cc_user_layout
from .layouts import PayloadDword

__all__ = ["CompletionPacker"]

PACKET_DWORDS = 3 + 32
"""The longest packet: a descriptor and the payload between two read completion boundaries."""


class CompletionPacker(wiring.Component):
    """Send each packet once it is complete, without a gap between its beats.

    A packet that is started again (``first``) before its end is dropped.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    i : ``In(stream.Signature(PayloadDword))``
    cc : ``Out(PacketSignature)``
        Registered.
    idle : ``Out(1)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(PayloadDword)),
            "cc": Out(PacketSignature(config.data_width, cc_user_layout(config.data_width))), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        width, lanes, user = self.config.data_width, self.config.beat_dwords, cc_user_layout(self.config.data_width)
        beats = -(-PACKET_DWORDS // lanes)
        m.submodules.beats = queue = CommitQueue(data.StructLayout({
            "data": width, "end": range(lanes), "first": 1, "last": 1}), depth=1 << beats.bit_length(), ram="lut")
        m.submodules.output = output = Skid(data.StructLayout({
            "data": width, "keep": lanes, "last": 1, "user": user}))

        item, lane, position = self.i.payload, Signal(range(lanes)), Signal(range(lanes))
        partial = Signal(width, reset_less=True)
        opening, within = Signal(), Signal()        # no beat of this packet is queued yet; a packet is unfinished
        complete, transfer = Signal(), Signal()
        m.d.comb += [
            position.eq(Mux(item.first, 0, lane)), complete.eq(item.last | (position == lanes - 1)),
            self.i.ready.eq(queue.i.ready), transfer.eq(self.i.valid & self.i.ready),
            queue.i.valid.eq(self.i.valid & complete), queue.first.eq(opening | item.first), queue.commit.eq(item.last),
            queue.i.payload.end.eq(position), queue.i.payload.last.eq(item.last), queue.i.payload.first.eq(queue.first),
        ]
        for number in range(lanes):
            part, mine = slice(32 * number, 32 * number + 32), position == number
            m.d.comb += queue.i.payload.data[part].eq(Mux(mine, item.data, partial[part]))
            with m.If(transfer & mine):
                m.d.sync += partial[part].eq(item.data)
        with m.If(transfer):
            m.d.sync += [lane.eq(Mux(complete, 0, position + 1)), opening.eq(queue.first & ~complete),
                         within.eq(~item.last)]

        beat, packed = queue.o.payload, data.View(user, output.i.payload.user.as_value())
        m.d.comb += [
            output.i.valid.eq(queue.o.valid), queue.o.ready.eq(output.i.ready),
            output.i.payload.data.eq(beat.data), output.i.payload.last.eq(beat.last),
            *(output.i.payload.keep[number].eq(~beat.last | (beat.end >= number)) for number in range(lanes)),
        ]
        if width == 512:
            m.d.comb += [packed.starts.eq(beat.first), packed.ends.eq(beat.last), packed.end_0.eq(beat.end)]

        cc = self.cc
        m.d.comb += [
            cc.tdata.eq(output.o.payload.data), cc.tkeep.eq(output.o.payload.keep), cc.tlast.eq(output.o.payload.last),
            cc.tuser.eq(output.o.payload.user), cc.tvalid.eq(output.o.valid), output.o.ready.eq(cc.tready),
            self.idle.eq(~(within | queue.o.valid | output.o.valid)),
        ]
        return m
