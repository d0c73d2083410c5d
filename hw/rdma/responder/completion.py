# SPDX-License-Identifier: Apache-2.0
"""Requests in flight complete in order: when memory has responded to their writes, and their records are written.

MemoryWriter, memory -> Completion -> Progress, RecordWriter.  Latency: 2 cycles from a response.  Throughput: one
request per 3 cycles, of which Progress takes 2.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.stream import Queue

from ..config import RdmaConfig
from ..layouts import response_layout
from ..ports import MarkSignature
from ..protocol import Nak
from .layouts import Kind, entry_layout, flight_layout
from .order import nak
from .rows import RowTable

__all__ = ["Completion"]


class Completion(wiring.Component):
    """Keep the order of requests. Those of a queue pair with a record to be written, or behind such a one, pass memory
    twice: as entries of ``records``, they return in ``flights`` behind the record.

    The first error of a queue pair becomes a NAK; what follows it is void.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    flights : ``In(stream.Signature(flight_layout))``
    vacant : ``Out(1)``
        Fewer than ``writes`` requests are incomplete.
    responses : ``In(stream.Signature(response_layout))``
        Of memory. A response without a write in flight is dropped.
    records : ``Out(stream.Signature(entry_layout))``
        Entries whose data is in memory: with ``imm``, their record is to be written.
    ops : ``Out(stream.Signature(entry_layout))``
        Complete requests.
    refused : ``Out(MarkSignature)``
        Memory responded with an error.
    unexpected : ``Out(1)``
        Strobe: a response was dropped.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "flights": In(stream.Signature(flight_layout(config))),
            "vacant": Out(1), "responses": In(stream.Signature(response_layout(config))),
            "records": Out(stream.Signature(entry_layout(config))),
            "ops": Out(stream.Signature(entry_layout(config))), "refused": Out(MarkSignature(config)),
            "unexpected": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        depth = 2 * config.writes
        m.submodules.flying = flying = Queue(flight_layout(config), depth=depth)
        m.submodules.records = records = Queue(entry_layout(config), depth=depth)
        wiring.connect(m, wiring.flipped(self.flights), flying.i)
        wiring.connect(m, records.o, wiring.flipped(self.records))
        head, entry = flying.o.payload, flying.o.payload.entry
        incomplete, left = Signal(range(depth + 1)), Signal()
        m.d.comb += self.vacant.eq(incomplete < config.writes)
        m.d.sync += incomplete.eq(incomplete + (self.flights.valid & self.flights.ready & ~self.flights.payload.again)
                                  - left)

        # -- Responses of memory belong to the oldest entry, or to no entry.
        arrived, error, responded, mine = Signal(2), Signal(), Signal(), Signal()
        bursts, issued = Signal(range(4 * depth + 1)), self.flights.valid & self.flights.ready
        wrong = self.responses.payload.resp.as_value()[1]
        foreign = self.responses.payload.id != 0
        taken = self.responses.valid & mine & ~foreign
        m.d.comb += [
            mine.eq(flying.o.valid & (arrived != head.bursts)), responded.eq(arrived + taken == head.bursts),
            self.responses.ready.eq(mine | (bursts == 0) | foreign),
        ]
        m.d.sync += [
            bursts.eq(bursts + Mux(issued, self.flights.payload.bursts, 0) - taken),
            self.unexpected.eq(self.responses.valid & self.responses.ready & ~taken),
        ]

        # -- Cycle 0: look up. Cycle 1: pass on and write.
        rows_layout = data.StructLayout({"behind": range(depth + 1), "broken": 1, "failed": 1})
        m.submodules.rows = rows = RowTable(config, rows_layout, depth=config.queue_pairs)
        wiring.connect(m, wiring.flipped(self.init), rows.init)
        row, new, looked, go = rows.read[0].data, rows.write.data, Signal(), Signal()
        m.d.comb += [rows.read[0].addr.eq(entry.qp), rows.read[0].en.eq(flying.o.valid & responded & ~looked)]
        with m.If(rows.read[0].en):
            m.d.sync += looked.eq(1)
        with m.Elif(go):
            m.d.sync += looked.eq(0)
        with m.If(go):
            m.d.sync += [arrived.eq(0), error.eq(0)]
        with m.Elif(taken):
            m.d.sync += [arrived.eq(arrived + 1), error.eq(error | wrong)]

        loops, failure, fatal, breaks = Signal(), Signal(), Signal(), Signal()
        failed, op = Signal(), self.ops.payload
        m.d.comb += [
            failure.eq(error | entry.error),
            fatal.eq((entry.kind == Kind.NAK) & (entry.syndrome[5:7] == 3) & entry.syndrome[:5].any()),
            loops.eq(~head.again & ((entry.imm & ~failure & ~row.broken) | (row.behind != 0))),
            breaks.eq(failure | fatal),
            failed.eq(row.failed & (entry.kind != Kind.OPEN)),
            records.i.valid.eq(looked & loops), records.i.payload.eq(entry), records.i.payload.error.eq(failure),
            records.i.payload.imm.eq(entry.imm & ~failure & ~row.broken),
            self.ops.valid.eq(looked & ~loops), op.eq(entry),
            go.eq(looked & Mux(loops, records.i.ready, self.ops.ready)), left.eq(go & ~loops), flying.o.ready.eq(go),
            rows.write.en.eq(go), rows.write.addr.eq(entry.qp),
            new.behind.eq(row.behind + (loops & ~head.again) - head.again),
            new.broken.eq((row.broken | breaks) & (entry.kind != Kind.OPEN)),
            new.failed.eq((row.failed | (~loops & (failure | fatal))) & (entry.kind != Kind.OPEN)),
            self.refused.valid.eq(go & error), self.refused.qp.eq(entry.qp),
        ]
        with m.If(failed):
            m.d.comb += op.void.eq(1)
            with m.If((entry.kind != Kind.READ) & (entry.kind != Kind.READ_AGAIN)):
                m.d.comb += op.kind.eq(Kind.NOTHING)
        with m.Elif(failure):
            m.d.comb += [op.kind.eq(Kind.NAK), op.syndrome.eq(nak(Nak.REMOTE_OPERATION))]
        return m
