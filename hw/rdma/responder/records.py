# SPDX-License-Identifier: Apache-2.0
"""Records of immediate data, written to the ring of their queue pair.

Completion -> RecordWriter -> MemoryWriter.  Latency: 3 cycles.  Throughput: one record per 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDR_WIDTH, RdmaConfig
from ..ports import ConnectionWrite
from ..protocol import QPN_WIDTH
from .layouts import COUNT_WIDTH, entry_layout, payload_layout, verdict_layout
from .rows import RowTable

__all__ = ["RECORD_BYTES", "RecordWriter", "record_layout"]

RECORD_BYTES = 16


def record_layout():
    """A WRITE with immediate data, as software reads it. ``phase``: 1 in the first round of the ring, then
    alternating."""
    return data.StructLayout({"value": 32, "total": 32, "qpn": QPN_WIDTH, "unused": 39, "phase": 1})


class RecordWriter(wiring.Component):
    """Make the write of a record; an entry without immediate data passes.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    records : ``In(stream.Signature(entry_layout))``
    entries : ``Out(stream.Signature(verdict_layout))``, payload : ``Out(stream.Signature(payload_layout))``
    connections : ``In(ConnectionWrite)``
        The four lower bits of ``ring_base`` are ignored.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "records": In(stream.Signature(entry_layout(config))),
            "entries": Out(stream.Signature(verdict_layout(config))),
            "payload": Out(stream.Signature(payload_layout(config))), "connections": In(ConnectionWrite(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, entry = self.config, self.records.payload
        ring = data.StructLayout({"base": ADDR_WIDTH - 4, "bits": 5, "qpn": QPN_WIDTH})
        m.submodules.rings = rings = RowTable(config, ring, depth=config.queue_pairs, swept=False)
        opens, read, write = self.connections.entry, rings.read[0], rings.write
        m.d.comb += [
            # A closing has the fields of another connection, and records may be in flight.
            write.en.eq(self.connections.valid & opens.open), write.addr.eq(self.connections.qp),
            write.data.base.eq(opens.ring_base[4:]), write.data.bits.eq(opens.ring_bits), write.data.qpn.eq(opens.qpn),
            read.addr.eq(entry.qp), read.en.eq(1),
        ]
        # -- Look up; mask the number; add.
        phase, number, round_, record = Signal(range(4)), Signal(COUNT_WIDTH), Signal(), Signal(record_layout())
        beats = max(1, 8 * RECORD_BYTES // config.data_width)
        beat, sent = Signal(range(max(2, beats))), Signal()
        verdict = self.entries.payload
        with m.Switch(phase):
            with m.Case(0):
                with m.If(self.records.valid):
                    m.d.sync += phase.eq(1)
            with m.Case(1):
                m.d.sync += [number.eq(entry.number & ~(Const(-1, COUNT_WIDTH) << read.data.bits)[:COUNT_WIDTH]),
                             round_.eq((entry.number >> read.data.bits)[0]), phase.eq(2)]
            with m.Case(2):
                m.d.comb += self.entries.valid.eq(1)
                with m.If(self.entries.ready):
                    m.d.comb += self.records.ready.eq(~entry.imm)
                    m.d.sync += phase.eq(Mux(entry.imm, 3, 0))
            with m.Case(3):
                m.d.comb += self.payload.valid.eq(1)
                with m.If(self.payload.ready):
                    m.d.comb += self.records.ready.eq(sent)
                    m.d.sync += [beat.eq(Mux(sent, 0, beat + 1)), phase.eq(Mux(sent, 0, 3))]
        m.d.comb += [
            verdict.entry.eq(entry), verdict.payload.eq(entry.imm), verdict.write.eq(entry.imm),
            record.value.eq(entry.value), record.total.eq(entry.total), record.qpn.eq(read.data.qpn),
            record.phase.eq(~round_), sent.eq(beat == beats - 1), self.payload.payload.last.eq(sent),
            self.payload.payload.data.eq(record.as_value() if beats == 1
                                         else record.as_value().word_select(beat, config.data_width)),
        ]
        with m.If(entry.imm):
            m.d.comb += [verdict.entry.address.eq(Cat(C(0, 4), read.data.base + number)),
                         verdict.entry.length.eq(RECORD_BYTES)]
        return m
