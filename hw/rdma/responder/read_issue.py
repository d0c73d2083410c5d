# SPDX-License-Identifier: Apache-2.0
"""READ responses are read from memory, a packet of one queue pair after a packet of another.

ReadQueues -> ReadIssue -> memory, ReadResponses.  Latency: 5 cycles.  Throughput: one packet per 4 cycles, one burst
per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature

from ..config import ADDR_WIDTH, RdmaConfig
from ..layouts import read_layout
from ..protocol import PSN_WIDTH, Opcode
from .layouts import GENERATION_WIDTH, burst_bits, read_job_layout, read_packet_layout
from .order import reads_width
from .rows import RowRead, RowTable
from .states import StateRead

__all__ = ["ReadIssue"]


class ReadIssue(wiring.Component):
    """Serve a queue pair in four cycles: look up its state, the READ, and the region; then issue a packet.

    A packet is issued when the buffer of responses has free entries for the longest one. The region's generation is
    compared for each packet, so that a READ ends when its region changes.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    waiting : ``In(stream.Signature(qp))``, again : ``Out(stream.Signature(qp))``
    jobs : ``Out(RowRead)``, pushed : ``Out(RowRead)``, generations : ``Out(RowRead)``
    active : ``Out(StateRead)``
    reads : ``Out(stream.Signature(read_layout))``
        Bursts of full beats with ID 0.
    packets : ``Out(stream.Signature(read_packet_layout))``
    released : ``In(1)``
        A beat has left the buffer.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        qp = stream.Signature(unsigned(config.qp_bits))
        super().__init__({
            "init": In(SweepSignature(config)), "waiting": In(qp), "again": Out(qp),
            "jobs": Out(RowRead(read_job_layout(config), config.queue_pairs * config.reads)),
            "pushed": Out(RowRead(reads_width(config), config.queue_pairs)),
            "generations": Out(RowRead(GENERATION_WIDTH, config.regions)), "active": Out(StateRead(config)),
            "reads": Out(stream.Signature(read_layout(config))),
            "packets": Out(stream.Signature(read_packet_layout(config))), "released": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lane_bits
        row_layout = data.StructLayout({"head": reads_width(config), "started": 1, "address": ADDR_WIDTH,
                                        "length": 32, "psn": PSN_WIDTH})
        m.submodules.rows = rows = RowTable(config, row_layout, depth=config.queue_pairs)
        wiring.connect(m, wiring.flipped(self.init), rows.init)
        phase, start, qp, go = Signal(range(4)), Signal(), Signal(config.qp_bits), Signal()
        free = Signal(range(config.response_beats + 1), init=config.response_beats)
        row, new = rows.read[0].data, rows.write.data

        # -- Cycle 0: state.
        m.d.comb += [
            start.eq((phase == 0) & self.waiting.valid & (free > config.mtu_beats) & ~self.init.active),
            self.waiting.ready.eq(start),
            rows.read[0].addr.eq(self.waiting.payload), rows.read[0].en.eq(start),
            self.pushed.addr.eq(self.waiting.payload), self.pushed.en.eq(start), self.active.qp.eq(qp),
        ]
        with m.If(start):
            m.d.sync += [qp.eq(self.waiting.payload), phase.eq(1)]
        # -- Cycle 1: the READ.
        kept, more, void = Signal(row_layout, reset_less=True), Signal(), Signal()
        reads = Signal(reads_width(config))
        m.d.comb += [
            reads.eq(self.pushed.data - row.head), self.jobs.en.eq(phase == 1),
            self.jobs.addr.eq(Cat(row.head[:(config.reads - 1).bit_length()], qp)),
        ]
        with m.If(phase == 1):
            m.d.sync += [kept.eq(row), more.eq(reads != 1), void.eq(~self.active.bit),
                         phase.eq(Mux(reads == 0, 0, 2))]
        # -- Cycle 2: its next packet, and the region.
        job, now = self.jobs.data, Signal(read_job_layout(config), reset_less=True)
        mtu, final, size = Signal(config.mtu_bits + 1), Signal(), Signal(config.mtu_bits + 1, reset_less=True)
        ends = Signal(reset_less=True)
        todo = Signal(32)
        m.d.comb += [
            mtu.eq(256 << job.mtu), todo.eq(Mux(kept.started, kept.length, job.length)), final.eq(todo <= mtu),
            self.generations.addr.eq(job.region), self.generations.en.eq(phase == 2),
            self.again.valid.eq((phase == 2) & (more | ~final)), self.again.payload.eq(qp),
        ]
        with m.If(phase == 2):
            m.d.sync += [phase.eq(3), now.eq(job), size.eq(Mux(final, todo, mtu)), ends.eq(final),
                         now.address.eq(Mux(kept.started, kept.address, job.address)),
                         now.length.eq(todo), now.psn.eq(Mux(kept.started, kept.psn, job.psn))]
        # -- Cycle 3: issue.
        packet, last, beats = self.packets.payload, Signal(config.mtu_bits + 2), Signal(range(config.mtu_beats + 2))
        left, address, bursting, done = (Signal(range(config.mtu_beats + 1), reset_less=True),
                                         Signal(ADDR_WIDTH, reset_less=True), Signal(), Signal())
        length = Signal(8)
        m.d.comb += [
            last.eq(now.address[:lanes] + size - 1),
            packet.void.eq(now.void | void), packet.refused.eq((now.length != 0)
                                                               & (self.generations.data != now.generation)),
            beats.eq(Mux(packet.void | packet.refused | (size == 0), 0, (last >> lanes) + 1)),
            packet.qp.eq(qp), packet.psn.eq(now.psn), packet.msn.eq(now.msn), packet.length.eq(size),
            packet.lane.eq(now.address), packet.beats.eq(beats),
            packet.opcode.eq(Mux(
                kept.started, Mux(ends, Opcode.READ_LAST, Opcode.READ_MIDDLE),
                Mux(ends, Opcode.READ_ONLY, Opcode.READ_FIRST))),
            done.eq(ends | packet.void | packet.refused), packet.ends.eq(done),
            self.packets.valid.eq((phase == 3) & ~bursting), go.eq(self.packets.valid & self.packets.ready),
            rows.write.en.eq(go), rows.write.addr.eq(qp), new.head.eq(kept.head + done), new.started.eq(~done),
            new.address.eq(now.address + size), new.length.eq(now.length - size), new.psn.eq(now.psn + 1),
        ]
        m.d.sync += free.eq(free - Mux(go, beats, 0) + self.released)
        with m.If(go):
            m.d.sync += [phase.eq(0), left.eq(beats - 1), address.eq(now.address), bursting.eq(beats != 0)]

        # -- Bursts.
        limit = (~address[lanes:burst_bits(config)])[:burst_bits(config) - lanes]
        m.d.comb += [
            self.reads.valid.eq(bursting), self.reads.payload.addr.eq(address), self.reads.payload.len.eq(length),
            length.eq(Mux(left > limit, limit, left)),
        ]
        with m.If(bursting & self.reads.ready):
            m.d.sync += [bursting.eq(left > limit), left.eq(left - length - 1),
                         address.eq(Cat(C(0, lanes), address[lanes:] + length + 1))]
        return m
