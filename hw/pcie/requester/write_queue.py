# SPDX-License-Identifier: Apache-2.0
"""Write TLPs from their header until RQ has accepted them.

WriteHeaders -> WriteQueue -> RQ.  Latency: 1 cycle.  Throughput: one TLP per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.common.table import Table
from hw.stream import Queue

from ..config import PcieConfig
from ..layouts import write_tlp_layout
from .write_buffer import payload_beats_shape
from .write_headers import BURST_BITS, header_layout

__all__ = ["OldestSignature", "WriteQueue"]

_TLPS = 64
"""Most TLPs until RQ has accepted them."""

_IN_FLIGHT = 4
"""TLPs that may still be made when ``open`` falls."""


class OldestSignature(wiring.Signature):
    """The oldest TLP that RQ has not accepted, if there is one, and the number of its burst; from registers."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "burst": Out(BURST_BITS)})


class WriteQueue(wiring.Component):
    """Offer headers in order, and count those that were taken and accepted.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    headers : ``In(EventSignature(header_layout))``
    tlps : ``Out(stream.Signature(write_tlp_layout))``
        From a register.
    taken : ``Out(EventSignature(payload_beats_shape))``
        A header is taken.
    sent : ``In(1)``
        RQ has accepted the oldest TLP. Registered here.
    message_sent : ``Out(1)``
        Event strobe: RQ has accepted a message.
    oldest : ``Out(OldestSignature)``
    open : ``Out(1)``
        A beat whose header follows in three cycles fits. Registered.
    idle : ``Out(1)``
    discard : ``In(1)``
        Drop all headers that were not taken.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "headers": In(EventSignature(header_layout(config))),
            "tlps": Out(stream.Signature(write_tlp_layout(config))),
            "taken": Out(EventSignature(payload_beats_shape(config))), "sent": In(1), "message_sent": Out(1),
            "oldest": Out(OldestSignature()), "open": Out(1), "idle": Out(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        waiting = Queue(data.StructLayout({"tlp": write_tlp_layout(self.config),
                                           "beats": payload_beats_shape(self.config)}),
                        depth=_TLPS, ram="lut", output_register=True)
        m.submodules.waiting = ResetInserter(self.discard)(waiting)
        m.submodules.kinds = kinds = Table(data.StructLayout({"message": 1, "burst": BURST_BITS}), depth=_TLPS, reads=1,
                                           init=None)
        # Numbers modulo twice the depth: the next TLP made, taken and sent.
        made, taken, sent, held = (Signal(range(2 * _TLPS), name=name) for name in ("made", "taken", "sent", "held"))
        accepted = Signal()
        header, oldest = self.headers.payload, kinds.read[0].data
        m.d.comb += [
            waiting.i.valid.eq(self.headers.valid), waiting.i.payload.tlp.eq(header.tlp),
            waiting.i.payload.beats.eq(header.beats),
            self.tlps.valid.eq(waiting.o.valid & ~self.discard), self.tlps.payload.eq(waiting.o.payload.tlp),
            waiting.o.ready.eq(self.tlps.ready),
            self.taken.valid.eq(self.tlps.valid & self.tlps.ready), self.taken.payload.eq(waiting.o.payload.beats),
            kinds.write.en.eq(self.headers.valid), kinds.write.addr.eq(made[:-1]),
            kinds.write.data.message.eq(header.message), kinds.write.data.burst.eq(header.burst),
            kinds.read[0].addr.eq(sent[:-1]), held.eq(made - sent),
            self.oldest.valid.eq(made != sent), self.oldest.burst.eq(oldest.burst),
            self.message_sent.eq(accepted & oldest.message), self.idle.eq(made == sent),
        ]
        m.d.sync += [
            made.eq(Mux(self.discard, taken, made + self.headers.valid)), taken.eq(taken + self.taken.valid),
            accepted.eq(self.sent), sent.eq(sent + accepted), self.open.eq(held <= _TLPS - _IN_FLIGHT),
        ]
        return m
