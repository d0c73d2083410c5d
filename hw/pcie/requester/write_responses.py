# SPDX-License-Identifier: Apache-2.0
"""Responses to write bursts: when RQ has accepted them, or when they were flushed.

WriteHeaders, WriteQueue -> WriteResponses -> B, flushes.  Latency: 1 cycle from the cycle in which the burst's last TLP
is no longer the oldest one, 2 cycles from the end of the flush.  Throughput: one burst per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.event import EventSignature
from hw.stream import Merge, Queue, Skid

from ..config import PcieConfig
from ..layouts import FlushSignature, flush_layout, write_response_layout
from ..tlp import Attributes
from .write_headers import BURST_BITS, BURSTS, burst_layout
from .write_queue import OldestSignature

__all__ = ["WriteResponses"]

_FLUSHES = 64
"""Most bursts that are flushed, or wait for it."""

_IN_FLIGHT = 4
"""Bursts that may still end when ``open`` falls."""


class WriteResponses(wiring.Component):
    """Respond in the order of the bursts. Bursts with a flush leave this order, and delay no other.

    A burst is sent when no TLP with its number is left; those of earlier bursts are accepted before.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    bursts : ``In(EventSignature(burst_layout))``
    oldest : ``In(OldestSignature)``
    flushes : ``Out(FlushSignature)``
        Without relaxed ordering, with which a request could pass the write.
    responses : ``Out(stream.Signature(write_response_layout))``
        Registered.
    open : ``Out(1)``
        A beat that ends a burst in three cycles fits. Registered.
    idle : ``Out(1)``
    discard : ``In(1)``
        Drop all responses and flushes. Those in flight are not waited for: none may be done after ``discard``.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "bursts": In(EventSignature(burst_layout(config))), "oldest": In(OldestSignature()),
            "flushes": Out(FlushSignature(config)), "responses": Out(stream.Signature(write_response_layout(config))),
            "open": Out(1), "idle": Out(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        layout = write_response_layout(self.config)
        m.submodules.ended = ended = Queue(
            data.StructLayout({"id": self.config.axi_id_width, "resp": Resp, "flush": 1}), depth=BURSTS, ram="lut")
        m.submodules.requests = requests = Queue(flush_layout(self.config), depth=_FLUSHES, ram="lut",
                                                 output_register=True)
        m.submodules.done = done = Queue(layout, depth=_FLUSHES, ram="lut")
        m.submodules.merge = merge = Merge(layout, 2)
        m.submodules.output = output = Skid(layout)
        wiring.connect(m, merge.o, output.i)
        wiring.connect(m, done.o, merge.i[1])

        # Flushes: all from the end of the burst to the response, and those that may be requested.
        burst, oldest = self.bursts.payload, ended.o.payload
        number = Signal(BURST_BITS)
        flushes, due = Signal(range(_FLUSHES + 1)), Signal(range(_FLUSHES + 1))
        sent, release, request, finish = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            ended.i.valid.eq(self.bursts.valid), requests.i.valid.eq(self.bursts.valid & burst.flush),
            *(ended.i.payload[name].eq(burst[name]) for name in ("id", "resp", "flush")),
            *(requests.i.payload[name].eq(burst[name]) for name in ("id", "address")),
            requests.i.payload.attributes.eq(burst.attributes & ~_RELAXED),
            sent.eq(~self.oldest.valid | (self.oldest.burst != number)),
            merge.i[0].valid.eq(ended.o.valid & sent & ~oldest.flush),
            merge.i[0].payload.id.eq(oldest.id), merge.i[0].payload.resp.eq(oldest.resp),
            release.eq(ended.o.valid & sent & oldest.flush),
            ended.o.ready.eq(sent & (oldest.flush | merge.i[0].ready)),
            self.flushes.requests.valid.eq((due != 0) & ~self.discard),
            self.flushes.requests.payload.eq(requests.o.payload),
            request.eq(self.flushes.requests.valid & self.flushes.requests.ready), requests.o.ready.eq(request),
            # There are never more flushes than entries.
            done.i.valid.eq(self.flushes.done.valid), done.i.payload.eq(self.flushes.done.payload),
            self.flushes.done.ready.eq(1),
            finish.eq(done.o.valid & done.o.ready),
            self.responses.payload.eq(output.o.payload), self.responses.valid.eq(output.o.valid & ~self.discard),
            output.o.ready.eq(self.responses.ready),
            self.idle.eq(~ended.o.valid & (flushes == 0) & ~output.o.valid),
        ]
        m.d.sync += [
            number.eq(number + (ended.o.valid & ended.o.ready)),
            flushes.eq(flushes + requests.i.valid - finish), due.eq(due + release - request),
            self.open.eq((ended.level <= BURSTS - _IN_FLIGHT) & (flushes <= _FLUSHES - _IN_FLIGHT)),
        ]
        return ResetInserter(self.discard)(m)


_RELAXED = Attributes.const({"relaxed_ordering": 1}).as_bits()
