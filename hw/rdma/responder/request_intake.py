# SPDX-License-Identifier: Apache-2.0
"""Received requests are separated into headers and payload; queue pairs open between them.

dispatch, registers -> RequestIntake -> AccessCheck, MemoryWriter.  Latency: 1 cycle.  Throughput: one beat per
cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.stream import Queue, Skid

from ..config import RdmaConfig
from ..layouts import receive_layout
from ..ports import ConnectionWrite
from .layouts import op_layout, payload_layout

__all__ = ["RequestIntake"]

PAYLOAD_BEATS = 32
"""More than the beats that arrive while the checks of a packet last."""


class RequestIntake(wiring.Component):
    """Split packets, and insert a queue pair's opening in front of all packets that arrive after it.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        Nothing is accepted during the sweep.
    requests : ``In(stream.Signature(receive_layout))``
    connections : ``In(ConnectionWrite)``
    ops : ``Out(stream.Signature(op_layout))``
    payload : ``Out(stream.Signature(payload_layout))``
        Of the packets with a length other than 0.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "requests": In(stream.Signature(receive_layout(config))),
            "connections": In(ConnectionWrite(config)), "ops": Out(stream.Signature(op_layout(config))),
            "payload": Out(stream.Signature(payload_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beat, header = self.requests.payload, self.requests.payload.header
        m.submodules.openings = openings = Queue(config.qp_bits, depth=config.queue_pairs, empty_bypass=True)
        m.submodules.ops = ops = Skid(op_layout(config))
        m.submodules.beats = beats = Queue(payload_layout(config), depth=PAYLOAD_BEATS, ram="lut")
        wiring.connect(m, ops.o, wiring.flipped(self.ops))
        wiring.connect(m, beats.o, wiring.flipped(self.payload))
        opens, empty, held, go = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            openings.i.valid.eq(self.connections.valid & self.connections.entry.open),
            openings.i.payload.eq(self.connections.qp),
            opens.eq(openings.o.valid & ~self.init.active), openings.o.ready.eq(opens & ops.i.ready),
            empty.eq(Mux(beat.first, header.length == 0, held)),
            go.eq(self.requests.valid & ~self.init.active & beats.i.ready & (~beat.first | (ops.i.ready & ~opens))),
            self.requests.ready.eq(go),
            ops.i.valid.eq(opens | (go & beat.first)),
            ops.i.payload.open.eq(opens), ops.i.payload.qp.eq(Mux(opens, openings.o.payload, header.qp)),
            ops.i.payload.value.eq(header.imm),
            *(ops.i.payload[name].eq(header[name])
              for name in ("opcode", "ackreq", "psn", "va", "rkey", "dma_length", "length")),
            beats.i.valid.eq(go & ~empty), beats.i.payload.data.eq(beat.data), beats.i.payload.last.eq(beat.last),
        ]
        with m.If(go):
            m.d.sync += held.eq(empty)
        return m
