# SPDX-License-Identifier: Apache-2.0
"""Received responses: headers go to Acknowledgements, READ data wait for its verdict.

dispatch -> ResponseSplit -> Acknowledgements -> ReadReturns -> buffers.  Latency: 1 cycle each.
Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import Queue

from ...config import RdmaConfig
from ...layouts import receive_layout, returned_layout
from ...ports import MarkSignature
from ...protocol import Opcode
from .layouts import operation_layout, verdict_layout
from .ports import RowLookup

__all__ = ["READ_BEATS", "ReadReturns", "ResponseSplit", "read_data_layout"]

READ_BEATS = 32
"""Beats of READ responses that wait for a verdict; no more verdicts can be pending."""

_OPERATIONS = 8


def read_data_layout(config):
    """A beat of a READ response."""
    return data.StructLayout({"data": config.data_width, "last": 1})


class ResponseSplit(wiring.Component):
    """Separate headers from READ data. Packets that are neither acknowledgements nor READ responses are dropped.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    received : ``In(stream.Signature(receive_layout))``
    operations : ``Out(stream.Signature(operation_layout))``
        One for each packet.
    beats : ``Out(stream.Signature(read_data_layout))``
        Those of READ responses.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "received": In(stream.Signature(receive_layout(config))),
            "operations": Out(stream.Signature(operation_layout(config))),
            "beats": Out(stream.Signature(read_data_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.received.payload
        header = beat.header
        m.submodules.headers = headers = Queue(operation_layout(config), depth=_OPERATIONS, ram="lut",
                                               output_register=True)
        m.submodules.data = rows = Queue(read_data_layout(config), depth=READ_BEATS, ram="lut", output_register=True)
        first_of_read, of_read, before, taken = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.received.ready.eq(headers.i.ready & rows.i.ready),
            taken.eq(self.received.valid & self.received.ready),
            first_of_read.eq((header.opcode >= Opcode.READ_FIRST) & (header.opcode <= Opcode.READ_ONLY)),
            of_read.eq(Mux(beat.first, first_of_read, before)),
            headers.i.valid.eq(taken & beat.first & (first_of_read | (header.opcode == Opcode.ACKNOWLEDGE))),
            headers.i.payload.qp.eq(header.qp), headers.i.payload.read.eq(first_of_read),
            headers.i.payload.whole.eq(header.opcode == Opcode.READ_ONLY), headers.i.payload.psn.eq(header.psn),
            headers.i.payload.syndrome.eq(header.syndrome), headers.i.payload.msn.eq(header.msn),
            headers.i.payload.length.eq(header.length),
            rows.i.valid.eq(taken & of_read), rows.i.payload.data.eq(beat.data), rows.i.payload.last.eq(beat.last),
        ]
        with m.If(taken):
            m.d.sync += before.eq(of_read)
        wiring.connect(m, headers.o, wiring.flipped(self.operations))
        wiring.connect(m, rows.o, wiring.flipped(self.beats))
        return m


class ReadReturns(wiring.Component):
    """Deliver the data of accepted READ responses, and drop all others.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    beats : ``In(stream.Signature(read_data_layout))``, verdicts : ``In(stream.Signature(verdict_layout))``
        One verdict for each packet.
    returned : ``Out(stream.Signature(returned_layout))``
    delivered : ``In(RowLookup)``
        READs of the queue pair whose data have been delivered, modulo twice the number of
        packets.
    kick : ``Out(MarkSignature)``
        One more.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "beats": In(stream.Signature(read_data_layout(config))),
            "verdicts": In(stream.Signature(verdict_layout(config))),
            "returned": Out(stream.Signature(returned_layout(config))),
            "delivered": In(RowLookup(config, unsigned(config.packet_bits + 1))), "kick": Out(MarkSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, verdict, beat = self.config, self.verdicts.payload, self.beats.payload
        m.submodules.counts = counts = Table(unsigned(config.packet_bits + 1), depth=config.queue_pairs, reads=2,
                                             init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), counts.init)
        begun, both, done = Signal(), Signal(), Signal()
        m.d.comb += [
            both.eq(self.verdicts.valid & self.beats.valid),
            self.returned.valid.eq(both & verdict.accept), self.returned.payload.index.eq(verdict.index),
            self.returned.payload.data.eq(beat.data), self.returned.payload.first.eq(~begun),
            self.returned.payload.last.eq(beat.last),
            self.beats.ready.eq(self.verdicts.valid & (self.returned.ready | ~verdict.accept)),
            self.verdicts.ready.eq(self.beats.valid & beat.last & (self.returned.ready | ~verdict.accept)),
            done.eq(self.verdicts.valid & self.verdicts.ready & verdict.accept),
            counts.read[0].addr.eq(verdict.qp), counts.read[1].addr.eq(self.delivered.qp),
            self.delivered.row.eq(counts.read[1].data),
            counts.write.en.eq(done), counts.write.addr.eq(verdict.qp),
            counts.write.data.eq(counts.read[0].data + 1),
        ]
        with m.If(both & self.beats.ready):
            m.d.sync += begun.eq(~beat.last)
        m.d.sync += [self.kick.valid.eq(done), self.kick.qp.eq(verdict.qp)]
        return m
